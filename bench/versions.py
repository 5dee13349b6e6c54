"""Versions of packages, as they are installed, under whatever name they are distributed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, packages_distributions, version


def version_of(package: str) -> str:
    """Of a module that is imported by this name; nothing where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        named = packages_distributions().get(package, ())
    return version(named[0]) if named else ""
