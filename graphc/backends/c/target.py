"""The machine that a C file is written for."""

from __future__ import annotations

from dataclasses import replace

from graphc.backends.llvm.target import Target, host_target, target_named


def c_target(name: str) -> Target:
    """The target of this name as C sees it."""
    return in_c(target_named(name))


def c_host() -> Target:
    """This machine."""
    return in_c(host_target())


def in_c(target: Target) -> Target:
    """Without the instructions that C has no words for."""
    machine = replace(
        target.machine, masks_memory=False, has_scalef=False, dots_bf16=False, has_amx=False
    )
    return replace(target, machine=machine)
