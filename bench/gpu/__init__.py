"""graphc's kernels on a GPU: whether they are right, what the device can do, and who is faster."""
