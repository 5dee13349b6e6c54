"""`graphc cache`: what compiled code is kept in files, and why code was compiled again."""

from __future__ import annotations

import difflib
import json
import os
import time
from collections.abc import Mapping, Sequence

import click

from graphc.backends.base import GRAIN_KEPT_AS
from graphc.cli.command import Command
from graphc.cli.options import json_option
from graphc.cli.runner import EXIT_CHECK_FAILED
from graphc.cli.terminal import Terminal, common_options
from graphc.driver.cache import Cache, Key, Listed
from graphc.driver.cache_key import cache_folder, default_cache
from graphc.runtime.threads import said_grain
from graphc.support.diagnostics import fail

SCHEMA = 1
MOST_LINES = 12

HELP = """Look after the compiled code that is kept in files.

What graphc compiles to native code is kept in GRAPHC_CACHE_DIR, by default
~/.cache/graphc (or $XDG_CACHE_HOME/graphc), and found again when network,
options, graphc, LLVM and processor are the same. GRAPHC_CACHE=off and the
option --no-cache compile anew.
"""


EPILOG = """\b
Examples:
  graphc cache info             where the cache is, and how large
  graphc cache why              why code was compiled the last time
  GRAPHC_CACHE=off graphc bench net.ndl
"""


class Group(click.Group):
    """What its sub-commands are made as."""

    command_class = Command


@click.group(
    cls=Group,
    help=HELP,
    epilog=EPILOG,
    short_help="Look after the compiled code that is kept in files.",
)
def command() -> None:
    """The sub-commands stand below."""


@command.command(short_help="Where the cache is and how large.")
@json_option
@common_options
@click.pass_obj
def info(terminal: Terminal, /, as_json: bool) -> None:
    """Say where compiled code is kept, whether that is in use, and how much there is."""
    cache = _any_cache()
    is_on = default_cache() is not None
    problem = "" if is_on else "switched off by GRAPHC_CACHE=off"
    problem = problem or cache.problem
    entries = [] if cache.problem else cache.entries()
    size = sum(e.size for e in entries)
    grains, source = _grains(entries)
    if as_json:
        record = {
            "folder": str(cache.folder),
            "used": not problem,
            "problem": problem,
            "entries": len(entries),
            "bytes": size,
            "limit": cache.limit,
            "grain_ns": grains and grains[0],
            "long_grain_ns": grains and grains[1],
            "grain_from": source,
        }
        terminal.write(json.dumps({"schema": SCHEMA, **record}, indent=1))
        return
    terminal.write(f"folder   {cache.folder}")
    terminal.write(f"in use   {f'no: {problem}' if problem else 'yes'}")
    terminal.write(f"entries  {len(entries)}, {_bytes(size)} of at most {_bytes(cache.limit)}")
    told = "not measured yet"
    if grains is not None:
        soon, late = (f"{ns / 1e3:.0f} us" for ns in grains)
        after = f", {late} after a long pause" if late != soon else ""
        told = f"{soon} of work{after} ({source})"
    terminal.write(f"grain    {told}: sleeping threads are woken for no less")


def _grains(entries: Sequence[Listed]) -> tuple[tuple[int, int] | None, str]:
    """Nanoseconds of work that sleeping threads are woken for, those after a long pause, and
    who says so."""
    said = said_grain()
    if said is not None:
        return (said, said), "GRAPHC_GRAIN"
    kept = [e.entry for e in entries if e.entry is not None]
    found = next((e.code.split() for e in kept if e.signature.name == GRAIN_KEPT_AS), None)
    if found is None or int(found[0]) == 0:
        return None, ""
    return (int(found[0]), int(found[-1])), "measured here"


@command.command("list", short_help="The entries, the one used last first.")
@json_option
@common_options
@click.pass_obj
def list_entries(terminal: Terminal, /, as_json: bool) -> None:
    """List what is kept: key, size, when it was used last, what it saves, and what it is."""
    entries = _usable_cache().entries()
    if not entries and not as_json:
        terminal.remark("no entries")
    if as_json:
        rows = [_row(e) for e in entries]
        terminal.write(json.dumps({"schema": SCHEMA, "entries": rows}, indent=1))
        return
    for e in entries:
        used = _date(e.used, "%Y-%m-%d %H:%M")
        saves = f"{e.entry.seconds * 1e3:>7,.0f} ms" if e.entry is not None else f"{'?':>10}"
        terminal.write(f"{e.name[:12]}  {_bytes(e.size):>9}  {used}  {saves}  {_what(e)}")


@command.command(short_help="Check every entry and remove those that are of no use.")
@common_options
@click.pass_obj
def verify(terminal: Terminal) -> int:
    """Check the hash of every entry; damaged ones are removed. Exit code 1: there were some.

    Entries that another version of graphc made are removed too, and are no damage.
    """
    cache = _usable_cache()
    entries = cache.entries()
    useless = [e for e in entries if e.problem]
    for e in useless:
        cache.remove(e.name)
        terminal.write(f"{e.name}: {e.problem}; removed")
    damaged = [e for e in useless if e.is_damaged]
    others = len(useless) - len(damaged)
    counts = f"{len(entries) - len(useless)} good, {len(damaged)} damaged"
    terminal.remark(counts + (f", {others} of another version" if others else ""))
    return EXIT_CHECK_FAILED if damaged else 0


@command.command(short_help="Remove all entries.")
@common_options
@click.pass_obj
def clear(terminal: Terminal) -> None:
    """Remove everything that is kept."""
    terminal.remark(f"{_usable_cache().clear()} entries removed")


@command.command(short_help="Why the last compilation found nothing.")
@json_option
@common_options
@click.pass_obj
def why(terminal: Terminal, /, as_json: bool) -> None:
    """Say why code was compiled the last time that it was, and not taken from the cache.

    Names the parts of its key that differ from those of the entry that is most like it.
    """
    cache = _usable_cache()
    miss = cache.last_miss()
    if miss is None:
        message = "nothing has been compiled since the cache was made"
        terminal.write(json.dumps({"schema": SCHEMA, "why": None}) if as_json else message)
        return
    others = [e for e in cache.entries() if e.entry is not None and e.entry.key != miss.key]
    nearest = min(others, key=lambda e: _distance(_key(e), miss.key), default=None)
    differing = _differing(_key(nearest), miss.key) if nearest is not None else []
    if as_json:
        record = {
            "why": miss.why,
            "when": miss.when,
            "nearest": nearest.name if nearest is not None else None,
            "differing": differing,
        }
        terminal.write(json.dumps({"schema": SCHEMA, **record}, indent=1))
        return
    terminal.write(f"{_date(miss.when, '%Y-%m-%d %H:%M:%S')}: {miss.why}")
    if nearest is None:
        terminal.write("There was no entry to compare it with.")
        return
    terminal.write(f"The entry most like it, {nearest.name[:12]}, differs in {_names(differing)}:")
    for name in differing:
        terminal.write(f"{name}")
        lines = _difference(_key(nearest).parts.get(name, ""), miss.key.parts.get(name, ""))
        for line in lines:
            terminal.write(f"  {line}")


def _any_cache() -> Cache:
    """The cache, also where it is switched off."""
    folder = cache_folder(os.environ)
    if folder is None:
        message = "a cache requires GRAPHC_CACHE_DIR, or an absolute path in XDG_CACHE_HOME or HOME"
        raise fail("file", message)
    return Cache(folder)


def _usable_cache() -> Cache:
    cache = _any_cache()
    if cache.problem:
        raise fail("file", f"the cache cannot be used: {cache.problem}")
    return cache


def _row(listed: Listed) -> dict[str, object]:
    row: dict[str, object] = {"name": listed.name, "bytes": listed.size, "used": listed.used}
    if listed.entry is None:
        return row | {"problem": listed.problem}
    return row | {"seconds": listed.entry.seconds, "what": _what(listed)}


def _what(listed: Listed) -> str:
    """The function in a few words."""
    if listed.entry is None:
        return f"not usable: {listed.problem}"
    signature = listed.entry.signature
    if not signature.arguments and not signature.results:
        return signature.name
    results = [r.name for r in signature.results if r.updates is None]
    updates = sum(r.updates is not None for r in signature.results)
    text = f"{', '.join(results) or 'nothing'} of {', '.join(signature.input_names) or 'nothing'}"
    return text + (f", updates {updates} arrays" if updates else "")


def _key(listed: Listed) -> Key:
    assert listed.entry is not None
    return listed.entry.key


def _differing(a: Key, b: Key) -> list[str]:
    """The names of the parts in which two keys differ."""
    names = dict.fromkeys([*b.parts, *a.parts])
    return [n for n in names if a.parts.get(n) != b.parts.get(n)]


def _distance(a: Key, b: Key) -> tuple[int, int]:
    """How many parts differ, then how many of their lines."""
    names = _differing(a, b)
    return len(names), sum(len(_changed(a.parts.get(n, ""), b.parts.get(n, ""))) for n in names)


def _changed(a: str, b: str) -> set[str]:
    return set(a.splitlines()) ^ set(b.splitlines())


def _difference(old: str, new: str) -> list[str]:
    """The lines that are there (-) and those that were asked for (+)."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    found = [line for line in lines if line[:2] not in ("--", "++", "@@")]
    if len(found) > MOST_LINES:
        found = [*found[:MOST_LINES], f"… and {len(found) - MOST_LINES} lines more"]
    return found


def _date(seconds: float, form: str) -> str:
    """Seconds since 1970 as a date; files may say any number, not only those that are one."""
    try:
        return time.strftime(form, time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "at no date"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def _bytes(count: int) -> str:
    for unit, size in _UNITS.items():
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


_UNITS: Mapping[str, int] = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}
