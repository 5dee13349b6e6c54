"""Class numbers in C: the status where one is outside of its classes, and nothing has been done."""

from __future__ import annotations

from graphc.runtime.signature import Signature

NO_CLASS = 8
"""The status of a function that got a class number outside of the classes."""

CLASS_STATUS = {NO_CLASS: "a class number is outside of the classes"}


def class_macros(signature: Signature, upper: str) -> list[str]:
    """The status by name, and how many classes there are."""
    if not signature.classes:
        return []
    counts = [f"#define {upper}_{c.name.upper()}_CLASSES {c.classes}" for c in signature.classes]
    return [f"#define {upper}_NO_CLASS {NO_CLASS}", *counts]


def class_statuses(signature: Signature) -> list[str]:
    """Statuses besides, as the list in the documentation goes on."""
    said = [f"{c.name} is not from 0 to {c.classes - 1}" for c in signature.classes]
    upper = signature.name.upper()
    return [f"{NO_CLASS} ({upper}_NO_CLASS) a number of {' or '.join(said)}"] if said else []
