"""The front end that reads ONNX files (`.onnx`) into programs.

    reading.py    bytes, limits, data in other files     operators.py  the table of handlers
    model.py      inputs, parameters, sizes, results     functions.py  bodies of models and schemas
    graph.py      nodes, names, scopes                   ops/          the handlers, by families
    values.py     known arrays and traced ones           listing.py    what errors point at

Nothing else of graphc imports the `onnx` package.
"""

from graphc_frontends.onnx.model import load_program

__all__ = ["load_program"]
