"""The toolkit's binary data format: files built here by hand from its description, files of the
writer, and files that lie."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.data.binary_reader import binary, read_binary
from graphc.data.binary_writer import BinaryWriter
from graphc.data.order import IN_ORDER, Order
from graphc.data.reader import Column, EpochRequest
from graphc.support.diagnostics import GraphcError

HEADER = 320
FLOAT, STRING, INTEGER = 1, 2, 3
DATA, LABELS, MAPPING, STATISTICS, CATEGORIES = 2, 3, 4, 5, 6


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(2, "little") for value in values)


def long(value: int) -> bytes:
    return value.to_bytes(8, "little")


def section(
    kind: int,
    name: str,
    data: bytes,
    *,
    element: int = 0,
    size: int = 0,
    record: int = 1,
    count: int = 0,
    label_kind: int = 0,
    classes: int = 0,
    parts: tuple[int, ...] = (),
    magic: int = 0x4ACE,
    version: int = 0x0100,
) -> bytes:
    """One section, laid out as the format's description says; parts: file offsets."""
    fields = words(magic, version, HEADER, len(parts), kind, element, size, 0, record, 0, 0)
    fields += words(0, 0, 0, 0, 0) + long(count) + words(label_kind, classes)
    text = f"{name}: made by hand".encode()
    sizes = long(HEADER + len(data)) + long(HEADER + len(data))
    offsets = b"".join(long(part) for part in parts)
    header = fields.ljust(128, b"\0") + text.ljust(128, b"\0") + sizes + offsets
    return header.ljust(HEADER, b"\0") + data


def file_of(*sections: bytes, step: int = 1024) -> bytes:
    """A file whose sections start at multiples of `step`."""
    starts = tuple(step * (i + 1) for i in range(len(sections)))
    content = section(1, "file", b"", parts=starts, magic=0xACE9)
    for start, each in zip(starts, sections, strict=True):
        content = content.ljust(start, b"\0") + each
    return content


NUMBERS = np.arange(6, dtype="<f4").reshape(3, 2) / 4


def features(**changed: Any) -> bytes:
    given: dict[str, Any] = {"element": FLOAT, "size": 4, "record": 2, "count": 6, **changed}
    return section(DATA, "features", NUMBERS.tobytes(), **given)


def labels(**changed: Any) -> bytes:
    given: dict[str, Any] = {
        "element": INTEGER,
        "size": 4,
        "count": 3,
        "label_kind": 1,
        "classes": 4,
        **changed,
    }
    return section(LABELS, "labels", struct.pack("<3i", 2, 0, 3), **given)


def write(folder: Path, content: bytes) -> Path:
    path = folder / "data.bin"
    path.write_bytes(content)
    return path


def test_a_file_made_by_hand_is_read(tmp_path: Path) -> None:
    # The label texts are a section within that of the labels, at byte 3072 of the file.
    texts = section(MAPPING, "labels", b"a\0bb\0c\xc3\xa9\0d\0", element=STRING, size=1, count=4)
    statistics = section(STATISTICS, "stats", b"\0" * 32, element=4, size=32, count=1)
    content = file_of(features(), labels(parts=(3072,)), texts, statistics)
    content = content.replace(words(0xACE9, 0x100, HEADER, 4), words(0xACE9, 0x100, HEADER, 2), 1)
    path = write(tmp_path, content)
    data = read_binary(path)
    np.testing.assert_array_equal(data.arrays["features"], NUMBERS)
    np.testing.assert_array_equal(data.arrays["labels"], [[2], [0], [3]])
    assert data.classes == {"labels": 4}
    assert data.mappings == {"labels": ("a", "bb", "cé", "d")}
    reader = binary(path, order=IN_ORDER)
    assert reader.schema == {"features": Column(2), "labels": Column(4)}
    (block,) = reader.blocks(EpochRequest())
    np.testing.assert_array_equal(np.asarray(block["labels"]), np.eye(4)[[2, 0, 3]])
    assert np.asarray(block["features"]).dtype == np.float32


def test_labels_may_be_numbers_in_doubles_or_rows_of_categories(tmp_path: Path) -> None:
    regression = section(
        LABELS, "y", struct.pack("<3d", 1, 2.5, -3), element=FLOAT, size=8, count=3, label_kind=2
    )
    rows = np.eye(3, dtype="<f4")
    dense = section(CATEGORIES, "t", rows.tobytes(), element=FLOAT, size=4, record=3, count=9)
    data = read_binary(write(tmp_path, file_of(regression, dense)))
    np.testing.assert_array_equal(data.arrays["y"], [[1], [2.5], [-3]])
    np.testing.assert_array_equal(data.arrays["t"], rows)
    assert data.classes == {}


def test_several_files_hold_different_sections_of_the_same_samples(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(file_of(features()))
    second.write_bytes(file_of(labels()))
    assert list(binary([first, second]).schema) == ["features", "labels"]
    with pytest.raises(GraphcError, match="two sections have the name `features`"):
        binary([first, first])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its header ends behind the end of the file, which has 0 bytes"),
        (b"\xe9\xac" + b"\0" * 400, "version 0x0100 is required, got 0x0000"),
        (b"PK" + b"\0" * 400, "0xace9 is required as its first word, got 0x4b50"),
        (file_of(features(magic=0xBAD1)), "section at byte 1024: writing it was not finished"),
        (file_of(features(count=2**63)), "its elements take 36893488147419103232 bytes"),
        (file_of(features(count=8)), "its elements take 32 bytes, 24 follow the header"),
        (file_of(features(count=5)), "5 elements are no whole records of 2"),
        (file_of(features(record=0)), "6 elements are no whole records of 0"),
        (file_of(features(size=3)), "elements of FLOAT with 3 bytes"),
        (file_of(features(element=7)), "there is no kind of element 7"),
        (file_of(features(element=STRING, size=1)), "numbers are required, got .* STRING"),
        (file_of(section(9, "x", b"")), "there is no kind of section 9"),
        (file_of(features(parts=(1024,))), "a part that does not come after it"),
        (file_of(features(parts=(0,))), "a part that does not come after it"),
        (file_of(features(parts=(2**60,))), "its header ends behind the end of the file"),
        (file_of(features()[:300]), "its header ends behind the end of the file"),
        (file_of(), "at least one section of data or labels is required"),
        (file_of(features(), features()), "two sections have the name `features`"),
        (file_of(features(), labels(count=2)), "got 3 of `features`, 2 of `labels`"),
        (file_of(labels(classes=0)), "labels of a number of classes"),
        (file_of(labels(label_kind=2)), "labels of a number of classes"),
        (file_of(labels(label_kind=9)), "there is no kind of labels 9"),
    ],
)
def test_a_file_that_lies_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        binary(write(tmp_path, content))


def test_label_texts_that_are_too_few_are_refused(tmp_path: Path) -> None:
    texts = section(MAPPING, "labels", b"a\0b", element=STRING, size=1, count=2)
    content = file_of(labels(parts=(2048,)), texts)
    content = content.replace(words(0xACE9, 0x100, HEADER, 2), words(0xACE9, 0x100, HEADER, 1), 1)
    with pytest.raises(GraphcError, match="2 label texts are required, 1 are there"):
        binary(write(tmp_path, content))


def test_a_class_number_that_no_class_has_is_refused(tmp_path: Path) -> None:
    reader = binary(write(tmp_path, file_of(labels(classes=3))), order=IN_ORDER)
    with pytest.raises(GraphcError, match="from 0 to 2 are required, `labels` has 3"):
        next(reader.blocks(EpochRequest()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("samples", [0, 1, 70000])
def test_what_the_writer_writes_is_read_again(
    tmp_path: Path, dtype: type[np.floating], samples: int
) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((samples, 3)).astype(dtype)
    t = np.eye(4, dtype=dtype)[rng.integers(0, 4, samples)]
    path = tmp_path / "out.bin"
    labels_of = {"t": 4, "n": 4}
    writer = BinaryWriter(path, np.dtype(dtype), labels_of, {"t": ("a", "b", "ü", "d")})
    with writer.open({"x": 3, "t": 4, "n": 1}) as sink:
        for part in np.array_split(np.arange(samples), 3):
            numbers = t[part].argmax(axis=1)[:, None]
            sink.write({"x": x[part], "t": t[part], "n": numbers})
    assert path.stat().st_size % 65536 == 0
    data = read_binary(path)
    np.testing.assert_array_equal(data.arrays["x"], x)
    np.testing.assert_array_equal(data.arrays["t"], data.arrays["n"])
    np.testing.assert_array_equal(np.eye(4)[data.arrays["t"][:, 0].astype(int)], t)
    assert (data.classes, data.mappings) == (labels_of, {"t": ("a", "b", "ü", "d")})
    assert samples == 0 or data.arrays["x"].dtype == dtype


def test_many_sections_have_a_longer_header(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    widths = {f"x{i}": i + 1 for i in range(9)}
    with BinaryWriter(path).open(widths) as sink:
        sink.write({name: np.full((2, width), width) for name, width in widths.items()})
    arrays = read_binary(path).arrays
    assert {name: array.shape for name, array in arrays.items()} == {
        name: (2, width) for name, width in widths.items()
    }


@pytest.mark.parametrize(
    ("outputs", "rows", "message"),
    [
        ({"t": 3}, np.eye(3), "labels of 4 classes are one-hot or numbers: `t` has 3"),
        ({"t": 4}, np.ones((2, 4)), "`t` requires one-hot rows"),
        ({"t": 1}, np.full((2, 1), 4), "class numbers below 4 are required of `t`"),
        ({"t": 1}, np.full((2, 1), 0.5), "class numbers below 4 are required of `t`"),
        ({"x": 70000}, np.zeros((1, 70000)), "at most 65535 numbers of a record"),
        ({"x:y": 1}, np.zeros((1, 1)), "a name without `:`"),
        ({"x" * 130: 1}, np.zeros((1, 1)), "a name without `:` of 1 to 125 bytes"),
    ],
)
def test_what_the_format_cannot_hold_is_refused_and_nothing_is_written(
    tmp_path: Path, outputs: dict[str, int], rows: np.ndarray, message: str
) -> None:
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with (
        pytest.raises(GraphcError, match=message),
        BinaryWriter(path, labels={"t": 4}).open(outputs) as sink,
    ):
        sink.write(dict.fromkeys(outputs, rows))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("seed", range(8))
def test_a_changed_file_is_read_or_refused_cleanly(tmp_path: Path, seed: int) -> None:
    texts = section(MAPPING, "labels", b"a\0b\0c\0d\0", element=STRING, size=1, count=4)
    content = file_of(features(), labels(parts=(3072,)), texts)
    content = content.replace(words(0xACE9, 0x100, HEADER, 3), words(0xACE9, 0x100, HEADER, 2), 1)
    rng = random.Random(seed)
    # Bytes that mean something: zeros between sections would be changed most of the time.
    places = [
        i for i in range(len(content)) if content[i] or i % 1024 < 48 or 256 <= i % 1024 < 320
    ]
    path, refused = tmp_path / "data.bin", 0
    for _ in range(250):
        changed = bytearray(content)
        for place in rng.sample(places, rng.randint(1, 3)):
            changed[place] = rng.choice((0, 1, 0xFF, 0x7F, rng.randrange(256)))
        path.write_bytes(changed[: rng.choice((len(changed), rng.randrange(len(changed))))])
        try:
            reader = binary(path, order=Order())
            for block in reader.blocks(EpochRequest()):
                assert set(block) == set(reader.schema)
        except GraphcError:
            refused += 1
    assert 50 < refused < 250
