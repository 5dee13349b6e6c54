"""The cache of compiled code, between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphc.artifacts.link import find_compiler
from graphc.driver.cache import Cache

pytestmark = pytest.mark.llvm

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
import numpy as np
import graphc as gc
from graphc.driver import cache_key
cache_key.SOURCES = "0123456789abcdef"  # also where the sources were edited a moment ago
cache_key.source_stamp = lambda: "0123456789abcdef"
from importlib import import_module
runtime = import_module(f"graphc.backends.{sys.argv[2]}.runtime")
made = []
real = runtime.make_code
runtime.make_code = lambda *given, **more: made.append(1) or real(*given, **more)
x = np.linspace(-1, 1, 30, dtype=np.float32).reshape(10, 3)
for i in range(int(sys.argv[1])):
    net = gc.loads(f"x = Input(3)\\nz = Scale(Constant({i}.5), Tanh(x), tag=output)\\n")
    z = gc.compile(net, backend=sys.argv[2])(x=x)["z"]
    assert np.allclose(z, (i + 0.5) * np.tanh(x), rtol=1e-5), i
print(len(made))
"""


def start(folder: Path, count: int, backend: str = "llvm") -> subprocess.Popen[str]:
    environment = os.environ | {
        "GRAPHC_CACHE": "on",
        "GRAPHC_CACHE_DIR": str(folder),
        "PYTHONPATH": str(ROOT),
    }
    words = [sys.executable, "-c", PROGRAM, str(count), backend]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)


def compiled(process: subprocess.Popen[str]) -> int:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return int(out)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_a_second_process_compiles_nothing(tmp_path: Path, backend: str) -> None:
    if backend == "c" and find_compiler() is None:
        pytest.skip("no C compiler")
    folder = tmp_path / "cache"
    assert compiled(start(folder, 2, backend)) == 2
    assert compiled(start(folder, 2, backend)) == 0


def test_processes_at_the_same_time_share_a_folder_that_stays_whole(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    for made in [compiled(p) for p in [start(folder, 6), start(folder, 6)]]:
        assert 0 <= made <= 6
    assert compiled(start(folder, 6)) == 0
    assert sorted(p.suffix for p in folder.iterdir()) == [".entry"] * 6 + [".json"]


TRAINING = """
import sys
import numpy as np
import graphc as gc
from graphc.driver import cache_key
cache_key.SOURCES = "0123456789abcdef"
cache_key.source_stamp = lambda: "0123456789abcdef"
net = gc.loads('''
    x = Input(64, tag=feature)
    t = Input(3, tag=label)
    h = Tanh(Times(Parameter(512, 64), PerDimMeanVarNormalization(x, Mean(x), InvStdDev(x))))
    z = Times(Parameter(3, 512), h)
    e = CrossEntropyWithSoftmax(t, z, tag=criteria)
''')
data = {"x": np.eye(600, 64), "t": np.eye(3)[np.arange(600) % 3]}
gc.train(net, data, epochs=1, minibatch=600, learning_rate=0.1, threads=2)
print(*sys.modules)
"""

ONLY_TO_COMPILE = {
    "graphc.backends.loops.entry",
    "graphc.backends.llvm.emit",
    "graphc.passes.analysis.schedules",
    "graphc.tensor.function",
    "importlib.metadata",
    "networkx",
    "difflib",
    "rich",
}


def modules_of_a_training(folder: Path) -> set[str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "frontends")])
    environment = os.environ | {
        "GRAPHC_CACHE": "on",
        "GRAPHC_CACHE_DIR": str(folder),
        "PYTHONPATH": paths,
    }
    words = [sys.executable, "-c", TRAINING]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_training_whose_code_is_found_imports_nothing_that_writes_code(tmp_path: Path) -> None:
    first, second = (modules_of_a_training(tmp_path / "cache") for _ in range(2))
    assert {"graphc.backends.llvm.emit", "graphc.passes.analysis.schedules"} <= first
    assert second & ONLY_TO_COMPILE == set()


def test_the_code_of_threads_is_kept(tmp_path: Path) -> None:
    modules_of_a_training(tmp_path / "cache")
    names = [e.entry.signature.name for e in Cache(tmp_path / "cache").entries() if e.entry]
    assert names.count("runs a pool of threads") == 1
