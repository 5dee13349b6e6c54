"""Arrays in `.npy` and `.npz` files: mapped, unpacked, and refused."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphc.data.archives import map_npy, open_npz
from graphc.data.array_reader import from_arrays, npz
from graphc.data.order import IN_ORDER
from graphc.data.reader import Column, EpochRequest
from graphc.support.diagnostics import GraphcError

X = np.arange(12, dtype=np.float32).reshape(4, 3)
T = np.array([2, 0, 1, 1], np.int64)


def archive(folder: Path, **members: bytes) -> Path:
    path = folder / "made.npz"
    with zipfile.ZipFile(path, "w") as target:
        for name, content in members.items():
            target.writestr(f"{name}.npy", content)
    return path


def test_arrays_of_an_archive_are_mapped_where_they_are_stored(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, t=T, f=np.asfortranarray(X), none=X[:0])
    found = open_npz(tmp_path / "a.npz")
    assert list(found) == ["x", "t", "f", "none"]
    for name, wanted in {"x": X, "t": T, "f": X, "none": X[:0]}.items():
        np.testing.assert_array_equal(found[name], wanted)
    assert isinstance(found["x"], np.memmap)
    assert isinstance(found["f"], np.memmap)


def test_arrays_of_a_compressed_archive_are_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=X, zeros=np.zeros((1000, 1000)))
    found = open_npz(tmp_path / "a.npz")
    np.testing.assert_array_equal(found["x"], X)
    assert found["zeros"].shape == (1000, 1000)


def test_an_npy_file_is_mapped(tmp_path: Path) -> None:
    for array in (X, T, X.astype(">f8"), np.asfortranarray(X)):
        np.save(tmp_path / "a.npy", array)
        mapped = map_npy(tmp_path / "a.npy")
        assert isinstance(mapped, np.memmap)
        np.testing.assert_array_equal(mapped, array)


def test_an_archive_is_a_reader_of_named_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=X, digits=T, more=np.ones((4, 2, 5)))
    reader = npz(
        tmp_path / "a.npz",
        {"x": "images", "t": "digits", "m": "more"},
        classes={"t": 3},
        order=IN_ORDER,
    )
    assert reader.schema == {"x": Column(3), "t": Column(3), "m": Column(10)}
    (block,) = reader.blocks(EpochRequest())
    np.testing.assert_array_equal(np.asarray(block["x"]), X)
    np.testing.assert_array_equal(np.asarray(block["t"]), np.eye(3)[T])
    assert list(npz(tmp_path / "a.npz").schema) == ["images", "digits", "more"]
    with pytest.raises(GraphcError, match=r"has no array `image`.*did you mean `images`"):
        npz(tmp_path / "a.npz", {"x": "image"})


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({"y": 3}, "there is no array `y` of class numbers"),
        ({"x": 3}, "`x` requires one class number for each sample, got float32"),
        ({"t": 0}, "`t` requires at least 1 class"),
    ],
)
def test_classes_that_make_no_sense_are_refused(classes: dict[str, int], message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        from_arrays({"x": X, "t": T}, classes=classes)


def test_a_class_number_without_a_class_is_refused() -> None:
    for classes in (2, 1):
        reader = from_arrays({"t": T}, classes={"t": classes})
        with pytest.raises(GraphcError, match=f"from 0 to {classes - 1} are required"):
            next(reader.blocks(EpochRequest()))


def test_python_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}], object))
    with pytest.raises(GraphcError, match=r"real numbers is required.*Python objects"):
        open_npz(tmp_path / "a.npz")


def test_sizes_that_no_deflated_bytes_have_are_refused_before_memory_is_taken(
    tmp_path: Path,
) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296,), }\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    path = archive(tmp_path, x=content)
    with pytest.raises(GraphcError, match="takes 34359738368 bytes, 0 follow the header"):
        open_npz(path)
    # Both sizes of the directory changed: the file would have 3 GiB once it is unpacked.
    np.savez_compressed(path, x=np.zeros(10))
    changed = bytearray(path.read_bytes())
    at = changed.index(b"PK\x01\x02")
    changed[at + 24 : at + 28] = (3 << 30).to_bytes(4, "little")
    path.write_bytes(changed)
    with pytest.raises(GraphcError, match="cannot be 3221225472 once unpacked"):
        open_npz(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all", X.tobytes()])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(GraphcError, match=r"is no complete \.npz file"):
        open_npz(tmp_path / "a.npz")


def test_an_archive_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="at least one array is required"):
        open_npz(archive(tmp_path))


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_changed_archive_is_read_or_refused_cleanly(
    tmp_path: Path, compressed: bool, seed: int
) -> None:
    path = tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(path, x=X, t=T)
    content, rng = path.read_bytes(), random.Random(seed)
    refused = 0
    for _ in range(250):
        changed = bytearray(content)
        for place in rng.sample(range(len(content)), rng.randint(1, 4)):
            changed[place] = rng.choice((0, 0xFF, rng.randrange(256)))
        path.write_bytes(changed[: rng.choice((len(changed), rng.randrange(len(changed))))])
        try:
            for array in open_npz(path).values():
                assert array.dtype.kind in "fiub"
        except GraphcError:
            refused += 1
    assert refused > 50
