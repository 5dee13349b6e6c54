"""The handlers, a family of operators in each file."""
