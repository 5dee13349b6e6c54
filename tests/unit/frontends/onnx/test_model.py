"""ONNX files as programs: sizes, parameters, doors, and every kind of file that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import TensorProto, external_data_helper, helper, numpy_helper, save_model
from onnx.reference import ReferenceEvaluator

import graphc as gc
from graphc_frontends.onnx.reading import read_model
from tests.support.commands import graphc
from tests.support.compiling import RUN_HERE
from tests.support.onnx_models import model, saved

RANDOM = np.random.default_rng(5)
W = RANDOM.normal(size=(4, 3)).astype(np.float32)
B = RANDOM.normal(size=3).astype(np.float32)
NODE = helper.make_node
ML = "ai.onnx.ml"


def dense(sizes: Any = ("batch", 4)) -> Any:
    nodes = [
        NODE("Gemm", ["x", "w", "b"], ["z"], "dense", alpha=0.5),
        NODE("Softmax", ["z"], ["y"], axis=-1),
    ]
    return model(nodes, {"x": sizes}, ["y"], {"w": W, "b": B})


def attention() -> Any:
    """Reshapes by sizes that are computed from the input's own."""
    nodes = [
        NODE("Shape", ["x"], ["sizes"]),
        NODE("Slice", ["sizes", "zero", "two"], ["lead"]),
        NODE("Concat", ["lead", "heads"], ["split"], axis=0),
        NODE("Reshape", ["x", "split"], ["apart"]),
        NODE("Transpose", ["apart"], ["q"], perm=[0, 2, 1, 3]),
        NODE("Transpose", ["apart"], ["k"], perm=[0, 2, 3, 1]),
        NODE("MatMul", ["q", "k"], ["s"]),
        NODE("Softmax", ["s"], ["p"], axis=-1),
        NODE("MatMul", ["p", "q"], ["o"]),
        NODE("Transpose", ["o"], ["back"], perm=[0, 2, 1, 3]),
        NODE("Reshape", ["back", "sizes"], ["y"]),
    ]
    weights = {"zero": [0], "two": [2], "heads": [2, 3]}
    arrays = {n: np.array(v, np.int64) for n, v in weights.items()}
    return model(nodes, {"x": ["batch", "time", 6]}, ["y"], arrays)


@pytest.mark.parametrize("backend", RUN_HERE)
def test_one_compilation_is_right_at_every_size(backend: str, tmp_path: Path) -> None:
    path = saved(attention(), tmp_path)
    call = gc.compile(gc.load_program(path, bounds={"batch": 3, "time": 5}), backend=backend)
    judge = ReferenceEvaluator(str(path))
    for n, t in ((1, 1), (3, 5), (2, 4), (3, 1), (0, 2)):
        x = RANDOM.normal(size=(n, t, 6)).astype(np.float32)
        expected = judge.run(None, {"x": x})[0] if n else np.empty((0, t, 6))
        np.testing.assert_allclose(call(x=x)["y"], expected, 1e-5, 1e-6)


def test_weights_are_parameters_under_their_names(tmp_path: Path) -> None:
    program = gc.load_program(saved(dense(), tmp_path))
    assert {n: a.shape for n, a in program.parameters.items()} == {"w": (4, 3), "b": (3,)}
    call = gc.compile(program, gradients=["w"])
    x = RANDOM.normal(size=(2, 4)).astype(np.float32)
    before = call(x=x)["y"]
    program.parameters["w"] = 2 * W
    scores = 0.5 * x @ (2 * W) + B
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(call(x=x)["y"], expected, 1e-5)
    assert not np.array_equal(before, call(x=x)["y"])


def test_sizes_can_be_given(tmp_path: Path) -> None:
    path = saved(dense(["batch", "width"]), tmp_path)
    program = gc.load_program(path, sizes={"width": 4}, bounds={"batch": 7})
    assert str(program.module.dims) == "[BATCH]"
    assert program.module.dims[0].bound == 7
    assert program.function.arguments[0].tensor.dims[1] == 4


def test_a_program_can_be_saved_and_read_again(tmp_path: Path) -> None:
    gc.load_program(saved(attention(), tmp_path), bounds={"time": 9}).save(tmp_path / "x.model")
    x = RANDOM.normal(size=(2, 3, 6)).astype(np.float32)
    again = gc.compile(gc.load_program(tmp_path / "x.model"))(x=x)["y"]
    expected = ReferenceEvaluator(str(tmp_path / "x.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(again, expected, 1e-5, 1e-6)


def test_the_commands_take_onnx_files(tmp_path: Path) -> None:
    path = saved(attention(), tmp_path)
    dump = graphc("dump", path, "--stage", "tensor", "--dim", "time=9", "--dim", "batch=2!")
    assert "tensor<2xTIMEx6xf32>" in dump.out
    made = tmp_path / "net"
    done = graphc("compile", path, "-o", made, "--emit", "so,header", "--dim", "time=9")
    assert done.code == 0, done.err
    assert (tmp_path / "net.so").exists()


# --- what is refused -----------------------------------------------------------------------------


def refused(path: Path, **given: Any) -> Any:
    with pytest.raises(gc.GraphcError) as caught:
        gc.load_program(path, **given)
    return caught.value.diagnostics[0]


def test_sizes_that_are_open_are_listed(tmp_path: Path) -> None:
    problem = refused(saved(dense(["batch", "width"]), tmp_path))
    assert problem.slug == "input"
    assert "leaves the sizes `width` open" in problem.message
    assert "`--dim width=…`" in problem.message


def test_a_size_that_the_file_does_not_have(tmp_path: Path) -> None:
    problem = refused(saved(dense(), tmp_path), bounds={"bacth": 3})
    assert problem.slug == "bad-option"
    assert "it has batch; did you mean `batch`?" in problem.message


def test_operators_that_are_not_known_are_told_at_once(tmp_path: Path) -> None:
    nodes = [
        NODE("Frob", ["x"], ["a"], "first"),
        NODE("Frob", ["a"], ["b"], "second"),
        NODE("Gizmo", ["b"], ["g"], domain="com.example"),
        NODE("LabelEncoder", ["g"], ["l"], domain=ML, keys_strings=["a"], values_int64s=[1]),
        NODE("StringConcat", ["l", "l"], ["y"], "joined"),
    ]
    made = model(nodes, {"x": [2]}, ["y"])
    made.opset_import.extend(helper.make_opsetid(*s) for s in (("com.example", 1), (ML, 4)))
    problem = refused(saved(made, tmp_path))
    assert problem.slug == "unknown-op"
    listed = "Frob (in 2: `first`, `second`), com.example.Gizmo (in 1: `g`)"
    listed += f", {ML}.LabelEncoder of texts (in 1: `l`), StringConcat (in 1: `joined`)"
    assert listed in problem.message
    notes = [note.message for note in problem.notes]
    assert [n.partition(":")[0] for n in notes] == [f"{ML}.LabelEncoder of texts", "StringConcat"]
    assert "texts are not computed with" in notes[0]


@pytest.mark.parametrize(
    ("kind", "slug", "said"),
    [
        (TensorProto.STRING, "not-supported", "the input `x` is of texts"),
        (TensorProto.COMPLEX64, "not-supported", "has elements of COMPLEX64"),
        (TensorProto.FLOAT8E8M0, "not-supported", "has elements of FLOAT8E8M0"),
        (99, "bad-model-file", "has elements of the type 99, which ONNX does not have"),
    ],
)
def test_elements_that_are_not_here(kind: int, slug: str, said: str, tmp_path: Path) -> None:
    made = model([NODE("Identity", ["x"], ["y"])], {"x": [2]}, ["y"], kind=kind)
    problem = refused(saved(made, tmp_path))
    assert problem.slug == slug and said in problem.message
    cast = model([NODE("Cast", ["x"], ["y"], to=kind)], {"x": [2]}, ["y"])
    problem = refused(saved(cast, tmp_path))
    assert problem.slug == slug and problem.span is not None


def test_a_mistake_points_at_its_node(tmp_path: Path) -> None:
    nodes = [NODE("Relu", ["x"], ["r"]), NODE("Reshape", ["r", "sizes"], ["y"], "flat")]
    made = model(nodes, {"x": [2, 3]}, ["y"], {"sizes": np.array([5])})
    with pytest.raises(gc.GraphcError) as caught:
        gc.load_program(saved(made, tmp_path))
    shown = str(caught.value)
    assert "x.onnx:2:1" in shown
    assert "y = Reshape(r, sizes)  # flat" in shown
    assert "requires a shape of 6 elements" in shown
    assert 'in Reshape of version 21, node "flat"' in shown


def test_a_value_that_has_to_be_known(tmp_path: Path) -> None:
    made = model([NODE("Reshape", ["x", "sizes"], ["y"])], {"x": [2, 3]}, ["y"])
    made.graph.input.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]))
    path = saved(made, tmp_path)
    problem = refused(path)
    assert problem.slug == "input"
    assert "is computed from `sizes`: give a value, `--fix sizes=…`" in problem.message
    call = gc.compile(gc.load_program(path, values={"sizes": [3, 2]}))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(call(x=x)["y"], x.reshape(3, 2))


def test_names_that_nothing_gives(tmp_path: Path) -> None:
    problem = refused(saved(model([NODE("Relu", ["who"], ["y"])], {"x": [2]}, ["y"]), tmp_path))
    assert (problem.slug, problem.message) == (
        "bad-model-file",
        "reads `who`, which nothing before it gives",
    )


def test_a_cycle(tmp_path: Path) -> None:
    nodes = [NODE("Add", ["x", "b"], ["a"]), NODE("Relu", ["a"], ["b"])]
    assert refused(saved(model(nodes, {"x": [2]}, ["b"]), tmp_path)).slug == "bad-model-file"


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 40, b"not a model at all", bytes(range(7, 106))]
)
def test_files_that_are_no_models(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    assert refused(path).slug == "bad-model-file"


def test_every_cut_of_a_file_is_refused_or_read(tmp_path: Path) -> None:
    whole = saved(dense(), tmp_path).read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "x.onnx").write_bytes(whole[:length])
        try:
            gc.load_program(tmp_path / "x.onnx")
        except gc.GraphcError as error:
            assert error.diagnostics[0].slug in ("bad-model-file", "unknown-op", "input")


def test_large_arrays_are_read_where_they_lie(tmp_path: Path) -> None:
    w = RANDOM.normal(size=(4, 5000)).astype(np.float32)
    places = RANDOM.integers(0, 4, 9000)
    nodes = [NODE("MatMul", ["x", "w"], ["z"]), NODE("Gather", ["z", "places"], ["y"], axis=1)]
    made = model(nodes, {"x": ["batch", 4]}, ["y"], {"w": w, "places": places})
    path = saved(made, tmp_path)
    assert [t.HasField("raw_data") for t in read_model(path).graph.initializer] == [False, False]
    program = gc.load_program(path)
    assert np.array_equal(program.parameters["w"], w)
    x = RANDOM.normal(size=(2, 4)).astype(np.float32)
    y = gc.compile(program, backend="numpy")(x=x)["y"]
    np.testing.assert_allclose(y, (x @ w)[:, places], atol=1e-5)
    whole = path.read_bytes()
    for length in (len(whole) // 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert refused(path).slug == "bad-model-file"
    made.graph.initializer[0].dims[0] = 5
    problem = refused(saved(made, tmp_path))
    assert "the array `w` is damaged" in problem.message


def external(folder: Path, location: str) -> Path:
    made = dense()
    external_data_helper.set_external_data(made.graph.initializer[0], location)
    made.graph.initializer[0].ClearField("raw_data")
    save_model(made, folder / "x.onnx")
    return folder / "x.onnx"


def test_data_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    program = gc.load_program(external(tmp_path, "w.bin"))
    np.testing.assert_array_equal(program.parameters["w"], W)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "link.bin", "absent.bin"])
def test_data_outside_of_the_folder(location: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    (inside / "link.bin").symlink_to(tmp_path / "w.bin")
    problem = refused(external(inside, location))
    assert problem.slug == "bad-model-file"
    assert "data in another file" in problem.message


def test_a_function_that_calls_itself(tmp_path: Path) -> None:
    body = [NODE("Again", ["a"], ["b"], domain="own")]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Again", ["a"], ["b"], body, opsets)
    node = NODE("Again", ["x"], ["y"], domain="own")
    made = model([node], {"x": [2]}, ["y"], functions=[function])
    made.opset_import.append(opsets[1])
    problem = refused(saved(made, tmp_path))
    assert (problem.slug, problem.message) == (
        "limit",
        "graphs and functions lie in each other deeper than 64",
    )


def test_arrays_and_sizes_that_are_damaged(tmp_path: Path) -> None:
    node = NODE("Add", ["x", "w"], ["y"])
    for said, fields in (
        ("the array `w` is damaged", {"data_type": 77, "dims": [1], "raw_data": b"a"}),
        ("the array `w` is damaged", {"data_type": 1, "dims": [2, 3], "raw_data": b"abc"}),
        (
            "the array `w` is damaged",
            {"data_type": 22, "dims": [9], "raw_data": b"a"},
        ),
        (r"has the sizes \[-2, 3\]", {"data_type": 1, "dims": [-2, 3]}),
    ):
        made = model([node], {"x": [2, 3]}, ["y"])
        made.graph.initializer.append(TensorProto(name="w", **fields))
        with pytest.raises(gc.GraphcError, match=rf"bad-model-file.*{said}"):
            gc.load_program(saved(made, tmp_path))
    problem = refused(saved(model([NODE("Relu", ["x"], ["y"])], {"x": [-3]}, ["y"]), tmp_path))
    assert problem.slug == "bad-model-file" and "axis 0 of `x` has the size -3" in problem.message


def test_a_huge_size(tmp_path: Path) -> None:
    problem = refused(saved(dense(["batch", 10**18]), tmp_path))
    assert problem.slug in ("limit", "shape-mismatch", "not-supported", "ill-typed")


def test_a_later_set_of_operators(tmp_path: Path) -> None:
    made = dense()
    made.opset_import[0].version = 99
    problem = refused(saved(made, tmp_path))
    assert problem.slug == "not-supported"
    assert "version 99" in problem.message


def test_networks_and_programs_have_doors_of_their_own(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path)
    with pytest.raises(gc.GraphcError, match=r"gc\.load_program reads programs"):
        gc.load(path)


def test_without_the_package_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(dense(), tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "onnx.helper", None)
    problem = refused(path)
    assert problem.slug == "toolchain"
    assert 'pip install "graphc[onnx]"' in problem.message


def test_a_parameter_that_is_also_listed_as_an_input(tmp_path: Path) -> None:
    made = dense()
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3]))
    assert [*gc.load_program(saved(made, tmp_path)).parameters] == ["w", "b"]


def test_a_large_constant_is_a_parameter_and_a_small_one_is_written(tmp_path: Path) -> None:
    large, small = RANDOM.normal(size=(4, 40)).astype(np.float32), np.float32(2).reshape(())
    nodes = [
        NODE("Constant", [], ["large"], value=numpy_helper.from_array(large)),
        NODE("Constant", [], ["small"], value=numpy_helper.from_array(small)),
        NODE("MatMul", ["x", "large"], ["z"]),
        NODE("Mul", ["z", "small"], ["y"]),
    ]
    program = gc.load_program(saved(model(nodes, {"x": [2, 4]}, ["y"]), tmp_path))
    assert [*program.parameters] == ["large"]


def test_a_large_constant_of_one_number_is_that_number(tmp_path: Path) -> None:
    mask, zeros = np.full((64, 256), -1e9, np.float32), np.zeros((64, 256), np.float32)
    zeros[3, 5] = -0.0
    nodes = [
        NODE("Constant", [], ["mask"], value=numpy_helper.from_array(mask)),
        NODE("Constant", [], ["zeros"], value=numpy_helper.from_array(zeros)),
        NODE("Add", ["x", "mask"], ["y"]),
        NODE("Mul", ["x", "zeros"], ["z"]),
    ]
    program = gc.load_program(saved(model(nodes, {"x": [64, 256]}, ["y", "z"]), tmp_path))
    assert [*program.parameters] == ["zeros"], "one of its zeros is -0"
    ones = np.ones((64, 256), np.float32)
    made = gc.compile(program)(x=ones)
    np.testing.assert_array_equal(made["y"], ones + mask)
    assert np.signbit(made["z"]).sum() == 1
