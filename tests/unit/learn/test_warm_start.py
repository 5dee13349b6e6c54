"""Members that train their first epochs alone: `learn/warm_start.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.driver.options import CompileOptions
from graphc.ir.types import DType
from graphc.learn.averaging import Averaging
from graphc.learn.checkpoints import Checkpoints
from graphc.learn.network_training import NetworkTrainee
from graphc.learn.plan import TrainingPlan
from graphc.learn.schedule import Schedule
from graphc.learn.training import Extras
from graphc.learn.warm_start import run_after_warm_start
from tests.unit.learn.test_members_training import DENSE, MOMENTUM, ROWS, together

Array = np.ndarray
EPOCHS = 4


def train(
    member: gc.comm.Communicator,
    alone: int,
    averaging: Averaging | None = None,
    checkpoints: Checkpoints | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Array], Sequence[gc.EpochRecord]]:
    net = gc.loads(DENSE)
    plan = TrainingPlan(MOMENTUM, EPOCHS, Schedule.parse("4"))
    options = CompileOptions(backend="numpy", precision=DType.F64)
    extras = Extras(None, checkpoints, None, member, averaging)
    progress = gc.Progress(should_stop=should_stop)
    trainee = NetworkTrainee(net.model)
    records = run_after_warm_start(trainee, ROWS, plan, options, progress, extras, alone)
    return dict(net.parameters), records


@pytest.mark.parametrize("alone", [0, 1, 3, 4, 9])
def test_gradients_add_up_to_what_one_trains(alone: int) -> None:
    expected, single = train(gc.comm.alone(), 0)
    for found, records in together(2, lambda _, member: train(member, alone)):
        assert [r.epoch for r in records] == [1, 2, 3, 4]
        for epoch in range(min(alone, EPOCHS)):
            assert records[epoch].criterion == single[epoch].criterion
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, 1e-11, 1e-12)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_request_to_one_member_stops_all_after_an_epoch(stop: int, tmp_path: Path) -> None:
    """From whose checkpoint they go on with the bits of members that were not stopped."""
    averaging = gc.BlockMomentum(6, 0.5)
    whole = together(2, lambda _, member: train(member, 2, averaging))

    def stopped(rank: int, member: gc.comm.Communicator) -> Sequence[gc.EpochRecord]:
        epochs: list[int] = []
        places = Checkpoints(tmp_path / "state")

        def asked() -> bool:
            epochs.append(0)
            return rank == 1 and len(epochs) == stop

        return train(member, 2, averaging, places, asked)[1]

    first, second = together(2, stopped)
    assert [r.epoch for r in first] == [r.epoch for r in second]
    assert len(first) == min(stop, 3)
    resumed = Checkpoints(tmp_path / "state", resume=True)
    again = together(2, lambda _, member: train(member, 2, averaging, resumed))
    for (found, records), (expected, others) in zip(again, whole, strict=True):
        assert [r.epoch for r in records] == [r.epoch for r in others]
        for name, value in expected.items():
            if stop < 3:  # inside of an epoch members average at once
                assert np.array_equal(found[name], value)
