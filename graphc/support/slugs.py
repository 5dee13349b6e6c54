"""Every diagnostic's stable name and what it means; `docs/errors.md` is made from this table.

The sink refuses a slug that is not here, so the list cannot fall behind the code.
"""

from __future__ import annotations

SLUGS: dict[str, str] = {
    "argument-count": "a call has too few or too many arguments",
    "argument-type": "an argument is of the wrong kind (a number where a node is needed, …)",
    "backend": "a backend cannot do what was asked",
    "bad-data": "a cell, line or file of data is malformed",
    "bad-model-file": "a model file is damaged, truncated or of an unknown version",
    "bad-option": "an option or its value is not known",
    "bad-schedule": "a schedule does not fit the operation that it is of",
    "bad-value": "a value is outside what is allowed",
    "cycle": "nodes depend on each other in a way that cannot be computed",
    "duplicate-name": "a name is defined twice",
    "empty-module": "there is nothing to compile",
    "file": "a file cannot be read or written",
    "graph-structure": "the IR breaks a structural rule",
    "ill-typed": "operand types break the operation's type rule",
    "input": "an input of a compiled function is missing, unknown or has the wrong type or shape",
    "internal": "a mistake in graphc itself",
    "invariant": "a pass needs a property that the IR does not have",
    "label": "a label is not in the label mapping",
    "lexical": "text that is no token of the language",
    "limit": "a limit on size, depth or expansion is exceeded",
    "missing-node": "a network lacks a node that the request needs",
    "not-a-number": "a computed value is not a number",
    "not-differentiable": "a gradient is asked for through something that has none",
    "not-precomputed": "a Mean or InvStdDev node has no value yet",
    "not-supported": "valid, but this version cannot do it yet",
    "parse": "text that does not follow the grammar",
    "plug-in": "something that another installed distribution adds to graphc is broken",
    "recursion": "a macro calls itself",
    "shape-mismatch": "shapes that must agree do not",
    "toolchain": "a program that is needed (such as a C compiler) is missing or failed",
    "training": "a training that goes on may not be what was meant",
    "undefined-name": "a name is used but never defined",
    "unknown-function": "a call names no function and no macro",
    "unknown-op": "the IR names no operation of this version",
    "unknown-tag": "a tag or special-node array is not one of those known",
}
