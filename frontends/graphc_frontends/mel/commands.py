"""The commands of MEL as data: spellings, arguments and options (book 4.2.2).

What a command does is `session.py`; how its arguments are understood, `plan.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from graphc.builder import is_abbreviation

Kind = Literal[
    "model", "new model", "any model", "file", "nodes", "node", "copies", "new names", "target",
    "prefix", "index", "property", "flag",
]  # fmt: skip
"""What an argument is.

model      the name of a model that is there; `new model` of one that is not, `any model` either
file       the path of a file
nodes      a node or a pattern, in the default model or after a model's name and a dot; `copies`
           and `new names` are what such nodes are to be called, `node` is one node
target     a model, or what the copy of a node is to be called
prefix     what the names of copies start with
index      a whole number from 0 on
property   a name of `graphc.builder.PROPERTIES`
flag       t, true, 1, f, false, 0 in any case
"""


@dataclass(frozen=True)
class Argument:
    name: str
    kind: Kind
    optional: bool = False


@dataclass(frozen=True)
class Option:
    """An argument `name=value`; `values` are all it may be, None where it is any text or flag."""

    names: tuple[str, ...]
    values: tuple[str, ...] | None = None
    is_flag: bool = False


@dataclass(frozen=True)
class Command:
    """One command. `names` are its spellings, the one of messages first.

    repeats      the last argument may come any number of times
    makes_model  may stand after `name =`, which then is the model's name
    """

    names: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    repeats: bool = False
    makes_model: bool = False

    @property
    def usage(self) -> str:
        """`SaveModel([model], file, [format=])`."""
        parts = [f"[{a.name}]" if a.optional else a.name for a in self.arguments]
        parts += ["..."] if self.repeats else []
        parts += [f"[{o.names[0]}=]" for o in self.options]
        return f"{self.names[0]}({', '.join(parts)})"

    @property
    def least(self) -> int:
        """The arguments that it cannot do without."""
        return sum(not a.optional for a in self.arguments)


_MODEL = Argument("model", "model")
_NEW_MODEL = Argument("name", "new model")
_FILE = Argument("file", "file")
_NODES = Argument("nodes", "nodes")
_FORMAT = Option(("format",), ("cntk",))
_COPY = Option(("copy", "copyFlag"), ("all", "value"))
_DATA = Option(("includeData",), is_flag=True)
_PROPERTY = (_NODES, Argument("property", "property"), Argument("value", "flag"))

COMMANDS = (
    Command(("CreateModel",), makes_model=True),
    Command(("CreateModelWithName",), (_NEW_MODEL,)),
    Command(("LoadModel",), (_FILE,), (_FORMAT,), makes_model=True),
    Command(("LoadModelWithName",), (_NEW_MODEL, _FILE), (_FORMAT,)),
    Command(("LoadNDLSnippet",), (Argument("model", "any model"), _FILE), (Option(("section",)),)),
    Command(("SaveDefaultModel",), (_FILE,), (_FORMAT,)),
    Command(("SaveModel",), (Argument("model", "model", optional=True), _FILE), (_FORMAT,)),
    Command(("SetDefaultModel",), (_MODEL,)),
    Command(("UnloadModel",), (_MODEL,), repeats=True),
    Command(("DumpModel", "Dump"), (_MODEL, _FILE), (_DATA,)),
    Command(("DumpNode",), (_NODES, _FILE), (_DATA,)),
    Command(("CopyNode", "Copy"), (_NODES, Argument("copies", "copies")), (_COPY,)),
    Command(
        ("CopySubTree",),
        (_NODES, Argument("toModel", "target"), Argument("prefix", "prefix", optional=True)),
        (_COPY,),
    ),
    Command(("CopyNodeInputs", "CopyInputs"), (_NODES, Argument("to", "new names"))),
    Command(
        ("SetNodeInput", "SetInput"),
        (_NODES, Argument("index", "index"), Argument("input", "node")),
    ),
    Command(("SetNodeInputs", "SetInputs"), (_NODES, Argument("inputs", "node")), repeats=True),
    Command(("SetProperty",), _PROPERTY),
    Command(("SetPropertyForSubTree",), _PROPERTY),
    Command(("RemoveNode", "Remove", "DeleteNode", "Delete"), (_NODES,), repeats=True),
    Command(("Rename",), (_NODES, Argument("newName", "new names"))),
)

COMMAND_BY_NAME: Mapping[str, Command] = MappingProxyType(
    {name.lower(): command for command in COMMANDS for name in command.names}
)

FLAGS: Mapping[str, bool] = MappingProxyType(
    {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}
)


def commands_named(text: str) -> list[Command]:
    """The commands that a name may mean: the one that is called so, or those that start so.

    A name may be cut short to the first half of a spelling (the toolkit's rule).
    """
    exact = COMMAND_BY_NAME.get(text.lower())
    if exact is not None:
        return [exact]
    return [c for c in COMMANDS if any(is_abbreviation(text, name) for name in c.names)]


def options_named(text: str, options: Iterable[Option]) -> list[Option]:
    """The options that a name may mean, by the same rule."""
    exact = [o for o in options if text.lower() in [name.lower() for name in o.names]]
    return exact or [o for o in options if any(is_abbreviation(text, name) for name in o.names)]
