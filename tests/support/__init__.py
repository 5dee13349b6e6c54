"""What several tests share: the golden collector, generators, judges."""
