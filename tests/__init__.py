"""The tests; `unit/` mirrors the source tree, `support/` holds what several tests share."""
