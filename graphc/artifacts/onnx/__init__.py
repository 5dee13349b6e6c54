"""ONNX files made of functions of tensor operations.

    graph.py        nodes in the making, arrays as the file has them, sizes that a call decides
    elementwise.py  arrays.py  windows.py  lookups.py  loops.py   what each operation becomes
    walk.py         a function, operation by operation, and what cannot be written
    model.py        inputs, outputs, parameters, and the message
    saving.py       the files

Only `model.py` and `saving.py` ask for the `onnx` package.
"""
