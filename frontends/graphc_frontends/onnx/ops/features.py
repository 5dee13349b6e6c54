"""Features of samples: counts of n-grams, and those of `ai.onnx.ml` that are of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.lookups import gather
from graphc_frontends.onnx.values import dtype_of, fixed, mistake, rank_of, shape_of, unsupported

DOMAIN = "ai.onnx.ml"


@operator("TfIdfVectorizer", 9)
def tf_idf_vectorizer(
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] | None = None,
    pool_strings: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
) -> object:
    """How often each n-gram is in a row of whole numbers, also with so many skipped between."""
    if pool_int64s is None:
        raise mistake("bad-model-file", "requires the words of its n-grams, pool_int64s")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise unsupported(f"the mode {mode}")
    ends = [*ngram_counts[1:], len(pool_int64s)]
    columns, found = max(ngram_indexes, default=-1) + 1, 0
    made: Any = gc.zeros((*shape_of(x)[:-1], columns), "f32")
    for length, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), start=1):
        grams = np.array(pool_int64s[start:end], np.int64).reshape(-1, length)
        places = [*ngram_indexes[found : found + len(grams)]]
        found += len(grams)
        if not len(grams) or not min_gram_length <= length <= max_gram_length:
            continue
        counts = _counts(x, grams, max_skip_count if length > 1 else 0)
        made = made + counts @ np.eye(columns, dtype=np.float32)[places]
    if mode != "TF":
        factors = np.ones(columns) if not weights else np.array(weights)[:columns]
        counted = made if mode == "TFIDF" else gc.cast(made > 0, "f32")
        return counted * factors.astype(np.float32)
    return made


def _counts(x: Any, grams: np.ndarray, most_skipped: int) -> Any:
    """[.., n-grams]: in how many places of a row each is."""
    size, length = fixed([shape_of(x)[-1]], "a row of words")[0], grams.shape[1]
    total: Any = gc.zeros((*shape_of(x)[:-1], len(grams)), "f32")
    for apart in range(1, most_skipped + 2):
        places = size - (length - 1) * apart
        if places < 1:
            break
        hit: Any = None
        for i in range(length):
            words = gc.expand_dims(x[..., i * apart : i * apart + places], -1)
            same = words == grams[:, i].astype(dtype_of(x))
            hit = same if hit is None else hit & same
        total = total + gc.sum(gc.cast(hit, "f32"), -2)
    return total


@operator("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(x: Any, places: Any) -> object:
    """The elements of the last axis at these places; of a vector a matrix of one row."""
    rows = gc.expand_dims(x, 0) if rank_of(x) == 1 else x
    return gather(rows, gc.reshape(places, -1), axis=-1)


@operator("Binarizer", domain=DOMAIN)
def binarizer(x: Any, *, threshold: float) -> object:
    return gc.cast(x > threshold, dtype_of(x))


@operator("Scaler", domain=DOMAIN)
def scaler(
    x: Any, *, offset: Sequence[float] | None = None, scale: Sequence[float] | None = None
) -> object:
    """One offset and scale, or one for each feature."""
    less, times = (np.array(v, np.float32) for v in (offset or [0.0], scale or [1.0]))
    return (gc.cast(x, "f32") - less) * times


@operator("Normalizer", domain=DOMAIN)
def normalizer(x: Any, *, norm: str) -> object:
    """Each row by its largest element, or its length; a row without one stays as it is."""
    given = gc.cast(x, "f32")
    match norm:
        case "MAX":
            length = gc.max(given, -1, keepdims=True)
        case "L1":
            length = gc.sum(gc.abs(given), -1, keepdims=True)
        case "L2":
            length = gc.sqrt(gc.sum(given * given, -1, keepdims=True))
        case _:
            raise unsupported(f"the norm {norm}")
    return gc.where(length == 0, given, given / gc.where(length == 0, 1, length))


@operator("LabelEncoder", 2, DOMAIN)
def label_encoder(
    x: Any,
    *,
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    keys_tensor: Any = None,
    values_tensor: Any = None,
    default_float: float = 0.0,
    default_int64: int = -1,
    default_tensor: Any = None,
) -> object:
    """The value of each element's key; nan is a key as others are."""
    keys = _listed(keys_tensor, keys_floats, keys_int64s)
    values = _listed(values_tensor, values_floats, values_int64s)
    if keys is None or values is None:
        raise mistake("bad-model-file", "requires keys and values that are numbers")
    if keys.shape != values.shape or keys.ndim != 1:
        message = f"requires a value for each key, got {keys.shape} keys and {values.shape} values"
        raise mistake("shape-mismatch", message)
    other = default_float if values.dtype.kind == "f" else default_int64
    other = other if default_tensor is None else default_tensor.reshape(())
    given = gc.expand_dims(x, -1)
    keys = keys.astype(dtype_of(x))
    same = (given == keys) | ((given != given) & (keys != keys))
    last = gc.max(gc.where(same, np.arange(1, len(keys) + 1, dtype=np.int64), 0), -1)
    found = gc.take(values, gc.maximum(last - 1, 0), 0)
    return gc.where(last > 0, found, np.asarray(other, values.dtype))


def _listed(
    tensor: Any, floats: Sequence[float] | None, integers: Sequence[int] | None
) -> np.ndarray | None:
    """The keys or values of a table, whichever attribute has them."""
    if tensor is not None:
        return tensor if tensor.dtype.kind in "fi" else None
    if floats is not None:
        return np.array(floats, np.float32)
    return None if integers is None else np.array(integers, np.int64)
