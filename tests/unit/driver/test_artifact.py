"""Files made out of a network: names, contents, and that failures leave nothing behind."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import find_compiler
from graphc.driver.artifact import KINDS, MADE_BY, ArtifactRequest, emit, kind_of
from graphc.driver.options import CompileOptions, parse_precision
from graphc.ir.parser import parse_module
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.support.diagnostics import GraphcError

NETWORK = """
features = Input(2, tag=feature)
W = LearnableParameter(3, 2)
t = Times(W, features)
z = Sigmoid(t)
OutputNodes = (z)
"""

SAMPLES = np.array([[0.5, -1.0], [2.0, 0.25], [0.0, 0.0], [8.0, 4.0]], np.float32)

FULL_DISK = """
import resource, sys
from graphc.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:], sys.stdin, sys.stdout, sys.stderr))
"""

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


@pytest.fixture
def model() -> Model:
    network = gc.loads(NETWORK)
    network.parameters["W"] = np.arange(6.0).reshape(3, 2) / 4
    return network.model


def expected(samples: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(samples @ (np.arange(6.0).reshape(3, 2) / 4).T)))


def request(out: Path, *kinds: str, **more: object) -> ArtifactRequest:
    return ArtifactRequest(kinds, out, version="0.1.0", **more)  # type: ignore[arg-type]


def test_one_kind_is_written_to_the_name_given(model: Model, tmp_path: Path) -> None:
    paths = emit(model, request(tmp_path / "anything.txt", "ir"), CompileOptions())
    assert paths == {"ir": tmp_path / "anything.txt"}
    assert (tmp_path / "anything.txt").read_text().startswith("dim N <= 256\n")


def test_several_kinds_share_a_stem(model: Model, tmp_path: Path) -> None:
    paths = emit(model, request(tmp_path / "net.v2", "ir", "py"), CompileOptions())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.v2.gir", "net.v2.py"]
    assert paths == {"ir": tmp_path / "net.v2.gir", "py": tmp_path / "net.v2.py"}


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_kind_can_be_told_from_a_name(kind: str) -> None:
    assert kind_of(Path(f"folder.d/net{KINDS[kind].suffix}")) == kind


def test_a_name_that_says_nothing_is_refused() -> None:
    with pytest.raises(GraphcError, match="--emit"):
        kind_of(Path("net.exe"))


def test_an_unknown_kind_is_refused_with_the_nearest(model: Model, tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="did you mean `header`"):
        emit(model, request(tmp_path / "net", "heder"), CompileOptions())
    assert list(tmp_path.iterdir()) == []


def test_the_ir_is_text_that_can_be_read_back(model: Model, tmp_path: Path) -> None:
    emit(model, request(tmp_path / "net.gir", "ir"), CompileOptions(batch=7))
    context = default_context()
    module = parse_module((tmp_path / "net.gir").read_text(), context)
    assert not context.sink.has_errors
    assert [d.bound for d in module.dims] == [7]


def test_the_python_source_computes_the_network_without_graphc(
    model: Model, tmp_path: Path
) -> None:
    emit(model, request(tmp_path / "net.py", "py"), CompileOptions(backend="reference"))
    np.save(tmp_path / "in.npy", SAMPLES)
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import net, numpy as np\n"
        "np.save('out.npy', net.run(np.load('in.npy'))['z'])\n"
        "assert not any(name.startswith('graphc') for name in sys.modules)\n"
    )
    folders = [str(tmp_path), str(Path(np.__file__).parents[1])]
    subprocess.run([sys.executable, "-S", "-c", program, *folders], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected(SAMPLES), rtol=1e-6)


def test_equal_requests_give_equal_bytes_in_any_folder(model: Model, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        emit(model, request(tmp_path / folder / "net", "ir", "py"), CompileOptions())
    for name in ("net.gir", "net.py"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_output_can_be_chosen(model: Model, tmp_path: Path) -> None:
    emit(model, request(tmp_path / "net.gir", "ir", outputs=("t",)), CompileOptions())
    assert "-> (t: tensor<Nx3xf32>)" in (tmp_path / "net.gir").read_text()


def test_a_failure_leaves_no_file(model: Model, tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="no node `q`"):
        emit(model, request(tmp_path / "net", "ir", "py", outputs=("q",)), CompileOptions())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_told(model: Model, tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match=r"cannot write .*: No such file"):
        emit(model, request(tmp_path / "missing" / "net.gir", "ir"), CompileOptions())


def test_without_a_compiler_nothing_is_written(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(GraphcError, match="C compiler"):
        emit(model, request(tmp_path / "net", "exe", "ir"), CompileOptions())
    assert list(tmp_path.iterdir()) == []


@needs_compiler
@pytest.mark.llvm
@pytest.mark.parametrize("kinds", ["exe", "so", "obj", "py", "exe,so", "header,so"])
@pytest.mark.parametrize("limit", [0, 1000, 8000])
def test_a_full_disk_is_told_and_changes_no_file(tmp_path: Path, kinds: str, limit: int) -> None:
    """The limit on the size of a file stands for the disk: sources, object or result do not fit."""
    rows = "W = LearnableParameter(300, 20)\nfeatures = Input(20, tag=feature)\n"
    (tmp_path / "net.ndl").write_text(f"{rows}z = Times(W, features)\nOutputNodes = (z)\n")
    old = {name: tmp_path / name for name in ("net", "net.so", "net.h")}
    for path in old.values():
        path.write_text("old")
    before = sorted(tmp_path.iterdir())
    argv = ["compile", "net.ndl", "-o", "net", "--emit", kinds]
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(limit), *argv],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(gc.__file__).parents[1]),
            # Code that Python keeps would be cut off too, for all tests behind this one.
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    message = r"error\[file\]: cannot write net(\.so|\.h)?: File too large\n"
    assert re.fullmatch(message, done.stderr)
    assert {path.read_text() for path in old.values()} == {"old"}
    assert sorted(tmp_path.iterdir()) == before


@needs_compiler
@pytest.mark.llvm
@pytest.mark.parametrize("kind", ["so", "exe", "obj"])
def test_only_regular_files_are_replaced(model: Model, tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GraphcError, match=r"a regular file is required .* is a FIFO"):
        emit(model, request(tmp_path / "pipe", kind), CompileOptions())
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("out", "kinds", "names"),
    [
        ("net", "exe header so obj", "net net.h net.so net.o"),
        ("libnet.so", "so header", "libnet.so libnet.h"),
        ("libnet.so.1.2", "so header", "libnet.so.1.2 libnet.h"),
        ("net.h", "so header", "net.so net.h"),
        ("net.so", "exe ll", "net net.ll"),
        ("net-1.0", "exe so", "net-1.0 net-1.0.so"),
        ("net.v2.py", "py ir", "net.v2.py net.v2.gir"),
        (".so", "so ir", ".so.so .so.gir"),
        ("net", "so py", "libnet.so net.py"),
        ("net.py", "py so", "net.py libnet.so"),
        ("net.so", "so py header", "libnet.so net.py net.h"),
        ("libnet.so.1", "so py", "liblibnet.so.1 libnet.py"),
    ],
)
def test_several_files_have_one_suffix_each_and_no_two_the_name_of_a_module(
    out: str, kinds: str, names: str
) -> None:
    paths = request(Path("folder") / out, *kinds.split()).paths()
    assert list(paths) == kinds.split()
    assert [str(path) for path in paths.values()] == [f"folder/{n}" for n in names.split()]


@pytest.mark.llvm
@needs_compiler
def test_a_python_file_and_a_library_of_one_command_can_both_be_loaded(
    model: Model, tmp_path: Path
) -> None:
    paths = emit(model, request(tmp_path / "net", "so", "py"), CompileOptions())
    ctypes.CDLL(str(paths["so"]))
    command = [sys.executable, "-c", "import net; print(net.info()['name'])"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("net\n", "")


@pytest.mark.llvm
@needs_compiler
def test_the_program_computes_the_network(model: Model, tmp_path: Path) -> None:
    emit(model, request(tmp_path / "net", "exe"), CompileOptions())
    np.save(tmp_path / "in.npy", SAMPLES)
    done = subprocess.run(
        [tmp_path / "net", tmp_path / "in.npy"], capture_output=True, text=True, check=True
    )
    found = np.array([line.split() for line in done.stdout.splitlines()], np.float64)
    np.testing.assert_allclose(found, expected(SAMPLES), rtol=1e-6)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.npy", "net"]


@pytest.mark.llvm
@needs_compiler
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_the_library_computes_the_network(model: Model, tmp_path: Path, precision: str) -> None:
    options = CompileOptions(precision=parse_precision(precision), batch=4)
    emit(model, request(tmp_path / "libnet.so", "so"), options)
    dtype = np.dtype(np.float32 if precision == "f32" else np.float64)
    library = ctypes.CDLL(str(tmp_path / "libnet.so"))
    library.net_arena_bytes.restype = ctypes.c_int64
    library.net_info.restype = ctypes.c_char_p
    info = json.loads(library.net_info())
    assert info["inputs"] == [{"name": "features", "dtype": precision, "shape": ["N", 2]}]
    samples, out = SAMPLES.astype(dtype), np.zeros((4, 3), dtype)
    raw = np.zeros(library.net_arena_bytes() + 64, np.uint8)
    arena = raw[-raw.ctypes.data % 64 :]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (samples, out, arena)]
    assert library.net_run(ctypes.c_int64(4), *pointers) == 0
    np.testing.assert_allclose(out, expected(SAMPLES), rtol=1e-6)
    assert library.net_run(ctypes.c_int64(5), *pointers) == 1


@pytest.mark.llvm
@needs_compiler
def test_all_kinds_for_a_processor_agree_on_name_and_content(model: Model, tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS if MADE_BY.get(kind) != "cuda"]
    paths = emit(model, request(tmp_path / "net", *kinds), CompileOptions())
    made = "libnet.so net net.c net.gir net.h net.ll net.o net.py net.s"
    assert " ".join(sorted(p.name for p in tmp_path.iterdir())) == made
    assert "net_run(" in paths["header"].read_text()
    assert "@net_run(" in paths["ll"].read_text()
    assert "net_run:" in paths["asm"].read_text()


@pytest.mark.llvm
@needs_compiler
def test_native_files_are_the_same_bytes_in_any_folder(model: Model, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        emit(model, request(tmp_path / folder / "net", "exe", "so", "obj"), CompileOptions())
    for name in ("net", "net.so", "net.o"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.llvm
def test_the_hash_changes_with_the_parameters(model: Model, tmp_path: Path) -> None:
    hashes: list[str] = []
    for scale in (1.0, 1.0, 2.0):
        model.values["W"][0, 0] = scale
        emit(model, request(tmp_path / "net.h", "header"), CompileOptions())
        hashes.append((tmp_path / "net.h").read_text().split('"hash":"')[1][:64])
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


@pytest.mark.parametrize("name", ["1x", "a-b", "ä", "malloc"])
def test_a_name_that_c_cannot_have_is_refused_for_every_kind(name: str, tmp_path: Path) -> None:
    for kind in KINDS:
        with pytest.raises(GraphcError, match="C identifier"):
            request(tmp_path / "net", kind, name=name).paths()


@pytest.mark.parametrize("name", ["net-1.0", "net.v2", "net.1", ".net", "net."])
def test_what_is_no_suffix_belongs_to_the_name_of_a_program(name: str) -> None:
    assert kind_of(Path(name)) == "exe"


def test_of_two_suffixes_the_longer_one_counts() -> None:
    assert kind_of(Path("net.cuda.c")) == "host"
    assert kind_of(Path("net.cu.c")) == kind_of(Path(".cuda.c")) == "c"
    paths = request(Path("out/net.cuda.c"), "host", "cu").paths()
    assert paths == {"host": Path("out/net.cuda.c"), "cu": Path("out/net.cu")}


def test_a_kind_for_one_target_is_a_file_for_each_of_several() -> None:
    asked = request(Path("out/net.cubin"), "cubin", "cu", target="sm_80,sm_90,sm_80")
    assert asked.paths() == {
        "cubin@sm_80": Path("out/net.sm_80.cubin"),
        "cubin@sm_90": Path("out/net.sm_90.cubin"),
        "cu": Path("out/net.cu"),
    }
    assert request(Path("a.cubin"), "cubin", target="sm_80").paths() == {"cubin": Path("a.cubin")}
    assert len(request(Path("a.cubin"), "cubin", target="sm_80,sm_90").paths()) == 2


@pytest.mark.parametrize("name", ["libnet.so.1", "libnet.so.1.2.3"])
def test_a_library_may_have_a_version(name: str) -> None:
    assert kind_of(Path(name)) == "so"


RECURRENT = """
x = Input(2, tag=feature)
W = LearnableParameter(3, 2)
R = LearnableParameter(3, 3)
p = PastValue(3, h)
a = Times(W, x)
b = Times(R, p)
s = Plus(a, b)
h = Tanh(s)
OutputNodes = (h)
"""
STEPS, SLOTS, LENGTHS = 5, 2, (5, 2)


def recurrent() -> tuple[Model, list[np.ndarray], list[np.ndarray]]:
    """A model, what it computes for some sequences, and the arrays that stand for them."""
    network = gc.loads(RECURRENT)
    rng = np.random.default_rng(0)
    lists = [rng.standard_normal((n, 2)).astype(np.float32) for n in LENGTHS]
    wanted = gc.compile(network, time=STEPS, sequences=SLOTS, backend="numpy")(x=lists)["h"]
    real = np.arange(STEPS)[:, None] < np.array(LENGTHS)
    begin = np.where(real, 0, STEPS).astype(np.int32)
    end = np.where(real, LENGTHS, 0).astype(np.int32)
    x = np.full((STEPS, SLOTS, 2), np.nan, np.float32)
    for s, array in enumerate(lists):
        x[: len(array), s] = array
    return network.model, wanted, [begin, end, x]


@pytest.mark.llvm
@needs_compiler
def test_the_library_of_a_recurrent_network_takes_steps_and_sequences(tmp_path: Path) -> None:
    model, wanted, inputs = recurrent()
    options = CompileOptions(time=STEPS, sequences=SLOTS)
    paths = emit(model, request(tmp_path / "net", "so", "header"), options)
    assert "int64_t t, int64_t s, const int32_t *" in " ".join(paths["header"].read_text().split())
    library = ctypes.CDLL(str(paths["so"]))
    library.net_arena_bytes.restype = ctypes.c_int64
    library.net_info.restype = ctypes.c_char_p
    assert json.loads(library.net_info())["dims"] == [
        {"name": "T", "bound": STEPS},
        {"name": "S", "bound": SLOTS},
    ]
    out = np.zeros((STEPS, SLOTS, 3), np.float32)
    raw = np.zeros(library.net_arena_bytes() + 64, np.uint8)
    arrays = [*inputs, out, raw[-raw.ctypes.data % 64 :]]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    sizes = [(STEPS, SLOTS), (0, SLOTS), (STEPS + 1, 1), (1, SLOTS + 1), (-1, 1), (1, -1)]
    done = [library.net_run(*map(ctypes.c_int64, size), *pointers) for size in sizes]
    assert done == [0, 0, 1, 1, 1, 1]
    for s, array in enumerate(wanted):
        np.testing.assert_allclose(out[: len(array), s], array, rtol=1e-5)


@pytest.mark.llvm
@needs_compiler
def test_the_header_of_a_recurrent_network_has_an_example_that_runs(tmp_path: Path) -> None:
    paths = emit(recurrent()[0], request(tmp_path / "net", "obj", "header"), CompileOptions(time=8))
    example = paths["header"].read_text().split("Example:\n")[1].split(" *\n")[0]
    lines = [line.removeprefix(" *") for line in example.splitlines()]
    (tmp_path / "use.c").write_text(
        '#include <stdio.h>\n#include <stdlib.h>\n#include "net.h"\nint main(void) {\n'
        + "\n".join(lines)
        + "\n  return code;\n}\n"
    )
    compiler = find_compiler()
    assert compiler is not None
    command = [compiler.path, *compiler.extra, "-std=c11", "-Wall", "-Werror", "use.c", "net.o"]
    subprocess.run([*command, "-o", "use"], cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "use")], check=False).returncode == 0


def test_the_python_source_of_a_recurrent_network_takes_the_tables(tmp_path: Path) -> None:
    model, wanted, inputs = recurrent()
    options = CompileOptions(time=STEPS, sequences=SLOTS)
    paths = emit(model, request(tmp_path / "net.py", "py"), options)
    spec = spec_from_file_location("net", paths["py"])
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    out = module.run(*inputs)["h"]
    for s, array in enumerate(wanted):
        np.testing.assert_allclose(out[: len(array), s], array, rtol=1e-5)


@pytest.mark.llvm
@needs_compiler
def test_a_program_of_a_recurrent_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="reads samples one after another, not sequences"):
        emit(recurrent()[0], request(tmp_path / "net", "exe"), CompileOptions())
    assert list(tmp_path.iterdir()) == []
