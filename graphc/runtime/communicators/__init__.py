"""What adds arrays over all members of a training: a protocol, and the engines behind it."""
