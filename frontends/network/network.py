"""`Network`, one method per node, and `NetworkNode`, a node with Python's operators.

Mistakes are raised at once, with their place in the caller's code, and leave the network as it was.
Sizes that do not fit together are found when it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from frontends.network.caller import caller_location
from graphc.builder import GraphBuilder, MatrixType, Node, TypeRuleError
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.source import UNKNOWN, Location


class NetworkNode(Node):
    """A node of a `Network`: `@` is Times, `+` Plus, `-` Minus or Negate, `*` ElementTimes.

    A number in an expression is a Constant; a number or 1x1 constant times a node is a Scale.
    """

    @property
    def _network(self) -> Network:
        return cast(Network, self.builder)

    def __matmul__(self, other: NetworkNode) -> NetworkNode:
        return self._network.times(self, other)

    def __add__(self, other: NetworkNode | float) -> NetworkNode:
        return self._network.plus(self, self._network.as_node(other))

    def __radd__(self, other: float) -> NetworkNode:
        return self._network.plus(self._network.as_node(other), self)

    def __sub__(self, other: NetworkNode | float) -> NetworkNode:
        return self._network.minus(self, self._network.as_node(other))

    def __rsub__(self, other: float) -> NetworkNode:
        return self._network.minus(self._network.as_node(other), self)

    def __mul__(self, other: NetworkNode | float) -> NetworkNode:
        if isinstance(other, NetworkNode):
            return self._network.element_times(self, other)
        return self._network.scale(self._network.as_node(other), self)

    def __rmul__(self, other: float) -> NetworkNode:
        return self._network.scale(self._network.as_node(other), self)

    def __neg__(self) -> NetworkNode:
        return self._network.negate(self)

    def __bool__(self) -> bool:
        raise TypeError(
            f"node `{self.name}` has no value while the network is built: a Python `if` or `while` "
            "cannot depend on it"
        )


class Network(GraphBuilder):
    """A network of nodes and the values of its parameters.

    A node is a matrix with one column per sample, a parameter a matrix rows x cols. Every method
    that makes a node takes `name` (a fresh `unnamedN` by default) and `tag`: one or several of
    feature, label, criterion, evaluation, output, multiseq. GraphcError for a bad argument.
    """

    node_class = NetworkNode

    # --- leaves ------------------------------------------------------------------------------

    def input(self, name: str, rows: int, *, tag: str | Sequence[str] = ()) -> NetworkNode:
        """Data with `rows` numbers a sample, given at every call under this name."""
        return self._add("input", (), {"rows": rows}, name, tag)

    def parameter(
        self,
        name: str,
        rows: int,
        cols: int = 1,
        *,
        init: str = "uniform",
        init_value_scale: float = 1.0,
        value: float = 0.0,
        init_from_file_path: str = "",
        need_gradient: bool = True,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """A matrix rows x cols that training changes; a size of 0 is taken from what it meets.

        init  uniform (±0.05·scale), gaussian (deviation 0.2·scale/√cols), fixedValue (`value`),
              fromFile (text file, one row a line); case and underscores do not matter
        """
        settings = {
            "rows": rows,
            "cols": cols,
            "init": _init(init),
            "init_value_scale": init_value_scale,
            "value": value,
            "init_from_file_path": init_from_file_path,
            "need_gradient": need_gradient,
        }
        return self._add("parameter", (), settings, name, tag)

    def constant(
        self, value: float, rows: int = 1, cols: int = 1, *, name: str | None = None
    ) -> NetworkNode:
        """A matrix with `value` everywhere."""
        return self._add("constant", (), {"value": value, "rows": rows, "cols": cols}, name, ())

    def as_node(self, value: NetworkNode | float) -> NetworkNode:
        """The node itself, or a constant for a number."""
        return value if isinstance(value, NetworkNode) else self.constant(value)

    # --- matrix and element-wise -------------------------------------------------------------

    def times(
        self,
        a: NetworkNode,
        b: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Matrix product A·B."""
        return self._add("times", (a, b), {}, name, tag)

    def transpose_times(
        self,
        a: NetworkNode,
        b: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Aᵀ·B; the columns of A are not samples."""
        return self._add("transpose_times", (a, b), {}, name, tag)

    def plus(
        self,
        a: NetworkNode,
        b: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Sum; a row or column vector is repeated to the other's size."""
        return self._add("plus", (a, b), {}, name, tag)

    def minus(
        self,
        a: NetworkNode,
        b: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Difference; a row or column vector is repeated to the other's size."""
        return self._add("minus", (a, b), {}, name, tag)

    def element_times(
        self,
        a: NetworkNode,
        b: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Element-wise product of nodes of one size."""
        return self._add("element_times", (a, b), {}, name, tag)

    def row_element_times(
        self,
        x: NetworkNode,
        row: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Each row of X times a row vector, element by element."""
        return self._add("row_element_times", (x, row), {}, name, tag)

    def column_element_times(
        self,
        x: NetworkNode,
        column: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Each column of X times a column vector, element by element."""
        return self._add("column_element_times", (x, column), {}, name, tag)

    def diag_times(
        self,
        diagonal: NetworkNode,
        x: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """A diagonal matrix, given as a column vector, times X."""
        return self._add("diag_times", (diagonal, x), {}, name, tag)

    def khatri_rao_product(
        self,
        x: NetworkNode,
        y: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Column by column all products of elements; the row of X varies fastest."""
        return self._add("khatri_rao_product", (x, y), {}, name, tag)

    def scale(
        self,
        factor: NetworkNode,
        x: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """A 1x1 node times a matrix."""
        return self._add("scale", (factor, x), {}, name, tag)

    def negate(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """-X."""
        return self._add("negate", (x,), {}, name, tag)

    def sigmoid(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Logistic sigmoid of each element."""
        return self._add("sigmoid", (x,), {}, name, tag)

    def tanh(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Hyperbolic tangent of each element."""
        return self._add("tanh", (x,), {}, name, tag)

    def rectified_linear(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """max(x, 0) of each element."""
        return self._add("rectified_linear", (x,), {}, name, tag)

    def exp(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Exponential of each element."""
        return self._add("exp", (x,), {}, name, tag)

    def log(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Natural logarithm of each element; arguments below 1e-37 are taken as 1e-37."""
        return self._add("log", (x,), {}, name, tag)

    def softmax(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Softmax of each column."""
        return self._add("softmax", (x,), {}, name, tag)

    def log_softmax(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Logarithm of the softmax of each column."""
        return self._add("log_softmax", (x,), {}, name, tag)

    def hardmax(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """1 at the first maximum of each column, 0 elsewhere; no gradient flows."""
        return self._add("hardmax", (x,), {}, name, tag)

    def sum_elements(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The sum of all elements, 1x1."""
        return self._add("sum_elements", (x,), {}, name, tag)

    def sum_column_elements(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The sum of each column, a row vector."""
        return self._add("sum_column_elements", (x,), {}, name, tag)

    def cos_distance(
        self,
        x: NetworkNode,
        y: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The cosine of the angle between columns, a row vector; 0 where a column is zero."""
        return self._add("cos_distance", (x, y), {}, name, tag)

    def transpose(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Xᵀ; the columns of X are not samples."""
        return self._add("transpose", (x,), {}, name, tag)

    def diagonal(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The diagonal of a square matrix, a row vector."""
        return self._add("diagonal", (x,), {}, name, tag)

    def row_repeat(
        self,
        x: NetworkNode,
        num_repeats: int,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """All rows of X as a block, `num_repeats` times below each other."""
        return self._add("row_repeat", (x,), {"num_repeats": num_repeats}, name, tag)

    # --- criteria: sums over the minibatch ---------------------------------------------------

    def cross_entropy_with_softmax(
        self,
        label: NetworkNode,
        prediction: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """-Σ label · ln softmax(prediction)."""
        return self._add("cross_entropy_with_softmax", (label, prediction), {}, name, tag)

    def cross_entropy(
        self,
        label: NetworkNode,
        probability: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """-Σ label · ln probability."""
        return self._add("cross_entropy", (label, probability), {}, name, tag)

    def square_error(
        self,
        target: NetworkNode,
        prediction: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """½ Σ (target - prediction)²."""
        return self._add("square_error", (target, prediction), {}, name, tag)

    def error_prediction(
        self,
        label: NetworkNode,
        prediction: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Number of samples whose largest label and largest prediction differ in place."""
        return self._add("error_prediction", (label, prediction), {}, name, tag)

    def matrix_l1_reg(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Σ |x|, 1x1."""
        return self._add("matrix_l1_reg", (x,), {}, name, tag)

    def matrix_l2_reg(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The Frobenius norm √Σ x², 1x1; slope 0 where X is zero."""
        return self._add("matrix_l2_reg", (x,), {}, name, tag)

    # --- statistics over the whole data set --------------------------------------------------

    def mean(self, feature: NetworkNode, *, name: str | None = None) -> NetworkNode:
        """Mean of each row over the data set, rows x 1; computed by `precompute`."""
        return self._add("mean", (feature,), {}, name, ())

    def inv_std_dev(self, feature: NetworkNode, *, name: str | None = None) -> NetworkNode:
        """1 / standard deviation of each row over the data set; computed by `precompute`."""
        return self._add("inv_std_dev", (feature,), {}, name, ())

    def per_dim_mean_var_normalization(
        self,
        x: NetworkNode,
        mean: NetworkNode,
        inv_std_dev: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """(X - mean) ∘ invStdDev."""
        return self._add("per_dim_mean_var_normalization", (x, mean, inv_std_dev), {}, name, tag)

    def per_dim_mean_var_de_normalization(
        self,
        x: NetworkNode,
        mean: NetworkNode,
        inv_std_dev: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """X ⊘ invStdDev + mean: `per_dim_mean_var_normalization` undone."""
        return self._add("per_dim_mean_var_de_normalization", (x, mean, inv_std_dev), {}, name, tag)

    # --- time ----------------------------------------------------------------------------------

    def past_value(
        self,
        x: NetworkNode | None = None,
        *,
        rows: int = 0,
        time_step: int = 1,
        default_hidden_activity: float = 0.1,
        name: str | None = None,
    ) -> NetworkNode:
        """X some steps earlier. Without `x`, bind it later: `net.set_operand(node, 0, x)`."""
        settings = {
            "rows": rows,
            "time_step": time_step,
            "default_hidden_activity": default_hidden_activity,
        }
        return self._add("past_value", (x,), settings, name, ())

    def future_value(
        self,
        x: NetworkNode | None = None,
        *,
        rows: int = 0,
        time_step: int = 1,
        default_hidden_activity: float = 0.1,
        name: str | None = None,
    ) -> NetworkNode:
        """X some steps later. Without `x`, bind it later: `net.set_operand(node, 0, x)`."""
        settings = {
            "rows": rows,
            "time_step": time_step,
            "default_hidden_activity": default_hidden_activity,
        }
        return self._add("future_value", (x,), settings, name, ())

    # --- edits: a front end hands over a location, and finds its mistakes in `sink` -------------

    def rename(self, node: Node, name: str, location: Location = UNKNOWN) -> None:
        """Give a node another name, which no other node may have."""
        if location.is_known:
            super().rename(node, name, location)
            return
        location = self._checked("rename", location, node)
        _require_name("rename", name, location)
        old = node.name
        super().rename(node, name, location)
        self._raise_mistakes(lambda: super(Network, self).rename(node, old, location))

    def add_tag(self, node: Node, tag: str, location: Location = UNKNOWN) -> None:
        """Add one of the tags; a node keeps each once."""
        if not location.is_known:
            location = self._checked("add_tag", location, node)
            _tags_of("add_tag", [tag], location)
            super().add_tag(node, tag, location)
            self._raise_mistakes(lambda: None)
        else:
            super().add_tag(node, tag, location)

    def set_operand(self, node: Node, index: int, operand: Node) -> None:
        """Let a node read another one as its operand `index`, counted from 0."""
        location = self._checked("set_operand", UNKNOWN, node, operand)
        count = len(node.operation.operands)
        if index not in range(count):
            message = f"`{node.name}` has {count} operands, counted from 0, got index {index!r}"
            raise fail("bad-value", message, location)
        super().set_operand(node, index, operand)

    def remove(self, node: Node) -> None:
        """Take out a node that no other node reads."""
        location = self._checked("remove", UNKNOWN, node)
        readers = [op for op in node.operation.result.users() if op is not node.operation]
        if readers:
            names = ", ".join(f"`{op.result.name}`" for op in readers[:3])
            message = f"remove requires a node that nobody reads, `{node.name}` is read by {names}"
            raise fail("bad-value", message, location)
        super().remove(node)

    # --- inside --------------------------------------------------------------------------------

    def _is_own(self, operand: object) -> bool:
        if not isinstance(operand, NetworkNode) or operand.builder is not self:
            return False
        return operand.operation.block is not None  # else it was removed

    def _checked(self, what: str, location: Location, *nodes: object) -> Location:
        """The place in the caller's code, after a look at what was handed over as a node."""
        location = location if location.is_known else caller_location()
        for node in nodes:
            # Callers without a type checker may hand over anything at all.
            if not self._is_own(node):
                message = f"{what} requires nodes of this network, got {repr(node)[:60]}"
                raise fail("argument-type", message, location)
        return location

    def _raise_mistakes(self, undo: Callable[[], None]) -> None:
        """Raise what the builder reported, after `undo`."""
        if self.sink.has_errors:
            problems = list(self.sink.diagnostics)
            self.sink.diagnostics.clear()
            undo()
            raise GraphcError(problems)

    def _report_own_sizes(self, op: str, node: Node, location: Location) -> None:
        """Report sizes that are wrong by themselves, whatever the operands are."""
        operation = node.operation
        unknown = [MatrixType(None, None)] * len(operation.operands)
        try:
            operation.opdef.infer(unknown, operation.params)
        except TypeRuleError as problem:
            self.sink.error("bad-value", f"{op} {problem.message}", location)

    def _add(
        self,
        op: str,
        operands: Sequence[NetworkNode | None],
        settings: Mapping[str, object],
        name: str | None,
        tag: str | Sequence[str],
    ) -> NetworkNode:
        given = [n for n in operands if n is not None]
        location = self._checked(op, caller_location(), *given)
        if name is not None or op in ("input", "parameter"):
            _require_name(op, name, location)
        tags = _tags_of(op, tag, location)
        node = self.apply(op, operands, settings, name=name, tags=tags, location=location)
        if not self.sink.has_errors:
            self._report_own_sizes(op, node, location)
        self._raise_mistakes(lambda: self.remove(node))
        return cast(NetworkNode, node)


def _require_name(what: str, name: object, location: Location) -> None:
    if not isinstance(name, str):
        message = f"{what} requires a name in text, got {repr(name)[:60]}"
        raise fail("argument-type", message, location)
    if not name:
        raise fail("bad-value", f"{what} requires a name of at least one character", location)


def _tags_of(what: str, tag: object, location: Location) -> tuple[str, ...]:
    """One tag alone stands for a list of it."""
    tags = (tag,) if isinstance(tag, str) else tag
    if not isinstance(tags, Sequence) or not all(isinstance(t, str) for t in tags):
        message = f"{what} requires a tag or a list of tags, got {repr(tag)[:60]}"
        raise fail("argument-type", message, location)
    return tuple(tags)


def _init(text: object) -> object:
    """NDL's spelling (`fixedValue`) as the node's (`fixed_value`)."""
    if not isinstance(text, str):
        return text  # the builder says what is required
    plain = text.lower().replace("_", "")
    spellings = {"fixedvalue": "fixed_value", "fromfile": "from_file"}
    return spellings.get(plain, plain)
