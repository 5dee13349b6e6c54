"""Analyses: functions from IR to frozen facts. They change nothing and are computed when needed."""
