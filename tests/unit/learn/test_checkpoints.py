"""Checkpoints: a training that goes on is the training that was never interrupted, bit for bit."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.learn.checkpoints import CheckpointSeries
from graphc.model.container import read_container, write_container
from graphc.support.files import SYSTEM_CALLS, FileCalls
from tests.support.networks import classes, classifier
from tests.support.training import Blocks, SequenceBlocks, untimed, values

Array = np.ndarray
Options = Mapping[str, object]
SAMPLES = 40


@dataclass(frozen=True)
class Case:
    """A training: what is made anew for each run of it, and its options."""

    options: Callable[[], dict[str, object]] = dict
    network: Callable[[], gc.Network] = classifier
    data: Callable[[], object] = lambda: classes(SAMPLES)
    backends: tuple[str, ...] = ("numpy", "llvm")

    def train(self, backend: str, **more: object) -> tuple[list[gc.EpochRecord], gc.Network]:
        net = self.network()
        given: dict[str, object] = {"epochs": 3, "minibatch": 8, "seed": 5, "backend": backend}
        given |= self.options() | more
        if "learner" not in given and "learning_rate_per_sample" not in given:
            given.setdefault("learning_rate", 0.5)
        return gc.train(net, self.data(), **given), net  # type: ignore[arg-type]


def loaded(text: str) -> Callable[[], gc.Network]:
    def load() -> gc.Network:
        net = gc.loads(text, seed=2)
        assert isinstance(net, gc.Network)
        return net

    return load


DROPOUT = """
    features = Input(6)
    labels = Input(3, tag=label)
    h = Dropout(Sigmoid(Times(Parameter(7, 6), features)))
    ce = CrossEntropyWithSoftmax(labels, Times(Parameter(3, 7), h), tag=criteria)
"""
NORMALISED = """
    features = Input(6)
    labels = Input(3, tag=label)
    n = PerDimMeanVarNormalization(features, Mean(features), InvStdDev(features))
    s = Parameter(6, 1, init=fixedValue, value=1)
    b = Parameter(6, 1, init=fixedValue, value=0)
    m = Parameter(6, 1, init=fixedValue, value=0, needGradient=false)
    v = Parameter(6, 1, init=fixedValue, value=0, needGradient=false)
    h = BatchNormalization(n, s, b, m, v)
    ce = CrossEntropyWithSoftmax(labels, Times(Parameter(3, 6), h), tag=criteria)
"""
RECURRENT = """
    x = Input(3)
    y = Input(2, tag=label)
    h = PastValue(4, 1, s)
    s = Tanh(Plus(Times(Parameter(4, 3), x), Times(Parameter(4, 4), h)))
    ce = CrossEntropyWithSoftmax(y, Times(Parameter(2, 4), s), tag=criteria)
"""
SPARSE = """
    words = SparseInput(20)
    labels = Input(3, tag=label)
    ce = CrossEntropyWithSoftmax(labels, Times(Parameter(3, 20), words), tag=criteria)
"""
SOFT = """
    features = Input(6)
    labels = Input(3, tag=label)
    z = Times(Parameter(3, 6), features)
    p = Softmax(z)
    ce = CrossEntropyWithSoftmax(labels, z, tag=criteria)
    err = ErrorPrediction(labels, z, tag=eval)
"""


def sequences() -> dict[str, list[Array]]:
    rng = np.random.default_rng(3)
    lengths = [7, 3, 12, 5, 9, 1, 4]
    return {
        "x": [rng.standard_normal((n, 3)) for n in lengths],
        "y": [np.eye(2)[rng.integers(0, 2, n)] for n in lengths],
    }


COLUMNS = {"features": gc.readers.Column(6), "labels": gc.readers.Column(3)}


def sample_rows() -> Iterator[dict[str, Array]]:
    data = classes(SAMPLES)
    for start in range(0, SAMPLES, 7):
        yield {name: array[start : start + 7] for name, array in data.items()}


def words() -> dict[str, object]:
    rng = np.random.default_rng(3)
    offsets = np.arange(SAMPLES + 1) * 3
    rows = (rng.integers(0, 20, 3 * SAMPLES), offsets)
    return {"words": rows, "labels": np.eye(3)[rng.integers(0, 3, SAMPLES)]}


def heavy_ball() -> object:
    """A learner whose function is another object each time, as in another process."""

    def step(
        gradient: Any, parameter: Any, state: Any, settings: Any
    ) -> tuple[Any, dict[str, Any]]:
        velocity = settings["friction"] * state["velocity"] - settings["learning_rate"] * gradient
        return parameter + velocity, {"velocity": velocity}

    return gc.learner(step, states=("velocity",), settings={"friction": 0.9}, learning_rate=0.1)


def sgd(**more: object) -> Callable[[], dict[str, object]]:
    return lambda: {"learning_rate": 0.5, "momentum": 0.9, **more}


CASES: dict[str, Case] = {
    "momentum": Case(sgd(l2=0.01)),
    "schedules": Case(lambda: {"learning_rate": "0.5:0.2:0.1", "minibatch": "8:16"}),
    "f64": Case(sgd(precision="f64")),
    "in order": Case(sgd(shuffle=False)),
    "adam": Case(
        lambda: {
            "learner": gc.AdamW(
                gc.Warmup(7, gc.Cosine(0.01, 40)), clip=gc.ClipGlobalNorm(1.0), noise=0.01
            )
        }
    ),
    "adagrad": Case(lambda: {"learner": gc.AdaGrad("0.1:0.05", l1=0.001)}),
    "rmsprop": Case(lambda: {"learner": gc.RmsProp(0.01)}),
    "adam, undone": Case(
        lambda: {
            "learner": gc.Adam(0.5),
            "control": gc.AdjustAfterEpoch(decrease=0.3),
            "epochs": 5,
        }
    ),
    "stepping": Case(lambda: {"learner": gc.SteppingHeuristic(0.1)}),
    "of one's own": Case(lambda: {"learner": heavy_ball()}),
    "windows": Case(sgd(epoch_size=24, epochs=5)),
    "threads": Case(sgd(threads=3), backends=("llvm",)),
    "dropout": Case(sgd(dropout="0.5:0.3"), loaded(DROPOUT)),
    "statistics": Case(sgd(), loaded(NORMALISED)),
    "sequences": Case(sgd(minibatch=2), loaded(RECURRENT), sequences),
    "truncated": Case(sgd(minibatch=3, truncate=2), loaded(RECURRENT), sequences),
    "truncated, in one": Case(sgd(minibatch=7, truncate=2), loaded(RECURRENT), sequences),
    "truncated windows": Case(
        sgd(minibatch=2, truncate=3, epoch_size=3, epochs=5), loaded(RECURRENT), sequences
    ),
    "sparse": Case(sgd(), loaded(SPARSE), words),
    "validation": Case(
        lambda: {
            "validation": classes(9, seed=8),
            "control": [gc.KeepBest(), gc.EarlyStopping(patience=2)],
            "learning_rate": "1:40",
            "epochs": 8,
        }
    ),
    "adjusted": Case(
        lambda: {
            "learning_rate": 2.0,
            "momentum": 0.9,
            "epochs": 6,
            "control": gc.AdjustAfterEpoch(decrease=0.3, increase_if_improves_more_than=0.2),
        }
    ),
    "reducing": Case(
        lambda: {
            "learning_rate": 2.0,
            "epochs": 6,
            "control": gc.AdjustAfterEpoch(continue_reducing=True, interval=2),
        }
    ),
    "searched": Case(sgd(control=gc.SearchBeforeEpoch(minibatches=2, listed=0))),
    "sizes": Case(
        lambda: {
            "learning_rate_per_sample": 0.01,
            "minibatch": 64,
            "control": gc.AdaptiveMinibatch(minibatches=1, margin=20),
        },
        data=lambda: classes(300),
    ),
    "adapted": Case(lambda: {"adaptation": gc.Adaptation("p", 0.4)}, loaded(SOFT)),
    "reader": Case(sgd(), data=lambda: Blocks(classes(SAMPLES))),
    "reader of unknown size": Case(sgd(), data=lambda: Blocks(classes(SAMPLES), knows=False)),
    "library reader": Case(
        sgd(epoch_size=24, epochs=4), data=lambda: gc.readers.from_arrays(classes(SAMPLES))
    ),
    "reader with statistics": Case(
        sgd(), loaded(NORMALISED), lambda: gc.readers.from_iterable(COLUMNS, sample_rows)
    ),
    "reader of sequences": Case(
        sgd(minibatch=3, truncate=2, epoch_size=5, epochs=4),
        loaded(RECURRENT),
        lambda: SequenceBlocks(sequences()),
    ),
    "reader windows": Case(sgd(epoch_size=24, epochs=4), data=lambda: Blocks(classes(SAMPLES))),
}


RUNS = [
    pytest.param(
        case, backend, id=f"{name}-{backend}", marks=[pytest.mark.llvm] if backend == "llvm" else []
    )
    for name, case in CASES.items()
    for backend in case.backends
]


@dataclass
class Kept:
    """Files of one's own: every checkpoint in a list."""

    found: list[gc.Checkpoint] = field(default_factory=list[gc.Checkpoint])

    def newest(self) -> gc.Checkpoint | None:
        return self.found[-1] if self.found else None

    def write(self, checkpoint: gc.Checkpoint) -> None:
        self.found.append(checkpoint)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same few networks are compiled again and again here."""
    monkeypatch.setenv("GRAPHC_CACHE", "on")
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "compiled"))


def stopping(after: int) -> gc.Progress:
    """Asks for a stop after so many minibatches."""
    seen: list[int] = []
    return gc.Progress(
        minibatch=lambda done, _: seen.append(done), should_stop=lambda: len(seen) >= after
    )


@pytest.mark.parametrize(("case", "backend"), RUNS)
def test_a_training_that_goes_on_is_one_that_was_not_interrupted(
    case: Case, backend: str, tmp_path: Path
) -> None:
    """Stopped again and again, each time a minibatch or some later than the time before."""
    expected, reference = case.train(backend)
    path = tmp_path / "run"
    stops = 0
    for after in (1, 2, 1, 3, 5, 1, 8, 13, 2, 10**9):
        checkpoints = gc.Checkpoints(path, resume=stops > 0)
        records, net = case.train(backend, checkpoints=checkpoints, progress=stopping(after))
        stops += 1
        found = gc.read_checkpoint(path)
        if found.standing.finished or found.standing.epoch == len(expected):
            break
    assert stops > 1, "nothing was interrupted"
    assert untimed(records) == untimed(expected)
    assert values(net) == values(reference)
    assert list(gc.read_checkpoint(path).records) == records


@pytest.mark.parametrize("name", ["momentum", "dropout", "truncated", "adjusted", "stepping"])
def test_every_place_to_stop_is_one_to_go_on_from(name: str) -> None:
    case = CASES[name]
    parts: list[int] = []
    expected, reference = case.train(
        "numpy", progress=gc.Progress(minibatch=lambda done, _: parts.append(done))
    )
    for after in range(1, len(parts) + 1):
        files = Kept()
        case.train("numpy", checkpoints=gc.Checkpoints(files), progress=stopping(after))
        records, net = case.train("numpy", checkpoints=gc.Checkpoints(files, resume=True))
        assert untimed(records) == untimed(expected), after
        assert values(net) == values(reference), after


def test_a_training_may_go_on_for_longer_than_was_planned(tmp_path: Path) -> None:
    case = CASES["momentum"]
    expected, reference = case.train("numpy", epochs=5)
    case.train("numpy", epochs=2, checkpoints=gc.Checkpoints(tmp_path / "run"))
    going_on = gc.Checkpoints(tmp_path / "run", resume=True)
    records, net = case.train("numpy", epochs=5, checkpoints=going_on)
    assert untimed(records) == untimed(expected)
    assert values(net) == values(reference)


def test_a_finished_training_gives_its_records_and_parameters_again(tmp_path: Path) -> None:
    case = CASES["validation"]
    records, net = case.train("numpy", checkpoints=gc.Checkpoints(tmp_path / "run"))
    told: list[object] = []
    again, other = case.train(
        "numpy",
        checkpoints=gc.Checkpoints(tmp_path / "run", resume=True),
        progress=gc.Progress(epoch=told.append),
    )
    assert again == records and values(other) == values(net) and told == []


def test_checkpoints_change_no_bit_of_the_training(tmp_path: Path) -> None:
    case = CASES["dropout"]
    _, reference = case.train("numpy")
    _, net = case.train("numpy", checkpoints=gc.Checkpoints(tmp_path / "run", minutes=0))
    assert values(net) == values(reference)


def test_statistics_are_not_computed_again(tmp_path: Path) -> None:
    """A reader that is asked for all data would be seen."""
    source = Blocks(classes(SAMPLES))
    case = replace(CASES["statistics"], data=lambda: source)
    path = tmp_path / "run"
    case.train("numpy", checkpoints=gc.Checkpoints(path), progress=stopping(2))
    source.asked.clear()
    _, net = case.train("numpy", epochs=1, checkpoints=gc.Checkpoints(path, resume=True))
    assert [(r.epoch, r.skip) for r in source.asked] == [(0, 16)]
    fresh = case.network()
    fresh.precompute(**classes(SAMPLES))
    exact = [gc.compile(n, "n", precision="f64", backend="numpy") for n in (net, fresh)]
    data = classes(3)["features"]
    assert (exact[0](features=data)["n"] == exact[1](features=data)["n"]).all()


# --- when they are written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({}, [(1, 0), (2, 0), (3, 0)]),
        ({"every_epoch": False}, [(3, 0)]),
        ({"every_epoch": False, "minutes": 60}, [(3, 0)]),
        ({"minutes": 0}, [(e, u) for e in range(3) for u in (8, 16, 24, 32, 0)][:15]),
    ],
)
def test_checkpoints_are_written_after_epochs_and_minutes(
    options: dict[str, object], places: list[tuple[int, int]]
) -> None:
    files = Kept()
    CASES["momentum"].train("numpy", checkpoints=gc.Checkpoints(files, **options))  # type: ignore[arg-type]
    found = [(c.standing.epoch, c.standing.units) for c in files.found]
    if options.get("minutes") == 0:
        places = [(e + (u == 0), u) for e, u in places]
    assert found == places


def test_files_of_ones_own_are_gone_on_from() -> None:
    case, files = CASES["momentum"], Kept()
    expected, _ = case.train("numpy")
    case.train("numpy", checkpoints=gc.Checkpoints(files), progress=stopping(7))
    assert files.found[-1].standing.units == 16
    resumed, _ = case.train("numpy", checkpoints=gc.Checkpoints(files, resume=True))
    assert untimed(resumed) == untimed(expected)


# --- files ---------------------------------------------------------------------------------------


def test_a_checkpoint_is_a_model_with_the_parameters_reached(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    _, net = CASES["statistics"].train("numpy", checkpoints=gc.Checkpoints(path))
    found = gc.load(path)
    assert isinstance(found, gc.Network)
    assert values(found) == values(net)


def test_the_checkpoints_before_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "run"
    CASES["momentum"].train("numpy", epochs=5, checkpoints=gc.Checkpoints(path, keep=3))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run.1", "run.2"]
    epochs = [gc.read_checkpoint(p).standing.epoch for p in sorted(tmp_path.iterdir())]
    assert epochs == [5, 4, 3]


def test_a_damaged_checkpoint_is_told_and_the_one_before_goes_on(tmp_path: Path) -> None:
    case, path = CASES["momentum"], tmp_path / "run"
    expected, reference = case.train("numpy", epochs=4)
    case.train("numpy", checkpoints=gc.Checkpoints(path))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    going_on = gc.Checkpoints(path, resume=True)
    with pytest.warns(gc.GraphcWarning, match="is damaged"):
        records, net = case.train("numpy", epochs=4, checkpoints=going_on)
    assert untimed(records) == untimed(expected) and values(net) == values(reference)
    for found in (path, tmp_path / "run.1"):
        found.write_bytes(b"nothing of the kind")
    with pytest.raises(gc.GraphcError, match="run: "):
        case.train("numpy", checkpoints=going_on)


def test_a_checkpoint_is_not_replaced_by_a_training_that_does_not_go_on(tmp_path: Path) -> None:
    case, path = CASES["momentum"], tmp_path / "run"
    case.train("numpy", checkpoints=gc.Checkpoints(path))
    before = path.read_bytes()
    with pytest.raises(gc.GraphcError, match=r"would replace(.|\n)*--resume"):
        case.train("numpy", checkpoints=gc.Checkpoints(path))
    path.rename(tmp_path / "run.1")  # as a crash between two renames leaves it
    with pytest.raises(gc.GraphcError, match="would replace"):
        case.train("numpy", checkpoints=gc.Checkpoints(path))
    assert (tmp_path / "run.1").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"learning_rate": 0.4}, "learner"),
        ({"minibatch": 4}, "minibatch"),
        ({"seed": 6}, "seed"),
        ({"precision": "f64"}, "precision"),
        ({"epoch_size": 8}, "epoch_size"),
        ({"control": gc.KeepBest()}, "control"),
        ({"shuffle": False}, "shuffle"),
    ],
)
def test_another_training_does_not_go_on(
    change: dict[str, object], said: str, tmp_path: Path
) -> None:
    case, path = CASES["momentum"], tmp_path / "run"
    case.train("numpy", checkpoints=gc.Checkpoints(path))
    before = path.read_bytes()
    with pytest.raises(gc.GraphcError, match=f"requires the same training.*{said}"):
        case.train("numpy", checkpoints=gc.Checkpoints(path, resume=True), **change)
    assert path.read_bytes() == before


def test_other_data_and_other_networks_do_not_go_on(tmp_path: Path) -> None:
    case, path = CASES["momentum"], tmp_path / "run"
    case.train("numpy", checkpoints=gc.Checkpoints(path))
    going_on = gc.Checkpoints(path, resume=True)
    other = classes(SAMPLES)
    other["features"][3, 2] += 1
    with pytest.raises(gc.GraphcError, match="data features"):
        replace(case, data=lambda: other).train("numpy", checkpoints=going_on)
    with pytest.raises(gc.GraphcError, match="data labels"):
        replace(case, data=lambda: classes(SAMPLES + 1)).train("numpy", checkpoints=going_on)
    with pytest.raises(gc.GraphcError, match="other is: network"):
        replace(case, network=lambda: classifier(hidden=4)).train("numpy", checkpoints=going_on)


def test_a_reader_says_which_data_it_has(tmp_path: Path) -> None:
    @dataclass
    class Named(Blocks):
        name: str = "one"

        def fingerprint(self) -> str:
            return self.name

    case, path = CASES["reader"], tmp_path / "run"
    data = classes(SAMPLES)
    replace(case, data=lambda: Named(data)).train("numpy", checkpoints=gc.Checkpoints(path))
    going_on = gc.Checkpoints(path, resume=True)
    replace(case, data=lambda: Named(data)).train("numpy", checkpoints=going_on)
    with pytest.raises(gc.GraphcError, match="data reader"):
        replace(case, data=lambda: Named(data, name="two")).train("numpy", checkpoints=going_on)


def test_a_model_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    _, net = CASES["momentum"].train("numpy")
    net.save(path)
    with pytest.raises(gc.GraphcError, match="a checkpoint is required"):
        gc.read_checkpoint(path)


def forge(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    """Change the numbers of a checkpoint as somebody would who also makes the hashes anew."""
    container = read_container(path)
    numbers = json.loads(container.metadata["training"])
    change(numbers)
    own = ("format", "format_version", "hashes", "header_hash")
    metadata = {n: t for n, t in container.metadata.items() if n not in own}
    write_container(path, container.tensors, {**metadata, "training": json.dumps(numbers)})


FORGERIES: dict[str, Callable[[dict[str, object]], None]] = {
    "version": lambda n: n.update(version=2),
    "no standing": lambda n: n.pop("standing") and None,  # type: ignore[func-returns-value]
    "list": lambda n: n.update(standing=[]),
    "text": lambda n: n["standing"].update(epoch="3"),  # type: ignore[attr-defined]
    "another field": lambda n: n["standing"].update(other=3),  # type: ignore[attr-defined]
    "columns": lambda n: n.update(columns=["epoch"]),
    "steps": lambda n: n.update(steps=-1),
    "memory": lambda n: n.update(memory=3),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_forged_checkpoints_are_clean_errors(
    change: Callable[[dict[str, object]], None], tmp_path: Path
) -> None:
    case, path = CASES["momentum"], tmp_path / "run"
    case.train("numpy", checkpoints=gc.Checkpoints(path, keep=1))
    forge(path, change)
    with pytest.raises(gc.GraphcError):
        case.train("numpy", checkpoints=gc.Checkpoints(path, keep=1, resume=True))


def test_arrays_of_another_size_are_refused(tmp_path: Path) -> None:
    case, path = CASES["momentum"], tmp_path / "run"
    case.train("numpy", checkpoints=gc.Checkpoints(path, keep=1))
    container = read_container(path)
    tensors = {**container.tensors, "@learner/velocity.W0": np.zeros((2, 2), np.float32)}
    own = ("format", "format_version", "hashes", "header_hash")
    write_container(path, tensors, {n: t for n, t in container.metadata.items() if n not in own})
    with pytest.raises(gc.GraphcError, match=r"velocity\.W0"):
        case.train("numpy", checkpoints=gc.Checkpoints(path, resume=True))


def test_a_learner_that_cannot_say_what_it_remembers_has_no_checkpoints(tmp_path: Path) -> None:
    class Forgetful(gc.SteppingHeuristic):
        memory = property()  # type: ignore[assignment]

    with pytest.raises(gc.GraphcError, match=r"requires an attribute `memory`"):
        CASES["stepping"].train(
            "numpy", learner=Forgetful(0.1), checkpoints=gc.Checkpoints(tmp_path / "run")
        )


@pytest.mark.parametrize(
    "wrong",
    [{"files": 3}, {"files": "x", "minutes": -1}, {"files": "x", "keep": 0}],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(gc.GraphcError):
        gc.Checkpoints(**wrong)  # type: ignore[arg-type]


# --- faults --------------------------------------------------------------------------------------


@dataclass
class Faulty:
    """System calls of which the n-th, from 0, fails."""

    fail_at: int
    number: int
    made: int = 0

    def calls(self) -> FileCalls:
        names = ("open", "write", "fchmod", "fsync", "replace")
        wrapped = {name: self._counted(getattr(SYSTEM_CALLS, name)) for name in names}
        return replace(SYSTEM_CALLS, **wrapped)  # type: ignore[arg-type]

    def _counted(self, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object) -> object:
            self.made += 1
            if self.made - 1 == self.fail_at:
                raise OSError(self.number, os.strerror(self.number))
            return call(*arguments)

        return counted


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_fault_at_any_call_leaves_a_checkpoint_to_go_on_from(number: int, tmp_path: Path) -> None:
    """Every call of the third write in turn: what was before it or it itself is found."""
    case, kept = CASES["momentum"], Kept()
    case.train("numpy", checkpoints=gc.Checkpoints(kept))
    first, second, third = kept.found
    for fail_at in range(100):
        folder = tmp_path / str(fail_at)
        folder.mkdir()
        series = CheckpointSeries(folder / "run")
        series.write(first)
        series.write(second)
        faulty = Faulty(fail_at, number)
        failing = replace(series, calls=faulty.calls())
        try:
            failing.write(third)
        except gc.GraphcError as error:
            assert error.diagnostics[0].slug == "file"
        else:
            assert faulty.made <= fail_at, "a fault was not seen"
            break
        found = series.newest()
        assert found is not None
        assert found.standing.epoch in (2, 3)
        assert {p.name for p in folder.iterdir()} <= {"run", "run.1"}
    else:
        raise AssertionError("more calls than expected")
    assert fail_at >= 7  # open, chmod, write, fsync, rename twice, the folder


@dataclass
class PowerCut:
    """What the disk holds if power is cut after each call: names and what is in them.

    A file's content counts once it is flushed, and so does a rename; until then either side of it
    may be on the disk.
    """

    folder: Path
    flushed: dict[str, bytes] = field(default_factory=dict[str, bytes])
    states: list[list[dict[str, bytes]]] = field(default_factory=list[list[dict[str, bytes]]])
    names: list[dict[str, bytes]] = field(default_factory=list[dict[str, bytes]])

    def calls(self) -> FileCalls:
        def fsync(descriptor: int) -> None:
            os.fsync(descriptor)
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                self.names = self.names[-1:]
            else:
                size = os.fstat(descriptor).st_size
                path = Path(f"/proc/self/fd/{descriptor}").readlink()
                self.flushed[path.name] = path.read_bytes()[:size]
            self.states.append(list(self.names))

        def rename(source: str, destination: str) -> None:
            Path(source).replace(destination)
            now = dict(self.names[-1])
            moved = now.pop(Path(source).name, self.flushed.get(Path(source).name, b"cut short"))
            now[Path(destination).name] = moved
            self.names.append(now)
            self.states.append(list(self.names))

        return replace(SYSTEM_CALLS, fsync=fsync, replace=rename)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("forgets_to_flush", [False, True])
def test_a_power_cut_at_any_call_leaves_a_checkpoint(
    forgets_to_flush: bool, tmp_path: Path
) -> None:
    """The model finds a writer that forgets to flush the file, and none with this one."""
    kept = Kept()
    CASES["momentum"].train("numpy", checkpoints=gc.Checkpoints(kept))
    first, second, third = kept.found
    series = CheckpointSeries(tmp_path / "run")
    series.write(first)
    series.write(second)
    names = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    cut = PowerCut(tmp_path, names=[names])
    calls = cut.calls()
    if forgets_to_flush:
        flush = calls.fsync
        calls = replace(
            calls,
            fsync=lambda d: flush(d) if stat.S_ISDIR(os.fstat(d).st_mode) else None,
        )
    replace(series, calls=calls).write(third)
    whole = {*names.values(), (tmp_path / "run").read_bytes()}
    damaged = [
        state
        for states in cut.states
        for state in states
        if not (found := [state[n] for n in ("run", "run.1") if n in state])
        or found[0] not in whole
    ]
    assert bool(damaged) == forgets_to_flush
    assert cut.states[-1] == [{p.name: p.read_bytes() for p in tmp_path.iterdir()}] or damaged


def test_a_checkpoint_keeps_the_mode_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(b"")
    path.chmod(0o600)
    kept = Kept()
    CASES["momentum"].train("numpy", epochs=1, checkpoints=gc.Checkpoints(kept))
    CheckpointSeries(path).write(kept.found[0])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
