"""What decides compiled code, and where the cache is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.backends.llvm import runtime, target
from graphc.driver import cache_key
from graphc.driver.cache import Cache
from graphc.driver.cache_key import cache_folder, default_cache, source_stamp
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.driver.statistics import precompute
from graphc.ir.types import DType
from graphc.learn.step import compile_training_step
from graphc.support.diagnostics import GraphcError

pytestmark = pytest.mark.llvm

NETWORK = "x = Input(3)\nW = Parameter(2, 3)\nz = Tanh(Times(W, x), tag=output)\n"
TRAINED = NETWORK + "t = Input(2)\nc = SquareError(t, z, tag=criterion)\n"
X = np.random.default_rng(5).standard_normal((7, 3)).astype(np.float32)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    # Sources that were edited a moment ago would switch it off.
    monkeypatch.setattr(cache_key, "SOURCES", "0123456789abcdef")
    monkeypatch.setattr(cache_key, "source_stamp", lambda: "0123456789abcdef")
    return Cache(tmp_path / "cache")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every function that is compiled and not found."""
    made: list[str] = []
    real = runtime.make_code

    def make_code(function: Any, signature: Any, *given: Any, **more: Any) -> bytes:
        made.append(function.name)
        return real(function, signature, *given, **more)

    monkeypatch.setattr(runtime, "make_code", make_code)
    return made


def run(cache: Cache, text: str = NETWORK, **options: Any) -> Any:
    network = gc.loads(text)
    chosen = CompileOptions(cache=cache, **options)
    return bind(network.model, lambda m, o: evaluation_passes(m, ["z"], (), o), chosen)


def test_the_second_time_nothing_is_compiled_and_the_bits_are_the_same(
    cache: Cache, compiled: list[str]
) -> None:
    first, second = run(cache)(x=X)["z"], run(cache)(x=X)["z"]
    assert len(compiled) == 1
    np.testing.assert_array_equal(first, second)


def test_a_training_step_that_was_found_trains_like_the_one_that_was_compiled(
    cache: Cache, compiled: list[str]
) -> None:
    losses = []
    for _ in range(2):
        network = gc.loads(TRAINED)
        options = CompileOptions(cache=cache, batch=8)
        step = compile_training_step(network.model, gc.SGD(0.1, momentum=0.9), options)
        losses.append([float(step(x=X, t=X[:, :2])["c"]) for _ in range(5)])
        losses[-1] += network.parameters["W"].ravel().tolist()
    assert len(compiled) == 1
    assert losses[0] == losses[1]


class Twice:
    """One of two members that have the same samples."""

    rank, size = 0, 2

    def all_reduce(self, array: np.ndarray) -> None:
        array *= 2


def test_the_step_of_a_member_is_found_with_what_its_callers_may_give(cache: Cache) -> None:
    """The operations are the same with and without the tag; class numbers were refused."""
    labels = np.arange(7) % 2
    for text in (TRAINED, TRAINED.replace("Input(2)", "Input(2, tag=label)")):
        model, options = gc.loads(text).model, CompileOptions(cache=cache, batch=8)
        step = compile_training_step(model, gc.SGD(0.1), options, communicator=Twice())
        step(x=X, t=np.eye(2)[labels])
        if "label" in text:
            step(x=X, t=labels)
            continue
        with pytest.raises(GraphcError, match="input t requires shape"):
            step(x=X, t=labels)


def test_sequences_and_sparse_inputs_are_bound_as_before(cache: Cache, compiled: list[str]) -> None:
    text = "x = SparseInput(5)\nW = Parameter(2, 5)\nh = Tanh(Plus(Times(W, x), p))\n"
    text += "p = PastValue(2, 1, h)\nz = Scale(Constant(2), h, tag=output)\n"
    data = (np.array([1, 3, 2], np.int32), np.array([0, 2, 3]))
    results = [run(cache, text, time=4)(x=[data])["z"] for _ in range(2)]
    assert len(compiled) == 1
    np.testing.assert_array_equal(results[0][0], results[1][0])


def test_a_call_beyond_the_bound_finds_what_was_compiled_for_it(
    cache: Cache, compiled: list[str]
) -> None:
    for _ in range(2):
        run(cache, batch=4)(x=X)
    assert len(compiled) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"text": NETWORK.replace("Tanh", "Sigmoid")},
        {"text": NETWORK.replace("z =", "y = Sigmoid(x)\nz =")},
        {"batch": 100},
        {"precision": DType.F64},
        {"contraction": "off"},
    ],
    ids=["operation", "another node", "bound", "precision", "contraction"],
)
def test_each_part_of_the_request_makes_another_key(
    cache: Cache, compiled: list[str], change: dict[str, Any]
) -> None:
    run(cache)
    run(cache, **change)
    assert len(compiled) == 2


def test_options_that_change_no_code_are_not_part_of_the_key() -> None:
    plain = CompileOptions()
    assert (
        CompileOptions(cache=Cache(Path("x")), verify=True, threads=3).deciding()
        == plain.deciding()
    )
    assert CompileOptions(time=3).deciding() != plain.deciding()


def test_statistics_are_computed_with_the_options_that_were_given(cache: Cache) -> None:
    model = gc.loads("x = Input(3)\nm = Mean(x)\nz = Minus(x, m, tag=output)\n").model
    precompute(model, {"x": X}, CompileOptions(cache=cache, contraction="off", batch=8))
    (kept,) = cache.entries()
    assert kept.entry is not None
    options = kept.entry.key.parts["options"].splitlines()
    assert "contraction = off" in options
    assert "batch = 8" not in options


def test_the_settings_of_a_learner_are_part_of_the_key(cache: Cache, compiled: list[str]) -> None:
    for learner in (gc.SGD(0.1), gc.SGD(0.2), gc.SGD(0.1, l2=0.5)):
        model = gc.loads(TRAINED).model
        compile_training_step(model, learner, CompileOptions(cache=cache))
    assert len(compiled) == 2  # a rate is given at every call, l2 is compiled in


def other_processor(patch: pytest.MonkeyPatch) -> None:
    changed = replace(target.host_target(), cpu="x86-64-v3", features="+avx2")
    patch.setattr("graphc.backends.llvm.target.host_target", lambda: changed)


def other_llvm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphc.backends.llvm.engine.version", lambda: "llvmlite 9, LLVM 99")


def other_sources(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cache_key, "SOURCES", "f" * 16)


def other_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cache_key, "VERSION", "9.9.9")


def other_numpy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(np, "__version__", "9.9")


@pytest.mark.parametrize(
    "change", [other_processor, other_llvm, other_sources, other_version, other_numpy]
)
def test_each_part_of_the_surroundings_makes_another_key(
    cache: Cache, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    run(cache)
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        patch.setattr(runtime, "make_code", _refuse)
        with pytest.raises(RuntimeError, match="compiled"):
            run(cache)
    run(cache)


def _refuse(*_: object, **__: object) -> bytes:
    raise RuntimeError("compiled")


def test_an_entry_that_was_damaged_is_compiled_again(cache: Cache, compiled: list[str]) -> None:
    expected = run(cache)(x=X)["z"]
    (path,) = cache.folder.glob("*.entry")
    path.write_bytes(path.read_bytes()[:-10])
    np.testing.assert_array_equal(run(cache)(x=X)["z"], expected)
    run(cache)
    assert len(compiled) == 2


def test_code_of_sources_that_have_changed_meanwhile_is_not_kept(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_key, "source_stamp", lambda: "f" * 16)
    run(cache)
    assert cache.entries() == []


def test_sources_that_have_just_changed_switch_the_cache_off(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_key, "SOURCES", None)
    run(cache)
    assert cache.entries() == []


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two source files that were written long ago."""
    (tmp_path / "sub").mkdir()
    for name in ("a.py", "sub/b.py"):
        (tmp_path / name).write_text("x = 1\n")
        cache_key.os.utime(tmp_path / name, (1000, 1000))
    monkeypatch.setattr(cache_key, "PACKAGE", tmp_path)
    return tmp_path


def test_the_stamp_changes_with_size_time_and_names_of_sources(package: Path) -> None:
    found = {source_stamp()}
    cache_key.os.utime(package / "sub/b.py", (1001, 1001))
    found.add(source_stamp())
    (package / "a.py").write_text("x = 11\n")
    cache_key.os.utime(package / "a.py", (1000, 1000))
    found.add(source_stamp())
    (package / "a.py").rename(package / "c.py")
    found.add(source_stamp())
    assert len(found) == 4
    assert None not in found


def test_other_files_do_not_change_the_stamp(package: Path) -> None:
    before = source_stamp()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.py").write_text("")
    (package / "notes.txt").write_text("")
    assert source_stamp() == before


def test_a_source_that_is_young_has_no_stamp(package: Path) -> None:
    (package / "a.py").write_text("x = 2\n")
    assert source_stamp() is None


def test_without_source_files_there_is_no_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_key, "PACKAGE", tmp_path / "in.zip" / "graphc")
    assert source_stamp() is None


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"GRAPHC_CACHE_DIR": "/data/cache", "XDG_CACHE_HOME": "/xdg"}, "/data/cache"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/graphc"),
        ({"XDG_CACHE_HOME": "relative"}, "HOME/.cache/graphc"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/graphc"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "relative"}, "/xdg/graphc"),
        ({}, "HOME/.cache/graphc"),
    ],
)
def test_the_environment_says_where_the_cache_is(
    environment: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("HOME").absolute())
    expected = Path(folder.replace("HOME", str(Path("HOME").absolute())))
    assert cache_folder(environment) == expected
    assert default_cache(environment) == Cache(expected)


def test_the_environment_can_switch_it_off() -> None:
    assert default_cache({"GRAPHC_CACHE": "off"}) is None


def test_another_value_of_the_switch_is_an_error() -> None:
    with pytest.raises(GraphcError, match="GRAPHC_CACHE requires on or off, got `maybe`"):
        default_cache({"GRAPHC_CACHE": "maybe"})


@pytest.mark.parametrize("home", ["relative", ".", "", "~"])
def test_a_home_that_is_no_absolute_path_is_none(home: str) -> None:
    assert cache_folder({"HOME": home}) is None
    assert cache_folder({"HOME": home, "XDG_CACHE_HOME": "relative"}) is None
    assert default_cache({"HOME": home}) is None


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    assert default_cache({}) is None
