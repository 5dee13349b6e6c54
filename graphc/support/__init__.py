"""Source spans, diagnostics, graph algorithms and text helpers. Knows nothing about the IR."""
