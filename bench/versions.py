"""Versions of packages, as they are installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str:
    """Nothing where the package is not installed as one."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
