"""Wrong uses of every NDL function that makes a node: what is written, and what is said about it.

One entry per node operation, at least `LEAST` uses each. A use is one statement after `PRELUDE`;
the stretch between « and » is what the message has to mark. The slug says what kind of mistake it
is; what the messages look like is judged by `test_wrong_uses.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphc.ops.nodes.pointwise import OPS

LEAST = 5

PRELUDE = (
    "x1 = Input(1); x4 = Input(4); x5 = Input(5); "
    "w34 = Parameter(3, 4); w35 = Parameter(3, 5); w43 = Parameter(4, 3); w44 = Parameter(4, 4); "
    "w41 = Parameter(4, 1); w14 = Parameter(1, 4); w51 = Parameter(5, 1); w12 = Parameter(1, 2); "
    "w13 = Parameter(1, 3); one = Parameter(1, 1); number = 3; "
    "picture = ImageInput(6, 5, 2); kernel = Parameter(3, 12)"
)
"""Nodes that the statements read: xR are inputs of R rows, wRC parameters of R rows, C columns. The
kernel is one of 3x2 pixels and 3 output channels for the picture."""


@dataclass(frozen=True)
class WrongUse:
    """`statement` with the marks; the mistake's slug."""

    slug: str
    statement: str

    @property
    def text(self) -> str:
        """The whole network, without the marks."""
        return f"{PRELUDE}\n{self.statement.replace('«', '').replace('»', '')}\n"

    @property
    def marked(self) -> tuple[int, int, int]:
        """Line, first column and column behind the last of what the message marks."""
        before, _, rest = self.statement.partition("«")
        inside, _, _ = rest.partition("»")
        line = 2 + before.count("\n")
        column = len(before) - (before.rfind("\n") + 1) + 1
        return line, column, column + len(inside)


def _uses(*pairs: tuple[str, str]) -> tuple[WrongUse, ...]:
    return tuple(WrongUse(slug, statement) for slug, statement in pairs)


def _of_one_node(name: str) -> tuple[WrongUse, ...]:
    """What can be wrong with a function of one node of any size."""
    return _uses(
        ("argument-count", f"y = «{name}()»"),
        ("argument-count", f"y = «{name}(x4, x4)»"),
        ("undefined-name", f'y = {name}(«"no node"»)'),
        ("undefined-name", f"y = {name}(«x6»)"),
        ("bad-option", f"y = {name}(x4, «axis»=1)"),
        ("not-supported", f"y = {name}(x4, imageLayout=«CHW»)"),
        ("unknown-tag", f"y = {name}(x4, tag=«otput»)"),
    )


def _of_two_nodes(name: str) -> tuple[WrongUse, ...]:
    """What can be wrong with a function of two nodes, whatever their sizes."""
    return _uses(
        ("argument-count", f"y = «{name}(x4)»"),
        ("argument-count", f"y = «{name}(x4, x4, x4)»"),
        ("undefined-name", f'y = {name}(x4, «"no node"»)'),
        ("undefined-name", f"y = {name}(«label», x4)"),
        ("bad-option", f"y = {name}(x4, x4, «scale»=2)"),
    )


def _of_equal_sizes(name: str) -> tuple[WrongUse, ...]:
    return _uses(
        ("shape-mismatch", f"y = «{name}(x4, x5)»"),
        ("shape-mismatch", f"y = «{name}(x4, w44)»"),
        ("shape-mismatch", f"y = «{name}(w34, w43)»"),
        ("shape-mismatch", f"y = «{name}(x4, w41)»"),
    ) + _of_two_nodes(name)


def _sum(name: str) -> tuple[WrongUse, ...]:
    return _uses(
        ("shape-mismatch", f"y = «{name}(x4, x5)»"),
        ("shape-mismatch", f"y = «{name}(w34, w43)»"),
        ("shape-mismatch", f"y = «{name}(x5, w41)»"),
        ("shape-mismatch", f"y = «{name}(x4, w14)»"),  # a row vector over other columns
        ("shape-mismatch", f"y = «{name}(x4, w44)»"),  # 4 columns are no samples
    ) + _of_two_nodes(name)


def _of_three_nodes(name: str) -> tuple[WrongUse, ...]:
    return _uses(
        ("shape-mismatch", f"y = «{name}(x4, x4, x5)»"),
        ("shape-mismatch", f"y = «{name}(w34, w43, w34)»"),
        ("shape-mismatch", f"y = «{name}(x4, w41, w44)»"),  # 4 columns are no samples
        ("argument-count", f"y = «{name}(x4, x4)»"),
        ("undefined-name", f'y = {name}(x4, x4, «"no node"»)'),
        ("undefined-name", f"y = {name}(x4, «x6», x4)"),
        ("bad-option", f"y = {name}(x4, x4, x4, «axis»=1)"),
    )


def _normalization(name: str) -> tuple[WrongUse, ...]:
    return _uses(
        ("shape-mismatch", f"y = «{name}(x4, w51, w41)»"),
        ("shape-mismatch", f"y = «{name}(x4, w41, w51)»"),
        ("shape-mismatch", f"y = «{name}(x4, w14, w41)»"),
        ("shape-mismatch", f"y = «{name}(x4, x4, w41)»"),  # samples in place of a statistic
        ("argument-count", f"y = «{name}(x4, w41)»"),
        ("undefined-name", f'y = {name}(x4, w41, «"no node"»)'),
        ("undefined-name", f"y = {name}(x4, «mean», w41)"),
    )


def _statistic(name: str) -> tuple[WrongUse, ...]:
    return _uses(
        ("ill-typed", f"y = «{name}(w34)»"),
        ("ill-typed", f"y = «{name}(number)»"),
    ) + _of_one_node(name)


def _delay(name: str) -> tuple[WrongUse, ...]:
    return _uses(
        ("shape-mismatch", f"y = «{name}(5, x4)»"),
        ("ill-typed", f"y = «{name}(4, w44)»"),  # no time runs along a parameter's columns
        ("argument-count", f"y = «{name}(4)»"),
        ("bad-value", f"y = {name}(4, x4, timeStep=«0»)"),
        ("bad-value", f"y = {name}(4, x4, timeStep=«1.5»)"),
        ("limit", f"y = «{name}(4, x4, timeStep=20000)»"),
        ("bad-option", f"y = {name}(4, x4, «step»=2)"),
        ("undefined-name", f'y = {name}(4, «"no node"»)'),
        ("argument-type", f"y = {name}(«x4», x4)"),
        ("argument-type", f"y = {name}(4, x4, defaultHiddenActivity=«x4»)"),
    )


def _pooling(name: str) -> tuple[WrongUse, ...]:
    return _uses(
        ("shape-mismatch", f"y = «{name}(x4, 2, 2, 2, 2)»"),  # no image
        ("shape-mismatch", f"y = «{name}(picture, 7, 2, 1, 1)»"),
        ("shape-mismatch", f"y = «{name}(picture, 2, 6, 1, 1)»"),
        ("bad-value", f"y = {name}(picture, «0», 2, 1, 1)"),
        ("bad-value", f"y = {name}(picture, 2, 2, 1, «0»)"),
        ("argument-type", f"y = {name}(picture, «x4», 2, 1, 1)"),
        ("argument-count", f"y = «{name}(picture, 2, 2)»"),
        ("bad-option", f"y = {name}(picture, 2, 2, 2, 2, «zeroPadding»=true)"),
    )


_OF_NODES = {1: _of_one_node, 2: _sum, 3: _of_three_nodes}
_CLASSES = "ClassBasedCrossEntropyWithSoftmax"
_NEGATIVES = "CosDistanceWithNegativeSamples"

WRONG_USES: Mapping[str, tuple[WrongUse, ...]] = {
    # leaves
    "input": _uses(
        ("ill-typed", "y = «Input(0)»"),
        ("bad-value", "y = Input(«-1»)"),
        ("bad-value", "y = Input(«2.5»)"),
        ("bad-value", "y = Input(«2147483648»)"),
        ("argument-type", "y = Input(«x4»)"),
        ("argument-count", "y = «Input()»"),
        ("argument-count", "y = «Input(1, 2, 3)»"),
        ("bad-option", "y = Input(4, «rows»=4)"),
        ("undefined-name", "y = Input(«Dim»)"),
    ),
    "sparse_input": _uses(
        ("ill-typed", "y = «SparseInput(0)»"),
        ("bad-value", "y = SparseInput(«-1»)"),
        ("bad-value", "y = SparseInput(«2.5»)"),
        ("argument-type", "y = SparseInput(«x4»)"),
        ("argument-count", "y = «SparseInput()»"),
        ("argument-count", "y = «SparseImageInput(3, 2)»"),
        ("bad-option", "y = SparseInput(4, «nonzeros»=2)"),
    ),
    "parameter": _uses(
        ("bad-option", "y = Parameter(3, init=«unifrm»)"),
        ("bad-option", "y = «Parameter(3, init=fromFile)»"),
        ("bad-option", "y = Parameter(3, «scale»=2)"),
        ("bad-value", "y = Parameter(«-3»)"),
        ("bad-value", "y = Parameter(3, «0.5»)"),
        ("bad-option", "y = Parameter(3, needGradient=«maybe»)"),
        ("argument-type", "y = Parameter(«x4», 3)"),
        ("argument-type", "y = Parameter(3, value=«x4»)"),
        ("argument-count", "y = «Parameter()»"),
        ("shape-mismatch", "y = «Parameter(0, 3)»"),  # and nothing says how many rows
        ("argument-count", "y = «ImageParameter(3, 2)»"),
        ("bad-value", "y = ImageParameter(3, «0», 2)"),
    ),
    "constant": _uses(
        ("argument-count", "y = «Constant()»"),
        ("argument-type", "y = Constant(«x4»)"),
        ("argument-type", 'y = Constant(«"1"»)'),
        ("ill-typed", "y = «Constant(1, rows=0)»"),
        ("bad-value", "y = Constant(1, cols=«-1»)"),
        ("bad-option", "y = Constant(1, «columns»=2)"),
        ("undefined-name", "y = Constant(«pi»)"),
    ),
    # arithmetic
    **{op.name.removeprefix("node."): _OF_NODES[len(op.operands)](op.ndl[0]) for op in OPS},
    "plus": _sum("Plus"),
    "minus": (*_uses(("shape-mismatch", "y = «Minus(w34, w12)»")), *_sum("Minus")),
    "times": _uses(
        ("shape-mismatch", "y = «Times(w35, x4)»"),
        ("shape-mismatch", "y = «Times(x4, x4)»"),  # samples where a parameter is needed
        ("shape-mismatch", "y = «Times(x4, w44)»"),
        ("shape-mismatch", "y = «Times(w34, w34)»"),
        ("shape-mismatch", "y = «Times(w34, number)»"),
    )
    + _of_two_nodes("Times"),
    "transpose_times": _uses(
        ("shape-mismatch", "y = «TransposeTimes(w34, x4)»"),
        ("shape-mismatch", "y = «TransposeTimes(x4, x4)»"),
        ("shape-mismatch", "y = «TransposeTimes(x4, w44)»"),
        ("shape-mismatch", "y = «TransposeTimes(w34, w43)»"),
    )
    + _of_two_nodes("TransposeTimes"),
    "diag_times": _uses(
        ("shape-mismatch", "y = «DiagTimes(w51, x4)»"),
        ("shape-mismatch", "y = «DiagTimes(w44, x4)»"),
        ("shape-mismatch", "y = «DiagTimes(x4, x4)»"),
        ("shape-mismatch", "y = «DiagTimes(w14, x4)»"),
    )
    + _of_two_nodes("DiagTimes"),
    "scale": _uses(
        ("shape-mismatch", "y = «Scale(w41, x4)»"),
        ("shape-mismatch", "y = «Scale(x1, x4)»"),  # a number per sample is no number
        ("shape-mismatch", "y = «Scale(x4, one)»"),
    )
    + _of_two_nodes("Scale"),
    "element_times": _of_equal_sizes("ElementTimes"),
    "row_element_times": _uses(
        ("shape-mismatch", "y = «RowElementTimes(x4, x4)»"),
        ("shape-mismatch", "y = «RowElementTimes(x4, w14)»"),
        ("shape-mismatch", "y = «RowElementTimes(w34, w13)»"),
        ("shape-mismatch", "y = «RowElementTimes(w34, w41)»"),
    )
    + _of_two_nodes("RowElementTimes"),
    "column_element_times": _uses(
        ("shape-mismatch", "y = «ColumnElementTimes(x4, w51)»"),
        ("shape-mismatch", "y = «ColumnElementTimes(x4, x4)»"),
        ("shape-mismatch", "y = «ColumnElementTimes(x4, w14)»"),
        ("shape-mismatch", "y = «ColumnElementTimes(w34, w41)»"),
    )
    + _of_two_nodes("ColumnElementTimes"),
    "khatri_rao_product": _uses(
        ("shape-mismatch", "y = «KhatriRaoProduct(x4, w43)»"),
        ("shape-mismatch", "y = «KhatriRaoProduct(w34, w43)»"),
        ("shape-mismatch", "y = «KhatriRaoProduct(w34, x4)»"),
        ("shape-mismatch", "y = «KhatriRaoProduct(number, x4)»"),
    )
    + _of_two_nodes("KhatriRaoProduct"),
    "column_times": _uses(
        ("shape-mismatch", "y = «ColumnTimes(x4, w43)»"),
        ("shape-mismatch", "y = «ColumnTimes(x4, x5, inner=2)»"),
        ("shape-mismatch", "y = «ColumnTimes(x4, x4, inner=3)»"),
        ("bad-value", "y = «ColumnTimes(x4, x4, inner=0)»"),
        ("bad-value", "y = ColumnTimes(x4, x4, inner=«1.5»)"),
    )
    + _of_two_nodes("ColumnTimes"),
    "attention": _uses(
        ("shape-mismatch", "y = «Attention(x4, x5, x4)»"),
        ("shape-mismatch", "y = «Attention(x4, x4, w43)»"),
        ("shape-mismatch", "y = «Attention(x4, x4, x5, heads=2)»"),
        ("bad-value", "y = «Attention(x4, x4, x4, heads=0)»"),
        ("bad-value", "y = Attention(x4, x4, x4, heads=«2.5»)"),
        ("argument-count", "y = «Attention(x4, x4)»"),
        ("undefined-name", 'y = Attention(x4, x4, «"no node"»)'),
        ("bad-option", "y = Attention(x4, x4, x4, «scale»=2)"),
    ),
    "sum_elements": _of_one_node("SumElements"),
    "sum_column_elements": _of_one_node("SumColumnElements"),
    # functions of each element or column
    "rectified_linear": _of_one_node("RectifiedLinear"),
    "log": _of_one_node("Log"),
    "softmax": _of_one_node("Softmax"),
    "log_softmax": _of_one_node("LogSoftmax"),
    "hardmax": _of_one_node("Hardmax"),
    **{
        op: _uses(
            ("bad-value", f"y = «{name}(x4, k=5)»"),
            ("bad-value", f"y = «{name}(x4, k=0)»"),
            ("bad-value", f"y = {name}(x4, k=«1.5»)"),
        )
        + _of_one_node(name)
        for op, name in (("top_k", "TopK"), ("top_k_rows", "TopKRows"))
    },
    # shape
    "row_slice": _uses(
        ("shape-mismatch", "y = «RowSlice(2, 3, x4)»"),
        ("shape-mismatch", "y = «RowSlice(4, 1, w44)»"),
        ("bad-value", "y = RowSlice(0, «0», x4)"),
        ("bad-value", "y = RowSlice(«-1», 2, x4)"),
        ("bad-value", "y = RowSlice(«0.5», 2, x4)"),
        ("argument-count", "y = «RowSlice(0, x4)»"),
        ("argument-type", "y = RowSlice(«x4», 2, x4)"),
        ("undefined-name", "y = RowSlice(0, 2, «x6»)"),
    ),
    "row_stack": _uses(
        ("shape-mismatch", "y = «RowStack(x4, w44)»"),
        ("shape-mismatch", "y = «RowStack(w34, w35)»"),
        ("shape-mismatch", "y = «RowStack(x4, x5, w51)»"),
        ("argument-count", "y = «RowStack(x4)»"),
        ("undefined-name", 'y = RowStack(x4, «"no node"»)'),
        ("undefined-name", "y = RowStack(x4, x5, «x6»)"),
        ("bad-option", "y = RowStack(x4, x5, «axis»=1)"),
    ),
    "reshape": _uses(
        ("shape-mismatch", "y = «Plus(x4, Reshape(x4, 2))»"),  # two columns a sample, not one
        ("shape-mismatch", "y = «Reshape(w34, 5)»"),
        ("shape-mismatch", "y = «Reshape(x4, 4, imageWidth=3, imageHeight=2)»"),
        ("ill-typed", "y = «Reshape(x4, 4, imageWidth=2)»"),
        ("shape-mismatch", "y = «Reshape(x4, 4, imageWidth=2, imageHeight=2, imageChannels=2)»"),
        ("bad-value", "y = Reshape(x4, «-4»)"),
        ("argument-count", "y = «Reshape(x4)»"),
        ("argument-type", "y = Reshape(x4, «x4»)"),
        ("bad-option", "y = Reshape(x4, 4, «width»=2)"),
    ),
    "time_reverse": _of_one_node("TimeReverse"),
    # images
    "convolution": _uses(
        ("shape-mismatch", "y = «Convolution(kernel, x4, 3, 2, 3, 1, 1)»"),  # no image
        ("shape-mismatch", "y = «Convolution(w34, picture, 3, 2, 3, 1, 1)»"),
        ("shape-mismatch", "y = «Convolution(kernel, picture, 3, 2, 4, 1, 1)»"),
        ("shape-mismatch", "y = «Convolution(kernel, picture, 7, 2, 3, 1, 1)»"),
        ("shape-mismatch", "y = «Convolution(picture, picture, 3, 2, 3, 1, 1)»"),
        ("ill-typed", "y = «Convolution(kernel, picture, 3, 2, 3, 4, 1)»"),
        ("bad-value", "y = Convolution(kernel, picture, «0», 2, 3, 1, 1)"),
        ("bad-value", "y = Convolution(kernel, picture, 3, 2, 3, 1, «0»)"),
        ("argument-count", "y = «Convolution(kernel, picture, 3, 2)»"),
        ("argument-type", "y = Convolution(kernel, picture, 3, 2, «x4», 1, 1)"),
        ("bad-option", "y = Convolution(kernel, picture, 3, 2, 3, 1, 1, zeroPadding=«half»)"),
        ("shape-mismatch", "y = «Convolution(kernel, picture, 3, 2, 3, 1, 1, groups=2)»"),
        ("ill-typed", "y = «Convolution(kernel, picture, 3, 2, 3, 1, 1, groups=0)»"),
    ),
    "max_pooling": _pooling("MaxPooling"),
    "average_pooling": _pooling("AveragePooling"),
    "row_repeat": _uses(
        ("bad-value", "y = RowRepeat(x4, «0»)"),
        ("bad-value", "y = RowRepeat(x4, «1.5»)"),
        ("argument-type", "y = RowRepeat(x4, «x4»)"),
        ("argument-count", "y = «RowRepeat(x4)»"),
        ("undefined-name", 'y = RowRepeat(«"no node"», 2)'),
        ("ill-typed", "y = «RowRepeat(x4, 2147483647)»"),
        ("undefined-name", "y = RowRepeat(x4, «times»)"),
    ),
    "transpose": _uses(("shape-mismatch", "y = «Transpose(x4)»")) + _of_one_node("Transpose"),
    "diagonal": _uses(
        ("shape-mismatch", "y = «Diagonal(x4)»"),
        ("shape-mismatch", "y = «Diagonal(w34)»"),
    )
    + _of_one_node("Diagonal"),
    # recurrence
    "past_value": _delay("PastValue"),
    "future_value": _delay("FutureValue"),
    # statistics
    "mean": _statistic("Mean"),
    "inv_std_dev": _statistic("InvStdDev"),
    "per_dim_mean_var_normalization": _normalization("PerDimMeanVarNormalization"),
    "per_dim_mean_var_de_normalization": _normalization("PerDimMeanVarDeNormalization"),
    "layer_normalization": _normalization("LayerNormalization")
    + _uses(("bad-value", "y = «LayerNormalization(x4, w41, w41, epsilon=-1)»")),
    "dropout": _uses(("bad-option", "y = Dropout(x4, «rate»=0.5)")) + _of_one_node("Dropout"),
    "batch_normalization": _uses(
        ("ill-typed", "y = «BatchNormalization(w44, w41, w41, w41, w41)»"),
        ("shape-mismatch", "y = «BatchNormalization(x4, w51, w41, w41, w41)»"),
        ("shape-mismatch", "y = «BatchNormalization(x4, w41, w41, x4, w41)»"),
        ("shape-mismatch", "y = «BatchNormalization(x4, w51, w51, w51, w51, spatial=true)»"),
        ("bad-value", "y = «BatchNormalization(x4, w41, w41, w41, w41, expAvgFactor=2)»"),
        ("bad-value", "y = «BatchNormalization(x4, w41, w41, w41, w41, epsilon=-1)»"),
        (
            "bad-value",
            "y = «BatchNormalization(x4, w41, w41, w41, w41, normalizationTimeConstant=-1)»",
        ),
        ("argument-count", "y = «BatchNormalization(x4, w41, w41)»"),
        ("undefined-name", 'y = BatchNormalization(x4, w41, w41, w41, «"no node"»)'),
        ("bad-option", "y = BatchNormalization(x4, w41, w41, w41, w41, «momentum»=0.9)"),
    ),
    # criteria
    "square_error": _of_equal_sizes("SquareError"),
    "cross_entropy": _of_equal_sizes("CrossEntropy"),
    "cross_entropy_with_softmax": _of_equal_sizes("CrossEntropyWithSoftmax"),
    "error_prediction": _of_equal_sizes("ErrorPrediction"),
    "cos_distance": _of_equal_sizes("CosDistance"),
    "logistic": _uses(
        ("shape-mismatch", "y = «Logistic(x4, x5)»"),
        ("shape-mismatch", "y = «Logistic(x4, w44)»"),
        ("shape-mismatch", "y = «Logistic(x4, x4, x5)»"),
        ("shape-mismatch", "y = «Logistic(x4, x4, w41)»"),
        ("argument-count", "y = «Logistic(x4)»"),
        ("argument-count", "y = «Logistic(x4, x4, x1, x1)»"),
        ("undefined-name", "y = Logistic(x4, x4, «weight»)"),
        ("bad-option", "y = Logistic(x4, x4, «weight»=2)"),
    ),
    "class_based_cross_entropy_with_softmax": _uses(
        ("shape-mismatch", f"y = «{_CLASSES}(x5, x4, w43, x1)»"),  # a label has 4 rows
        ("shape-mismatch", f"y = «{_CLASSES}(x4, x4, w35, x1)»"),
        ("shape-mismatch", f"y = «{_CLASSES}(x4, x4, x4, x1)»"),
        ("shape-mismatch", f"y = «{_CLASSES}(x4, w44, w43, x1)»"),
        ("shape-mismatch", f"y = «{_CLASSES}(x4, x4, w43, w14)»"),
        ("argument-count", f"y = «{_CLASSES}(x4, x4, w43)»"),
        ("bad-value", f"y = {_CLASSES}(x4, x4, w43, x1, maxClassSize=«-1»)"),
        ("bad-option", f"y = {_CLASSES}(x4, x4, w43, x1, «classes»=2)"),
    ),
    "gmm_log_likelihood": _uses(
        ("shape-mismatch", "y = «GMMLogLikelihood(w41, w51, w41, x1)»"),
        ("shape-mismatch", "y = «GMMLogLikelihood(w41, w41, w51, x1)»"),
        ("shape-mismatch", "y = «GMMLogLikelihood(w41, w41, w41, x4)»"),
        ("shape-mismatch", "y = «GMMLogLikelihood(x4, w41, w41, x1)»"),
        ("shape-mismatch", "y = «GMMLogLikelihood(w44, w44, w44, x1)»"),
        ("argument-count", "y = «GMMLogLikelihood(w41, w41, w41)»"),
        ("undefined-name", "y = GMMLogLikelihood(w41, «means», w41, x1)"),
    ),
    "cos_distance_with_negative_samples": _uses(
        ("shape-mismatch", f"y = «{_NEGATIVES}(x4, x5, 1, 2)»"),
        ("shape-mismatch", f"y = «{_NEGATIVES}(x4, w44, 1, 2)»"),
        ("bad-value", f"y = {_NEGATIVES}(x4, x4, 1, «0»)"),
        ("bad-value", f"y = {_NEGATIVES}(x4, x4, «-1», 2)"),
        ("argument-type", f"y = {_NEGATIVES}(x4, x4, «x4», 2)"),
        ("argument-count", f"y = «{_NEGATIVES}(x4, x4, 1)»"),
        ("bad-option", f"y = {_NEGATIVES}(x4, x4, 1, 2, «shift»=2)"),
    ),
    "lookup_table": (
        *_uses(
            ("shape-mismatch", "y = «LookupTable(w34, x5)»"),
            ("shape-mismatch", "y = «LookupTable(x4, x4)»"),
            ("shape-mismatch", "y = «LookupTable(w34, w34)»"),
        ),
        *_of_two_nodes("LookupTable"),
    ),
    "crf": _uses(
        ("shape-mismatch", "y = «CRF(x4, x5, w44)»"),
        ("shape-mismatch", "y = «CRF(x4, x4, w34)»"),
        ("shape-mismatch", "y = «CRF(x4, x4, x4)»"),
        ("shape-mismatch", "y = «CRF(x5, x5, w44)»"),
        ("argument-count", "y = «CRF(x4, x4)»"),
        ("undefined-name", "y = CRF(x4, x4, «transition»)"),
    ),
    "matrix_l1_reg": _of_one_node("MatrixL1Reg"),
    "matrix_l2_reg": _of_one_node("MatrixL2Reg"),
}
