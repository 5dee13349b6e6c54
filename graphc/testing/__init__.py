"""What judges nodes of other distributions, and graphc itself on the machine where it is."""
