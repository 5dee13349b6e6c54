"""From the arguments of a call to numbers, flags and words: what a function row asks for.

Everything here is about one value at a time and knows neither the network nor the expansion.
Errors are raised; the caller collects them, so that one call can report several.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from graphc.builder import TAG_SPELLINGS, tag_of
from graphc.support.diagnostics import Note, fail, suggestion
from graphc.support.source import Location
from graphc_frontends.ndl.ast import Call, Operand
from graphc_frontends.ndl.functions import (
    COMMON_OPTIONS,
    INITIALIZERS,
    NODE_ARRAYS,
    Function,
    Option,
    Positional,
)
from graphc_frontends.ndl.scopes import Forward, Items, Made, Number, Text, Value

Constant = int | float | bool | str
"""What a size, number, flag or word of the source comes to."""

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
        most = None if function.repeats else len(places)
        usage = call.function.text + function.arguments
        message = f"`{usage}` takes {count(needed, most)}, got {given}"
        raise fail("argument-count", message, where)
    spare = given - needed
    taken: list[Positional] = []
    for place in places:
        if place.optional:
            spare -= 1
        if not place.optional or spare >= 0:
            taken.append(place)
    return list(zip(taken, call.arguments, strict=True))


def count(least: int, most: int | None = -1) -> str:
    """`2 arguments`, `1 to 2 arguments`, or for `most` None `2 arguments or more`."""
    if most is None:
        return f"{least} arguments or more"
    if most > least:
        return f"{least} to {most} arguments"
    return f"{least} argument{'' if least == 1 else 's'}"


def find_option(function: Function, name: str) -> Option | None:
    """The row of an option, None if the function has no such option."""
    return _options(function).get(name.lower())


def option_names(function: Function) -> list[str]:
    """The names of all options that a function takes."""
    return [*(option.name for option in _options(function).values()), "tag"]


def merge_options(function: Function, given: Mapping[str, Constant]) -> dict[str, Constant]:
    """The op's settings for the options given (keys in lower case).

    Of two options for one setting, as timeStep and delayTime, the first in the table that is not
    the default counts; so does the toolkit.
    """
    settings: dict[str, Constant] = {}
    for key, option in _options(function).items():
        if key not in given or option.setting is None:
            continue
        if settings.get(option.setting, option.default) == option.default:
            settings[option.setting] = given[key]
    return settings


def finish_initializer(settings: dict[str, Constant], where: Location) -> None:
    """Turn `init` as written into the op's settings, in place."""
    init = settings.get("init")
    if init is None:
        return
    settings["init"] = INITIALIZERS[str(init)]
    if init == "zero":
        settings["value"] = 0.0
    if init == "fromFile" and not settings.get("init_from_file_path"):
        raise fail("bad-option", 'init=fromFile requires initFromFilePath="..."', where)


def _options(function: Function) -> dict[str, Option]:
    """The rows of a function's options, by name in lower case."""
    return {o.name.lower(): o for o in (*COMMON_OPTIONS, *function.options)}


def read_constant(place: Positional | Option, value: Value, word: str, where: Location) -> Constant:
    """A value as `place` asks for it. `word` is how the argument was written."""
    kind = place.kind
    if kind in ("size", "count", "number"):
        if kind == "count" and isinstance(value.content, Made) and value.content.number is not None:
            return _read_size(value.content.number, where, place.least)
        number = _read_number(value, word, where)
        return number.value if kind == "number" else _read_size(number, where, place.least)
    if kind == "flag":
        return _read_flag(value, word, where)
    if kind == "initializer":
        return _read_initializer(value, word, where)
    if kind == "layout":
        _check_layout(_read_word(value, word), where)
    return _read_word(value, word)


def _read_keyword(value: Value, word: str, keywords: Collection[str]) -> str:
    """A keyword as written, or the text of the variable of that name, in lower case.

    The keyword comes first: `tag=output` means the tag, even where a define is called output.
    """
    return word.lower() if word.lower() in keywords else _read_word(value, word).lower()


def _read_word(value: Value, word: str) -> str:
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
    text = _read_keyword(value, word, TAG_SPELLINGS)
    tag = tag_of(text)
    if tag is None:
        known = ", ".join(TAG_SPELLINGS)
        message = f"a tag is one of {known}, got `{text}`{suggestion(text, TAG_SPELLINGS)}"
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
            message = f"a number is required, got the node `{word or node.name}`"
            raise fail("argument-type", message, where, notes=notes)
        case Items():
            raise fail("argument-type", f"a number is required, got the list `{word}`", where)
        case _:
            raise fail(
                "argument-type", f"a number is required, got `{_read_word(value, word)}`", where
            )


def _read_size(number: Number, where: Location, least: int) -> int:
    if not (least <= number.value <= MAX_SIZE and number.value == int(number.value)):
        message = f"a whole number from {least} to {MAX_SIZE} is required, got {number.text}"
        raise fail("bad-value", message, where)
    return int(number.value)


def _read_flag(value: Value, word: str, where: Location) -> bool:
    text = _read_keyword(value, word, _FLAGS)
    if text not in _FLAGS:
        raise fail("bad-option", f"true or false is required, got `{text}`", where)
    return _FLAGS[text]


def _read_initializer(value: Value, word: str, where: Location) -> str:
    """The initializer as the table spells it."""
    by_key = {name.lower(): name for name in INITIALIZERS}
    text = _read_keyword(value, word, by_key)
    if text not in by_key:
        known = ", ".join(INITIALIZERS)
        message = f"init is one of {known}, got `{text}`{suggestion(text, INITIALIZERS)}"
        raise fail("bad-option", message, where)
    return by_key[text]


def _check_layout(text: str, where: Location) -> None:
    if text.lower() in ("cudnn", "chw"):
        raise fail("not-supported", f"the image layout `{text}` is not supported yet", where)
    if text.lower() not in ("legacy", "hwc"):
        raise fail("bad-option", f"imageLayout is legacy or HWC, got `{text}`", where)
