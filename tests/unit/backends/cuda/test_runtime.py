"""Calls, residency and epochs of a program written here by hand, on the emulated device."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from graphc.backends.cuda.epochs import EpochFunction
from graphc.backends.cuda.kernel import Kernel, Tiles
from graphc.backends.cuda.minibatches import epoch_steps
from graphc.backends.cuda.module import CudaModule, launch_text
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.runtime import KEPT_GRAPHS, CudaFunction
from graphc.backends.cuda.steps import Launch, Place
from graphc.backends.cuda.ways import WAYS, Way, run_by_its_way
from graphc.ir.core import Function, RegionKind
from graphc.passes.analysis.loopnest import Size
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.executable import Executable
from graphc.runtime.residency import come_home
from graphc.runtime.signature import Argument, Dimension, Result, Signature
from graphc.support.diagnostics import GraphcError, fail
from tests.support.cuda.building import compile_kernels, missing
from tests.support.cuda.emulator import EmulatedArray, EmulatedDevice, EmulatedMemory, Order

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Array = np.ndarray
BOUND = 8
COLUMNS = 3

SIGNATURE = Signature(
    "step",
    (Dimension("N", BOUND),),
    (
        Argument("x", "f32", ("N", COLUMNS), "input"),
        Argument("w", "f32", (1, COLUMNS), "parameter"),
        Argument("rate", "f32", (1, 1), "hyperparameter"),
    ),
    (Result("sum", "f32", (1, 1)), Result("w.new", "f32", (1, COLUMNS), updates="w")),
    arena_bytes=4 * COLUMNS,
)
"""sum = sum of x · w; w becomes w + rate · the sum of x's rows."""

SUMS = """
__device__ void sums(const float *p0, float *p1, i64 d0, Block block)
{
    for (i64 tile = block.index; tile < 3; tile += block.count)
        if (thread_index() == 0) {
            p1[tile] = 0;
            for (i64 i = 0; i < d0; i++)
                p1[tile] += p0[i * 3 + tile];
        }
}
"""
MOVE = """
__device__ void move(const float *p0, float *p1, const float *p2, float *p3, Block block)
{
    if (block.index == 0 && thread_index() == 0) {
        p3[0] = p0[0] * p1[0] + p0[1] * p1[1] + p0[2] * p1[2];
        for (int i = 0; i < 3; i++)
            p1[i] += p2[0] * p0[i];
    }
}
"""
MAKE = {
    "sums": Kernel(
        "sums", ("const float *", "float *"), ("N",), Tiles(((Size(COLUMNS), 1),)), SUMS
    ),
    "move": Kernel(
        "move", ("const float *", "float *", "const float *", "float *"), (), Tiles(), MOVE
    ),
}


def by_numpy(w: Array, x: Array, rate: float) -> tuple[Array, float]:
    total = x.sum(axis=0, dtype=np.float64)
    return (w + rate * total).astype(np.float32), float(total @ w[0])


@pytest.fixture(scope="module")
def images() -> dict[Way, tuple[Program, bytes]]:
    """The program as it is run in each way."""
    device = EmulatedDevice()
    module = CudaModule(device.machine)
    for name, kernel in MAKE.items():
        module.kernel(name, name, lambda given, kernel=kernel: _named(kernel, given))
    named = {kernel.name: kernel for kernel in module.kernels.values()}
    sums, move = named
    x, w, rate, total = (Place("buffer", i, 0) for i in range(4))
    arena = Place("arena", 0, 12)
    steps = (
        Launch(sums, (x, arena), "`total` = sums", frozenset({1})),
        Launch(move, (arena, w, rate, total), "`w` = move", frozenset({1, 3})),
    )
    plain = Program(named, steps)
    plain = replace(plain, epoch=epoch_steps(module, plain, SIGNATURE))
    programs: dict[Way, Program] = {}
    for way in WAYS:
        function = Function("step", RegionKind.SSA, launch=way)
        programs[way] = run_by_its_way(module, plain, function, {"N": BOUND})
    kernels = {name: k for p in programs.values() for name, k in p.kernels.items()}
    code = compile_kernels("\n".join([module.text(), *map(launch_text, kernels.values())]))
    return {way: (program, code) for way, program in programs.items()}


@pytest.fixture(scope="module")
def image(images: dict[Way, tuple[Program, bytes]]) -> tuple[Program, bytes]:
    return images["graph"]


def _named(kernel: Kernel, name: str) -> Kernel:
    return replace(
        kernel, name=name, text=kernel.text.replace(f"void {kernel.name}", f"void {name}")
    )


class WatchedDevice(EmulatedDevice):
    """Counts what is asked of it.

    limit  bytes that it has left
    """

    def __init__(self) -> None:
        super().__init__()
        self.recorded = self.replayed = self.uploads = 0
        self.limit = 1 << 30
        self.at_replay: Callable[[int], None] = lambda _: None

    def allocate(self, size: int) -> EmulatedMemory:
        if size > self.limit:
            raise MemoryError
        self.limit -= size
        return super().allocate(size)

    def upload(self, address: int, array: Array) -> None:
        self.uploads += 1
        super().upload(address, array)

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        self.recorded += 1
        recorded = super().record(work)

        def replay() -> None:
            self.at_replay(self.replayed)
            self.replayed += 1
            recorded()

        return replay


@pytest.fixture
def device() -> WatchedDevice:
    return WatchedDevice()


@pytest.fixture
def function(image: tuple[Program, bytes], device: WatchedDevice) -> Iterator[EpochFunction]:
    program, code = image
    yield EpochFunction(device, device.load(code), program, SIGNATURE)
    device.wait()


def executable(function: CudaFunction, w: Array) -> Executable:
    return Executable(function, SIGNATURE, {"w": w})


def samples(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((count, COLUMNS)).astype(np.float32)


def run(exe: Executable, x: object, rate: float = 0.5) -> float:
    return float(exe.run({"x": x}, {"rate": rate})["sum"])


def close(got: object, expected: object) -> bool:
    return np.allclose(np.asarray(got), np.asarray(expected), rtol=1e-4, atol=1e-5)


# --- calls


@pytest.mark.parametrize("count", [0, 1, 5, BOUND])
def test_a_call_computes_on_what_it_is_given(function: EpochFunction, count: int) -> None:
    x, w = samples(count), samples(1, 7)
    expected, total = by_numpy(w, x, 0.5)
    assert close(run(executable(function, w), x), total)
    come_home([w])
    assert close(w, expected)


def test_calls_alike_are_recorded_at_the_second_and_replayed_then(
    function: EpochFunction, device: WatchedDevice
) -> None:
    w = expected = samples(1, 7)
    exe = executable(function, w.copy())
    for turn in range(4):
        x = samples(5, turn)
        expected, total = by_numpy(expected, x, 0.5)
        assert close(run(exe, x), total)
    assert (device.recorded, device.replayed) == (1, 3)
    run(exe, samples(4))
    run(exe, samples(5))
    assert (device.recorded, device.replayed) == (1, 4)


def test_the_graphs_of_the_last_sizes_are_kept(
    function: EpochFunction, device: WatchedDevice
) -> None:
    exe = executable(function, samples(1))
    for count in [*range(KEPT_GRAPHS + 1)] * 2:
        run(exe, samples(count))
    assert device.recorded == 0  # a size comes again when it has been forgotten
    for count in [*range(1, KEPT_GRAPHS + 1)]:
        run(exe, samples(count))
    assert device.recorded == KEPT_GRAPHS


def test_too_little_memory_is_told_before_anything_is_launched(
    function: EpochFunction, device: WatchedDevice
) -> None:
    device.limit = 300  # the arena and staging are more
    with pytest.raises(GraphcError, match=r"\d+ bytes of the GPU's memory .* N up to 8") as caught:
        run(executable(function, samples(1)), samples(2))
    assert caught.value.diagnostics[0].slug == "limit"
    assert device.launches == 0


def test_too_little_memory_for_a_parameter_is_told_before_anything_is_launched(
    function: EpochFunction, device: WatchedDevice
) -> None:
    assert function.memory  # the function's own is there
    device.limit = 0
    with pytest.raises(GraphcError, match=r"12 bytes of the GPU's memory .* for a parameter"):
        run(executable(function, samples(1)), samples(2))
    assert device.launches == 0


def test_launches_that_are_waited_for_are_not_recorded(
    function: EpochFunction, device: WatchedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    w = expected = samples(1, 7)
    exe = executable(function, w.copy())
    for turn in range(3):
        x = samples(5, turn)
        expected, total = by_numpy(expected, x, 0.5)
        assert close(run(exe, x), total)
    assert device.recorded == 0


def test_a_fault_names_the_operations_that_may_have_caused_it(
    function: EpochFunction, device: WatchedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(array: Array, address: int) -> None:
        raise fail("backend", "the GPU failed")

    exe = executable(function, samples(1))
    monkeypatch.setattr(device, "download", lost)
    with pytest.raises(GraphcError, match="`total` = sums; `w` = move"):
        run(exe, samples(2))


# --- residency


def test_an_array_that_is_away_is_read_only_and_newest_when_it_comes_home(
    function: EpochFunction,
) -> None:
    w, x = samples(1, 7), samples(5)
    before = w.copy()
    run(executable(function, w), x)
    with pytest.raises(ValueError, match="read-only"):
        w[0, 0] = 1
    assert np.array_equal(w, before)
    come_home([w])
    assert close(w, by_numpy(before, x, 0.5)[0])
    w[0, 0] = 1


def test_what_was_changed_at_home_is_what_the_next_call_computes_with(
    function: EpochFunction,
) -> None:
    w, x = samples(1, 7), samples(5)
    exe = executable(function, w)
    run(exe, x)
    come_home([w])
    w[...] = 3
    assert close(run(exe, x), by_numpy(np.full((1, 3), 3, np.float32), x, 0.5)[1])


def test_functions_of_a_device_share_an_array(
    image: tuple[Program, bytes], device: WatchedDevice
) -> None:
    program, code = image
    first, second = (EpochFunction(device, device.load(code), program, SIGNATURE) for _ in range(2))
    w, x = samples(1, 7), samples(5)
    expected = w.copy()
    one, two = executable(first, w), executable(second, w)
    for exe in (one, two, two, one):
        expected, total = by_numpy(expected, x, 0.5)
        assert close(run(exe, x), total)
    assert device.uploads == 1 + 4  # the parameter once, the inputs of each call


def test_a_function_of_the_processor_sees_the_newest_content(function: EpochFunction) -> None:
    w, x = samples(1, 7), samples(5)
    expected = by_numpy(w, x, 0.5)[0]
    store = {"w": w}
    on_device = Executable(function, SIGNATURE, store)
    seen: list[Array] = []

    class OfProcessor(CompiledFunction):
        def __call__(
            self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
        ) -> None:
            seen.append(arguments[1].copy())
            arguments[1][...] += 1

    here = Executable(OfProcessor(), SIGNATURE, store)
    run(on_device, x)
    run(here, x)
    assert close(seen, [expected])
    assert close(run(on_device, x), by_numpy(expected + 1, x, 0.5)[1])


def test_memory_of_an_array_that_is_gone_is_free_again(
    function: EpochFunction, device: WatchedDevice
) -> None:
    run(executable(function, samples(1)), samples(2))
    gc.collect()
    before = device.live()
    for seed in range(3):
        run(executable(function, samples(1, seed)), samples(2))
        gc.collect()
    assert device.live() == before


# --- epochs


def by_calls(w: Array, data: Array, order: Array, size: int, rates: Array) -> tuple[Array, Array]:
    totals: list[float] = []
    for turn, start in enumerate(range(0, len(order), size)):
        w, total = by_numpy(w, data[order[start : start + size]], rates[turn])
        totals.append(total)
    return w, np.array(totals)


def epoch(
    exe: Executable, data: Array, order: Array, size: int, rates: Array, done: Array
) -> Array:
    return exe.run_minibatches({"x": data}, order, size, {"rate": rates}, done)["sum"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ["forwards", "shuffled"])
@pytest.mark.parametrize(("count", "size"), [(20, 4), (21, 4), (3, 8), (1, 1), (8, 5)])
def test_an_epoch_is_its_minibatches(
    images: dict[Way, tuple[Program, bytes]],
    device: WatchedDevice,
    way: Way,
    order: Order,
    count: int,
    size: int,
) -> None:
    device.running = replace(device.running, order=order)
    program, code = images[way]
    function = EpochFunction(device, device.load(code), program, SIGNATURE)
    data, w = samples(30), samples(1, 7)
    chosen = np.random.default_rng(3).permutation(30)[:count]
    rates = np.linspace(0.1, 0.9, -(-count // size), dtype=np.float32)
    expected, totals = by_calls(w, data, chosen, size, rates)
    done = np.zeros(1, np.int64)
    assert close(epoch(executable(function, w), data, chosen, size, rates, done), totals)
    assert done[0] == len(rates)
    come_home([w])
    assert close(w, expected)


@pytest.mark.parametrize("way", ["grid", "block"])
def test_a_kernel_goes_through_many_minibatches(
    images: dict[Way, tuple[Program, bytes]], device: WatchedDevice, way: Way
) -> None:
    program, code = images[way]
    function = EpochFunction(device, device.load(code), program, SIGNATURE)
    order, rates = np.arange(40), np.full(10, 0.1, np.float32)
    exe, done = executable(function, samples(1)), np.zeros(1, np.int64)
    epoch(exe, samples(40), order, 4, rates, done)
    assert (device.launches, done[0]) == (1, 10)


def test_minibatches_alike_are_one_graph_over_all_parts_of_an_epoch(
    function: EpochFunction, device: WatchedDevice
) -> None:
    exe, data = executable(function, samples(1)), samples(40)
    for start in (0, 16):
        order = np.arange(start, start + 16)
        epoch(exe, data, order, 4, np.full(4, 0.1, np.float32), np.zeros(1, np.int64))
    assert (device.recorded, device.replayed) == (1, 7)


def test_data_stay_on_the_device_until_they_are_forgotten(
    function: EpochFunction, device: WatchedDevice
) -> None:
    exe, data, order = executable(function, np.zeros((1, 3), np.float32)), samples(8), np.arange(8)
    rates = np.full(2, 0.5, np.float32)
    epoch(exe, data, order, 4, rates, np.zeros(1, np.int64))
    first = device.uploads
    epoch(exe, data, order, 4, rates, np.zeros(1, np.int64))
    assert device.uploads - first == first - 2  # neither data nor the parameter again
    data[...] = 0
    exe.forget_data()
    assert close(epoch(exe, data, order, 4, rates, np.zeros(1, np.int64)), [0, 0])


def test_data_without_room_on_the_device_are_taken_row_by_row(
    function: EpochFunction, device: WatchedDevice
) -> None:
    data, w, order = samples(4000), samples(1, 7), np.arange(19)
    rates, done = np.full(5, 0.1, np.float32), np.zeros(1, np.int64)
    expected, totals = by_calls(w, data, order, 4, rates)
    device.limit = 40000
    assert close(epoch(executable(function, w), data, order, 4, rates, done), totals)
    assert done[0] == 5
    come_home([w])
    assert close(w, expected)


def test_an_interrupt_leaves_whole_minibatches(
    function: EpochFunction, device: WatchedDevice
) -> None:
    def interrupt(replayed: int) -> None:
        if replayed == 3:
            raise KeyboardInterrupt

    data, w, order = samples(40), samples(1, 7), np.arange(40)
    rates, done = np.full(10, 0.1, np.float32), np.zeros(1, np.int64)
    expected, _ = by_calls(w, data, order[: 4 * 4], 4, rates)
    device.at_replay = interrupt
    with pytest.raises(KeyboardInterrupt):
        epoch(executable(function, w), data, order, 4, rates, done)
    assert done[0] == 4  # one was launched before there was a graph
    come_home([w])
    assert close(w, expected)


# --- arrays of other libraries


def test_arrays_on_the_device_are_taken_where_they_lie(
    function: EpochFunction, device: WatchedDevice
) -> None:
    x, w = samples(5), samples(1, 7)
    expected, total = by_numpy(w, x, 0.5)
    exe, given = executable(function, w), EmulatedArray(device, x)
    before = device.uploads
    assert close(run(exe, given), total)
    assert device.uploads - before == 2  # the parameter, and the rate
    come_home([w])
    assert close(w, expected)


def test_results_stay_on_the_device_where_they_are_wanted_there(
    function: EpochFunction, device: WatchedDevice
) -> None:
    x, w = samples(5), samples(1, 7)
    total = by_numpy(w, x, 0.5)[1]
    found = executable(function, w).run({"x": x, "out": "device"}, {"rate": 0.5})["sum"]
    assert close(float(found), total)


class Described(EmulatedArray):
    """With other words about itself."""

    def __init__(self, device: EmulatedDevice, array: Array, **said: object) -> None:
        super().__init__(device, array)
        self._said = said

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {**super().__cuda_array_interface__, **self._said}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"strides": (24, 4)}, "gaps"),
        ({"strides": (4, 8)}, "gaps"),
        ({"typestr": "<f8"}, "float64 on the GPU: convert"),
        ({"shape": (2, 4)}, r"shape \(N, 3\)"),
        ({"data": (3, False)}, "multiple of 16"),
        ({"data": (1 << 60, False)}, "no memory of a GPU"),
        ({"mask": "yes"}, "mask"),
        ({"shape": None}, "damaged"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    function: EpochFunction, device: WatchedDevice, said: Mapping[str, object], message: str
) -> None:
    given = Described(device, samples(2), **said)
    with pytest.raises(GraphcError, match=message) as caught:
        run(executable(function, samples(1)), given)
    assert caught.value.diagnostics[0].slug == "input"
    assert device.launches == 0


class OfDlpack:
    """An array that has only this to say of itself."""

    def __init__(self, kind: int, array: object) -> None:
        self._kind = kind
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, 0

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        return np.asarray(self.array)


def test_arrays_by_dlpack_are_taken_where_they_lie(
    function: EpochFunction, device: WatchedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(value: object) -> object:
        assert isinstance(value, OfDlpack)
        return value.array

    monkeypatch.setattr(device, "from_dlpack", opened)
    w, x = samples(1, 7), samples(5)
    total = by_numpy(w, x, 0.5)[1]
    on_device, here = OfDlpack(2, EmulatedArray(device, x)), OfDlpack(1, x)
    assert [close(run(executable(function, w.copy()), a), total) for a in (on_device, here)] == [
        True,
        True,
    ]


def test_arrays_that_a_library_keeps_to_itself_are_refused(
    function: EpochFunction, device: WatchedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithGradient(OfDlpack):
        @property
        def __cuda_array_interface__(self) -> object:
            raise RuntimeError("it requires grad")

    def kept(value: object) -> object:
        raise BufferError("it requires grad")

    monkeypatch.setattr(device, "from_dlpack", kept)
    with pytest.raises(GraphcError, match="does not hand out: it requires grad"):
        run(executable(function, samples(1)), WithGradient(2, samples(2)))


@pytest.mark.parametrize(
    ("said", "streams"),
    [({"stream": 77}, [77]), ({"stream": None}, []), ({"version": 2}, [1])],
)
def test_the_work_that_makes_an_array_is_waited_for(
    function: EpochFunction, device: WatchedDevice, said: Mapping[str, object], streams: list[int]
) -> None:
    run(executable(function, samples(1)), Described(device, samples(2), **said))
    assert device.followed == streams


def test_strides_of_a_dense_array_are_no_gaps(
    function: EpochFunction, device: WatchedDevice
) -> None:
    w, x = samples(1, 7), samples(1)
    given = Described(device, x, strides=(99, 4))  # of a single row any stride is right
    assert close(run(executable(function, w.copy()), given), by_numpy(w, x, 0.5)[1])


def test_where_results_go_is_one_of_two(function: EpochFunction) -> None:
    with pytest.raises(GraphcError, match=r"host.*device.*'gpu'"):
        executable(function, samples(1)).run({"x": samples(1), "out": "gpu"}, {"rate": 0.5})
