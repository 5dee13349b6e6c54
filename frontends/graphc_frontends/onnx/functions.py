"""Functions as ONNX has them: nodes that say what an operator means, of a model or of a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphc_frontends.onnx.values import dtype_of, mistake

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto


@dataclass(frozen=True)
class Function:
    """A body.

    of_types  makes it for a node and the types of its inputs; None: it is there
    given     attributes that the operator's schema has defaults of
    """

    proto: FunctionProto | None
    of_types: Callable[[NodeProto, Sequence[object]], FunctionProto] | None = None
    given: Mapping[str, object] = field(default_factory=dict[str, object])

    def for_types(self, node: NodeProto, inputs: Sequence[object]) -> Function:
        """The body for these inputs."""
        return self if self.of_types is None else replace(self, proto=self.of_types(node, inputs))

    @property
    def _body(self) -> FunctionProto:
        assert self.proto is not None
        return self.proto

    @property
    def nodes(self) -> Any:
        return self._body.node

    @property
    def inputs(self) -> Sequence[str]:
        return self._body.input

    @property
    def outputs(self) -> Sequence[str]:
        return self._body.output

    @property
    def opsets(self) -> Any:
        return self._body.opset_import

    def defaults(
        self, value: Callable[[AttributeProto, Any], object], scope: object
    ) -> dict[str, object]:
        """Attributes that a call need not give."""
        own = {a.name: value(a, scope) for a in self._body.attribute_proto}
        return {**self.given, **own}


class Bodies:
    """Finds functions and schemas of operators."""

    def __init__(self, onnx: Any, model: ModelProto) -> None:
        self._onnx = onnx
        self._local = {
            (f.domain, f.name, getattr(f, "overload", "")): Function(f) for f in model.functions
        }
        self._schema = lru_cache(maxsize=None)(self._find_schema)
        self.defaults = lru_cache(maxsize=None)(self._defaults)

    def of_model(self, node: NodeProto) -> Function | None:
        """The model's own function."""
        if not self._local:
            return None
        return self._local.get((node.domain, node.op_type, getattr(node, "overload", "")))

    def version(self, domain: str, name: str, opset: int) -> int | None:
        """The version with which the operator began to mean what it means; None: no schema."""
        schema = self._schema(domain, name, opset)
        return None if schema is None else int(schema.since_version)

    def of_schema(self, domain: str, name: str, opset: int) -> Function | None:
        """The function that the schema gives."""
        schema = self._schema(domain, name, opset)
        if schema is None:
            return None
        if schema.has_function:
            return Function(schema.function_body, given=self.defaults(domain, name, opset))
        if not schema.has_context_dependent_function:
            return None

        def of_types(node: NodeProto, inputs: Sequence[object]) -> FunctionProto:
            types = [self._type(x) for x in inputs]
            text = schema.get_context_dependent_function(node.SerializeToString(), types)
            if not text:
                raise mistake("not-supported", f"{name} has no function for inputs of these types")
            made = self._onnx.FunctionProto()
            made.ParseFromString(text)
            return made

        return Function(None, of_types, self.defaults(domain, name, opset))

    def _type(self, value: Any) -> bytes:
        """The type of a value as a message."""
        if value is None:
            return b""
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(dtype_of(value))
        dims = [n if isinstance(n, int) else str(n) for n in value.shape]
        return self._onnx.helper.make_tensor_type_proto(kind, dims).SerializeToString()

    def _find_schema(self, domain: str, name: str, opset: int) -> Any:
        try:
            return self._onnx.defs.get_schema(name, opset, domain)
        except self._onnx.defs.SchemaError:
            return None

    def _defaults(self, domain: str, name: str, opset: int) -> Mapping[str, object]:
        """The attributes of an operator that have defaults."""
        schema = self._schema(domain, name, opset)
        if schema is None:
            return {}
        found: dict[str, object] = {}
        for attribute in schema.attributes.values():
            default = attribute.default_value
            if default.name:
                value = self._onnx.helper.get_attribute_value(default)
                found[attribute.name] = _text(value)
        return found


def _text(value: Any) -> Any:
    """Bytes as a text, in a list too."""
    if isinstance(value, list):
        return [_text(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value
