"""`compile`, `run`, `bench` and `dump` of programs: FILE.py:NAME and files that Python saved."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import graphc

PYTHON = """
import numpy as np
import graphc as gc

W = np.arange(6.0).reshape(2, 3)


def product(x):
    return {"y": x @ W, "sums": gc.sum(x, axis=(1, 2))}


net = gc.program(product, {"x": "NxTx2xf64"}, bounds={"N": 4, "T": 5})
number = 3
"""
X = np.arange(12.0).reshape(2, 3, 2)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(PYTHON)
    return path


@pytest.fixture(params=["python", "saved"])
def program(request: pytest.FixtureRequest, tmp_path: Path, python: Path) -> str:
    """The same program as a name in a Python file, and as a file."""
    if request.param == "python":
        return f"{python}:net"
    runpy.run_path(str(python))["net"].save(tmp_path / "saved.safetensors")
    return str(tmp_path / "saved.safetensors")


def test_files_are_made_of_a_program(tmp_path: Path, program: str) -> None:
    done = graphc("compile", program, "-o", tmp_path / "lib", "--emit", "header,c,ir")
    assert done.code == 0, done.err
    header = (tmp_path / "lib.h").read_text()
    assert "lib_run( int64_t n, int64_t t, const double *in_x" in " ".join(header.split())
    assert "%x: tensor<NxTx2xf64> input" in (tmp_path / "lib.gir").read_text()


def test_one_result_of_it(tmp_path: Path, program: str) -> None:
    done = graphc("compile", program, "-o", tmp_path / "lib.h", "--nodes", "sums")
    assert done.code == 0, done.err
    assert "out_y" not in (tmp_path / "lib.h").read_text()


def test_run(tmp_path: Path, program: str) -> None:
    np.save(tmp_path / "x.npy", X)
    wanted = X @ np.arange(6.0).reshape(2, 3)
    for more, shape in ((("-o", f"y={tmp_path}/y.npy"), (2, 3, 3)), ((), (2,))):
        nodes = () if more else ("--nodes", "sums")
        done = graphc("run", program, tmp_path / "x.npy", *nodes, *more)
        assert done.code == 0, done.err
        if more:
            found = np.load(tmp_path / "y.npy")
            assert found.shape == shape
            np.testing.assert_array_equal(found, wanted)
        else:
            assert done.out.split() == ["15", "51"]
    done = graphc("run", program, tmp_path / "x.npy")
    assert done.code == 3
    assert "text has rows of numbers, the output `y` is 2x3x3: -o y=y.npy" in done.err


def test_bench(program: str) -> None:
    done = graphc("bench", program, "--json", "--rounds", "2", "--seconds", "0.01")
    assert done.code == 0, done.err
    assert json.loads(done.out)["samples"] == 20


@pytest.mark.parametrize("stage", ["nodes", "tensor", "kernels", "schedule"])
def test_dump(program: str, stage: str) -> None:
    done = graphc("dump", program, "--stage", stage)
    assert done.code == 0, done.err
    assert done.out.startswith("dim N <= 4\ndim T <= 5\n")
    assert ("gemm" in done.out) == (stage in ("kernels", "schedule"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nett", "has no `nett`; programs in it: net; did you mean `net`?"),
        ("product", "is a function, whose types are not known: make a program of it"),
        ("number", "`number` of"),
    ],
)
def test_a_name_that_is_no_program(python: Path, name: str, message: str) -> None:
    done = graphc("compile", f"{python}:{name}", "-o", python.with_name("lib.h"))
    assert (done.code, message in done.err) == (3, True)


def test_an_error_of_the_file_is_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("import numpy as np\nnp.zeros(3) @ np.zeros(4)\n")
    done = graphc("bench", f"{path}:net")
    assert done.code == 3
    assert f"{path}:2:1" in done.err
    assert "ValueError" in done.err


def test_options_that_are_not_for_programs(program: str, tmp_path: Path) -> None:
    for option in (("--batch", "7"), ("--precision", "f64"), ("--define", "a=1")):
        done = graphc("compile", program, "-o", tmp_path / "lib.h", *option)
        assert done.code == 2, done.err
        assert option[0] in done.err
    done = graphc("compile", f"{tmp_path}/none.py:net", "-o", tmp_path / "lib.h")
    assert (done.code, "does not exist" in done.err) == (2, True)
