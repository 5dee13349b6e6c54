"""What the members of a training may share in another way than each its part of every minibatch."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.driver.compile import node_names
from graphc.model.model import Model
from graphc.ops.nodes.normalisation import normalises_by_minibatch
from graphc.passes.expand_nodes import inputs_of
from graphc.runtime.communicators.communicator import (
    Communicator,
    has_own_shards,
    overlap_of,
    shards_of,
    wire_of,
)
from graphc.runtime.signature import Signature
from graphc.support.arguments import truth
from graphc.support.diagnostics import fail
from graphc.support.graphs import reachable
from graphc.support.member_place import SHARD


def may_deal(signature: Signature, communicator: Communicator, *, by_company: bool) -> bool:
    """Whether it decides nothing but the order of sums which member has which sequences: neither
    places in the minibatch, nor bits of shards, nor, `by_company`, statistics of a member's own."""
    is_placed = any(a.name == SHARD for a in signature.with_role("hyperparameter"))
    return not (is_placed or by_company or has_own_shards(communicator))


def normalises(model: Model, outputs: Sequence[str]) -> bool:
    """Whether some of the outputs depend on statistics of a minibatch."""
    roots = [op for name in outputs if (op := model.find(name)) is not None]
    return any(normalises_by_minibatch(op) for op in reachable(roots, inputs_of))


def checked_sync(sync: object, communicator: Communicator | None) -> bool:
    """Whether BatchNormalization is by the samples of all members. GraphcError where there is no
    communicator."""
    wanted = truth(sync, "sync_batchnorm")
    if wanted and communicator is None:
        raise fail("bad-option", "sync_batchnorm is for members who train together: give comm=")
    return wanted


def split_names(
    model: Model,
    split: Sequence[str],
    trained: Sequence[str],
    communicator: Communicator | None,
) -> list[str]:
    """The parameters of `split` as the network calls them. GraphcError for what cannot be split."""
    if not split:
        return []
    if communicator is None:
        raise fail("bad-option", "split is for members who train together: give comm=")
    if shards_of(communicator) != communicator.size:
        raise fail("bad-option", "split is of members' own steps, which have no shards")
    if wire_of(communicator) != "full":
        message = "what members that split a layer exchange travels as it is"
        raise fail("bad-option", f"{message}: leave out wire={wire_of(communicator)!r}")
    if overlap_of(communicator):
        raise fail(
            "bad-option", "members that split a layer wait for each other: leave out overlap"
        )
    names = node_names(model, split)
    for name in names:
        if name not in trained:
            raise fail("bad-option", f"split requires parameters that are trained, got `{name}`")
    return names
