"""`graphc opt --reduce`: the command that decides, and what is said about the work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.commands import graphc

TEXT = """dim N <= 8

func @main(%x: tensor<Nx2xf32> input, %w: tensor<Nx2xf32> parameter) -> (z: tensor<Nx2xf32>) {
  %a = neg %x : tensor<Nx2xf32>
  %b = exp %a : tensor<Nx2xf32>
  %c = tanh %b : tensor<Nx2xf32>
  %z = mul %c, %w : tensor<Nx2xf32>
  return %z
}
"""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "case.gir"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_the_smallest_is_printed_and_the_progress_stands_on_stderr(case: Path) -> None:
    done = graphc("opt", case, "--reduce", "grep -q exp")
    assert done.code == 0
    assert done.out.count("\n  %") <= 2
    assert "= exp " in done.out
    assert " runs" in done.err
    quiet = graphc("opt", case, "--reduce", "grep -q exp", "-q")
    assert (quiet.out, quiet.err) == (done.out, "")
    assert case.read_text(encoding="utf-8") == TEXT


def test_the_path_stands_behind_the_words_of_the_command(case: Path, tmp_path: Path) -> None:
    script = tmp_path / "my script.py"
    log = tmp_path / "log"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        f"Path({str(log)!r}).open('a').write(repr(sys.argv[1:-1]) + chr(10))\n"
        "text = Path(sys.argv[-1]).read_text()\nprint(text)\n"
        "sys.exit(0 if 'tanh' in text else 7)\n",
        encoding="utf-8",
    )
    done = graphc("opt", case, "--reduce", f"{sys.executable} '{script}' 'two words' -x")
    assert done.code == 0
    assert "= tanh " in done.out
    assert "exp" not in done.out
    assert set(log.read_text().splitlines()) == {"['two words', '-x']"}


def test_passes_run_first(case: Path) -> None:
    done = graphc("opt", case, "-p", "fuse-kernels", "--reduce", "grep -q kernel")
    assert done.code == 0
    assert "kernel" in done.out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--reduce", "grep -q nothing-like-it"), 2, "exit code 0 for the whole module, got 1"),
        (("--reduce", "no-such-program-anywhere"), 3, "cannot start `no-such-program-anywhere`"),
        (("--reduce", ""), 2, "got an empty text"),
        (("--reduce", "a 'b"), 2, "requires a command"),
        (("--reduce", "true", "--run"), 2, "leave out --run"),
        (("--reduce", "true", "--split"), 2, "leave out --run"),
    ],
)
def test_what_cannot_be_done_is_said(
    case: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    done = graphc("opt", case, *options)
    assert done.code == code
    assert message in done.err
    assert done.out == ""
