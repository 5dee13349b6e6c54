"""Front ends: each reads one way of writing networks and calls `graphc.builder`."""
