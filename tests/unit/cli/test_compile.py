"""`graphc compile`: which files are made, and what it says about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import NETWORK, graphc, write_network


def test_the_kind_is_told_from_the_name(tmp_path: Path) -> None:
    done = graphc("compile", write_network(tmp_path), "-o", tmp_path / "net.py")
    assert done.code == 0
    assert "import numpy as np" in (tmp_path / "net.py").read_text()
    assert str(tmp_path / "net.py") in done.err


def test_kinds_may_be_joined_by_commas_or_repeated(tmp_path: Path) -> None:
    network = write_network(tmp_path)
    for folder, kinds in (("a", ("--emit", "ir,py")), ("b", ("--emit", "ir", "--emit", "py"))):
        (tmp_path / folder).mkdir()
        assert graphc("compile", network, "-o", tmp_path / folder / "net", *kinds).code == 0
        made = sorted(p.name for p in (tmp_path / folder).iterdir())
        assert made == ["net.gir", "net.py"]


@pytest.mark.parametrize(("first", "second"), [("net.so", "net.py"), ("net.py", "net.so")])
def test_a_library_that_hides_a_python_file_is_a_warning(
    tmp_path: Path, first: str, second: str
) -> None:
    """`import net` takes net.so for the module."""
    (tmp_path / first).write_bytes(b"made before")
    done = graphc("compile", write_network(tmp_path), "-o", tmp_path / second, "--emit", "ir")
    assert "warning: `import net` will find" in done.err
    assert "another name, such as libnet.so" in done.err
    assert done.code == 0


@pytest.mark.parametrize("name", ["libnet.so", "net-1.py", "net.gir"])
def test_other_files_beside_it_are_no_warning(tmp_path: Path, name: str) -> None:
    for old in ("net.py", "net-1.so"):
        (tmp_path / old).write_bytes(b"made before")
    done = graphc("compile", write_network(tmp_path), "-o", tmp_path / name, "--emit", "ir")
    assert (done.code, "warning" in done.err) == (0, False)


def test_json_lists_the_files(tmp_path: Path) -> None:
    out = tmp_path / "net.gir"
    record = json.loads(graphc("compile", write_network(tmp_path), "-o", out, "--json").out)
    assert record["files"] == {"ir": {"path": str(out), "bytes": out.stat().st_size}}
    assert record["schema"] == 1


def test_text_can_go_to_stdout(tmp_path: Path) -> None:
    done = graphc("compile", write_network(tmp_path), "-o", "-", "--emit", "ir")
    assert done.code == 0
    assert done.out.startswith("dim N <= 256\n")


@pytest.mark.parametrize("more", [(), ("--emit", "exe"), ("--emit", "ir,py")])
def test_only_one_text_can_go_to_stdout(tmp_path: Path, more: tuple[str, ...]) -> None:
    assert graphc("compile", write_network(tmp_path), "-o", "-", *more).code == 2


def test_the_bound_nodes_and_precision_reach_the_result(tmp_path: Path) -> None:
    done = graphc(
        *("compile", write_network(tmp_path), "-o", "-", "--emit", "ir"),
        *("--bound", "5", "--nodes", "t", "--precision", "double"),
    )
    assert done.out.startswith("dim N <= 5\n")
    assert "-> (t: tensor<Nx2xf64>)" in done.out


def test_the_c_name_comes_from_the_file_unless_it_is_given(tmp_path: Path) -> None:
    network = write_network(tmp_path)
    python = graphc("compile", network, "-o", "-", "--emit", "py")
    assert "def net(" in python.out
    named = graphc("compile", network, "-o", "-", "--emit", "py", "--name", "digits")
    assert "def digits(" in named.out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("-o", "net", "--emit", "exee"), "did you mean `exe`"),
        (("-o", "net.xyz"), "--emit"),
    ],
)
def test_a_kind_that_is_unknown_is_a_usage_error(
    tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    done = graphc("compile", write_network(tmp_path), *more)
    assert done.code == 2
    assert message in done.err


def test_a_network_whose_statistics_have_no_value_is_refused(tmp_path: Path) -> None:
    text = "x = Input(2, tag=feature)\nm = Mean(x)\nz = Minus(x, m)\nOutputNodes = (z)\n"
    done = graphc("compile", write_network(tmp_path, text), "-o", tmp_path / "net.gir")
    assert done.code == 3
    assert "error[not-precomputed]" in done.err
    assert not (tmp_path / "net.gir").exists()


@pytest.mark.parametrize("name", ["1x", "a b", ""])
def test_a_name_that_c_cannot_have_is_a_usage_error(tmp_path: Path, name: str) -> None:
    out = tmp_path / "net.o"
    done = graphc("compile", write_network(tmp_path), "-o", out, "--name", name)
    assert done.code == 2
    assert "'--name'" in done.err
    assert not out.exists()


@pytest.mark.parametrize("out", ["net.ndl", "folder/../net.ndl", "link"])
def test_the_network_itself_is_not_overwritten(tmp_path: Path, out: str) -> None:
    network = write_network(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(network)
    done = graphc("compile", network, "-o", tmp_path / out, "--emit", "ir")
    assert done.code == 2
    assert "is the network" in done.err
    assert network.read_text() == NETWORK
