"""What it costs to train together: two members next to one, sums by engine, many on paper."""
