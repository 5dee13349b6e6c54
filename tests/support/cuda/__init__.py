"""CUDA kernels on the CPU: the text that a GPU runs, compiled by g++, a fiber for each thread."""
