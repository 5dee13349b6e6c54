"""Made by docs/generate.py from what graphc/__init__.py finds; do not edit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc import comm as comm
from graphc import readers as readers
from graphc import writers as writers
from graphc.api import check_training_gradient as check_training_gradient
from graphc.api import compile as compile
from graphc.api import compile_training as compile_training
from graphc.api import edit as edit
from graphc.api import edits as edits
from graphc.api import evaluate as evaluate
from graphc.api import export_onnx as export_onnx
from graphc.api import gradients as gradients
from graphc.api import load as load
from graphc.api import load_program as load_program
from graphc.api import loads as loads
from graphc.api import to_networkx as to_networkx
from graphc.api import train as train
from graphc.learn.adaptation import Adaptation as Adaptation
from graphc.learn.adaptive import AdaGrad as AdaGrad
from graphc.learn.adaptive import Adam as Adam
from graphc.learn.adaptive import AdamW as AdamW
from graphc.learn.adaptive import RmsProp as RmsProp
from graphc.learn.averaging import BlockMomentum as BlockMomentum
from graphc.learn.averaging import ModelAveraging as ModelAveraging
from graphc.learn.checkpoint import Checkpoint as Checkpoint
from graphc.learn.checkpoint import read_checkpoint as read_checkpoint
from graphc.learn.checkpoints import CheckpointFiles as CheckpointFiles
from graphc.learn.checkpoints import Checkpoints as Checkpoints
from graphc.learn.clipping import ClipElements as ClipElements
from graphc.learn.clipping import ClipGlobalNorm as ClipGlobalNorm
from graphc.learn.clipping import ClipNorm as ClipNorm
from graphc.learn.curves import Cosine as Cosine
from graphc.learn.curves import StepDecay as StepDecay
from graphc.learn.curves import Warmup as Warmup
from graphc.learn.learner_types import named_learner as named_learner
from graphc.learn.minibatch_search import AdaptiveMinibatch as AdaptiveMinibatch
from graphc.learn.minimize import Minimum as Minimum
from graphc.learn.minimize import minimize as minimize
from graphc.learn.rate_control import AdjustAfterEpoch as AdjustAfterEpoch
from graphc.learn.rate_search import SearchBeforeEpoch as SearchBeforeEpoch
from graphc.learn.records import EpochRecord as EpochRecord
from graphc.learn.records import EpochStart as EpochStart
from graphc.learn.records import Event as Event
from graphc.learn.records import Progress as Progress
from graphc.learn.records import Validation as Validation
from graphc.learn.sgd import SGD as SGD
from graphc.learn.stepping import SteppingHeuristic as SteppingHeuristic
from graphc.learn.stopping import EarlyStopping as EarlyStopping
from graphc.learn.stopping import KeepBest as KeepBest
from graphc.learn.traced_learner import learner as learner
from graphc.model.program import Program as Program
from graphc.support.diagnostics import BackendUnavailable as BackendUnavailable
from graphc.support.diagnostics import GraphcError as GraphcError
from graphc.support.diagnostics import GraphcWarning as GraphcWarning
from graphc.support.diagnostics import InternalError as InternalError
from graphc.tensor.function import ArrayFunction as ArrayFunction
from graphc.tensor.function import function as function
from graphc.tensor.gradient_check import GradientReport as GradientReport
from graphc.tensor.gradient_check import check_gradient as check_gradient
from graphc.tensor.jacobian import hessian as hessian
from graphc.tensor.jacobian import jacobian as jacobian
from graphc.tensor.node_type import NodeType as NodeType
from graphc.tensor.program import program as program
from graphc.tensor.scan import scan as scan
from graphc.tensor.shapes import Axes
from graphc.tensor.tensor import Tensor as Tensor
from graphc.tensor.transforms import grad as grad
from graphc.tensor.transforms import jvp as jvp
from graphc.tensor.transforms import value_and_grad as value_and_grad
from graphc.tensor.transforms import vjp as vjp
from graphc.testing.node import check_node as check_node
from graphc.testing.selftest import self_test as self_test
from graphc_frontends.network import Network as Network
from graphc_frontends.network import load_dbn as load_dbn
from graphc_frontends.network import simple_network as simple_network

__version__: str

def abs(x: Any) -> Any:
    """Absolute value; slope 0 at 0. Unsigned numbers stay what they are."""

def absolute(x: Any) -> Any:
    """Absolute value; slope 0 at 0. Unsigned numbers stay what they are."""

def add(x: Any, y: Any) -> Any:
    """Sum of two operands."""

def add_along_axis(x: Any, indices: Any, values: Any, axis: int = -1) -> Any:
    """x with values added at places along an axis; several for one place are all added."""

def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """start, start + step, … before stop; with one argument from 0 to before it."""

def arctan(x: Any) -> Any:
    """The angle, in radians from -pi/2 to pi/2, whose tangent is x."""

def batch_normalization(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    axis: int = -1,
    epsilon: float = 1e-05,
    momentum: float = 0.9,
) -> Any:
    """scale · (x - mean) / √(variance + epsilon) + bias along `axis`, each (channels,) or a
    number."""

def bitcast(x: Any, dtype: Any) -> Any:
    """The numbers of another type of as many bits that have the same ones, numpy's `view`; not
    of floats of 16 bits and fewer."""

def bitwise_and(x: Any, y: Any) -> Any:
    """The bits that both have."""

def bitwise_not(x: Any) -> Any:
    """The bits that it does not have."""

def bitwise_or(x: Any, y: Any) -> Any:
    """The bits that at least one has."""

def bitwise_xor(x: Any, y: Any) -> Any:
    """The bits that one has."""

def broadcast_to(x: Any, shape: Any) -> Any:
    """Repeated to a larger shape by numpy's rules."""

def cast(x: Any, dtype: Any) -> Any:
    """Elements of another type: "f32", "f16", "bf16", "u8", … or a numpy type."""

def clip(x: Any, low: Any, high: Any) -> Any:
    """X within low and high, high where they cross; slope 1 at both; nan if any is nan."""

def concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    """The arrays one after the other along an axis."""

def conv(x: Any, weights: Any, strides: Any = 1) -> Any:
    """The product of every window of images with weights: [.., windows.., features]."""

def conv_transpose(x: Any, weights: Any, strides: Any = 1) -> Any:
    """The slope of `conv` to its images: [.., extents.., channels] of x [.., windows..,
    features]."""

def cos(x: Any) -> Any:
    """Cosine of an angle in radians."""

def cross_correlate(signal: Any, kernel: Any) -> Any:
    """c[i..] = Σ_j kernel[j..] signal[i.. + j..] where the kernel lies inside."""

def depthwise_conv(
    x: Any,
    weights: Any,
    strides: Any = 1,
    padding: Any = 0,
    dilations: Any = 1,
) -> Any:
    """Windows of each channel of images, times a kernel of its own: [.., windows..,
    channels]."""

def depthwise_conv_transpose(x: Any, weights: Any, strides: Any = 1, dilations: Any = 1) -> Any:
    """The slope of `depthwise_conv` to its images: [.., extents.., channels] of x [..,
    windows.., channels]."""

def divide(x: Any, y: Any) -> Any:
    """True division: integers are converted first."""

def dropout(x: Any, rate: float = 0.5) -> Any:
    """x. In a training of a program each element is 0 with probability `rate`, else divided by
    1 - rate."""

def elu(x: Any) -> Any:
    """Exponential linear unit: e^x - 1 below 0, x elsewhere; slope 1 at 0."""

def equal(x: Any, y: Any) -> Any:
    """Whether the operands are equal; false on nan."""

def erf(x: Any) -> Any:
    """Error function."""

def exp(x: Any) -> Any:
    """Exponential function."""

def expand_dims(x: Any, axis: Axes) -> Any:
    """New axes of size 1 at these places of the result."""

def expm1(x: Any) -> Any:
    """Exponential function minus one, accurate near 0."""

def eye(n: int, m: int | None = None, dtype: Any = None) -> np.ndarray:
    """n rows, m or n columns: 1 on the diagonal, 0 elsewhere."""

def flip(x: Any, axis: Axes = None) -> Any:
    """Backwards along `axis`, along all axes for None."""

def floor(x: Any) -> Any:
    """The largest whole number that is not above x."""

def full(shape: Any, value: Any, dtype: Any = None) -> Any:
    """An array of one number, which may be a traced one."""

def gelu(x: Any) -> Any:
    """Gaussian error linear unit: x times the share of a normal distribution below x."""

def greater(x: Any, y: Any) -> Any:
    """Whether x is greater than y."""

def greater_equal(x: Any, y: Any) -> Any:
    """Whether x is at least y."""

def layer_normalization(
    x: Any,
    scale: Any = 1.0,
    bias: Any = 0.0,
    axis: int = -1,
    epsilon: float = 1e-05,
) -> Any:
    """scale · (x - mean) / √(variance + epsilon) + bias, mean and variance along `axis`."""

def left_shift(x: Any, y: Any) -> Any:
    """Bits moved to higher places; 0 for a count outside of the type's bits."""

def less(x: Any, y: Any) -> Any:
    """Whether x is less than y."""

def less_equal(x: Any, y: Any) -> Any:
    """Whether x is at most y."""

def log(x: Any) -> Any:
    """Natural logarithm; minus infinity at 0, nan below."""

def log1p(x: Any) -> Any:
    """Natural logarithm of one more, accurate near 0."""

def log_softmax(x: Any, axis: int = -1) -> Any:
    """log softmax along `axis`, without overflow."""

def logical_and(x: Any, y: Any) -> Any:
    """Both."""

def logical_not(x: Any) -> Any:
    """Negation of a truth value."""

def logical_or(x: Any, y: Any) -> Any:
    """At least one."""

def matmul(x: Any, y: Any) -> Any:
    """numpy's `@`, of floating-point numbers."""

def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The largest element over `axis`. The first one that attains it gets the gradient."""

def maximum(x: Any, y: Any) -> Any:
    """The larger operand; nan if either is nan; of equal ones y gets the gradient."""

def maxpool(x: Any, n: int) -> Any:
    """The largest of every n neighbours along the last axis, whose size n divides."""

def mean(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The average over `axis`, all axes for None; nan of nothing."""

def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The smallest element over `axis`. The first one that attains it gets the gradient."""

def minimum(x: Any, y: Any) -> Any:
    """The smaller operand; nan if either is nan; of equal ones y gets the gradient."""

def multiply(x: Any, y: Any) -> Any:
    """Element-wise product."""

def negative(x: Any) -> Any:
    """Negation."""

def not_equal(x: Any, y: Any) -> Any:
    """Whether the operands differ; true on nan."""

def ones(shape: Any, dtype: Any = None) -> Any:
    """An array of ones; with a size that each call decides a traced one."""

def pad(x: Any, widths: Any, value: float = 0.0) -> Any:
    """`value` around the elements: a width, a pair (before, after), or a pair for every
    axis."""

def power(x: Any, exponent: Any) -> Any:
    """x to a power; whole constant exponents are products, 0.5 is a square root."""

def random_uniform(shape: Any, step: Any, *, seed: int = 0, stream: int = 0) -> Any:
    """f32 numbers k / 2^24 in [0, 1) that look random."""

def relu(x: Any) -> Any:
    """max(x, 0), with slope 0 at 0."""

def reshape(x: Any, shape: Any) -> Any:
    """The elements in row-major order under another shape; one size may be -1."""

def right_shift(x: Any, y: Any) -> Any:
    """Bits moved to lower places, the sign's kept; 0 or -1 for a count outside of the type's
    bits."""

def sigmoid(x: Any) -> Any:
    """Logistic sigmoid."""

def sin(x: Any) -> Any:
    """Sine of an angle in radians."""

def softmax(x: Any, axis: int = -1) -> Any:
    """e^x / Σ e^x along `axis`, without overflow."""

def softplus(x: Any) -> Any:
    """Logarithm of 1 + e^x, without overflow."""

def sqrt(x: Any) -> Any:
    """Square root; nan below 0."""

def square(x: Any) -> Any:
    """x times x."""

def squeeze(x: Any, axis: Axes = None) -> Any:
    """Axes of size 1 taken away, all of them for None."""

def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis; numbers too."""

def stop_gradient(x: Any) -> Any:
    """Its operand, taken as a constant by gradients."""

def subtract(x: Any, y: Any) -> Any:
    """Difference of two operands."""

def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The sum over `axis`, all axes for None. Integers and truth values add up as i64."""

def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """The parts of x at these whole numbers along an axis; their axes stand in its place."""

def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """x[.., indices[.., k, ..], ..], where both have the same sizes but along the axis."""

def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""

def top_k(x: Any, k: int, axis: int = -1) -> tuple[Any, Any]:
    """The k largest along `axis` in order, and their places (i32); nan counts as the
    largest."""

def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """The axes in this order; reversed for None."""

def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere. Both are computed everywhere."""

def windows(x: Any, sizes: Any, strides: Any = 1, axis: int = 0) -> Any:
    """Every window of these sizes, so far apart, over the axes from `axis` on."""

def zeros(shape: Any, dtype: Any = None) -> Any:
    """An array of zeros; with a size that each call decides a traced one."""
