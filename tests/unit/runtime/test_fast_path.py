"""Calls like the one before take the short way, with the same results, and only those do."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import graphc as gc
from tests.support.networks import classes, classifier

Array = np.ndarray


def f32(samples: int, seed: int = 0) -> dict[str, Array]:
    return {n: a.astype(np.float32) for n, a in classes(samples, seed=seed).items()}


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_calls_of_any_size_after_the_first_take_the_short_way(
    backend: str, thorough: Callable[[], int]
) -> None:
    net = classifier()
    z = gc.compile(net, ["z", "ce"], batch=16, backend=backend)
    expected = {}
    for samples in (16, 1, 0, 7):
        results = gc.compile(net, ["z", "ce"], batch=16, backend=backend)(**f32(samples))
        expected[samples] = results["z"].copy(), results["ce"]
    z(**f32(5))
    thorough()
    for samples, (values, loss) in expected.items():
        results = z(**f32(samples))
        np.testing.assert_array_equal(results["z"], values)
        assert results["ce"] == loss
        assert type(results["ce"]) is np.float32
    assert thorough() == 0


def test_results_of_a_call_are_its_own() -> None:
    z = gc.compile(classifier(), ["z", "ce"], batch=16)
    results = [z(**f32(4, seed=k)) for k in range(4)]
    fresh = gc.compile(classifier(), ["z", "ce"], batch=16)
    for k, result in enumerate(results):
        again = fresh(**f32(4, seed=k))
        np.testing.assert_array_equal(result["z"], again["z"])
        assert result["ce"] == again["ce"]
    assert not any(np.shares_memory(results[1]["z"], r["z"]) for r in results[2:])


def test_training_steps_take_the_short_way(thorough: Callable[[], int]) -> None:
    learner = gc.SGD(learning_rate=0.5, momentum=0.9)
    net, other = classifier(), classifier()
    step = gc.compile_training(net, learner=learner, batch=16)
    long = gc.compile_training(other, learner=learner, batch=16)
    for k in range(6):
        data = f32(16 - k % 2, seed=k)
        wide = {n: a.astype(np.float64) for n, a in data.items()}  # has to be converted
        assert step(**data)["ce"] == long(**wide)["ce"]
    assert thorough() == 1 + 6
    for name, value in net.parameters.items():
        np.testing.assert_array_equal(value, other.parameters[name])


def test_numbers_of_the_call_may_change(thorough: Callable[[], int]) -> None:
    """Each against a step that was compiled with them."""
    net = classifier()
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.5), batch=16)
    step(**f32(16))
    thorough()
    for rate, nominal in ((0.5, 16), (0.25, 16), (0.25, 4), (0.0, 4)):
        other = classifier()
        for name, value in net.parameters.items():
            other.model.values[name] = value.copy()
        step.learner, step.nominal = gc.SGD(learning_rate=rate), nominal
        fresh = gc.compile_training(other, learner=gc.SGD(learning_rate=rate), batch=nominal)
        step(**f32(16, seed=1))
        fresh(**f32(16, seed=1))
        for name, value in net.parameters.items():
            np.testing.assert_array_equal(value, other.parameters[name])
        for velocity in step.learner_state.values():
            velocity[...] = 0
        assert thorough() == 1  # that of the fresh one
    assert step.steps == 5


def test_numbers_in_a_mapping_that_was_changed_are_seen() -> None:
    net = classifier()
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.5), batch=16)
    executable = step._executable  # pyright: ignore[reportPrivateUsage]  # no other door takes numbers
    data, numbers = f32(8), dict(step._numbers(8, 0))  # pyright: ignore[reportPrivateUsage]
    for _ in range(3):
        executable.run(data, numbers)
    numbers.update(dict.fromkeys(numbers, 0.0))
    before = {name: value.copy() for name, value in net.parameters.items()}
    executable.run(data, numbers)
    for name, value in net.parameters.items():
        np.testing.assert_array_equal(value, before[name])


def test_a_learner_that_follows_the_losses_sees_those_of_short_calls() -> None:
    learner = gc.SteppingHeuristic(0.1, history=100)
    step = gc.compile_training(classifier(), learner=learner, batch=16)
    losses = [float(step(**f32(16, seed=k))["ce"]) / 16 for k in range(4)]
    assert learner.stepping.losses[-4:] == tuple(losses)


def twin(array: Array) -> Array:
    """The same numbers, where they cannot be read in place."""
    room = np.zeros(array.nbytes + 1, np.uint8)
    moved = room[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


ODD: dict[str, Callable[[Array], object]] = {
    "f64": lambda a: a.astype(np.float64),
    "lists": lambda a: a.tolist(),
    "transposed twice": lambda a: np.asfortranarray(a),
    "misaligned": twin,
    "a subclass": lambda a: a.view(np.recarray),
    "big endian": lambda a: a.astype(">f4"),
}


@pytest.mark.parametrize("how", ODD)
def test_arrays_that_have_to_be_looked_at_go_the_long_way(
    how: str, thorough: Callable[[], int]
) -> None:
    z = gc.compile(classifier(), ["z", "ce"], batch=16)
    data = f32(5)
    expected = z(**data)["z"]
    thorough()
    found = z(labels=data["labels"], features=ODD[how](data["features"]))
    np.testing.assert_array_equal(found["z"], expected)
    assert thorough() == 1


def test_calls_whose_arrays_are_copied_take_them_as_they_lie() -> None:
    """From the third call with as many samples on: strides and alignment make no difference."""
    z = gc.compile(classifier(), ["z", "ce"], batch=16)
    fresh = gc.compile(classifier(), ["z", "ce"], batch=16)
    for _ in range(3):
        z(**f32(5))
    given = [ODD[how](f32(5, seed=k)["features"]) for k, how in enumerate(ODD)]
    results = [z(labels=f32(5, seed=k)["labels"], features=x) for k, x in enumerate(given)]
    for k, result in enumerate(results):
        again = fresh(**f32(5, seed=k))
        np.testing.assert_array_equal(result["z"], again["z"])
        assert result["ce"] == again["ce"]
    assert not any(np.shares_memory(results[0]["z"], r["z"]) for r in results[1:])
    for wrong in (np.zeros((5, 3), np.float32), np.zeros((4, 2), np.float32)):
        with pytest.raises(gc.GraphcError, match="features"):
            z(labels=f32(5)["labels"], features=wrong)


def test_a_read_only_array_is_read() -> None:
    z = gc.compile(classifier(), ["z", "ce"], batch=16)
    data = f32(5)
    expected = z(**data)["z"]
    for array in data.values():
        array.flags.writeable = False
    np.testing.assert_array_equal(z(**data)["z"], expected)


def test_another_spelling_of_a_name_is_learnt(thorough: Callable[[], int]) -> None:
    z = gc.compile(classifier(), ["z", "ce"], batch=16)
    data = f32(5)
    expected = z(**data)["z"]
    for _ in range(2):
        found = z(LABELS=data["labels"], Features=data["features"])
        np.testing.assert_array_equal(found["z"], expected)
    assert thorough() <= 3


def test_a_parameter_that_was_replaced_is_seen() -> None:
    net = classifier()
    z = gc.compile(net, ["z", "ce"], batch=16)
    z(**f32(5))
    for value in net.model.values.values():
        value[...] = 0
    assert not z(**f32(5))["z"].any()
    net.model.values["B1"] = np.full((3, 1), 2.0, np.float32)
    assert (z(**f32(5))["z"] == 2).all()
    net.model.values["B1"] = np.full((3, 1), 3.0)  # converted, at every call
    assert (z(**f32(5))["z"] == 3).all()
    net.model.values["B1"][...] = 4
    assert (z(**f32(5))["z"] == 4).all()
    del net.model.values["B1"]
    with pytest.raises(gc.GraphcError, match="no parameter B1 any more"):
        z(**f32(5))


def test_a_call_above_the_bound_compiles_again_and_goes_on() -> None:
    step = gc.compile_training(classifier(), learner=gc.SGD(learning_rate=0.5), batch=4)
    other = gc.compile_training(classifier(), learner=gc.SGD(learning_rate=0.5), batch=32)
    other.nominal = 4
    for samples in (4, 2, 20, 4, 32, 1):
        data = f32(samples, seed=samples)
        np.testing.assert_allclose(step(**data)["ce"], other(**data)["ce"], rtol=1e-5)


def test_threads_do_not_meet() -> None:
    z = gc.compile(classifier(), ["z", "ce"], batch=64)
    expected = {k: z(**f32(40 + k, seed=k))["z"] for k in range(4)}
    wrong: list[int] = []

    def work(number: int) -> None:
        data = f32(40 + number, seed=number)
        for _ in range(200):
            if not np.array_equal(z(**data)["z"], expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
