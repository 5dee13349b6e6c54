"""The `graphc` command: the only place where front ends, driver and learner meet a person."""
