"""The C interface of an artifact, version 1, whatever writes it.

    int32_t NAME_run(int64_t n, const T *input…, T *output…, void *arena)
    int64_t NAME_arena_bytes(void)
    const char *NAME_status(int32_t code)
    const char *NAME_info(void)

A training step (`--train`) takes `double` (or `int64_t`) numbers of the learner behind its inputs,
and the memory that it updates behind its outputs:

    int32_t NAME_run(int64_t n, const T *input…, double number…, T *output…, void *state,
                     void *arena)
    const void *NAME_start(void)         the state before the first step
    int64_t NAME_state_bytes(void)

One of several members (`--members`) has `const graphc_members *members` besides, behind the arena,
with the function that makes its sums (`artifacts/members.py`).

Of sequences `int64_t t, int64_t s` stand in place of n, of a program each dim that a call decides
by its name (`artifacts/interface.py`, `counts`). Other parameters are embedded. Nothing else is
visible, no memory is allocated, nothing global is written, no library is called; but where
products are computed in the registers of AMX, which the system is asked for by `syscall` of libc.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphc.artifacts.classes import CLASS_STATUS
from graphc.artifacts.members import MEMBER_STATUS, takes_members
from graphc.runtime.signature import NUMPY_DTYPES, ROLES_OF_MODEL, Signature
from graphc.support.diagnostics import fail

STATUS = (
    "ok",
    "the number of samples, or of steps or sequences, is negative or above its bound",
    "a pointer is null",
    "the arena is not aligned to 64 bytes",
    "a data pointer is not aligned to its element type",
)
AMX_STATUS = {5: "the system does not lend the registers of AMX to this process"}
"""Of code for machines that have them."""
UNKNOWN_STATUS = "unknown status"
ARENA_ALIGNMENT = 64


def statuses(signature: Signature, *, has_amx: bool = False) -> dict[int, str]:
    """What each status that a function may give says."""
    found = dict(enumerate(STATUS)) | (AMX_STATUS if has_amx else {})
    found |= MEMBER_STATUS if takes_members(signature) else {}
    return found | (CLASS_STATUS if signature.classes else {})


def check_signature(signature: Signature, *, takes_steps: bool = False) -> None:
    """Only inputs and embedded parameters, nothing updated.

    takes_steps  or a training step: numbers, and parameters and states that are updated
    """
    roles = ("input", *ROLES_OF_MODEL, *(("state", "hyperparameter") if takes_steps else ()))
    for argument in signature.arguments:
        if argument.role not in roles:
            message = f"an artifact takes inputs and parameters only, got {argument.role}"
            raise fail("not-supported", f"{message} `{argument.name}`")
    inputs = {a.name for a in signature.with_role("input")}
    for result in signature.results:
        if result.updates is not None and (not takes_steps or result.updates in inputs):
            what = "no inputs" if takes_steps else "nothing"
            raise fail("not-supported", f"an artifact updates {what}, got `{result.updates}`")


def first_state(signature: Signature, parameters: Mapping[str, np.ndarray]) -> bytes:
    """The state of a training step before it: its parameters, and zeros of the learner."""
    state = np.zeros(signature.state_bytes, np.uint8)
    for argument, place in signature.state_places.items():
        if argument.name in parameters:
            array = np.ascontiguousarray(parameters[argument.name], NUMPY_DTYPES[argument.dtype])
            state[place : place + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    return state.tobytes()
