"""Backends: name -> loader; the import inside each loader is the only one of its backend."""

from __future__ import annotations

from collections.abc import Callable

from graphc.backends.base import Backend


def _reference() -> Backend:
    from graphc.backends.reference import BACKEND

    return BACKEND


def _numpy() -> Backend:
    from graphc.backends.numpy import BACKEND

    return BACKEND


def _llvm() -> Backend:
    from graphc.backends.llvm import BACKEND

    return BACKEND


def _c() -> Backend:
    from graphc.backends.c import BACKEND

    return BACKEND


def _cuda() -> Backend:
    from graphc.backends.cuda import BACKEND

    return BACKEND


BACKENDS: dict[str, Callable[[], Backend]] = {
    "reference": _reference,
    "numpy": _numpy,
    "llvm": _llvm,
    "c": _c,
    "cuda": _cuda,
}
