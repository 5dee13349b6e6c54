"""A training step by members in C: the table with the caller's sum, and what is told of it.

    typedef struct {
        int32_t (*all_reduce)(void *context, int64_t sum, void *data, int64_t count, int32_t bytes);
        void *context;
        int64_t rank, size;
    } graphc_members;

It has one name for all steps, so that one table serves several; whichever file comes first defines
it. Compiled code reads it by words (`backends/loops/all_reduce.py`), rank and size only where
places in a minibatch count.
"""

from __future__ import annotations

import textwrap

from graphc.runtime.shared_sums import SumLayout
from graphc.runtime.signature import Signature
from graphc.support.member_place import SHARD, SHARDS

NO_SUM = 6
"""The status of a function whose sum over members was not made."""
BAD_RANK = 7
"""That of a table whose rank is none of its members'."""

TABLE_TYPE, FIELDS = "graphc_members", ("all_reduce", "context", "rank", "size")
WORDS = {name: i for i, name in enumerate(FIELDS)}
"""Where each field stands, in words of 8 bytes."""
FIELD_OF = {SHARD: "rank", SHARDS: "size"}
"""Where in the table the numbers of a call are that say which member it is of."""

LINE = 88
"""Characters of a line of documentation."""

MEMBER_STATUS = {
    NO_SUM: "the sum over members was not made: all_reduce gave another number than 0",
    BAD_RANK: "the rank of the member is not one of 0 to size - 1",
}

TABLE = f"""\
#ifndef GRAPHC_MEMBERS
#define GRAPHC_MEMBERS
/* A member of those who train together, as its steps are told of it:
 * all_reduce  puts the sums of all members' arrays into the array, which has count floats, each of
 *             4 or 8 bytes: the same bits on every member. Returns 0, or anything else where there
 *             is no sum
 * context     what it is given first; may be NULL
 * sum         which of the step's sums it is, from 0 on; all members make them in this order
 * rank, size  which member this is, from 0 on, and how many there are */
typedef struct {{
    int32_t (*all_reduce)(void *context, int64_t sum, void *data, int64_t count, int32_t bytes);
    void *context;
    int64_t rank, size;
}} {TABLE_TYPE};
#endif"""


def takes_members(signature: Signature) -> bool:
    """Whether the function is given such a table."""
    return bool(signature.sums)


def member_macros(signature: Signature, upper: str) -> list[str]:
    """Names of statuses, how many sums there are, and the most bytes of one."""
    if not takes_members(signature):
        return []
    return [
        f"#define {upper}_NO_SUM {NO_SUM}",
        f"#define {upper}_BAD_RANK {BAD_RANK}",
        f"#define {upper}_SUMS {len(signature.sums)}",
        f"#define {upper}_SUM_BYTES {sum_bytes(signature)}",
    ]


def sum_bytes(signature: Signature) -> int:
    """Of the largest array that members add in a call."""
    layouts = [SumLayout.of(results) for results in signature.sums]
    return max(layout.size * layout.dtype.itemsize for layout in layouts)


def member_documentation(signature: Signature) -> list[str]:
    """For those who call the step, in lines."""
    if not takes_members(signature):
        return []
    name, upper = signature.name, signature.name.upper()
    arrays = f"one array of {upper}_SUM_BYTES bytes in the arena is"
    if len(signature.sums) > 1:
        arrays = f"{upper}_SUMS arrays of up to {upper}_SUM_BYTES bytes in the arena are"
    text = (
        "All members make a call together, each with its own samples of a minibatch, maybe none, "
        f"and with the same numbers, those for the samples of all. In it {arrays} added over them "
        f"by `members->all_reduce`, in the thread that called {name}_run. Outputs are of the "
        "minibatch of all, and the state stays the same on every member. With "
        f"{upper}_NO_SUM it is as it was before the call. Where places in a minibatch count, "
        "member `rank` has every `size`-th sample, from `rank` on."
    )
    return [*textwrap.wrap(text, LINE), ""]


def member_statuses(signature: Signature) -> list[str]:
    """Statuses besides, as the list in the documentation goes on."""
    if not takes_members(signature):
        return []
    upper = signature.name.upper()
    return [
        f"{NO_SUM} ({upper}_NO_SUM) members->all_reduce gave another number than 0",
        f"{BAD_RANK} ({upper}_BAD_RANK) members->rank is not from 0 to size - 1",
    ]


def member_example(signature: Signature) -> list[str]:
    """The table: a function of the caller's own, and which member it is."""
    if not takes_members(signature):
        return []
    return [f"  {TABLE_TYPE} members = {{all_reduce, NULL, rank, size}};"]
