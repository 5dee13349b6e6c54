"""Model files: what is written is read back, and every kind of damage is an error."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load_file, save

from graphc.model.container import (
    Container,
    read_container,
    read_stream,
    write_container,
)
from graphc.support.diagnostics import GraphcError

ROOT = Path(__file__).parents[3]
IR = "network {\n  z = times(w, x)\n}\n"
METADATA = {"ir": IR, "note": "Grüße \N{SNOWMAN} \x01"}


def tensors() -> dict[str, np.ndarray]:
    """About 4 KB in all element types and some odd shapes."""
    drawn = np.random.Generator(np.random.PCG64(1))
    return {
        "w": drawn.standard_normal((20, 30)).astype(np.float32),
        "b": np.array([0.0, -0.0, np.nan, np.inf, 5e-324]),
        "scalar": np.array(3.5, dtype=np.float32),
        "empty": np.zeros((0, 7), dtype=np.float32),
        "count": np.array([[-(2**31)], [2**31 - 1]], dtype=np.int32),
        "step": np.array([2**62], dtype=np.int64),
        "mask": np.array([True, False, True]),
        "größe": np.zeros((1, 2, 1, 3), dtype=np.float64),
    }


def written(
    folder: Path, given_tensors: dict[str, np.ndarray] | None = None, **metadata: str
) -> bytes:
    path = folder / "written"
    write_container(
        path, tensors() if given_tensors is None else given_tensors, METADATA | metadata
    )
    return path.read_bytes()


def read(data: bytes) -> Container:
    return read_stream(io.BytesIO(data), len(data), "the.model")


def message_of(data: bytes) -> str:
    """The message of the one error that reading gives."""
    with pytest.raises(GraphcError) as error:
        read(data)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.slug == "bad-model-file"
    assert diagnostic.message.startswith("the.model: ")
    return diagnostic.message


def assert_same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert tensor.dtype == second[name].dtype
        assert tensor.shape == second[name].shape
        assert tensor.tobytes() == second[name].tobytes()


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def assembled(header: object, body: bytes, *, canonical: bool = True) -> bytes:
    separators = (",", ":") if canonical else (", ", ":")
    text = json.dumps(header, ensure_ascii=False, sort_keys=True, separators=separators)
    return assembled_from_text(text.encode("utf-8", "surrogatepass"), body)


def assembled_from_text(text: bytes, body: bytes) -> bytes:
    text += b" " * (-(len(text) + 8) % 64)
    return len(text).to_bytes(8, "little") + text + body


def forged(header: dict[str, Any], body: bytes) -> bytes:
    """A file whose hash of the header is right, as only an attacker would make it."""
    header["__metadata__"].pop("header_hash", None)
    text = json.dumps(header, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    header["__metadata__"]["header_hash"] = hashlib.sha256(text.encode()).hexdigest()
    return assembled(header, body)


# Writing and reading


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_container(tmp_path / "m", tensors(), METADATA)
    container = read_container(tmp_path / "m")
    assert_same(container.tensors, tensors())
    assert {key: container.metadata[key] for key in METADATA} == METADATA


@given(
    st.dictionaries(
        st.text("ab_.é", min_size=1, max_size=5),
        hnp.arrays(
            st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.bool_]),
            hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
        ),
        max_size=5,
    ),
    st.text(st.characters(codec="utf-8")),
)
def test_any_tensors_and_text_are_read_back(given: dict[str, np.ndarray], ir: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        container = read(written(Path(folder), given, ir=ir))
    assert_same(container.tensors, given)
    assert container.metadata["ir"] == ir


def test_tensors_that_were_read_can_be_written_to(tmp_path: Path) -> None:
    container = read(written(tmp_path))
    container.tensors["w"][0, 0] = 7
    assert container.tensors["w"].flags.c_contiguous
    assert list(container.tensors) == sorted(tensors())


def test_a_model_without_parameters_is_a_model(tmp_path: Path) -> None:
    container = read(written(tmp_path, {}))
    assert container.tensors == {}
    assert container.metadata["ir"] == IR


def test_layout_in_memory_does_not_matter(tmp_path: Path) -> None:
    plain = np.arange(12, dtype=np.float32).reshape(3, 4)
    odd = {
        "a": np.asfortranarray(plain),
        "b": plain.astype(">f4"),
        "c": np.repeat(plain, 2, axis=1)[:, ::2],
    }
    assert written(tmp_path, odd) == written(tmp_path, dict.fromkeys("abc", plain))


def test_any_safetensors_reader_can_read_the_file(tmp_path: Path) -> None:
    write_container(tmp_path / "m", tensors(), METADATA)
    assert_same(load_file(tmp_path / "m"), tensors())
    with safe_open(tmp_path / "m", "np") as file:
        assert file.metadata()["ir"] == IR
        assert file.metadata()["format"] == "graphc"
        assert file.metadata()["format_version"] == "1"


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    reordered = dict(reversed(tensors().items()))
    write_container(tmp_path / "m", reordered, dict(reversed(METADATA.items())))
    assert (tmp_path / "m").read_bytes() == written(tmp_path)


def test_the_bytes_do_not_depend_on_the_hash_seed_of_python(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, numpy as np\n"
        "from graphc.model.container import write_container\n"
        "tensors = {n: np.ones(3) for n in {'a', 'b', 'c', 'd'}}\n"
        "metadata = {k: k for k in {'ir', 'p', 'q', 'r'}}\n"
        "write_container(pathlib.Path(sys.argv[1]), tensors, metadata)\n"
    )
    contents: set[bytes] = set()
    for seed in "123":
        path = tmp_path / seed
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", code, str(path)], check=True, cwd=ROOT, env=environment
        )
        contents.add(path.read_bytes())
    assert len(contents) == 1


def test_what_is_read_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    data = written(tmp_path)
    container = read(data)
    write_container(tmp_path / "again", container.tensors, container.metadata)
    assert (tmp_path / "again").read_bytes() == data


def test_changed_tensors_of_a_read_model_get_new_hashes(tmp_path: Path) -> None:
    container = read(written(tmp_path))
    container.tensors["w"] += 1
    write_container(tmp_path / "again", container.tensors, container.metadata)
    again = read_container(tmp_path / "again")
    np.testing.assert_array_equal(again.tensors["w"], container.tensors["w"])


def test_the_body_begins_at_a_multiple_of_64_and_tensors_are_aligned(tmp_path: Path) -> None:
    data = written(tmp_path)
    header, body = header_of(data)
    assert (len(data) - len(body)) % 64 == 0
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["data_offsets"][0] % tensors()[name].itemsize == 0


def test_an_existing_model_survives_a_failed_write(tmp_path: Path) -> None:
    data = written(tmp_path)
    with pytest.raises(ValueError, match="one of F32"):
        write_container(tmp_path / "written", {"h": np.zeros(1, np.complex64)}, METADATA)
    assert (tmp_path / "written").read_bytes() == data


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"": np.zeros(1)}, "1 to 4096 bytes"),
        ({"é" * 2049: np.zeros(1)}, "it has 4098"),
        ({"e\u0301": np.zeros(1)}, "normal form C"),
        ({"\ud800": np.zeros(1)}, "not valid Unicode"),
        ({"__metadata__": np.zeros(1)}, "taken by the file format"),
        ({"a": np.zeros((1,) * 9)}, "at most 8 dims, it has 9"),
        ({"a": np.zeros(1, np.complex64)}, "is required, got complex64"),
        ({"a": np.array(["text"])}, "is required, got"),
    ],
)
def test_what_no_reader_would_accept_is_not_written(
    tmp_path: Path, given: dict[str, np.ndarray], part: str
) -> None:
    with pytest.raises(ValueError, match=part):
        write_container(tmp_path / "m", given, METADATA)
    assert list(tmp_path.iterdir()) == []


def test_a_model_needs_its_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs `ir`"):
        write_container(tmp_path / "m", {}, {})


def test_too_much_text_is_refused_when_writing(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="16777216 bytes of header") as error:
        write_container(tmp_path / "m", {}, {"ir": "x" * 2**24})
    assert error.value.diagnostics[0].slug == "limit"


# Damage: T10


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    data = bytearray(written(tmp_path))
    assert 3500 < len(data) < 4500
    for place in range(len(data)):
        for flip in (0x01, 0x20, 0xFF):
            data[place] ^= flip
            message_of(bytes(data))
            data[place] ^= flip
    read(bytes(data))


def test_every_truncation_is_found(tmp_path: Path) -> None:
    data = written(tmp_path)
    for length in range(len(data)):
        message_of(data[:length])


@pytest.mark.parametrize("more", [b"\0", b" ", bytes(64)])
def test_bytes_after_the_end_are_found(tmp_path: Path, more: bytes) -> None:
    assert "belong to no tensor" in message_of(written(tmp_path) + more)


def test_damaged_bytes_of_a_tensor_name_the_tensor(tmp_path: Path) -> None:
    data = bytearray(written(tmp_path))
    header, body = header_of(bytes(data))
    data[len(data) - len(body) + header["w"]["data_offsets"][0] + 5] ^= 4
    assert message_of(bytes(data)) == (
        "the.model: tensor `w`: its bytes do not have the hash stated: it is damaged"
    )


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    data = written(tmp_path)
    for shorter in (4, 100, len(data) - 1):
        with pytest.raises(GraphcError, match="became shorter while it was read"):
            read_stream(io.BytesIO(data[:shorter]), len(data), "the.model")


INTEGERS = (0, 1, -1, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**64 - 1)
WRONG_TYPES = (None, True, 1.0, "1", [], {}, [[1]], 10**4000)
FIELDS: dict[str, Callable[[dict[str, Any], object], None]] = {
    "dtype": lambda entry, value: entry.update(dtype=value),
    "shape": lambda entry, value: entry.update(shape=value),
    "first dim": lambda entry, value: entry.update(shape=[value, *entry["shape"][1:]]),
    "all dims": lambda entry, value: entry.update(shape=[value] * len(entry["shape"])),
    "offsets": lambda entry, value: entry.update(data_offsets=value),
    "begin": lambda entry, value: entry["data_offsets"].__setitem__(0, value),
    "end": lambda entry, value: entry["data_offsets"].__setitem__(1, value),
    "both": lambda entry, value: entry.update(data_offsets=[value, value]),
    "entry": lambda entry, value: entry.clear(),
    "another": lambda entry, value: entry.update(another=value),
}


@pytest.mark.parametrize("name", ["w", "empty", "mask"])
@pytest.mark.parametrize("change", FIELDS)
def test_every_hostile_field_of_an_entry_is_refused_or_harmless(
    tmp_path: Path, name: str, change: str
) -> None:
    data = written(tmp_path)
    refused = 0
    for value in INTEGERS + WRONG_TYPES:
        header, body = header_of(data)
        FIELDS[change](header[name], value)
        hostile = forged(header, body)
        try:
            found = read(hostile).tensors
        except GraphcError as error:
            assert error.diagnostics[0].slug == "bad-model-file"
            refused += 1
        else:
            # Such as another place for a tensor without elements.
            expected = {key: tensor.tobytes() for key, tensor in tensors().items()}
            assert {key: tensor.tobytes() for key, tensor in found.items()} == expected
    assert refused >= len(INTEGERS + WRONG_TYPES) - 1


@pytest.mark.parametrize(
    ("length", "part"),
    [
        (0, "not plain JSON"),
        (9, "not plain JSON"),
        (4096, "the file is cut short: its header needs 4096 bytes"),
        (2**24, "the file is cut short: its header needs 16777216 bytes"),
        (2**24 + 1, "its header may have at most 16777216 bytes, it states 16777217"),
        (2**63, "at most 16777216 bytes"),
        (2**64 - 1, "at most 16777216 bytes"),
    ],
)
def test_a_wrong_length_of_the_header_is_refused(tmp_path: Path, length: int, part: str) -> None:
    assert part in message_of(length.to_bytes(8, "little") + written(tmp_path)[8:])


# What is refused, one by one


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"", "not plain JSON"),
        (b"not json", "not plain JSON"),
        (b"\xff{}", "not plain JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "not a graphc model: it has no metadata"),
        (b'{"__metadata__":[]}', "it has no metadata"),
        (b'{"__metadata__":{}}', "no `format`"),
        (b'{"__metadata__":{"format":"pt"}}', "not a graphc model"),
        (b'{"a":1,"a":1}', "a key occurs twice"),
        (b'{"a":{"b":1,"b":1}}', "a key occurs twice"),
        (b'{"a":NaN}', "`NaN` where only whole numbers"),
        (b'{"a":1e400}', "`1e400` where only whole numbers"),
        (b'{"a":' + b"1" * 5000 + b"}", "not plain JSON"),
        (b"[" * 200_000, "not plain JSON"),
        (b'{"a":' * 100_000, "not plain JSON"),
    ],
)
def test_a_header_that_is_no_model_is_refused(text: bytes, part: str) -> None:
    assert part in message_of(assembled_from_text(text, b""))


def test_a_safetensors_file_of_another_program_is_not_a_model(tmp_path: Path) -> None:
    assert "not a graphc model: it has no metadata" in message_of(save({"w": np.zeros(3)}))
    assert "not a graphc model" in message_of(save({"w": np.zeros(3)}, {"format": "pt"}))


@pytest.mark.parametrize("version", ["2", "0", "", "1.0", "x" * 5000])
def test_an_unknown_version_is_refused_with_both_versions(tmp_path: Path, version: str) -> None:
    header, body = header_of(written(tmp_path))
    header["__metadata__"]["format_version"] = version
    message = message_of(forged(header, body))
    assert f"format version {version[:100]}, this graphc reads 1" in message


def test_a_version_that_is_no_string_is_refused(tmp_path: Path) -> None:
    header, body = header_of(written(tmp_path))
    header["__metadata__"]["format_version"] = 1
    assert "this graphc reads 1" in message_of(forged(header, body))


@pytest.mark.parametrize("key", ["hashes", "ir"])
def test_required_metadata_is_missed(tmp_path: Path, key: str) -> None:
    header, body = header_of(written(tmp_path))
    del header["__metadata__"][key]
    assert f"its metadata lacks the entry `{key}`" in message_of(forged(header, body))


def test_metadata_must_be_strings(tmp_path: Path) -> None:
    header, body = header_of(written(tmp_path))
    header["__metadata__"]["note"] = ["deep"]
    assert "is not a string" in message_of(forged(header, body))


@pytest.mark.parametrize(
    ("hashes", "part"),
    [
        ("{", "list of hashes is not plain JSON"),
        ("[" * 100_000, "list of hashes is not plain JSON"),
        ('{"w":"","w":""}', "a key occurs twice"),
        ("[]", "not a JSON object"),
        ("{}", "tensor `w`: it is in the header or in the list of hashes"),
        ('{"w":1}', "tensor `w`: it is in the header or in the list of hashes"),
        ('{"v":"","w":""}', "tensor `v`: it is in the header or in the list of hashes"),
        ('{"w":""}', "tensor `w`: its bytes do not have the hash"),
    ],
)
def test_a_forged_list_of_hashes_is_refused(tmp_path: Path, hashes: str, part: str) -> None:
    header, body = header_of(written(tmp_path, {"w": np.zeros(3)}))
    header["__metadata__"]["hashes"] = hashes
    assert part in message_of(forged(header, body))


def test_a_header_that_is_not_canonical_is_refused(tmp_path: Path) -> None:
    header, body = header_of(written(tmp_path))
    assert "not in canonical form" in message_of(assembled(header, body, canonical=False))


def test_blanks_after_the_header_are_part_of_the_form(tmp_path: Path) -> None:
    data = written(tmp_path)
    length = int.from_bytes(data[:8], "little")
    longer = (length + 64).to_bytes(8, "little") + data[8 : 8 + length] + b" " * 64
    assert "not in canonical form" in message_of(longer + data[8 + length :])


def test_a_lone_surrogate_in_the_metadata_is_refused(tmp_path: Path) -> None:
    data = written(tmp_path, note="PLACE")
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].replace(b"PLACE", b"\\ud800")
    assert "not valid Unicode" in message_of(assembled_from_text(text, data[8 + length :]))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("", "1 to 4096 bytes"),
        ("x" * 4097, "it has 4097"),
        ("e\u0301", "normal form C"),
    ],
)
def test_a_hostile_name_is_refused(tmp_path: Path, name: str, part: str) -> None:
    header, body = header_of(written(tmp_path, {"w": np.zeros(3)}))
    header[name] = header.pop("w")
    message = message_of(forged(header, body))
    assert part in message
    assert len(message) < 300


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def forged_model(body: bytes, **entries: dict[str, object]) -> bytes:
    hashes = {
        name: hashlib.sha256(body[slice(*given["data_offsets"])]).hexdigest()  # pyright: ignore
        for name, given in entries.items()
    }
    metadata = {"format": "graphc", "format_version": "1", "hashes": json.dumps(hashes), "ir": ""}
    return forged({**entries, "__metadata__": metadata}, body)


def test_the_forged_model_of_these_tests_is_right_where_it_is_not_changed() -> None:
    container = read(forged_model(bytes(8), a=entry("F32", [2], 0, 8)))
    np.testing.assert_array_equal(container.tensors["a"], np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("entries", "part"),
    [
        ({"a": entry("C64", [1], 0, 8)}, "tensor `a`: its dtype must be one of F32, F64"),
        ({"a": entry("F32", [1] * 9, 0, 4)}, "at most 8 dims, it has 9"),
        ({"a": entry("F32", [-2], 0, 8)}, "from 0 to 2^40, one is -2"),
        ({"a": entry("F32", [2**40 + 1], 0, 8)}, "from 0 to 2^40"),
        ({"a": entry("F32", [2**40, 2**7], 0, 8)}, "at most 2^46 elements"),
        ({"a": entry("F32", [2**32, 2**32], 0, 0)}, "at most 2^46 elements"),
        ({"a": entry("F32", [2**31, 2], 0, 8)}, "its shape needs 17179869184 bytes, it has 8"),
        ({"a": entry("F32", [1], 0, 8)}, "its shape needs 4 bytes, it has 8"),
        ({"a": entry("F32", [2], 8, 0)}, "two numbers, begin and end"),
        ({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 0, 4)}, "`b`: it overlaps another"),
        ({"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 4, 8)}, "`b`: it overlaps another"),
        ({"a": entry("F32", [1], 4, 8)}, "`a`: it leaves a hole before it"),
        ({"a": entry("F32", [1], 0, 4)}, "bytes that belong to no tensor"),
        ({"a": entry("F32", [3], 0, 12)}, "is cut short: its tensors need 12 bytes, it has 8"),
        ({"a": entry("BOOL", [1], 0, 1), "b": entry("F32", [1], 1, 5)}, "no multiple of its"),
        ({"a": entry("F64", [1], 0, 8), "z": entry("F32", [0], 4, 4)}, "`z`: it overlaps another"),
        ({"a": entry("F64", [1], 0, 8), "z": entry("F32", [0], 16, 16)}, "leaves a hole"),
    ],
)
def test_entries_that_do_not_fit_are_refused(
    entries: dict[str, dict[str, object]], part: str
) -> None:
    assert part in message_of(forged_model(bytes(8), **entries))


def test_true_is_no_dim() -> None:
    data = forged_model(bytes(8), a=entry("F64", [True], 0, 8))
    assert "tensor `a`: its shape must be a list of integers" in message_of(data)


def test_a_number_with_thousands_of_digits_does_not_reach_the_message() -> None:
    header, body = header_of(forged_model(bytes(8), a=entry("F64", [1], 0, 8)))
    header["a"]["data_offsets"][1] = 10**4000
    message = message_of(forged(header, body))
    assert "tensor `a`: its data_offsets must be a list of integers of at most 2^53" in message


def test_an_empty_tensor_stands_at_the_end_of_the_one_before() -> None:
    container = read(
        forged_model(
            bytes(8),
            a=entry("F64", [1], 0, 8),
            y=entry("F32", [0, 2], 0, 0),
            z=entry("F32", [0], 8, 8),
        )
    )
    assert container.tensors["y"].shape == (0, 2)


def test_a_truth_value_is_zero_or_one() -> None:
    data = forged_model(b"\x01\x02", a=entry("BOOL", [2], 0, 2))
    assert "tensor `a`: a BOOL must be 0 or 1" in message_of(data)


def test_too_many_tensors_are_refused() -> None:
    entries = {f"t{i}": entry("F32", [0], 0, 0) for i in range(100_001)}
    assert "at most 100000 tensors, it has 100001" in message_of(forged_model(b"", **entries))


def test_nothing_is_allocated_for_a_tensor_that_the_file_does_not_hold() -> None:
    code = (
        "import io, resource, sys\n"
        "from graphc.model.container import read_stream\n"
        "from graphc.support.diagnostics import GraphcError\n"
        "data = sys.stdin.buffer.read()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))\n"
        "try:\n"
        "    read_stream(io.BytesIO(data), len(data), 'm')\n"
        "except GraphcError as error:\n"
        "    sys.exit(error.diagnostics[0].message)\n"
    )
    data = forged_model(bytes(8), a=entry("F32", [2**40, 2**6], 0, 2**48))
    done = subprocess.run(
        [sys.executable, "-c", code], input=data, capture_output=True, check=False, cwd=ROOT
    )
    assert b"m: the file is cut short: its tensors need 281474976710656 bytes" in done.stderr


# Files


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    size = len(written(tmp_path))
    with pytest.raises(GraphcError, match=f"at most {size - 1} bytes") as error:
        read_container(tmp_path / "written", max_bytes=size - 1)
    assert error.value.diagnostics[0].slug == "limit"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    with pytest.raises(GraphcError, match=r"m: a model file has at least 8 bytes"):
        read_container(tmp_path / "m")


def test_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m")
    with pytest.raises(GraphcError, match="is a FIFO"):
        read_container(tmp_path / "m")


def test_reading_opens_one_file_and_starts_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    code = (
        "import sys, pathlib\n"
        "from graphc.model.container import read_container\n"
        "seen = []\n"
        "def hook(event, arguments):\n"
        "    if event.split('.')[0] in "
        "('open', 'exec', 'compile', 'import', 'os', 'subprocess', 'socket', 'ctypes'):\n"
        "        seen.append((event, str(arguments[0])))\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "read_container(path)\n"
        "sys.addaudithook(hook)\n"
        "read_container(path)\n"
        "seen = [s for s in seen if s != ('open', str(path)) and not s[1].isdigit()]\n"
        "sys.exit(repr(seen) if seen else 0)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "written")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
