"""`graphc cache`, and the commands that use the cache."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from graphc.backends.base import GRAIN_KEPT_AS
from graphc.driver import cache_key
from graphc.driver.cache import Cache
from graphc.driver.shared_code import shared_code
from tests.support.commands import NETWORK, Done, graphc, write_data, write_network

pytestmark = pytest.mark.llvm


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPHC_CACHE", "on")
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(tmp_path / "cache"))
    # Sources that were edited a moment ago would switch it off.
    monkeypatch.setattr(cache_key, "SOURCES", "0123456789abcdef")
    monkeypatch.setattr(cache_key, "source_stamp", lambda: "0123456789abcdef")
    return tmp_path / "cache"


def run(tmp_path: Path, *more: str, text: str = NETWORK) -> Done:
    network = write_network(tmp_path, text)
    return graphc("run", network, *more, stdin=b"0.5 0.25\n1 2\n")


def entries(folder: Path) -> int:
    return len(list(folder.glob("*.entry")))


def test_running_twice_gives_the_same_and_keeps_one_entry(tmp_path: Path, folder: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first.code == 0
    assert first == second
    assert entries(folder) == 1


def test_without_the_cache_nothing_is_kept(tmp_path: Path, folder: Path) -> None:
    assert run(tmp_path, "--no-cache").code == 0
    assert not folder.exists()


def test_training_keeps_its_step(tmp_path: Path, folder: Path) -> None:
    network, data = write_network(tmp_path), write_data(tmp_path)
    words = ("--features", "0:2", "--labels", "2", "--classes", "2", "--learning-rate", "1")
    outputs = []
    for name in ("a.safetensors", "b.safetensors"):
        done = graphc("train", network, "--data", data, *words, "-o", tmp_path / name)
        assert done.code == 0, done.err
        outputs.append((tmp_path / name).read_bytes())
    assert entries(folder) == 1
    assert outputs[0] == outputs[1]


def test_info_says_where_it_is_and_how_large(tmp_path: Path, folder: Path) -> None:
    run(tmp_path)
    done = graphc("cache", "info")
    assert (done.code, done.err) == (0, "")
    assert f"folder   {folder}\nin use   yes\nentries  1, " in done.out
    record = json.loads(graphc("cache", "info", "--json").out)
    assert (record["folder"], record["used"], record["entries"]) == (str(folder), True, 1)
    assert record["bytes"] == sum(p.stat().st_size for p in folder.glob("*.entry"))


def test_info_says_what_work_threads_are_woken_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "grain    not measured yet: " in graphc("cache", "info").out
    keep = partial(shared_code, cache=Cache(folder))
    kept = b"51234 189012"
    assert keep(GRAIN_KEPT_AS, lambda: kept) == keep(GRAIN_KEPT_AS, lambda: b"1 2") == kept
    told = "grain    51 us of work, 189 us after a long pause (measured here): "
    assert told in graphc("cache", "info").out
    record = json.loads(graphc("cache", "info", "--json").out)
    assert (record["grain_ns"], record["long_grain_ns"]) == (51234, 189012)
    monkeypatch.setenv("GRAPHC_GRAIN", "7")
    assert "grain    7 us of work (GRAPHC_GRAIN): " in graphc("cache", "info").out


def test_info_says_why_it_is_not_in_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert f"in use   no: others may write to {folder}" in graphc("cache", "info").out
    monkeypatch.setenv("GRAPHC_CACHE", "off")
    assert "in use   no: switched off by GRAPHC_CACHE=off" in graphc("cache", "info").out


def test_a_relative_home_puts_nothing_into_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GRAPHC_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "relative")
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path).code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["net.ndl"]
    done = graphc("cache", "info")
    assert done.code == 3
    assert "a cache requires GRAPHC_CACHE_DIR, or an absolute path" in done.err


def test_the_list_says_what_each_entry_is(tmp_path: Path, folder: Path) -> None:
    run(tmp_path)
    (entry,) = folder.glob("*.entry")
    line = graphc("cache", "list").out
    assert line.startswith(entry.name[:12])
    assert line.endswith("z of features\n")
    (row,) = json.loads(graphc("cache", "list", "--json").out)["entries"]
    assert (row["name"], row["what"]) == (entry.name, "z of features")


def test_verify_removes_what_is_damaged(tmp_path: Path, folder: Path) -> None:
    run(tmp_path)
    assert graphc("cache", "verify") == Done(0, "", "1 good, 0 damaged\n")
    (entry,) = folder.glob("*.entry")
    entry.write_bytes(entry.read_bytes()[:-1])
    assert "not usable: its content" in graphc("cache", "list").out
    done = graphc("cache", "verify")
    assert done.code == 1
    assert done.out == f"{entry.name}: its content does not have the hash that it states; removed\n"
    assert entries(folder) == 0


def test_what_another_version_made_is_removed_and_no_damage(tmp_path: Path, folder: Path) -> None:
    run(tmp_path)
    (entry,) = folder.glob("*.entry")
    head, line, code = entry.read_bytes().split(b"\n", 2)
    record = json.loads(line)
    record["signature"]["of_the_future"] = ["long"] * 1000
    body = json.dumps(record).encode() + b"\n" + code
    digest = hashlib.sha256(body).hexdigest().encode()
    entry.write_bytes(head.split()[0] + b" " + digest + b"\n" + body)
    assert graphc("cache", "list").out.endswith("not usable: another version of graphc made it\n")
    done = graphc("cache", "verify")
    text = f"{entry.name}: another version of graphc made it; removed\n"
    assert done == Done(0, text, "0 good, 0 damaged, 1 of another version\n")
    assert entries(folder) == 0


def test_a_list_of_nothing_says_so(folder: Path) -> None:
    assert graphc("cache", "list") == Done(0, "", "no entries\n")


def test_clear_removes_everything(tmp_path: Path, folder: Path) -> None:
    run(tmp_path)
    assert graphc("cache", "clear") == Done(0, "", "1 entries removed\n")
    assert list(folder.iterdir()) == []


def test_why_names_what_differs_from_the_nearest_entry(tmp_path: Path) -> None:
    assert "nothing has been compiled" in graphc("cache", "why").out
    run(tmp_path)
    assert "There was no entry to compare it with." in graphc("cache", "why").out
    run(tmp_path, text=NETWORK.replace("Plus(t, b)", "Minus(t, b)"))
    done = graphc("cache", "why")
    assert "differs in network:" in done.out
    assert '  -  %z = node.plus %t, %b {tags = ["output"]} : matrix<2x*>' in done.out
    assert '  +  %z = node.minus %t, %b {tags = ["output"]} : matrix<2x*>' in done.out
    run(tmp_path, "--precision", "double")
    record = json.loads(graphc("cache", "why", "--json").out)
    assert record["differing"] == ["passes", "options"]
    assert record["why"] == "no entry has this key"


def test_why_says_that_an_entry_was_damaged(tmp_path: Path, folder: Path) -> None:
    run(tmp_path)
    (entry,) = folder.glob("*.entry")
    entry.write_bytes(b"")
    run(tmp_path)
    assert "the entry was damaged" in graphc("cache", "why").out


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record | {"seconds": 1e400},
        lambda record: record | {"parts": {"network": "\ud800"}},
        lambda record: record["signature"].update(name="\ud800") or record,
        lambda record: record["signature"]["results"][0].update(name="\ud800") or record,
        None,
    ],
)
def test_an_entry_with_a_bad_record_is_shown_and_replaced(
    tmp_path: Path, folder: Path, change: Callable[[dict[str, Any]], object] | None
) -> None:
    good = run(tmp_path)
    (entry,) = folder.glob("*.entry")
    head, line, code = entry.read_bytes().split(b"\n", 2)
    bad = b"[" * 100_000 if change is None else json.dumps(change(json.loads(line))).encode()
    body = bad + b"\n" + code
    digest = hashlib.sha256(body).hexdigest().encode()
    entry.write_bytes(head.split()[0] + b" " + digest + b"\n" + body)
    assert "not usable: another version" in graphc("cache", "list").out
    json.loads(graphc("cache", "list", "--json").out, parse_constant=pytest.fail)
    assert graphc("cache", "info").code == 0
    assert run(tmp_path) == good
    assert "the entry was damaged" in graphc("cache", "why").out
    assert graphc("cache", "verify") == Done(0, "", "1 good, 0 damaged\n")


@pytest.mark.parametrize("bad", ["1e400", "NaN", "1e18", "-1e300", "[" * 100_000, '"\\ud800"'])
def test_a_bad_note_of_a_miss_is_no_hindrance(tmp_path: Path, folder: Path, bad: str) -> None:
    run(tmp_path)
    note = folder / "last-miss.json"
    note.write_text(re.sub(r'(?<="when": )[^}]*', lambda _: bad, note.read_text()))
    done = graphc("cache", "why")
    assert done.code == 0
    assert "nothing has been compiled" in done.out or "at no date: no entry" in done.out
    assert graphc("cache", "why", "--json").code == 0
    run(tmp_path, text=NETWORK.replace("Plus(t, b)", "Minus(t, b)"))
    assert "differs in network:" in graphc("cache", "why").out


def test_an_entry_used_at_no_date_is_listed(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems keep any number as a time of change."""
    run(tmp_path)

    def refuse(seconds: float) -> NoReturn:
        raise OverflowError(f"{seconds} out of range")

    monkeypatch.setattr("graphc.cli.cache.time.localtime", refuse)
    done = graphc("cache", "list")
    assert done.code == 0
    assert "  at no date  " in done.out


@pytest.mark.parametrize("name", ["list", "verify", "clear", "why"])
def test_a_folder_that_is_not_safe_is_an_error_of_the_commands(folder: Path, name: str) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    done = graphc("cache", name)
    assert done.code == 3
    assert f"the cache cannot be used: others may write to {folder}" in done.err


def test_a_wrong_value_of_the_switch_is_a_mistake_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", "perhaps")
    done = run(tmp_path)
    assert done.code == 2
    assert "GRAPHC_CACHE requires on or off, got `perhaps`" in done.err


def test_an_object_is_kept_with_its_parameters_and_its_target(tmp_path: Path, folder: Path) -> None:
    network = write_network(tmp_path)
    objects = []
    for name, more in (("a", ()), ("b", ()), ("c", ("--target", "x86-64-v3")), ("d", ())):
        words = ("-o", tmp_path / f"{name}.o", "--name", "same", *more)
        assert graphc("compile", network, *words).code == 0
        objects.append((tmp_path / f"{name}.o").read_bytes())
    assert entries(folder) == 2
    assert objects[0] == objects[1] == objects[3]
    assert objects[2] != objects[0]
    network.write_text(NETWORK.replace("value=0", "value=1"))
    assert graphc("compile", network, "-o", tmp_path / "e.o", "--name", "same").code == 0
    assert entries(folder) == 3
