"""The CUDA backend: kernels for NVIDIA's GPUs, as text that NVRTC compiles and CuPy launches.

Everything but running needs no GPU: text, compiled code, programs in C. `docs/gpu.md` says how it
is used and what was measured.
"""
