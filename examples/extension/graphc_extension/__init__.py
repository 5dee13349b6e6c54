"""What another package adds to graphc: nodes, an update rule, a reader, a training algorithm.

graphc finds all but the algorithm by the entry points in pyproject.toml; nothing here is imported
before it is named.
"""
