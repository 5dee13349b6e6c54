"""Files that PyTorch exports, with the sizes that people leave open: one compilation is what ONNX
Runtime says at three sizes. By the exporter of `torch.export` too, where onnxscript is there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional

WORDS = 30


class Decoder(nn.Module):
    """Two layers of causal attention; positions are cut out of a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Embedding(40, 16)
        self.register_buffer("numbers", torch.arange(40)[None])
        self.layers = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.norm, self.out = nn.LayerNorm(16), nn.Linear(16, WORDS)

    def forward(self, tokens: Any) -> Any:
        samples, length = tokens.shape
        x = self.words(tokens) + self.places(self.numbers[:, :length])
        for layer in self.layers:
            parts = layer(self.norm(x)).chunk(3, -1)
            q, k, v = (p.view(samples, length, 2, 8).transpose(1, 2) for p in parts)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + seen.transpose(1, 2).reshape(samples, length, 16)
        return self.out(x)


class Masked(nn.Module):
    """Attention by a mask that is made of the length, as of files without the operator for it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.query = nn.Embedding(WORDS, 16), nn.Linear(16, 16)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        length = tokens.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf")), 1)
        return torch.softmax(self.query(x) @ x.transpose(1, 2) / 4 + mask, -1) @ x


class Block(nn.Module):
    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, features, 3, padding=1)
        self.norm = nn.GroupNorm(2, features)
        self.second = nn.Conv2d(features, features, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return functional.silu(self.second(functional.silu(self.norm(self.first(x)))))


class UNet(nn.Module):
    """Half as large twice, then doubled by a transposed convolution and by interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = Block(3, 4), Block(4, 8), Block(8, 8)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.d, self.e = Block(16, 4), Block(8, 4)

    def forward(self, x: Any) -> Any:
        a = self.a(x)
        b = self.b(functional.max_pool2d(a, 2))
        c = self.up(self.c(functional.avg_pool2d(b, 2)))
        d = self.d(torch.cat([c, b], 1))
        up = functional.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        return self.e(torch.cat([up, a], 1))


class Mobile(nn.Module):
    """Depthwise convolutions with squeeze and excitation, as of MobileNet and EfficientNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(8, 16, 1)
        self.depth = nn.Conv2d(16, 16, 5, stride=2, padding=2, groups=16)
        self.norm = nn.BatchNorm2d(16)
        self.small, self.large = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.out = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = functional.hardswish(self.stem(x))
        x = functional.silu(self.norm(self.depth(functional.silu(self.wide(x)))))
        scale = functional.adaptive_avg_pool2d(x, 1)
        x = x * torch.sigmoid(self.large(functional.silu(self.small(scale))))
        return self.out(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Pyramid(nn.Module):
    """What lies lower is brought to the size of the image, whatever that is."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1, dilation=2)

    def forward(self, x: Any) -> Any:
        near = self.first(x)
        far = self.second(functional.pad(near, (1, 1, 1, 1), mode="reflect"))
        far = functional.interpolate(far, size=near.shape[2:], mode="nearest")
        return functional.interpolate(near + far, size=x.shape[2:], mode="bicubic")


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.cells = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(12, 5)

    def forward(self, tokens: Any) -> Any:
        return self.out(self.cells(self.words(tokens))[0]).log_softmax(-1)


class Chosen(nn.Module):
    """Elements that are put, picked and compared by place."""

    def forward(self, x: Any) -> Any:
        y = x.clone()
        y[:, 0] = 1.0
        y[:, :, 1:3] = 2 * x[:, :, 1:3]
        best = functional.one_hot(x.argmax(1), 40).float()
        return y, best, x.cumsum(1).flip(1), torch.einsum("bti,bsi->bts", x, y)


class Shifted(nn.Module):
    """Windows of 4 places, of an image that is shifted by 2 before and back behind, as of Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.parts = nn.LayerNorm(8), nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        samples, height, width, _ = x.shape
        shifted = torch.roll(self.norm(x), (-2, -2), (1, 2))
        cut = shifted.view(samples, height // 4, 4, width // 4, 4, 8).transpose(2, 3)
        q, k, v = self.parts(cut.reshape(-1, 1, 16, 8)).chunk(3, -1)
        seen = functional.scaled_dot_product_attention(q, k, v)
        seen = seen.view(samples, height // 4, width // 4, 4, 4, 8).transpose(2, 3)
        return x + torch.roll(seen.reshape(x.shape), (2, 2), (1, 2))


class Cached(nn.Module):
    """Attention to what a cache of keys and values holds and to what is new, by rotary places."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.parts = nn.Embedding(WORDS, 16), nn.Linear(16, 48)

    def forward(self, tokens: Any, keys: Any, values: Any) -> Any:
        samples, length = tokens.shape
        past = keys.shape[2]
        parts = self.parts(self.words(tokens)).chunk(3, -1)
        q, k, v = (p.view(samples, length, 2, 8).transpose(1, 2) for p in parts)
        places = torch.arange(past, past + length)
        keys = torch.cat([keys, rotated(k, places)], 2)
        values = torch.cat([values, v], 2)
        scores = rotated(q, places) @ keys.transpose(2, 3) / 8**0.5
        unseen = torch.arange(past + length)[None] > places[:, None]
        seen = scores.masked_fill(unseen, float("-inf")).softmax(-1) @ values
        return seen.transpose(1, 2).reshape(samples, length, 16), keys, values


def rotated(x: Any, places: Any) -> Any:
    angles = places[:, None].float() * 10.0 ** -torch.arange(4)
    low, high = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([low * cos - high * sin, low * sin + high * cos], -1)


class Detector(nn.Module):
    """The best five of all places of an image, of any size, as boxes with a class."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.heads = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 6, 1)

    def forward(self, x: Any) -> Any:
        y = self.heads(functional.relu(self.features(x)))
        at = torch.meshgrid(*map(torch.arange, y.shape[2:]), indexing="ij")
        corners = torch.stack(at, -1).reshape(1, -1, 2) + y[:, :2].flatten(2).transpose(1, 2)
        boxes = torch.cat([corners, y[:, 2:4].flatten(2).transpose(1, 2).exp()], -1)
        scores, classes = y[:, 4:].flatten(2).sigmoid().max(1)
        best, places = scores.topk(5, 1)
        picked = boxes.gather(1, places[..., None].expand(-1, -1, 4))
        return picked, best, classes.gather(1, places)


def tokens(samples: int, length: int) -> Any:
    return torch.randint(0, WORDS, (samples, length))


def cached(samples: int, length: int) -> Any:
    caches = (torch.randn(samples, 2, 3 * length - 3, 8) for _ in range(2))
    return tokens(samples, length), *caches


def images(samples: int, height: int) -> Any:
    return torch.randn(samples, 3, 4 * height, 8 + 4 * height)


def squares(samples: int, height: int) -> Any:
    return torch.randn(samples, 4 * height, 4 + 4 * height, 8)


def rows(samples: int, length: int) -> Any:
    return torch.randn(samples, length, 6)


Axes = Mapping[int, str] | tuple[Mapping[int, str], ...]
"""The names of open sizes, of the only input or of each."""
PAST = {0: "batch", 2: "past"}
TEXT, IMAGES = {0: "batch", 1: "length"}, {0: "batch", 2: "height", 3: "width"}
CASES: dict[str, tuple[type[nn.Module], Callable[[int, int], Any], Axes]] = {
    "decoder": (Decoder, tokens, TEXT),
    "masked": (Masked, tokens, TEXT),
    "u-net": (UNet, images, IMAGES),
    "mobile": (Mobile, images, IMAGES),
    "pyramid": (Pyramid, images, IMAGES),
    "tagger": (Tagger, tokens, TEXT),
    "chosen": (Chosen, rows, TEXT),
    "cached": (Cached, cached, (TEXT, PAST, PAST)),
    "detector": (Detector, images, IMAGES),
    "shifted": (Shifted, squares, {0: "batch", 1: "height", 2: "width"}),
}
SIZES = ((2, 6), (1, 3), (4, 9))
MULTIPLES = {"u-net": 4, "shifted": 4}


def exported(name: str, path: Path, *, dynamo: bool) -> None:
    make, given, axes = CASES[name]
    torch.manual_seed(0)
    module, inputs, by_input = make().eval(), several(given(*SIZES[0])), several(axes)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            sizes = {size for each in by_input for size in each.values()}
            dims = {size: torch.export.Dim(size, min=1, max=100) for size in sizes}
            if name in MULTIPLES:
                dims |= {s: 4 * torch.export.Dim(f"q{s}") for s in sizes - {"batch"}}
            shapes = tuple({axis: dims[size] for axis, size in e.items()} for e in by_input)
            how: dict[str, Any] = {"dynamo": True, "verbose": False, "dynamic_shapes": shapes}
        else:
            open_axes = zip(names_of(inputs), map(dict, by_input), strict=True)
            how = {"dynamo": False, "dynamic_axes": dict(open_axes)}
        torch.onnx.export(module, inputs, path, input_names=names_of(inputs), **how)


def several(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def names_of(inputs: tuple[Any, ...]) -> list[str]:
    return [f"x{i}" for i in range(len(inputs))]


EXPORTERS = [
    False,
    pytest.param(
        True,
        marks=pytest.mark.skipif(find_spec("onnxscript") is None, reason="requires onnxscript"),
    ),
]


@pytest.mark.parametrize("dynamo", EXPORTERS)
@pytest.mark.parametrize("name", CASES)
def test_a_file_of_pytorch(name: str, dynamo: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    exported(name, path, dynamo=dynamo)
    judge = onnxruntime.InferenceSession(path)
    shapes = [given.shape for given in judge.get_inputs()]
    open_sizes = list(dict.fromkeys(d for s in shapes for d in s if isinstance(d, str)))
    bounds = dict.fromkeys(open_sizes, 64)
    multiples = dict.fromkeys(open_sizes[1:], MULTIPLES[name]) if name in MULTIPLES else {}
    call = gc.compile(gc.load_program(path, bounds=bounds, multiples=multiples))
    for size in SIZES:
        inputs = several(CASES[name][1](*size))
        given = {n: x.numpy() for n, x in zip(names_of(inputs), inputs, strict=True)}
        wanted = judge.run(None, given)
        for got, good in zip(call(**given).values(), wanted, strict=True):
            assert got.shape == good.shape
            np.testing.assert_allclose(got, good, 1e-4, 2e-6, err_msg=f"{name} {size}")
