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


def tokens(samples: int, length: int) -> Any:
    return torch.randint(0, WORDS, (samples, length))


def images(samples: int, height: int) -> Any:
    return torch.randn(samples, 3, 4 * height, 8 + 4 * height)


def squares(samples: int, height: int) -> Any:
    return torch.randn(samples, 4 * height, 4 + 4 * height, 8)


def rows(samples: int, length: int) -> Any:
    return torch.randn(samples, length, 6)


TEXT, IMAGES = {0: "batch", 1: "length"}, {0: "batch", 2: "height", 3: "width"}
CASES: dict[str, tuple[type[nn.Module], Callable[[int, int], Any], Mapping[int, str]]] = {
    "decoder": (Decoder, tokens, TEXT),
    "masked": (Masked, tokens, TEXT),
    "u-net": (UNet, images, IMAGES),
    "mobile": (Mobile, images, IMAGES),
    "pyramid": (Pyramid, images, IMAGES),
    "tagger": (Tagger, tokens, TEXT),
    "chosen": (Chosen, rows, TEXT),
    "shifted": (Shifted, squares, {0: "batch", 1: "height", 2: "width"}),
}
SIZES = ((2, 6), (1, 3), (4, 9))
MULTIPLES = {"u-net": 4, "shifted": 4}


def exported(name: str, path: Path, *, dynamo: bool) -> None:
    make, given, axes = CASES[name]
    torch.manual_seed(0)
    module, x = make().eval(), given(*SIZES[0])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            dims = {axis: torch.export.Dim(size, min=1, max=100) for axis, size in axes.items()}
            if name in MULTIPLES:
                dims |= {a: 4 * torch.export.Dim(f"q{s}") for a, s in axes.items() if a}
            how: dict[str, Any] = {"dynamo": True, "verbose": False, "dynamic_shapes": (dims,)}
        else:
            how = {"dynamo": False, "dynamic_axes": {"x": dict(axes)}}
        torch.onnx.export(module, (x,), path, input_names=["x"], **how)


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
    open_sizes = [d for d in judge.get_inputs()[0].shape if isinstance(d, str)]
    bounds = dict.fromkeys(open_sizes, 64)
    multiples = dict.fromkeys(open_sizes[1:], MULTIPLES[name]) if name in MULTIPLES else {}
    call = gc.compile(gc.load_program(path, bounds=bounds, multiples=multiples))
    for size in SIZES:
        x = CASES[name][1](*size).numpy()
        wanted = judge.run(None, {"x": x})
        for got, good in zip(call(x=x).values(), wanted, strict=True):
            assert got.shape == good.shape
            np.testing.assert_allclose(got, good, 1e-4, 2e-6, err_msg=f"{name} {size}")
