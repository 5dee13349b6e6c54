"""Chains of kernel-level operations over samples, as text: windows, poolings, products, kernels.

Most read what the one before has made, some an earlier value too, some all samples or a sum over
them. Each is cut into chunks at random, or not.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

BOUND = 9
"""Samples of a call, at most."""


@dataclass
class _Chain:
    choose: random.Random
    lines: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    values: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    returned: list[tuple[str, str]] = field(default_factory=list)

    def type(self, dims: tuple[int, ...], lead: str = "N") -> str:
        return f"tensor<{'x'.join(map(str, (lead, *dims)))}xf32>"

    def input(self, type: str) -> str:
        name = f"%i{len(self.inputs)}"
        self.inputs[name] = type
        return name

    def value(self, text: str, dims: tuple[int, ...], cut: str = "", body: str = "") -> None:
        """One more value of these dims for each sample, maybe in chunks of `cut`."""
        name = f"%v{len(self.lines)}"
        chunk = self.choose.choice((0, 1, 1, 2, 3, 4))
        schedule = f" schedule {{parallel = {cut}, chunk = {chunk}}}" if cut and chunk else ""
        self.lines.append(f"{name} = {text}{schedule} : {self.type(dims)}{body}")
        self.values.append((name, dims))


def random_chain(seed: int, length: int = 8) -> str:
    """A function of `dim N <= BOUND` samples, every fourth one in f64."""
    chain = _Chain(random.Random(seed))
    dims = chain.choose.choice(((6, 6, 4), (8, 4), (7,), (3, 4, 5)))
    chain.values.append((chain.input(chain.type(dims)), dims))
    while len(chain.lines) < length:
        choices = [_kernel, _kernel, _rows, _fold, _flat, _product, _batch]
        if len(chain.values[-1][1]) == 3:
            choices += [_convolution, _pooling, _convolution]
        chain.choose.choice(choices)(chain)
    last = [chain.values[-1], *chain.choose.sample(chain.values[1:], 1)]
    chain.returned += [(name, chain.type(d)) for name, d in dict.fromkeys(last)]
    arguments = ", ".join(f"{name}: {type} input" for name, type in chain.inputs.items())
    results = ", ".join(f"r{i}: {type}" for i, (_, type) in enumerate(chain.returned))
    body = "\n".join(f"  {line}" for line in chain.lines)
    names = ", ".join(name for name, _ in chain.returned)
    text = (
        f"dim N <= {BOUND}\nfunc @f({arguments}) -> ({results}) {{\n{body}\n  return {names}\n}}\n"
    )
    return text.replace("xf32>", "xf64>") if seed % 4 == 3 else text


def _kernel(chain: _Chain) -> None:
    """Of the last value and an earlier one, an input or a bias."""
    name, dims = chain.values[-1]
    type = chain.type(dims)
    earlier = [v for v, d in chain.values[:-1] if d == dims]
    how = chain.choose.choice(("earlier", "bias", "input"))
    if how == "earlier" and earlier:
        other, of_other = chain.choose.choice(earlier), type
    else:
        of_other = chain.type(dims, "1") if how == "bias" else type
        other = chain.input(of_other)
    read, is_bias = "%o", of_other != type
    lines = [f"  ^(%x: {type}, %o: {of_other}):"]
    if is_bias:
        sizes = ", ".join(map(str, ("N", *dims)))
        lines.append(f"    %w = broadcast %o {{dims = [{sizes}]}} : {type}")
        read = "%w"
    lines += [f"    %s = add %x, {read} : {type}", f"    %t = tanh %s : {type}", "    yield %t"]
    body = "\n".join([" {", *lines, "  }"])
    chain.value(f"kernel {name}, {other}", dims, "0", body)


def _rows(chain: _Chain) -> None:
    """What is folded along the last axis of each sample."""
    name, dims = chain.values[-1]
    type, folded = chain.type(dims), chain.type((*dims[:-1], 1))
    sizes = ", ".join(map(str, ("N", *dims)))
    body = f""" {{
  ^(%x: {type}):
    %m = reduce_max %x {{axes = [{len(dims)}]}} : {folded}
    %w = broadcast %m {{dims = [{sizes}]}} : {type}
    %s = sub %x, %w : {type}
    yield %s
  }}"""
    chain.value(f"kernel {name}", dims, "0", body)


def _fold(chain: _Chain) -> None:
    """A sum over all samples, which is returned."""
    name, dims = chain.values[-1]
    type, folded = chain.type(dims), chain.type(dims, "1")
    made = f"%v{len(chain.lines)}"
    body = f"""{{
  ^(%x: {type}):
    %s = reduce_sum %x {{axes = [0]}} : {folded}
    yield %s
  }}"""
    chain.lines.append(f"{made} = kernel {name} : {folded} {body}")
    chain.returned.append((made, folded))


def _flat(chain: _Chain) -> None:
    name, dims = chain.values[-1]
    size = math.prod(dims)
    shapes = [(size,), *((a, size // a) for a in (2, 3, 4, 6) if size % a == 0)]
    shapes += [(a, b, size // a // b) for a in (4, 6) for b in (4, 6) if size % (a * b) == 0]
    made = chain.choose.choice(shapes)
    sizes = ", ".join(map(str, ("N", *made)))
    chain.value(f"reshape {name} {{dims = [{sizes}]}}", made)


def _product(chain: _Chain) -> None:
    name, dims = chain.values[-1]
    weights = chain.input(f"tensor<{dims[-1]}x5xf32>")
    rows = '"rows"' if chain.choose.random() < 0.7 else '"cols"'
    chain.value(f"gemm {name}, {weights}", (*dims[:-1], 5), rows)


def _batch(chain: _Chain) -> None:
    """Each sample's matrices times its own others."""
    name, dims = chain.values[-1]
    if len(dims) < 2:
        return
    other = chain.input(chain.type((*dims[:-2], dims[-1], 3)))
    batch = len(dims) - 1
    chain.value(f"gemm {name}, {other} {{batch = {batch}}}", (*dims[:-1], 3), '"batch"')


def _convolution(chain: _Chain) -> None:
    name, (across, down, channels) = chain.values[-1]
    zeros = chain.choose.random() < 0.5
    if not zeros and min(across, down) < 3:
        return
    weights = chain.input(f"tensor<3x3x{channels}x4xf32>")
    around = ", low = [1, 1], high = [1, 1]" if zeros else ""
    made = (across, down, 4) if zeros else (across - 2, down - 2, 4)
    text = f"conv {name}, {weights} {{axis = 1, strides = [1, 1]{around}}}"
    chain.value(text, made, '"images"')


def _pooling(chain: _Chain) -> None:
    name, (across, down, channels) = chain.values[-1]
    if min(across, down) < 2:
        return
    settings = 'scalar_op = "maximum", axis = 1, sizes = [2, 2], strides = [2, 2]'
    made = (across // 2, down // 2, channels)
    chain.value(f"pool {name} {{{settings}}}", made, '"images"')
