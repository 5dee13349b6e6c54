"""Where LLVM is missing or memory is limited: messages, and no process that ends by a signal."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.backends.llvm import engine, scarcity
from graphc.backends.llvm.target import host_target
from graphc.support.diagnostics import BackendUnavailable, GraphcError
from tests.support.commands import write_network

pytestmark = pytest.mark.llvm

LAYERS = 40

LIMITED = """
import resource, sys
allowed = int(sys.argv.pop(1)) << 20
resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
from graphc.cli.main import console
console()
"""


def outcome(folder: Path, mebibytes: int) -> tuple[int, str]:
    """The exit code and stderr of `graphc run` with so much address space."""
    lines = ["h0 = Input(8)"]
    for i in range(LAYERS):
        lines += [f"W{i} = Parameter(8, 8)", f"h{i + 1} = Tanh(Times(W{i}, h{i}))"]
    network = write_network(folder, "\n".join([*lines, f"OutputNodes = (h{LAYERS})"]))
    np.save(folder / "x.npy", np.zeros((20, 8), np.float32))
    words = [str(mebibytes), "run", str(network), str(folder / "x.npy"), "--no-cache"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *words],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_with_little_address_space_it_works_or_says_so(tmp_path: Path) -> None:
    """From where numpy can just be loaded up to where there is enough. From 278 to 284 MiB LLVM
    aborted while it started, at another number with each layout of the memory."""
    sizes = (170, 272, 278, 279, 280, 281, 282, 284, 292, 304, 400)
    outcomes = [outcome(tmp_path, mebibytes) for mebibytes in sizes]
    assert {code for code, _ in outcomes} == {0, 3}
    for code, message in outcomes:
        assert (
            message == "" if code == 0 else message.startswith(("error[backend]", "error[limit]"))
        )
    assert "a limit on memory (ulimit -v) leaves" in outcomes[0][1]
    assert outcomes[-1] == (0, "")


def test_text_that_llvm_has_no_memory_for_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "define i32 @one() {\n  ret i32 1\n}\n"
    target = host_target()
    code = engine.object_code(text, target)
    monkeypatch.setattr(scarcity, "bytes_left", lambda: 3 << 20)
    message = r"LLVM requires up to 16 MiB .* leaves 3 MiB"
    with pytest.raises(GraphcError, match=message) as caught:
        engine.object_code(text, target)
    assert caught.value.diagnostics[0].slug == "limit"
    with pytest.raises(GraphcError, match=message):
        engine.load(code, ["one"], target)


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("No module named 'llvmlite'"), OSError("could not be found")]
)
def test_a_missing_llvmlite_is_a_missing_backend(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("llvmlite"):
            raise error
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    host_target.cache_clear()
    with pytest.raises(BackendUnavailable, match=f"cannot be loaded: {error}") as caught:
        host_target()
    assert caught.value.diagnostics[0].slug == "backend"
    assert "the backends numpy and reference do without" in str(caught.value)
