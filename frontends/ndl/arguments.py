"""From the arguments of a call to numbers, flags and words: what a function row asks for.

Everything here is about one value at a time and knows neither the network nor the expansion.
Errors are raised; the caller collects them, so that one call can report several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frontends.ndl.ast import Call, Operand
from frontends.ndl.functions import (
    COMMON_OPTIONS,
    INITIALIZERS,
    NODE_ARRAYS,
    TAGS,
    Function,
    Kind,
    Option,
    Positional,
)
from frontends.ndl.scopes import Forward, Items, Made, Number, Text, Value
from graphc.support.diagnostics import Note, fail, suggestion
from graphc.support.source import Location

MAX_SIZE = 2**31 - 1

_FLAGS: Mapping[str, bool] = {
    **dict.fromkeys(["t", "true", "1"], True),
    **dict.fromkeys(["f", "false", "0"], False),
}
_ARRAY_TAGS: Mapping[str, str] = {name.lower(): tag for name, tag in NODE_ARRAYS.items()}


def match_positionals(
    function: Function, call: Call, where: Location
) -> list[tuple[Positional, Operand]]:
    """Each argument with what the function takes in its place.

    Optional places are filled from the left with what is left over, so in `PastValue(rows, [cols],
    m)` two arguments are rows and m.
    """
    places = list(function.positionals)
    given = len(call.arguments)
    if function.repeats:
        places += [places[-1]] * (given - len(places))
    needed = sum(not p.optional for p in places)
    if not needed <= given <= len(places):
        message = f"`{function.usage}` takes {_count(function, needed)}, got {given}"
        raise fail("argument-count", message, where)
    spare = given - needed
    taken: list[Positional] = []
    for place in places:
        if place.optional:
            spare -= 1
        if not place.optional or spare >= 0:
            taken.append(place)
    return list(zip(taken, call.arguments, strict=True))


def _count(function: Function, needed: int) -> str:
    most = len(function.positionals)
    if function.repeats:
        return f"{needed} arguments or more"
    if most > needed:
        return f"{needed} to {most} arguments"
    return f"{needed} argument{'' if needed == 1 else 's'}"


def find_option(function: Function, name: str, where: Location) -> Option:
    """The row of an option, or an error with the near names."""
    options = {o.name.lower(): o for o in (*COMMON_OPTIONS, *function.options)}
    option = options.get(name.lower())
    if option is None:
        known = suggestion(name, [o.name for o in options.values()] + ["tag"])
        message = f"`{function.name}` has no option `{name}`{known}"
        raise fail("bad-option", message, where)
    return option


def merge_settings(read: Sequence[tuple[Option, object]]) -> dict[str, object]:
    """The op's settings from options in the order of the table.

    Of two options for one setting, as timeStep and delayTime, the first that is not the default
    counts; so does the toolkit.
    """
    settings: dict[str, object] = {}
    for option, value in read:
        setting = option.setting
        if setting is not None and settings.get(setting, option.default) == option.default:
            settings[setting] = value
    return settings


def read_constant(
    kind: Kind, value: Value, word: str, where: Location, *, least: int = 0
) -> int | float | bool | str:
    """A value as the kind asks for it. `word` is how the argument was written."""
    if kind in ("size", "number"):
        number = _read_number(value, word, where)
        return number.value if kind == "number" else _read_size(number, where, least)
    text = read_word(value, word)
    if kind == "flag":
        flag = _FLAGS.get(text.lower())
        if flag is None:
            raise fail("bad-option", f"true or false is required, got `{text}`", where)
        return flag
    if kind == "initializer":
        return _read_initializer(text, where)
    if kind == "layout":
        _check_layout(text, where)
    return text


def read_word(value: Value, word: str) -> str:
    """The text that a word stands for: that of a variable, or else the word itself."""
    match value.content:
        case Text(text) | Number(text=text):
            return text
        case Forward(name=name):
            return name.text
        case _:
            return word


def read_tag(value: Value, word: str, where: Location) -> str:
    """The node tag for the value of `tag=`."""
    text = read_word(value, word)
    tag = TAGS.get("eval" if text.lower().startswith("eval") else text.lower())
    if tag is None:
        known = ", ".join(TAGS)
        message = f"a tag is one of {known}, got `{text}`{suggestion(text, TAGS)}"
        raise fail("unknown-tag", message, where)
    return tag


def array_tag(name: str) -> str | None:
    """The tag that a special node array gives, None for other names."""
    return _ARRAY_TAGS.get(name.lower())


def _read_number(value: Value, word: str, where: Location) -> Number:
    match value.content:
        case Number() as number:
            return number
        case Forward(name=name, scope=scope):
            message = f"`{name.text}` has to be a number defined before it is used here"
            later = scope.assigned.get(name.key)
            notes = [Note("it is defined here", later)] if later is not None else []
            near = "" if later is not None else suggestion(name.text, scope.visible_names())
            raise fail("undefined-name", message + near, where, notes=notes)
        case Made(node):
            notes = [Note(f"`{node.name}` is a node", node.location.span)]
            message = f"a number is required, got the node `{word}`"
            raise fail("argument-type", message, where, notes=notes)
        case Items():
            raise fail("argument-type", f"a number is required, got the list `{word}`", where)
        case _:
            raise fail("argument-type", f"a number is required, got `{read_word(value, word)}`", where)


def _read_size(number: Number, where: Location, least: int) -> int:
    if not (least <= number.value <= MAX_SIZE and number.value == int(number.value)):
        message = f"a whole number from {least} to {MAX_SIZE} is required, got {number.text}"
        raise fail("bad-value", message, where)
    return int(number.value)


def _read_initializer(text: str, where: Location) -> str:
    by_key = {name.lower(): name for name in INITIALIZERS}
    name = by_key.get(text.lower())
    if name is None:
        known = ", ".join(INITIALIZERS)
        message = f"init is one of {known}, got `{text}`{suggestion(text, INITIALIZERS)}"
        raise fail("bad-option", message, where)
    return name


def _check_layout(text: str, where: Location) -> None:
    if text.lower() in ("cudnn", "chw"):
        raise fail("not-supported", f"the image layout `{text}` is not supported yet", where)
    if text.lower() not in ("legacy", "hwc"):
        raise fail("bad-option", f"imageLayout is legacy or HWC, got `{text}`", where)
