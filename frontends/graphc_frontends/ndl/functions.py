"""The functions of NDL as data: spellings, arguments, options, and the node op each one becomes.

One row per function. A row whose `op` is None is known to the language and checked like any other,
but this version has no op for it. Reading of values is `arguments.py`; the meaning of the ops is
not here at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

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


def _simple(op: str | None, operands: str, *names: str, in_book: bool = True) -> Function:
    """A function of nodes alone, `operands` their names."""
    return Function(names, _nodes(*operands.split()), op, in_book=in_book)


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
    *_nodes("m"),
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
_DELAYED = (_ROWS, _UNUSED_COLS, *_nodes("m"))

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
    # Arithmetic
    _simple("plus", "m1 m2", "Plus"),
    _simple("minus", "m1 m2", "Minus"),
    _simple("negate", "m", "Negate"),
    _simple("times", "m1 m2", "Times"),
    _simple("transpose_times", "m1 m2", "TransposeTimes"),
    _simple("diag_times", "m1 m2", "DiagTimes"),
    _simple(None, "m1 m2 m3", "StrideTimes", in_book=False),
    _simple("scale", "scaleFactor m", "Scale"),
    _simple("element_times", "m1 m2", "ElementTimes"),
    _simple("row_element_times", "m vrow", "RowElementTimes"),
    _simple("column_element_times", "m vcol", "ColumnElementTimes"),
    _simple("khatri_rao_product", "m1 m2", "KhatriRaoProduct", "ColumnwiseCrossProduct"),
    _simple("sum_elements", "m", "SumElements"),
    _simple("sum_column_elements", "m", "SumColumnElements"),
    # Functions of each element or column
    _simple("rectified_linear", "m", "RectifiedLinear", "ReLU"),
    _simple("sigmoid", "m", "Sigmoid"),
    _simple("tanh", "m", "Tanh"),
    _simple("log", "m", "Log"),
    _simple("exp", "m", "Exp", in_book=False),
    _simple("cosine", "m", "Cosine", "Cos", in_book=False),
    _simple("softmax", "m", "Softmax"),
    _simple("log_softmax", "m", "LogSoftmax"),
    _simple("hardmax", "m", "Hardmax", in_book=False),
    _simple("dropout", "m", "Dropout"),
    # Shape
    Function(
        ("Reshape",),
        (*_nodes("m"), Positional("numRows", "size", "num_rows")),
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
            *_nodes("m"),
        ),
        "row_slice",
    ),
    Function(("RowStack",), _nodes("m1", "m2"), "row_stack", repeats=True),
    Function(
        ("RowRepeat",),
        (*_nodes("m"), Positional("numRepeats", "size", "num_repeats", least=1)),
        "row_repeat",
        in_book=False,
    ),
    _simple("transpose", "m", "Transpose", in_book=False),
    _simple("diagonal", "m", "Diagonal", in_book=False),
    _simple("time_reverse", "m", "TimeReverse", in_book=False),
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
        (Option("zeroPadding", "flag", "zero_padding", False),),
    ),
    Function(("MaxPooling",), _WINDOW, "max_pooling"),
    Function(("AveragePooling",), _WINDOW, "average_pooling"),
    # Statistics and normalisation
    _simple("mean", "m", "Mean"),
    _simple("inv_std_dev", "m", "InvStdDev"),
    _simple(
        "per_dim_mean_var_normalization",
        "m mean invStdDev",
        "PerDimMeanVarNormalization",
        "PerDimMVNorm",
    ),
    _simple(
        "per_dim_mean_var_de_normalization",
        "m mean invStdDev",
        "PerDimMeanVarDeNormalization",
        "PerDimMVDeNorm",
    ),
    Function(
        ("BatchNormalization",),
        _nodes("m", "scale", "bias", "runMean", "runInvStdDev"),
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
    _simple("square_error", "m1 m2", "SquareError", "SE"),
    _simple("cross_entropy", "labels m", "CrossEntropy", in_book=False),
    _simple("cross_entropy_with_softmax", "labels m", "CrossEntropyWithSoftmax", "CEWithSM"),
    Function(
        ("ClassBasedCrossEntropyWithSoftmax", "CBCEWithSM"),
        _nodes("labels", "mainInputInfo", "mainWeight", "classProbBeforeSoftmax"),
        "class_based_cross_entropy_with_softmax",
        (Option("maxClassSize", "size", "max_class_size", 0),),
    ),
    _simple(None, "labels m logLikelihood", "SequenceWithSoftmax", "SEWithSM", in_book=False),
    Function(
        ("Logistic",),
        (*_nodes("labels", "m"), Positional("weight", "node", optional=True)),
        "logistic",
        in_book=False,
    ),
    _simple("error_prediction", "labels m", "ErrorPrediction", "ClassificationError"),
    _simple("cos_distance", "m1 m2", "CosDistance", "CosDist"),
    Function(
        ("CosDistanceWithNegativeSamples", "CosWithNegSamples"),
        (
            *_nodes("m1", "m2"),
            Positional("numShifts", "count", "shift"),
            Positional("numNegSamples", "count", "negatives", least=1),
        ),
        "cos_distance_with_negative_samples",
    ),
    _simple("matrix_l1_reg", "m", "MatrixL1Reg", "L1Reg", "L1Norm"),
    _simple("matrix_l2_reg", "m", "MatrixL2Reg", "L2Reg", "L2Norm"),
    _simple(
        "gmm_log_likelihood",
        "unnormedPrior means logStdDev featureValues",
        "GMMLogLikelihood",
        "GMMLL",
    ),
    # Embedding and experiments of the toolkit
    _simple("lookup_table", "w x", "LookupTable", in_book=False),
    _simple("crf", "label score transition", "CRF", in_book=False),
    _simple(None, "m1 m2 m3", "DummyCriterion", in_book=False),
    _simple(None, "m1 m2", "Parallel", in_book=False),
    _simple(None, "obs inputGate forgetGate outputGate memoryCell", "LSTM", in_book=False),
    _simple(None, "m", "PairNetwork", in_book=False),
)

FUNCTION_BY_NAME: Mapping[str, Function] = MappingProxyType(
    {name.lower(): function for function in FUNCTIONS for name in function.names}
)
"""Every spelling in lower case."""
