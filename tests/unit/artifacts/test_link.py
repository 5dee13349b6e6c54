"""Linking: which symbols leave, hardening, same bytes anywhere, messages when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from graphc.artifacts.header import header_text
from graphc.artifacts.interface import exported_symbols
from graphc.artifacts.link import (
    Compiler,
    find_compiler,
    link_program,
    link_shared,
    require_compiler,
)
from graphc.artifacts.program import build_program
from graphc.support.diagnostics import BackendUnavailable, GraphcError
from tests.support.c_networks import Tool, Workshop, affine

EXPORTS = exported_symbols("fake")


@pytest.fixture(scope="module")
def library(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("library") / "libfake.so"
    link_shared([workshop.compile_object(affine())], out, exports=EXPORTS)
    return out


def output_of(*command: str | Path) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True)
    return done.stdout


def make_executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_cc_names_the_compiler_with_its_words(tmp_path: Path) -> None:
    mine = make_executable(tmp_path / "mycc", "#!/bin/sh\n")
    found = find_compiler({"CC": "mycc -m64", "PATH": str(tmp_path)})
    assert found == Compiler(str(mine), ("-m64",))


def test_the_first_of_cc_gcc_clang_is_found(tmp_path: Path) -> None:
    make_executable(tmp_path / "clang", "#!/bin/sh\n")
    gcc = make_executable(tmp_path / "gcc", "#!/bin/sh\n")
    assert find_compiler({"PATH": str(tmp_path)}) == Compiler(str(gcc))


def test_a_compiler_on_a_relative_path_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_executable(tmp_path / "cc", "#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    found = find_compiler({"PATH": "."})
    assert found is not None
    assert found.path == str(tmp_path / "cc")


def test_a_cc_that_is_missing_is_not_replaced(tmp_path: Path) -> None:
    make_executable(tmp_path / "cc", "#!/bin/sh\n")
    assert find_compiler({"CC": "nosuchcc", "PATH": str(tmp_path)}) is None


def test_without_a_compiler_the_message_says_what_still_works(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable) as caught:
        require_compiler({"PATH": str(tmp_path)})
    assert caught.value.diagnostics[0].slug == "toolchain"
    assert "cc, gcc and clang are not found" in str(caught.value)
    assert "object files, headers" in str(caught.value)


def test_a_missing_cc_is_named_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="need a C compiler, and CC names `nosuchcc`"):
        require_compiler({"CC": "nosuchcc", "PATH": str(tmp_path)})


def test_the_version_is_the_first_line_of_the_compiler(tmp_path: Path) -> None:
    mine = make_executable(tmp_path / "cc", "#!/bin/sh\necho my compiler 1.0\necho more\n")
    assert Compiler(str(mine)).version() == "my compiler 1.0"


def test_a_failing_compiler_is_shown_with_command_and_complaint(tmp_path: Path) -> None:
    mine = make_executable(tmp_path / "cc", "#!/bin/sh\necho 'no such thing' >&2\nexit 9\n")
    with pytest.raises(GraphcError) as caught:
        link_program([tmp_path / "a b.o"], tmp_path / "out", compiler=Compiler(str(mine)))
    shown = str(caught.value)
    assert caught.value.diagnostics[0].slug == "toolchain"
    assert "exit code 9" in shown
    assert f"command: {mine}" in shown
    assert "no such thing" in shown
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cc"]


def test_a_compiler_that_makes_nothing_is_told(tmp_path: Path) -> None:
    mine = make_executable(tmp_path / "cc", "#!/bin/sh\nexit 0\n")
    with pytest.raises(GraphcError, match="made no file") as caught:
        link_program([tmp_path / "a.o"], tmp_path / "out", compiler=Compiler(str(mine)))
    assert caught.value.diagnostics[0].slug == "toolchain"
    assert f"command: {mine}" in str(caught.value)


def test_a_compiler_that_is_killed_is_told(tmp_path: Path) -> None:
    mine = make_executable(tmp_path / "cc", "#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(GraphcError, match="the C compiler was ended by signal SIGKILL"):
        link_program([tmp_path / "a.o"], tmp_path / "out", compiler=Compiler(str(mine)))


def test_no_shell_reads_the_names(tmp_path: Path, workshop: Workshop) -> None:
    folder = tmp_path / "a $(touch stolen); b"
    folder.mkdir()
    moved = folder / "-o x.o"
    shutil.copy(workshop.compile_object(affine()), moved)
    link_shared([moved], folder / "lib fake.so", exports=EXPORTS)
    assert sorted(p.name for p in folder.iterdir()) == ["-o x.o", "lib fake.so"]
    assert not (tmp_path / "stolen").exists()


@pytest.mark.parametrize("exports", [[], ["a;b"], ["*"]])
def test_exports_have_to_be_identifiers(exports: list[str], tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match=r"identifier|without exported"):
        link_shared([tmp_path / "x.o"], tmp_path / "x.so", exports=exports)


def test_a_folder_that_is_missing_is_a_file_error(tmp_path: Path, workshop: Workshop) -> None:
    objects = [workshop.compile_object(affine())]
    with pytest.raises(GraphcError) as caught:
        link_shared(objects, tmp_path / "missing" / "x.so", exports=EXPORTS)
    assert caught.value.diagnostics[0].slug == "file"


def test_a_failed_link_leaves_the_old_file(tmp_path: Path, workshop: Workshop) -> None:
    out = tmp_path / "out"
    out.write_text("old")
    broken = tmp_path / "broken.c"
    broken.write_text("int missing(void); int main(void) { return missing(); }\n")
    with pytest.raises(GraphcError, match="missing"):
        link_program([broken], out)
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.c", "out"]


def test_a_shared_library_exports_exactly_the_four_functions(library: Path, tool: Tool) -> None:
    lines = output_of(tool("nm"), "-D", "--defined-only", library).splitlines()
    assert sorted(line.split()[-1] for line in lines) == sorted(EXPORTS)


def test_a_shared_library_needs_nothing(library: Path, tool: Tool) -> None:
    assert output_of(tool("nm"), "-D", "--undefined-only", library) == ""
    dynamic = output_of(tool("readelf"), "-dW", library)
    assert "NEEDED" not in dynamic
    assert "RUNPATH" not in dynamic
    assert "RPATH" not in dynamic


@pytest.mark.parametrize("kind", ["library", "program"])
def test_artifacts_are_hardened(kind: str, library: Path, workshop: Workshop, tool: Tool) -> None:
    path = library if kind == "library" else workshop.program(affine())
    segments = output_of(tool("readelf"), "-lW", path)
    dynamic = output_of(tool("readelf"), "-dW", path)
    stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
    assert " RW " in stack
    assert "GNU_RELRO" in segments
    assert "NOW" in dynamic
    assert "TEXTREL" not in dynamic
    assert "DYN" in output_of(tool("readelf"), "-hW", path)


def test_an_executable_needs_the_c_library_only(workshop: Workshop, tool: Tool) -> None:
    dynamic = output_of(tool("readelf"), "-dW", workshop.program(affine()))
    needed = [line for line in dynamic.splitlines() if "NEEDED" in line]
    assert [line.split("[")[1].split(".")[0] for line in needed] == ["libc"]


def test_an_executable_is_small(workshop: Workshop) -> None:
    assert workshop.program(affine()).stat().st_size < 64 * 1024


@pytest.mark.parametrize("kind", ["library", "program"])
def test_the_bytes_are_the_same_in_another_folder(
    kind: str, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = affine()
    made: list[bytes] = []
    for place in ("one", "two/deeper"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        shutil.copy(workshop.compile_object(fake), "moved.o")
        if kind == "library":
            link_shared([Path("moved.o")], Path("result"), exports=EXPORTS)
        else:
            build_program(Path("moved.o"), Path("result"), fake.signature, info=fake.info)
        made.append(Path("result").read_bytes())
    assert made[0] == made[1]
    assert os.fsencode(tmp_path) not in made[0]


def test_a_static_executable_runs_without_any_library(
    workshop: Workshop, tmp_path: Path, tool: Tool
) -> None:
    fake, out = affine(), tmp_path / "fake"
    try:
        objects = workshop.compile_object(fake)
        build_program(objects, out, fake.signature, info=fake.info, static=True)
    except GraphcError as error:
        pytest.skip(f"no static C library: {error.diagnostics[0].message}")
    assert "NEEDED" not in output_of(tool("readelf"), "-dW", out)
    done = subprocess.run([out], input="1 2 3\n", capture_output=True, text=True, check=True)
    assert done.stdout == "3 5 7\n"


THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "fake.h"
enum { THREADS = 8, CALLS = 1000, N = 4 };
static void *work(void *argument) {
  float start = (float)(long)argument, x[N * 3], z[N * 3];
  void *arena = aligned_alloc(64, 64);
  long wrong = 0;
  for (int call = 0; call < CALLS; call++) {
    for (int i = 0; i < N * 3; i++) x[i] = start + (float)call + (float)i;
    wrong += fake_run(N, x, z, arena) != 0;
    for (int i = 0; i < N * 3; i++) wrong += z[i] != 2 * x[i] + 1;
  }
  free(arena);
  return (void *)wrong;
}
int main(void) {
  pthread_t threads[THREADS];
  long all = 0;
  for (long t = 0; t < THREADS; t++) pthread_create(&threads[t], 0, work, (void *)(t * 1000));
  for (int t = 0; t < THREADS; t++) {
    void *wrong;
    pthread_join(threads[t], &wrong);
    all += (long)wrong;
  }
  printf("%ld\n", all);
  return 0;
}
"""

HOST_STATE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <xmmintrin.h>
static int open_files(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}
int main(int count, char **names) {
  static _Alignas(64) char arena[64];
  float x[3] = {0}, z[3];
  volatile float tiny = 1e-40f;
  struct sigaction before, after;
  memset(&before, 0, sizeof before);
  memset(&after, 0, sizeof after);
  (void)count;
  unsigned control = _mm_getcsr() & ~0x3fu;
  int files = open_files();
  sigaction(SIGFPE, 0, &before);
  void *library = dlopen(names[1], RTLD_NOW);
  int32_t (*run)(int64_t, const float *, float *, void *) =
      (int32_t (*)(int64_t, const float *, float *, void *))dlsym(library, "fake_run");
  int code = run(1, x, z, arena) + run(1, x, z, arena + 1) + run(-1, x, z, arena);
  sigaction(SIGFPE, 0, &after);
  printf("%d", code);
  printf(" %d", (_mm_getcsr() & ~0x3fu) == control);
  printf(" %d", tiny * 1.0f != 0.0f);
  printf(" %d", open_files() == files);
  printf(" %d", before.sa_handler == after.sa_handler);
  printf(" %s\n", setlocale(LC_ALL, 0));
  return 0;
}
"""


def compile_c(tool: Tool, folder: Path, source: str, *more: str | Path) -> Path:
    (folder / "use.c").write_text(source)
    command = [tool("gcc"), "-std=gnu11", "-O1", "-Wall", "-Werror", "use.c", *map(str, more)]
    subprocess.run([*command, "-o", "use"], cwd=folder, check=True)
    return folder / "use"


def test_eight_threads_of_an_embedding_program_get_right_answers(
    library: Path, tool: Tool, tmp_path: Path
) -> None:
    fake = affine()
    (tmp_path / "fake.h").write_text(header_text(fake.signature, info=fake.info))
    program = compile_c(
        tool, tmp_path, THREADS, library, "-pthread", f"-Wl,-rpath,{library.parent}"
    )
    assert output_of(program) == "0\n"


def test_loading_and_running_a_library_leaves_the_host_as_it_was(
    library: Path, tool: Tool, tmp_path: Path
) -> None:
    program = compile_c(tool, tmp_path, HOST_STATE, "-ldl")
    # Files opened by the loader are closed again; 4 is status 0 + 3 + 1.
    assert output_of(program, library) == "4 1 1 1 1 C\n"
