"""NVRTC: images of every architecture, what kernels take, and what is said where it is missing."""

from __future__ import annotations

import importlib.machinery
import logging
import struct
from pathlib import Path

import pytest

from graphc.backends.cuda import nvrtc
from graphc.backends.cuda.compiler import Image, compile_text, portable_text
from graphc.support.diagnostics import BackendUnavailable, GraphcError, InternalError
from graphc.support.phases import Phases
from tests.support.cuda.tools import needs_nvrtc

TEXT = """\
extern "C" __global__ void swap(float *p)
{
    __shared__ float kept[128];
    kept[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = kept[threadIdx.x ^ 1] * p[1] + p[2];
}

extern "C" __global__ void indexed(float *p, int k)
{
    float own[100];
    for (int i = 0; i < 100; i++)
        own[i] = p[i];
    p[0] = own[k];
}
"""


def end_of(image: Image) -> int:
    """Where the last part of an ELF file ends: its sections or the tables of their headers."""
    code = image.code
    assert code[:4] == b"\x7fELF"
    programs, sections = struct.unpack_from("<QQ", code, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<4H", code, 54)
    ends = [programs + program_size * program_count, sections + section_size * section_count]
    for i in range(section_count):
        _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", code, sections + i * 64)
        ends.append(offset + (0 if kind == 8 else size))
    return max(ends)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_an_image_has_all_its_bytes_and_says_what_kernels_take(arch: str) -> None:
    phases = Phases()
    image = compile_text(TEXT, arch, phases)
    assert image.arch == arch
    assert len(image.code) == end_of(image)
    assert image.resources["swap"].shared == 512
    assert image.resources["swap"].stack == image.resources["swap"].spills == 0
    assert 4 <= image.resources["swap"].registers <= 32
    assert set(image.resources) == {"swap", "indexed"}
    assert "nvrtc" in phases.seconds


@needs_nvrtc
def test_memory_of_a_thread_and_spills_are_seen() -> None:
    assert compile_text(TEXT, "sm_90").resources["indexed"].stack >= 400
    sums = "\n".join(f"float a{i} = p[{i} * n];" for i in range(64))
    used = "\n".join(f"p[{i}] = a{63 - i};" for i in range(64))
    starved = f"""extern "C" __global__ void __launch_bounds__(1024, 2) many(float *p, int n)
    {{ {sums} __syncthreads(); {used} }}"""
    assert compile_text(starved, "sm_90").resources["many"].spills > 0


@needs_nvrtc
def test_a_product_and_a_sum_are_two_roundings_unless_the_text_says_otherwise() -> None:
    text = 'extern "C" __global__ void f(float *p) { p[0] = p[1] * p[2] + p[3]; }'
    assert "fma" not in portable_text(text, "sm_90")
    fused = 'extern "C" __global__ void f(float *p) { p[0] = fmaf(p[1], p[2], p[3]); }'
    assert "fma.rn.f32" in portable_text(fused, "sm_90")


@needs_nvrtc
def test_an_architecture_that_nvrtc_does_not_know_is_refused_with_those_it_knows() -> None:
    for arch in ("sm_13", "90"):
        with pytest.raises(GraphcError, match=rf"makes code for .*sm_90.*, not for {arch}"):
            compile_text(TEXT, arch)


@needs_nvrtc
def test_text_that_is_refused_is_a_mistake_of_graphc_with_its_line() -> None:
    with pytest.raises(InternalError, match=r"graphc\.cu\(2\): error"):
        compile_text("typedef int i32;\n__device__ i32 x = ;", "sm_90")


@needs_nvrtc
def test_warnings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "graphc"):
        compile_text(TEXT, "sm_90")
        assert not caplog.text
        compile_text('extern "C" __global__ void f() { int unused; }', "sm_90")
    assert '"unused" was declared but never referenced' in caplog.text


def test_without_nvrtc_one_error_says_what_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "lib64" / "libnvrtc.so.13"
    broken.parent.mkdir()
    broken.write_bytes(b"no library")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    monkeypatch.setattr(nvrtc, "find_spec", lambda name: None)
    monkeypatch.setattr(nvrtc, "_in_loader", lambda major: "libnvrtc-that-is-not-there.so")
    with pytest.raises(BackendUnavailable) as raised:
        compile_text(TEXT, "sm_90")
    said = str(raised.value)
    assert said.startswith("error[toolchain]: CUDA code needs NVIDIA's compiler NVRTC")
    assert "libnvrtc.so.13 and libnvrtc.so.12 cannot be loaded" in said
    assert f"note: {broken}: " in said
    assert "pip install 'graphc[cuda13]' or pip install 'graphc[cuda12]'" in said


def test_a_release_that_a_driver_cannot_take_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cu13" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc.so.13").write_bytes(b"no library")
    spec = importlib.machinery.ModuleSpec("nvidia", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(nvrtc, "find_spec", lambda name: spec)
    monkeypatch.setattr(nvrtc, "_in_loader", lambda major: "libnvrtc-that-is-not-there.so")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(nvrtc, "CUDA", str(tmp_path / "none"))
    with pytest.raises(BackendUnavailable, match=r"libnvrtc\.so\.12 cannot") as raised:
        nvrtc.require_nvrtc(12)
    assert "so.13" not in str(raised.value)
