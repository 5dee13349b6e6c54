"""The functions of NDL as data: spellings, arguments, options, and the node op each one becomes.

Functions that take their nodes and then options follow from the nodes' records; the others have a
row each. A row whose `op` is None is known to the language and checked like any other,
but this version has no op for it. Reading of values is `arguments.py`; the meaning of the ops is
not here at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from graphc.builder import (
    NODE_FUNCTIONS,
    NodeFunction,
    Number,
    plugged_function,
    plugged_method,
    plugged_spellings,
)

Kind = Literal["node", "size", "count", "number", "flag", "initializer", "path", "layout"]
"""What an argument has to be.

node         a node of the network; a number becomes a constant node
size         a whole number from 0 on; 0 asks for inference where the op can infer
count        as size, or the name of a Constant that is one number: the toolkit takes nodes there
number       any number
flag         t, true, 1, f, false, 0 in any case
initializer  one of `INITIALIZERS`
path         the text of a file name, left as written
layout       a memory layout of images; only the one that graphc uses is taken
"""


@dataclass(frozen=True, slots=True)
class Positional:
    """An argument known by its place. `setting` is the op's name for it, None where unused."""

    name: str
    kind: Kind
    setting: str | None = None
    optional: bool = False
    least: int = 0


@dataclass(frozen=True, slots=True)
class Option:
    """An argument `name=value`. Of several with one `setting`, the first that is not the
    default counts."""

    name: str
    kind: Kind
    setting: str | None = None
    default: object = None
    least: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """One function. `names` are its spellings, the one of the book's headings first."""

    names: tuple[str, ...]
    positionals: tuple[Positional, ...]
    op: str | None = None
    options: tuple[Option, ...] = ()
    repeats: bool = False
    """The last positional may be given any number of times."""
    in_book: bool = True
    """Listed in the book. Other functions came and went, so a macro may take their name."""

    @property
    def arguments(self) -> str:
        """What it is called with, such as `(rows, [cols], m)`."""
        parts = [f"[{p.name}]" if p.optional else p.name for p in self.positionals]
        return f"({', '.join([*parts, '...'] if self.repeats else parts)})"


INITIALIZERS: Mapping[str, str] = MappingProxyType(
    {
        "uniform": "uniform",
        "gaussian": "gaussian",
        "fixedValue": "fixed_value",
        "fromFile": "from_file",
        "zero": "fixed_value",  # the book's macro example; the toolkit wants fixedValue
    }
)

COMMON_OPTIONS: tuple[Option, ...] = (
    # Without effect on what is computed: graphc has one image layout and its own memory plan,
    # and a node that is no parameter learns from its inputs whether it needs a gradient.
    Option("needGradient", "flag"),
    Option("imageLayout", "layout"),
    Option("useCuDnn", "flag"),
    Option("initOnCPUOnly", "flag"),
    Option("maxTempMemSizeInSamples", "number"),
)

NODE_ARRAYS: Mapping[str, str] = MappingProxyType(
    {
        "FeatureNodes": "feature",
        "LabelNodes": "label",
        "CriteriaNodes": "criterion",
        "CriterionNodes": "criterion",
        "EvalNodes": "evaluation",
        "EvaluationNodes": "evaluation",
        "OutputNodes": "output",
        "NodesReqMultiSeqHandling": "multiseq",
    }
)


def _nodes(*names: str) -> tuple[Positional, ...]:
    return tuple(Positional(name, "node") for name in names)


def _not_yet(operands: str, *names: str) -> Function:
    """A function of the toolkit, later than the book, that has no op here."""
    return Function(names, _nodes(*operands.split()), in_book=False)


_ROWS = Positional("rows", "size", "rows")
_UNUSED_COLS = Positional("cols", "size", optional=True)
_PARAMETER_SHAPE = (_ROWS, Positional("cols", "size", "cols", optional=True))
_IMAGE_SIZE = (
    Positional("width", "size", "width", least=1),
    Positional("height", "size", "height", least=1),
    Positional("channels", "size", "channels", least=1),
)
_IMAGES = Positional("numImages", "size", optional=True)
_WINDOW = (
    *_nodes("x"),
    Positional("windowWidth", "size", "window_width", least=1),
    Positional("windowHeight", "size", "window_height", least=1),
    Positional("stepW", "size", "step_width", least=1),
    Positional("stepH", "size", "step_height", least=1),
)

_PARAMETER_OPTIONS = (
    Option("needGradient", "flag", "need_gradient", True),
    Option("init", "initializer", "init", "uniform"),
    Option("initValueScale", "number", "init_value_scale", 1.0),
    Option("value", "number", "value", 0.0),
    Option("initFromFilePath", "path", "init_from_file_path", ""),
)
_DELAY_OPTIONS = (
    Option("timeStep", "size", "time_step", 1, least=1),
    Option("delayTime", "size", "time_step", 1, least=1),
    Option("defaultHiddenActivity", "number", "default_hidden_activity", 0.1),
    Option("defaultPastValue", "number", "default_hidden_activity", 0.1),
)
_DELAYED = (_ROWS, _UNUSED_COLS, *_nodes("x"))

_KINDS: Mapping[type[Number], Kind] = {bool: "flag", int: "size", float: "number"}
_BOOK = """
    Plus Minus Negate Times TransposeTimes DiagTimes Scale ElementTimes RowElementTimes
    ColumnElementTimes KhatriRaoProduct SumElements SumColumnElements RectifiedLinear Sigmoid Tanh
    Log Softmax LogSoftmax Dropout PerDimMeanVarNormalization PerDimMeanVarDeNormalization
    SquareError CrossEntropyWithSoftmax ClassBasedCrossEntropyWithSoftmax ErrorPrediction
    CosDistance MatrixL1Reg MatrixL2Reg GMMLogLikelihood
"""
"""The functions without a row that the book lists; it is complete."""


def _as_it_stands(function: NodeFunction) -> Function:
    """The function of a node's record: its operands by place, its settings as options."""
    options = [
        Option(_camel(s.name), _KINDS[type(s.default)], s.name, s.default)
        for s in function.settings
    ]
    nodes = _nodes(*map(_camel, function.operands))
    in_book = function.names[0] in _BOOK.split()
    return Function(function.names, nodes, function.op, tuple(options), in_book=in_book)


def _camel(name: str) -> str:
    """`log_std_dev` as NDL writes it: logStdDev."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


FUNCTIONS: tuple[Function, ...] = (
    # Inputs, parameters, constants
    Function(("InputValue", "Input"), (_ROWS, _UNUSED_COLS), "input"),
    Function(
        ("SparseInputValue", "SparseInput"), (_ROWS, _UNUSED_COLS), "sparse_input", in_book=False
    ),
    Function(("ImageInput", "Image"), (*_IMAGE_SIZE, _IMAGES), "input"),
    Function(
        ("SparseImageInput", "SparseImage"),
        (*_IMAGE_SIZE, _IMAGES),
        "sparse_input",
        in_book=False,
    ),
    Function(
        ("LearnableParameter", "Parameter"), _PARAMETER_SHAPE, "parameter", _PARAMETER_OPTIONS
    ),
    Function(
        ("SparseLearnableParameter",), _PARAMETER_SHAPE, None, _PARAMETER_OPTIONS, in_book=False
    ),
    Function(("ImageParameter",), _IMAGE_SIZE, "parameter", _PARAMETER_OPTIONS, in_book=False),
    Function(
        ("Constant", "Const"),
        (
            Positional("value", "number", "value"),
            Positional("rows", "size", "rows", optional=True),
            Positional("cols", "size", "cols", optional=True),
        ),
        "constant",
        (Option("rows", "size", "rows", 1), Option("cols", "size", "cols", 1)),
    ),
    *map(_as_it_stands, NODE_FUNCTIONS),
    # Shape
    Function(
        ("Reshape",),
        (*_nodes("x"), Positional("numRows", "size", "num_rows")),
        "reshape",
        (
            Option("imageWidth", "size", "image_width", 0),
            Option("imageHeight", "size", "image_height", 0),
            Option("imageChannels", "size", "image_channels", 0),
        ),
    ),
    Function(
        ("RowSlice",),
        (
            Positional("startRow", "size", "start_row"),
            Positional("numRows", "size", "num_rows", least=1),
            *_nodes("x"),
        ),
        "row_slice",
    ),
    Function(("RowStack",), _nodes("m1", "m2"), "row_stack", repeats=True),
    Function(
        ("RowRepeat",),
        (*_nodes("x"), Positional("numRepeats", "size", "num_repeats", least=1)),
        "row_repeat",
        in_book=False,
    ),
    # Recurrence
    Function(("PastValue", "Delay"), _DELAYED, "past_value", _DELAY_OPTIONS),
    Function(("FutureValue",), _DELAYED, "future_value", _DELAY_OPTIONS),
    # Images
    Function(
        ("Convolution", "Convolve"),
        (
            *_nodes("w", "image"),
            Positional("kernelWidth", "size", "kernel_width", least=1),
            Positional("kernelHeight", "size", "kernel_height", least=1),
            Positional("outputChannels", "size", "output_channels", least=1),
            Positional("horizontalSubsample", "size", "horizontal_subsample", least=1),
            Positional("verticalSubsample", "size", "vertical_subsample", least=1),
        ),
        "convolution",
        (
            Option("zeroPadding", "flag", "zero_padding", False),
            Option("groups", "size", "groups", 1),
        ),
    ),
    Function(("MaxPooling",), _WINDOW, "max_pooling"),
    Function(("AveragePooling",), _WINDOW, "average_pooling"),
    # Statistics and normalisation
    Function(("Mean",), _nodes("feature"), "mean"),
    Function(("InvStdDev",), _nodes("feature"), "inv_std_dev"),
    Function(
        ("BatchNormalization",),
        _nodes("x", "scale", "bias", "runMean", "runInvStdDev"),
        "batch_normalization",
        (
            Option("eval", "flag", "eval_mode", False),
            Option("spatial", "flag", "spatial", False),
            Option("normalizationTimeConstant", "number", "normalization_time_constant", 0.0),
            Option("expAvgFactor", "number", "exp_avg_factor", 1.0),
            Option("epsilon", "number", "epsilon", 0.00001),
            Option("useCntkEngine", "flag", default=True),
        ),
        in_book=False,
    ),
    # Criteria and evaluation
    Function(
        ("Logistic",),
        (*_nodes("label", "probability"), Positional("weight", "node", optional=True)),
        "logistic",
        in_book=False,
    ),
    Function(
        ("CosDistanceWithNegativeSamples", "CosWithNegSamples"),
        (
            *_nodes("x", "y"),
            Positional("numShifts", "count", "shift"),
            Positional("numNegSamples", "count", "negatives", least=1),
        ),
        "cos_distance_with_negative_samples",
    ),
    # Experiments of the toolkit
    _not_yet("labels m logLikelihood", "SequenceWithSoftmax", "SEWithSM"),
    _not_yet("m1 m2 m3", "StrideTimes"),
    _not_yet("m1 m2 m3", "DummyCriterion"),
    _not_yet("m1 m2", "Parallel"),
    _not_yet("obs inputGate forgetGate outputGate memoryCell", "LSTM"),
    _not_yet("m", "PairNetwork"),
)

FUNCTION_BY_NAME: Mapping[str, Function] = MappingProxyType(
    {name.lower(): function for function in FUNCTIONS for name in function.names}
)
"""Every spelling in lower case."""


def find_function(name: str) -> Function | None:
    """The function that a call means: NDL's own, else the node of another distribution.

    GraphcError `plug-in` if that is broken.
    """
    own = FUNCTION_BY_NAME.get(name.lower())
    if own is not None:
        return own
    plugged = plugged_function(name)
    return _as_it_stands(plugged) if plugged is not None else None


def spellings() -> list[str]:
    """The names of all functions, for suggestions; none of another distribution is loaded."""
    return [*(n for function in FUNCTIONS for n in function.names), *plugged_spellings()]


def plugged_node(op: str) -> Function | None:
    """The function of another distribution that makes such a node; None if there is none."""
    plugged = plugged_method(op)
    return _as_it_stands(plugged) if plugged is not None else None
