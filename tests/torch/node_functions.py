"""What each node is in PyTorch: name -> function of (settings, operand types, *matrices).

Matrices are rows x columns as the book writes them, one column per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphc.ir.core import OpDef
from graphc.ir.params import NoParams
from graphc.ir.types import MatrixType
from graphc.ops.nodes.pointwise import OF_OPERATIONS
from tests.torch import tensor_functions
from tests.torch.tensor_functions import Tensor, functional, torch

Types = Sequence[MatrixType]
Function = Callable[..., Tensor]


def _plain(function: Callable[..., Tensor]) -> Function:
    """A function of the matrices alone."""
    return lambda _p, _types, *matrices: function(*matrices)


def _number(x: Tensor) -> Tensor:
    return x.reshape(1, 1)


def _of_operation(op: OpDef) -> Function:
    """An element-wise operation of matrices that are repeated; truth values as 1 and 0."""

    def function(*matrices: Tensor) -> Tensor:
        given = _same_size(*matrices)
        truths = [name == "condition" for name in op.operands]
        given = [x != 0 if truth else x for x, truth in zip(given, truths, strict=True)]
        return tensor_functions.FUNCTIONS[op.name](NoParams(), *given).to(matrices[-1].dtype)

    return _plain(function)


def _same_size(*matrices: Tensor) -> list[Tensor]:
    """Repeated downwards as a block, and column by column, to the largest of all sizes."""
    rows, cols = (max(x.shape[axis] for x in matrices) for axis in (0, 1))

    def repeated(x: Tensor) -> Tensor:
        x = x.repeat(rows // x.shape[0], 1)
        return x.repeat_interleave(cols // x.shape[1], dim=1) if x.shape[1] else x

    return [repeated(x) for x in matrices]


def _khatri_rao(a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("aj,bj->baj", a, b).flatten(0, 1)


def _column_times(p: Any, _types: Types, a: Tensor, b: Tensor) -> Tensor:
    """Of each column two matrices, column after column."""
    left = a.T.reshape(a.shape[1], p.inner, a.shape[0] // p.inner).transpose(1, 2)
    right = b.T.reshape(b.shape[1], b.shape[0] // p.inner, p.inner).transpose(1, 2)
    return torch.bmm(left, right).transpose(1, 2).flatten(1).T


def _attention(p: Any, _types: Types, *operands: Tensor) -> Tensor:
    heads = [x.T.reshape(x.shape[1], p.heads, -1).transpose(0, 1) for x in operands]
    found = functional.scaled_dot_product_attention(*heads, is_causal=p.causal)
    return found.transpose(0, 1).flatten(1).T


def _first_maxima(x: Tensor) -> Tensor:
    return torch.argmax(x, dim=0)


def _hardmax(x: Tensor) -> Tensor:
    return functional.one_hot(_first_maxima(x), x.shape[0]).T.to(x.dtype)


def _reshape(p: Any, _types: Types, x: Tensor) -> Tensor:
    """Columns one after the other, then cut anew."""
    rows = p.num_rows or x.shape[0]
    return x.T.reshape(x.numel() // rows, rows).T


# --- images --------------------------------------------------------------------------------------


def _planes(x: Tensor, type: MatrixType) -> Tensor:
    """[images, channels, height, width], as PyTorch has them."""
    image = type.image
    assert image is not None
    pixels = x.T.reshape(x.shape[1], image.width, image.height, image.channels)
    return pixels.permute(0, 3, 2, 1)


def _columns(planes: Tensor) -> Tensor:
    return planes.permute(0, 3, 2, 1).flatten(1).T


def _convolution(p: Any, types: Types, weight: Tensor, x: Tensor) -> Tensor:
    planes = _planes(x, types[1])
    channels = planes.shape[1] // p.groups
    kernel = weight.reshape(p.output_channels, channels, p.kernel_width, p.kernel_height)
    kernel = kernel.permute(0, 1, 3, 2)
    steps = (p.vertical_subsample, p.horizontal_subsample)
    if not p.zero_padding:
        return _columns(functional.conv2d(planes, kernel, stride=steps, groups=p.groups))
    across = (p.kernel_width // 2, p.kernel_width // 2)
    down = (p.kernel_height // 2, p.kernel_height // 2)
    padded = functional.pad(planes, (*across, *down))
    return _columns(functional.conv2d(padded, kernel, stride=steps, groups=p.groups))


def _pooling(pool: Callable[..., Tensor]) -> Function:
    def function(p: Any, types: Types, x: Tensor) -> Tensor:
        window = (p.window_height, p.window_width)
        return _columns(pool(_planes(x, types[0]), window, (p.step_height, p.step_width)))

    return function


# --- normalisation -------------------------------------------------------------------------------


def _batch_normalization(
    p: Any, _types: Types, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, inverse: Tensor
) -> Tensor:
    """Outside training, with PyTorch's running statistics; it takes the variance."""
    channels = scale.shape[0]
    samples = x.T.reshape(x.shape[1], -1, channels).permute(0, 2, 1)
    made = functional.batch_norm(
        samples,
        mean[:, 0],
        1 / inverse[:, 0] ** 2,
        scale[:, 0],
        bias[:, 0],
        training=False,
        eps=0.0,
    )
    return made.permute(0, 2, 1).flatten(1).T


# --- criteria ------------------------------------------------------------------------------------


def _square_error(a: Tensor, b: Tensor) -> Tensor:
    return _number(functional.mse_loss(a, b, reduction="sum") / 2)


def _cross_entropy_with_softmax(label: Tensor, score: Tensor) -> Tensor:
    return _number(functional.cross_entropy(score.T, label.T, reduction="sum"))


def _logistic(label: Tensor, p: Tensor, *weight: Tensor) -> Tensor:
    given = weight[0].expand(p.shape) if weight else None
    return _number(functional.binary_cross_entropy(p, label, given, reduction="sum"))


def _class_based(
    _p: Any, _types: Types, label: Tensor, hidden: Tensor, weight: Tensor, score: Tensor
) -> Tensor:
    total = score.sum() * 0
    for t in range(label.shape[1]):
        word, chosen, start, end = (int(n) for n in label[:, t])
        total = total + functional.cross_entropy(score[:, t], torch.tensor(chosen))
        words = hidden[:, t] @ weight[:, start:end]
        total = total + functional.cross_entropy(words, torch.tensor(word - start))
    return _number(total)


def _mixture(
    _p: Any, _types: Types, prior: Tensor, mean: Tensor, deviation: Tensor, x: Tensor
) -> Tensor:
    parts, size = prior.shape[0], x.shape[0]
    means = mean.T.reshape(-1, parts, size)
    spread = torch.exp(deviation).T[..., None].expand(means.shape)
    distributions = torch.distributions
    each = distributions.Independent(distributions.Normal(means, spread), 1)
    chosen = distributions.Categorical(logits=prior.T)
    return distributions.MixtureSameFamily(chosen, each).log_prob(x.T).reshape(1, -1)


def _negatives(p: Any, _types: Types, a: Tensor, b: Tensor) -> Tensor:
    rows = [functional.cosine_similarity(a, b, dim=0, eps=0.0)]
    for i in range(p.negatives):
        other = torch.roll(b, -(p.shift + i), dims=1)
        rows.append(functional.cosine_similarity(a, other, dim=0, eps=0.0))
    return torch.stack(rows)


def _lookup_table(_p: Any, _types: Types, table: Tensor, x: Tensor) -> Tensor:
    blocks = x.split(table.shape[1])
    return torch.cat([table @ block for block in blocks])


def _field(_p: Any, _types: Types, label: Tensor, score: Tensor, transition: Tensor) -> Tensor:
    """By the forward algorithm, one step after the other."""
    steps = score.shape[1]
    forward = score[:, 0]
    for t in range(1, steps):
        forward = score[:, t] + torch.logsumexp(forward[:, None] + transition, dim=0)
    path = torch.sum(label * score)
    path = path + torch.einsum("it,ij,jt->", label[:, :-1], transition, label[:, 1:])
    return _number(torch.logsumexp(forward, dim=0) - path)


FUNCTIONS: Mapping[str, Function] = {
    **{n.name.removeprefix("node."): _of_operation(op) for n, op in OF_OPERATIONS.items()},
    "plus": _plain(lambda a, b: torch.add(*_same_size(a, b))),
    "minus": _plain(lambda a, b: torch.sub(*_same_size(a, b))),
    "times": _plain(torch.matmul),
    "transpose_times": _plain(lambda a, b: a.T @ b),
    "diag_times": _plain(lambda d, y: torch.diag(d[:, 0]) @ y),
    "scale": _plain(torch.mul),
    "element_times": _plain(torch.mul),
    "row_element_times": _plain(torch.mul),
    "column_element_times": _plain(torch.mul),
    "khatri_rao_product": _plain(_khatri_rao),
    "column_times": _column_times,
    "attention": _attention,
    "sum_elements": _plain(lambda x: _number(x.sum())),
    "sum_column_elements": _plain(lambda x: x.sum(0, keepdim=True)),
    "rectified_linear": _plain(torch.relu),
    "log": _plain(torch.log),
    "softmax": _plain(lambda x: torch.softmax(x, 0)),
    "log_softmax": _plain(lambda x: torch.log_softmax(x, 0)),
    "hardmax": _plain(_hardmax),
    "top_k": lambda p, _t, x: torch.topk(x, p.k, dim=0).values,
    "top_k_rows": lambda p, _t, x: torch.topk(x, p.k, dim=0).indices.to(x.dtype),
    "dropout": _plain(lambda x: functional.dropout(x, training=False)),
    "reshape": _reshape,
    "row_slice": lambda p, _t, x: torch.narrow(x, 0, p.start_row, p.num_rows),
    "row_stack": _plain(lambda *parts: torch.vstack(parts)),
    "row_repeat": lambda p, _t, x: torch.tile(x, (p.num_repeats, 1)),
    "transpose": _plain(torch.t),
    "diagonal": _plain(lambda x: torch.diagonal(x).reshape(1, -1)),
    "time_reverse": _plain(torch.fliplr),
    "convolution": _convolution,
    "max_pooling": _pooling(functional.max_pool2d),
    "average_pooling": _pooling(functional.avg_pool2d),
    "per_dim_mean_var_normalization": _plain(lambda x, m, s: (x - m) * s),
    "per_dim_mean_var_de_normalization": _plain(lambda x, m, s: x / s + m),
    "batch_normalization": _batch_normalization,
    "layer_normalization": lambda p, _t, x, scale, bias: (
        functional.layer_norm(x.T, (x.shape[0],), scale[:, 0], bias[:, 0], p.epsilon).T
    ),
    "square_error": _plain(_square_error),
    "cross_entropy": _plain(lambda y, p: _number(-torch.sum(y * torch.log(p)))),
    "cross_entropy_with_softmax": _plain(_cross_entropy_with_softmax),
    "class_based_cross_entropy_with_softmax": _class_based,
    "logistic": _plain(_logistic),
    "error_prediction": _plain(
        lambda y, p: _number((_first_maxima(y) != _first_maxima(p)).sum().to(p.dtype))
    ),
    "cos_distance": _plain(
        lambda a, b: functional.cosine_similarity(a, b, dim=0, eps=0.0).reshape(1, -1)
    ),
    "cos_distance_with_negative_samples": _negatives,
    "matrix_l1_reg": _plain(lambda x: _number(torch.linalg.vector_norm(x, 1))),
    "matrix_l2_reg": _plain(lambda x: _number(torch.linalg.matrix_norm(x))),
    "gmm_log_likelihood": _mixture,
    "lookup_table": _lookup_table,
    "crf": _field,
}

NOT_IN_TORCH = {
    "input": "a leaf",
    "sparse_input": "a leaf",
    "parameter": "a leaf",
    "constant": "a leaf",
    "mean": "computed over a data set before training, not part of a network's function",
    "inv_std_dev": "computed over a data set before training, not part of a network's function",
    "past_value": "a part of a loop",
    "future_value": "a part of a loop",
}
WITHOUT_GRADIENT = frozenset(
    {
        *("hardmax", "error_prediction", "top_k_rows"),
        *(n.name.removeprefix("node.") for n, op in OF_OPERATIONS.items() if not callable(op.vjp)),
    }
)
NOT_DIFFERENTIATED: Mapping[str, frozenset[int]] = {
    # Operands of which PyTorch takes no gradient: running statistics, word numbers, labels.
    "batch_normalization": frozenset({3, 4}),
    "class_based_cross_entropy_with_softmax": frozenset({0}),
    "logistic": frozenset({0, 2}),
}
