"""The emulator of CUDA runs right kernels right in any order, and shows what is wrong in others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from graphc.backends.cuda.module import header_text
from graphc.support.diagnostics import GraphcError
from tests.support.cuda.building import compile_kernels, missing
from tests.support.cuda.emulator import ORDERS, EmulatedDevice, Running

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Array = np.ndarray
THREADS = 256
RUNNINGS = [Running(order, blocks) for order in ORDERS for blocks in (1, 3, 7)]

KERNEL = """
extern "C" __global__ void __launch_bounds__(256) {name}(const float *x, float *y, i64 n)
{{
    const Block block = grid_block();
    float *part = (float *)block.shared;
    const int i = thread_index(), lane = i % 32, warp = i / 32;
{body}
}}
"""

# The sums of 256 neighbours each, by shuffles and then in shared memory.
TOTALS = """    for (i64 tile = block.index; tile < n; tile += block.count) {
        float sum = x[tile * 256 + i];
        for (int by = 16; by > 0; by /= 2)
            sum += shuffle_xor(sum, by);
        meet(); // FIRST
        if (lane == 0)
            part[warp] = sum;
        meet(); // SECOND
        sum = lane < 8 ? part[lane] : 0;
        for (int by = 4; by > 0; by /= 2)
            sum += shuffle_down(sum, by);
        if (i == 0)
            y[tile] = sum;
    }
"""

# The same, with what is summed copied ahead by other threads than those that read it.
COPIED = """    for (i64 tile = block.index; tile < n; tile += block.count) {
        meet();
        if (i < 64)
            copy_ahead<16>(part + 4 * i, x + tile * 256 + 4 * i, true);
        group_copies();
        wait_for_copies<0>(); // WAIT
        meet();
        float sum = part[255 - i];
        for (int by = 16; by > 0; by /= 2)
            sum += shuffle_xor(sum, by);
        meet();
        if (lane == 0)
            part[warp] = sum;
        meet();
        if (i == 0) {
            for (int other = 1; other < 8; other++)
                sum += part[other];
            y[tile] = sum;
        }
    }
"""

# A block writes its number, then reads that of the block behind it.
NEIGHBOURS = """    if (i == 7)
        y[block.index] = (float)block.index;
    meet_all(block, &arrived); // ALL
    const float found = y[(block.index + 1) % block.count];
    meet_all(block, &arrived);
    if (i == 200)
        y[block.index] = found;
"""

# y[16, 8] = x[16, 8] x[8, 8], whose second matrix lies behind the first.
PRODUCT = """    if (warp == 0) {
        const int g = lane / 4, q = lane % 4;
        const float *b = x + 128;
        const u32 left[4] = {to_tf32(x[g * 8 + q]), to_tf32(x[(g + 8) * 8 + q]),
                             to_tf32(x[g * 8 + q + 4]), to_tf32(x[(g + 8) * 8 + q + 4])};
        const u32 right[2] = {to_tf32(b[q * 8 + g]), to_tf32(b[(q + 4) * 8 + g])};
        float sums[4] = {};
        multiply_warp(sums, left, right);
        for (int at = 0; at < 4; at++)
            y[(g + at / 2 * 8) * 8 + 2 * q + at % 2] = sums[at];
    }
"""

BODIES = {
    "totals": TOTALS,
    "totals_1": TOTALS.replace("meet(); // FIRST", ""),
    "totals_2": TOTALS.replace("meet(); // SECOND", ""),
    "copied": COPIED,
    "copied_1": COPIED.replace("wait_for_copies<0>(); // WAIT", ""),
    "copied_2": COPIED.replace("wait_for_copies<0>(); // WAIT", "wait_for_copies<1>();"),
    "neighbours": NEIGHBOURS,
    "neighbours_1": NEIGHBOURS.replace("meet_all(block, &arrived); // ALL", "meet();"),
    "product": PRODUCT,
    "never_written": "    y[i] = part[i];",
    "reads_behind": "    y[0] = x[n + i];",
    "writes_behind": "    y[n + i] = 1;",
    "some_leave": "    if (i < 128)\n        return;\n    meet();",
    "some_lanes_leave": "    if (lane == 3)\n        return;\n    y[i] = shuffle_xor(1.0f, 1);",
    "other_meeting": "    if (lane == 3)\n        meet();\n    else\n        meet_warp();",
    "other_function": "    if (lane == 3)\n        any_lane(true);\n    else\n        meet_warp();",
    "misaligned": "    *(float4 *)(y + 1) = make_float4(1, 2, 3, 4);",
    "divided": "    y[i] = i / (int)n;",
    "ballots": "    y[i] = (float)lanes_where(lane % 3 == 1) + any_lane(i == 70) * 0.5f"
    " + every_lane(i < 64) * 0.25f + shuffle_from((i64)i, 9) * 4096.0f * 4096.0f * 256.0f;",
}


class Kernels:
    """The kernels above on a device of their own."""

    def __init__(self) -> None:
        texts = [KERNEL.format(name=name, body=body) for name, body in BODIES.items()]
        counter = "__device__ u32 arrived;\n"
        self.device = EmulatedDevice()
        self._code = self.device.load(
            compile_kernels("\n".join([header_text("device"), counter, *texts]))
        )

    def run(
        self, name: str, x: Array, size: int, n: int, grid: int = 1, together: bool = False
    ) -> Array:
        """What `y` of `size` numbers holds then."""
        device = self.device
        y = np.empty(size, np.float32)
        source, target = device.allocate(x.nbytes), device.allocate(y.nbytes)
        device.upload(source.address, x)
        words = (source.address, target.address, n)
        self._code.launch(name, grid, THREADS, 1024, words, together=together)
        device.download(y, target.address)
        target.check()
        return y


@pytest.fixture(scope="module")
def shared_kernels() -> Kernels:
    return Kernels()


@pytest.fixture
def kernels(shared_kernels: Kernels) -> Kernels:
    shared_kernels.device.running = Running()
    return shared_kernels


def outcomes(
    kernels: Kernels, run: Callable[[], Array], runnings: Sequence[Running] = RUNNINGS
) -> list[Array]:
    found: list[Array] = []
    for running in runnings:
        kernels.device.running = running
        found.append(run())
    return found


def rows(count: int = 10) -> Array:
    """Numbers whose sums are exact in any order."""
    return np.random.default_rng(3).integers(-99, 99, (count, THREADS)).astype(np.float32)


@pytest.mark.parametrize("name", ["totals", "copied"])
def test_threads_meet_in_any_order(kernels: Kernels, name: str) -> None:
    x = rows()
    for found in outcomes(kernels, lambda: kernels.run(name, x, len(x), len(x), grid=len(x))):
        np.testing.assert_array_equal(found, x.sum(axis=1))


@pytest.mark.parametrize("name", ["totals_1", "totals_2", "copied_1", "copied_2"])
def test_a_missing_meeting_or_wait_is_seen(kernels: Kernels, name: str) -> None:
    x = rows()
    wrong = 0
    for running in RUNNINGS:
        kernels.device.running = running
        try:
            found = kernels.run(name, x, len(x), len(x), grid=len(x))
            wrong += not np.array_equal(found, x.sum(axis=1))
        except GraphcError as problem:
            wrong += "copies under way" in str(problem)
    assert wrong > 0


def test_blocks_wait_for_each_other(kernels: Kernels) -> None:
    x = np.zeros(1, np.float32)
    for found in outcomes(
        kernels, lambda: kernels.run("neighbours", x, 5, 5, grid=5, together=True)
    ):
        np.testing.assert_array_equal(found, [1, 2, 3, 4, 0])


def test_blocks_that_do_not_wait_for_each_other_are_seen(kernels: Kernels) -> None:
    x = np.zeros(1, np.float32)
    found = outcomes(kernels, lambda: kernels.run("neighbours_1", x, 5, 5, grid=5, together=True))
    assert not all(np.array_equal(y, [1, 2, 3, 4, 0]) for y in found)


def test_tensor_cores_multiply(kernels: Kernels) -> None:
    a, b = np.split(np.random.default_rng(5).normal(size=(24, 8)).astype(np.float32), [16])
    found = kernels.run("product", np.concatenate([a, b]), 128, 0)
    np.testing.assert_allclose(found.reshape(16, 8), a @ b, atol=1e-2)
    assert not np.allclose(found.reshape(16, 8), a @ b, atol=1e-6)


def test_warps_are_asked(kernels: Kernels) -> None:
    found = kernels.run("ballots", np.zeros(1, np.float32), THREADS, 0).astype(np.float64)
    lanes = sum(1 << lane for lane in range(32) if lane % 3 == 1)
    for i in range(0, THREADS, 5):
        warp = i // 32
        wanted = np.float32(lanes) + (warp == 2) * 0.5 + (warp < 2) * 0.25
        wanted = wanted + np.float32(32 * warp + 9) * np.float32(2**32)
        assert found[i] == pytest.approx(wanted, rel=1e-6)


def test_shared_memory_that_nobody_wrote_is_nan(kernels: Kernels) -> None:
    found = kernels.run("never_written", np.zeros(1, np.float32), THREADS, 0)
    assert np.isnan(found).all()


WRONG = {
    "reads_behind": "reads_behind: thread 0 of block 0 reads or writes outside of memory, at "
    "address 1024 of memory of 1024 bytes",
    "writes_behind": "writes_behind: thread 0 of block 0 reads or writes outside of memory",
    "some_leave": "waits in meet(): of the block's threads 128 have left",
    "some_lanes_leave": "waits in shuffle_xor(): of the block's threads 8 have left",
    "other_meeting": "other_meeting: thread",
    "other_function": "of block 0 meet in meet_warp() and in lanes_where()",
    "misaligned": "misaligned: thread 0 of block 0 reads or writes at a wrong alignment",
    "divided": "divided: thread 0 of block 0 divides by zero",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_on_a_gpu_is_told(kernels: Kernels, name: str) -> None:
    x = np.zeros(256, np.float32)
    n = 0 if name == "divided" else len(x)
    with pytest.raises(GraphcError) as caught:
        kernels.run(name, x, len(x), n)
    assert WRONG[name] in str(caught.value)
    # The device goes on.
    np.testing.assert_array_equal(kernels.run("totals", rows(1), 1, 1), rows(1).sum(axis=1))


def test_writes_between_an_array_and_its_guard_are_seen(kernels: Kernels) -> None:
    with pytest.raises(GraphcError, match="bytes beside memory of 4 were written"):
        kernels.run("writes_behind", np.zeros(1, np.float32), 1, -1 - THREADS + 8)


def test_recorded_work_runs_when_it_is_replayed(kernels: Kernels) -> None:
    x, device = rows(2), kernels.device
    source, target = device.allocate(x.nbytes), device.allocate(8)
    y = np.zeros(2, np.float32)
    device.upload(target.address, y)

    def work() -> None:
        device.copy(target.address, source.address + 4, 8)

    replay = device.record(work)
    device.upload(source.address, x)
    device.download(y, target.address)
    np.testing.assert_array_equal(y, [0, 0])
    for first in (x, x + 1):
        device.upload(source.address, first)
        replay()
        device.download(y, target.address)
        np.testing.assert_array_equal(y, first.reshape(-1)[1:3])


def test_seeds_decide_shuffled_orders(kernels: Kernels) -> None:
    """Which of the wrong sums comes depends on the order."""
    x = rows()
    seeds = [replace(Running("shuffled"), seed=seed) for seed in range(6)]
    found = outcomes(kernels, lambda: kernels.run("totals_2", x, 10, 10, grid=10), seeds)
    assert len({y.tobytes() for y in found}) > 1
