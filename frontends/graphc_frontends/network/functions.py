"""Methods that follow from the nodes' records: operands by place or name, settings by name.

What type checkers and editors read is functions.pyi, which `docs/generate.py` writes from the same
table.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from types import MethodType

from graphc.builder import NODE_FUNCTIONS, NodeFunction, plugged_method, plugged_names
from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode


class Functions(NetworkBase):
    """One method for each of `NODE_FUNCTIONS`; nodes of other distributions when they are named."""

    def __getattr__(self, name: str) -> Callable[..., NetworkNode]:
        """The method that makes a node of another distribution."""
        function = None if name.startswith("_") else plugged_method(name)
        if function is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return MethodType(_method(function), self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name.removeprefix("node.") for name in plugged_names())]


def signature_of(function: NodeFunction) -> Signature:
    """The parameters of a function's method, annotations as text."""
    by_name: list[tuple[str, object, str]] = [
        *((s.name, s.default, type(s.default).__name__) for s in function.settings),
        ("name", None, "str | None"),
        ("tag", (), "Tags"),
    ]
    parameters = [
        Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
        *(
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation="Operand")
            for name in function.operands
        ),
        *(
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, default, annotation in by_name
        ),
    ]
    return Signature(parameters, return_annotation="NetworkNode")


def _method(function: NodeFunction) -> Callable[..., NetworkNode]:
    signature = signature_of(function)
    names = [s.name for s in function.settings]

    def method(*given: object, **named: object) -> NetworkNode:
        try:
            bound = signature.bind(*given, **named)
        except TypeError as problem:
            raise TypeError(f"{method.__qualname__}(): {problem}") from None
        bound.apply_defaults()
        values = bound.arguments
        operands = [values[name] for name in function.operands]
        settings = {name: values[name] for name in names}
        return values["self"]._add(function.op, operands, settings, values["name"], values["tag"])

    method.__name__, method.__doc__ = function.op, function.describe
    method.__qualname__ = f"{Functions.__name__}.{function.op}"
    method.__module__ = __name__
    setattr(method, "__signature__", signature)  # noqa: B010  # no attribute of every callable
    return method


for _function in NODE_FUNCTIONS:
    setattr(Functions, _function.op, _method(_function))
