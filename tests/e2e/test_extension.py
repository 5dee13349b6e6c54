"""`examples/extension`, installed by pip into an environment of its own, where its tests run."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "examples" / "extension"

pytest.importorskip("pip", reason="no pip, which installs the extension")


def build_wheel(folder: Path) -> Path:
    """The wheel that hatchling makes of it, which needs no index: files and a table of entry
    points, as pyproject.toml says."""
    project = tomllib.loads((EXTENSION / "pyproject.toml").read_text("utf-8"))["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    groups = project["entry-points"].items()
    entries = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in e.items()) for group, e in groups
    ]
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    files = {
        path.relative_to(EXTENSION).as_posix(): path.read_bytes()
        for path in sorted((EXTENSION / "graphc_extension").glob("*.py"))
    }
    info = f"{stem}.dist-info"
    files |= {
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(entries).encode(),
    }
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the extension, and sees what this one has."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    install = ["install", "--quiet", "--no-index", "--no-deps", str(build_wheel(folder))]
    subprocess.run([*pip, *install], check=True, timeout=120)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    seen = [str(ROOT), str(ROOT / "frontends"), *(p for p in sys.path if "site-packages" in p)]
    (site / "graphc.pth").write_text("\n".join(seen), encoding="utf-8")
    return python


def run(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [python, *arguments], capture_output=True, text=True, cwd=cwd, env=clean, timeout=300
    )


def test_its_own_tests_pass_where_it_is_installed(python: Path, tmp_path: Path) -> None:
    shutil.copytree(EXTENSION / "tests", tmp_path / "tests")
    done = run(python, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "failed" not in done.stdout


def test_every_entry_point_of_it_is_found_there_and_not_here(python: Path, tmp_path: Path) -> None:
    project = tomllib.loads((EXTENSION / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {f"{g} {name}" for g, e in project["entry-points"].items() for name in e}
    program = (
        "from graphc.support.plugins import load, plugins, origin\n"
        f"for group in {list(project['entry-points'])}:\n"
        "    for entry in plugins(group):\n"
        "        assert 'graphc-extension 0.1.0' in origin(entry)\n"
        "        load(entry)\n"
        "        print(group, entry.name)\n"
    )
    done = run(python, "-c", program, cwd=tmp_path)
    assert done.stderr == ""
    assert {*done.stdout.splitlines()} == wanted
    here = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert "graphc_extension" not in here.stdout + here.stderr
