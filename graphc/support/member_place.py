"""The numbers of a call that say which member of a training it is of, by their names in the IR and
in what calls its functions."""

SHARD = "shard"
"""The part of a minibatch that a function computes; i64."""

SHARDS = "shards"
"""How many parts there are, where that is not known before the call; i64."""
