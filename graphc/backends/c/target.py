"""The machine that a C file is written for."""

from __future__ import annotations

from dataclasses import replace

from graphc.backends.llvm.target import Target, host_target, target_named


def c_target(name: str) -> Target:
    """The target of this name as C sees it: without masked loads and stores."""
    return without_masks(target_named(name))


def c_host() -> Target:
    """This machine."""
    return without_masks(host_target())


def without_masks(target: Target) -> Target:
    return replace(target, machine=replace(target.machine, masks_memory=False, dots_bf16=False))
