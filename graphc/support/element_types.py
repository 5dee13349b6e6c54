"""numpy's types of all element types, by their names."""

from __future__ import annotations

import numpy as np

NUMPY_DTYPES: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "i1": np.dtype(np.bool_),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype([("bf16", np.uint16)]),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
}
"""Of bf16, which numpy lacks, a record with the two bytes of a number."""
