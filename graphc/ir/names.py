"""What the text form calls each value: names that stay as they are where nothing changed.

A value has its node's or its argument's name; without one it is called by what it belongs to
(`Value.called`): `H1.mul` computes a part of the node H1, `d.W1` is the gradient of W1, and where
nothing is known `mul` is a product. So a change of one node changes the lines of that node. Names
are unique in a region, by a suffix: a region sees nothing of what is around it, and its arguments
are called as the operands that they stand for.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.ir.core import Function, Operation, Region, Value


def bare_names(function: Function) -> dict[Value, str]:
    """The names of all values, without `%` and quotes. O(values)."""
    names: dict[Value, str] = {}
    work: list[tuple[Region, Operation | None]] = [(function.body, None)]
    while work:
        region, owner = work.pop()
        _name_region(region, _operand_names(region, owner, names), names)
        work.extend((r, op) for block in region.blocks for op in block for r in op.regions)
    return names


def fix_names(function: Function) -> None:
    """Let the values be called as they are now, wherever operations are moved to and copied."""
    for value, name in bare_names(function).items():
        if not value.name:
            value.label = name


def operands_of_arguments(owner: Operation, region: Region) -> dict[Value, Value]:
    """The operand that each argument of a region stands for.

    Empty where they are not one for one: a fused product's body reads the product in place of its
    factors.
    """
    arguments = [a for block in region.blocks for a in block.arguments]
    if len(arguments) != len(owner.operands):
        return {}
    return dict(zip(arguments, owner.operands, strict=True))


def _operand_names(
    region: Region, owner: Operation | None, names: Mapping[Value, str]
) -> dict[Value, str]:
    """What those arguments of a region are called that have no name: as the operands they are."""
    pairs = operands_of_arguments(owner, region).items() if owner is not None else ()
    return {a: names[v] for a, v in pairs if v in names and not (a.name or a.label)}


def _name_region(region: Region, given: Mapping[Value, str], names: dict[Value, str]) -> None:
    """Name the arguments and results of a region, without what is inside of its operations.

    Nodes and arguments keep their names, then labels and the names of operands stand if they are
    free; of equal ones the first. All others get a suffix.
    """
    values = [a for block in region.blocks for a in block.arguments]
    values += [v for block in region.blocks for op in block for v in op.results]
    own = [(v.name, v) for v in values if v.name]
    labels = [(v.label, v) for v in values if v.label and not v.name]
    first: dict[str, Value] = {}
    for name, value in (*own, *labels, *((name, v) for v, name in given.items())):
        first.setdefault(name, value)
    taken = set(first)
    counts: dict[str, int] = {}
    for value in values:
        name = given.get(value) or value.called
        names[value] = name if first.get(name) is value else _free(name, taken, counts)


def _free(base: str, taken: set[str], counts: dict[str, int]) -> str:
    """The first of `base`, `base_1`, `base_2`, … that is free; `counts` tells how far it got."""
    name, count = base, counts.get(base, 0)
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    counts[base] = count
    taken.add(name)
    return name
