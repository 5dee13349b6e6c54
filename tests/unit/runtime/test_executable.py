"""What `Executable` accepts, converts, refuses and gives back: at its first call, and at a later
one, for which it has prepared itself by the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.executable import Executable
from graphc.runtime.signature import Argument, Dimension, Result, Signature
from graphc.support.diagnostics import GraphcError
from tests.support.called import Called

Array = np.ndarray
ROWS = 3


def signature(bound: int = 4) -> Signature:
    return Signature(
        "step",
        (Dimension("N", bound),),
        (
            Argument("features", "f32", ("N", ROWS), "input"),
            Argument("labels", "f32", ("N", 1), "input"),
            Argument("W", "f32", (1, ROWS), "parameter"),
            Argument("velocity", "f32", (1, ROWS), "state"),
            Argument("rate", "f32", (1, 1), "hyperparameter"),
        ),
        (
            Result("z", "f32", ("N", ROWS)),
            Result("total", "f32", (1, 1)),
            Result("gradient.W", "f32", (1, ROWS)),
            Result("W.new", "f32", (1, ROWS), "W"),
            Result("velocity.new", "f32", (1, ROWS), "velocity"),
        ),
        0,
    )


class Recorded(CompiledFunction):
    """Stands for a compiled function: z = features, total = N; adds the rate to what it updates."""

    def __init__(self) -> None:
        self.arguments: list[Array] = []

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        self.arguments = list(arguments)
        features, _, weights, velocity, rate = arguments
        results[0][...] = features
        results[1][...] = sizes["N"]
        results[2][...] = 7
        weights += rate
        velocity += 2 * rate


FEATURES = np.arange(6, dtype=np.float32).reshape(2, 3)
LABELS = np.ones((2, 1), np.float32)


SETUP = {"called before": False}


@pytest.fixture(autouse=True, params=[False, True], ids=["first call", "later call"])
def called_before(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETUP, "called before", request.param)


def make(**changes: object) -> tuple[Executable, Recorded, dict[str, Array]]:
    store = {"W": np.zeros((1, ROWS), np.float32)}
    recorded = Recorded()
    executable = Executable(recorded, signature(), store, **changes)  # type: ignore[arg-type]
    if SETUP["called before"]:
        run(executable, rate=0.0)
    return executable, recorded, store


def run(executable: Executable, rate: float = 0.5, **inputs: object) -> Mapping[str, Array]:
    return executable.run({"features": FEATURES, "labels": LABELS, **inputs}, {"rate": rate})


def test_results_come_by_name_with_one_row_per_sample() -> None:
    results = run(make()[0])
    np.testing.assert_array_equal(results["z"], FEATURES)
    assert list(results) == ["z", "total", "gradient.W"]


def test_a_result_of_one_element_is_a_number() -> None:
    total = run(make()[0])["total"]
    assert isinstance(total, np.float32)
    assert total == 2


def test_gradients_are_found_by_the_parameter_s_name() -> None:
    results = make()[0].run({"features": FEATURES, "labels": LABELS}, {"rate": 0})
    assert results.gradients["W"].tolist() == [[7, 7, 7]]


def test_every_call_gives_arrays_of_its_own() -> None:
    executable = make()[0]
    assert run(executable)["z"] is not run(executable)["z"]


def test_a_fitting_array_is_used_where_it_is() -> None:
    executable, recorded, _ = make()
    run(executable)
    assert recorded.arguments[0] is FEATURES


@pytest.mark.parametrize(
    "array",
    [
        FEATURES.astype(np.float64),
        FEATURES.astype(np.float16),
        FEATURES.astype(np.int64),
        FEATURES.astype(">f4"),
        FEATURES.tolist(),
        np.asfortranarray(FEATURES),
        np.repeat(FEATURES, 2, axis=0)[::2],
        FEATURES[::-1][::-1],
    ],
    ids=["f64", "f16", "i64", "big endian", "lists", "Fortran order", "strided", "reversed twice"],
)
def test_other_numbers_and_layouts_are_converted(array: object) -> None:
    executable, recorded, _ = make()
    np.testing.assert_array_equal(run(executable, features=array)["z"], FEATURES)
    assert recorded.arguments[0].dtype == np.float32
    assert recorded.arguments[0].flags.c_contiguous


def test_truth_values_are_numbers() -> None:
    got = run(make()[0], features=FEATURES > 2)["z"]
    assert got.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_a_double_too_large_for_f32_is_infinite_without_a_warning() -> None:
    got = run(make()[0], features=np.full((2, 3), 1e300))["z"]
    assert np.all(np.isinf(got))


def test_nan_is_a_number_like_any_other() -> None:
    assert np.isnan(run(make()[0], features=np.full((2, 3), np.nan))["z"]).all()


def test_names_of_inputs_do_not_distinguish_case() -> None:
    results = make()[0].run({"FEATURES": FEATURES, "Labels": LABELS}, {"rate": 0})
    assert results["total"] == 2


class SparseMatrix:
    """What tells a matrix of scipy from an array."""

    def tocsr(self) -> object:
        return self


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"features": np.zeros(3, np.float32)}, r"for one sample x pass x\[None, :\]"),
    ({"features": np.zeros((2, 4), np.float32)}, r"requires shape \(N, 3\).*got shape \(2, 4\)"),
    ({"features": np.zeros((3, 2), np.float32)}, "perhaps x.T"),
    ({"features": np.zeros((1, 2, 3), np.float32)}, r"got shape \(1, 2, 3\); .* give time="),
    ({"features": [np.zeros((1, 3)), np.zeros((2, 3))]}, "got no array: .* give time="),
    ({"labels": np.zeros((3, 1), np.float32)}, "N is 2 in another input"),
    ({"features": np.array([["a", "b", "c"]] * 2)}, "got elements of <U1"),
    ({"features": np.zeros((2, 3), object)}, "got elements of object"),
    ({"features": np.zeros((2, 3), complex)}, "got elements of complex128"),
    ({"features": [[1, 2, 3], [4]]}, "got no array"),
    ({"features": SparseMatrix()}, r"got a sparse matrix: give its toarray\(\), or declare"),
    ({"featurs": FEATURES}, "did you mean `features`"),
    ({"Features": FEATURES}, "given twice"),
]


@pytest.mark.parametrize(("inputs", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_an_input_that_does_not_fit_is_refused(inputs: dict[str, object], message: str) -> None:
    with pytest.raises(GraphcError, match=message) as caught:
        run(make()[0], **inputs)
    assert [d.slug for d in caught.value.diagnostics] == ["input"]


def test_a_missing_input_is_named() -> None:
    with pytest.raises(GraphcError, match="labels missing"):
        make()[0](features=FEATURES)


def test_a_bad_call_changes_nothing() -> None:
    executable, _, store = make()
    with pytest.raises(GraphcError):
        executable.run({"features": FEATURES, "labels": LABELS}, {})
    assert not store["W"].any()


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(GraphcError, match="did you mean `rate`"):
        make()[0].run({"features": FEATURES, "labels": LABELS}, {"rat": 1.0})


def test_a_setting_of_whole_numbers_is_exact_and_takes_no_other() -> None:
    count = Argument("step", "i64", (1, 1), "hyperparameter")
    seen: list[int] = []
    executable = Executable(
        Called(lambda arguments, _results, _sizes: seen.append(int(arguments[0][0, 0]))),
        Signature("f", (), (count,), (), 0),
        {},
    )
    executable.run({}, {"step": 2**62 + 1})
    assert seen == [2**62 + 1]
    with pytest.raises(GraphcError, match="hyperparameter step requires a whole number"):
        executable.run({}, {"step": 0.5})


def test_settings_may_depend_on_the_number_of_samples() -> None:
    executable, _, store = make()
    executable.run({"features": FEATURES, "labels": LABELS}, lambda n: {"rate": n / 8})
    assert store["W"].tolist() == [[0.25] * 3]


def test_parameters_are_updated_in_the_store_and_state_is_kept() -> None:
    executable, _, store = make()
    run(executable)
    run(executable)
    assert store["W"].tolist() == [[1.0] * 3]
    assert executable.learner_state["velocity"].tolist() == [[2.0] * 3]


def test_a_parameter_put_into_the_store_later_is_seen() -> None:
    executable, recorded, store = make()
    store["W"] = np.full((1, ROWS), 9, np.float32)
    run(executable)
    assert recorded.arguments[2] is store["W"]


@pytest.mark.parametrize(
    "weights",
    [
        np.zeros((1, 3), np.float64),
        np.zeros((1, 6), np.float32)[:, ::2],
        np.frombuffer(bytes(12), np.float32).reshape(1, 3),
    ],
    ids=["f64", "strided", "read-only"],
)
def test_a_parameter_that_updates_could_not_reach_is_refused(weights: Array) -> None:
    with pytest.raises(GraphcError, match="updated in place"):
        Executable(Recorded(), signature(), {"W": weights})


@pytest.mark.parametrize("store", [{}, {"W": np.zeros((3, 1), np.float32)}], ids=["none", "shape"])
def test_a_missing_or_misshapen_parameter_is_refused(store: dict[str, Array]) -> None:
    with pytest.raises(GraphcError, match="W"):
        Executable(Recorded(), signature(), store)


def test_more_samples_than_the_bound_are_refused() -> None:
    with pytest.raises(GraphcError, match=r"at most 4 samples \(N\) in a call, got 5"):
        run(make()[0], features=np.zeros((5, 3)), labels=np.zeros((5, 1)))


def test_more_samples_than_the_bound_compile_for_the_next_power_of_two() -> None:
    asked: list[dict[str, int]] = []

    def recompile(bounds: Mapping[str, int]) -> tuple[Recorded, Signature]:
        asked.append(dict(bounds))
        return Recorded(), signature(bounds["N"])

    executable, _, _ = make(recompile=recompile)
    for samples in (9, 16, 3):
        results = run(executable, features=np.zeros((samples, 3)), labels=np.zeros((samples, 1)))
        assert results["total"] == samples
    assert asked == [{"N": 16}]
