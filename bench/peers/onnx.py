"""ONNX Runtime, for inference: models are written node by node, with their weights as constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bench.peers import CannotSay, Case
from bench.workloads.encoder import EPSILON as ENCODER_EPSILON
from bench.workloads.encoder import Encoder
from bench.workloads.images import ConvNet, Convolution, ResNet, blocks, stem
from bench.workloads.mlp import Mlp
from bench.workloads.record import Array, Workload
from bench.workloads.recurrent import Recurrent
from bench.workloads.rows import EPSILON, Rows

OUTPUT = "result"
OPSET, FORMAT = 17, 9
TYPES = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64}


class Graph:
    """Nodes and constants as they are added; every node has one output, by its name."""

    def __init__(self, constants: Mapping[str, Array]) -> None:
        self.constants = dict(constants)
        self.nodes: list[Any] = []

    def add(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        name = to or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name


def case(work: Workload, threads: int, variant: str) -> Case:
    import onnxruntime  # here, because OpenVINO is given the same files and does not need it

    data = model(work)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return Case(lambda: session.run([OUTPUT], work.inputs)[0])


def model(work: Workload) -> bytes:
    """The workload as a file. Raises CannotSay."""
    if work.trains:
        raise CannotSay("its files are for inference")
    write = WRITERS.get(type(work.spec))
    if write is None:
        raise CannotSay(f"no form of {type(work.spec).__name__} is written here")
    graph = Graph(work.parameters | work.constants)
    write(work.spec, graph)
    made = helper.make_graph(
        graph.nodes,
        "workload",
        [
            helper.make_tensor_value_info(n, TYPES[v.dtype.kind], v.shape)
            for n, v in work.inputs.items()
        ],
        [helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ascontiguousarray(v), n) for n, v in graph.constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=opsets, ir_version=FORMAT).SerializeToString()


def mlp(spec: Mlp, graph: Graph) -> None:
    activation = {"sigmoid": "Sigmoid", "relu": "Relu"}[spec.activation]
    h = "x"
    for i in range(spec.layers):
        last = i == spec.layers - 1
        h = graph.add("Gemm", h, f"W{i}", f"B{i}", transB=1, to=OUTPUT if last else "")
        h = h if last else graph.add(activation, h)


def convnet(spec: ConvNet, graph: Graph) -> None:
    h = "x"
    for i in range(len(spec.channels) - 1):
        h = graph.add("Relu", graph.add("Conv", h, f"K{i}", f"A{i}"))
        h = graph.add("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
    h = graph.add("Flatten", h)
    for i in range(len(spec.dense) - 1):
        h = graph.add("Relu", graph.add("Gemm", h, f"W{i}", f"B{i}", transB=1))
    last = len(spec.dense) - 1
    graph.add("Gemm", h, f"W{last}", f"B{last}", transB=1, to=OUTPUT)


def resnet(spec: ResNet, graph: Graph) -> None:
    def normalised(c: Convolution, x: str) -> str:
        around = [c.kernel // 2] * 4
        y = graph.add("Conv", x, f"{c.name}K", strides=[c.stride] * 2, pads=around)
        variance = graph.constant(graph.constants[f"{c.name}inv"] ** -2)
        columns = [f"{c.name}{part}" for part in ("scale", "bias", "mean")]
        return graph.add("BatchNormalization", y, *columns, variance, epsilon=0.0)

    h = graph.add("Relu", normalised(stem(spec), "x"))
    h = graph.add("MaxPool", h, kernel_shape=[3, 3], strides=[2, 2])
    for first, second, around in blocks(spec):
        inner = normalised(second, graph.add("Relu", normalised(first, h)))
        beside = normalised(around, h) if around else h
        h = graph.add("Relu", graph.add("Add", inner, beside))
    mean = graph.add("Flatten", graph.add("GlobalAveragePool", h))
    graph.add("Gemm", mean, "W", "B", transB=1, to=OUTPUT)


def encoder(spec: Encoder, graph: Graph) -> None:
    def affine(layer: str, x: str) -> str:
        weight = graph.constant(graph.constants[f"W{layer}"].T)
        return graph.add("Add", graph.add("MatMul", x, weight), f"B{layer}")

    def heads(layer: str, order: list[int]) -> str:
        split = graph.add("Reshape", affine(layer, "x"), apart)
        return graph.add("Transpose", split, perm=order)

    def normalised(which: str, x: str, to: str = "") -> str:
        columns = [f"scale_{which}", f"shift_{which}"]
        return graph.add("LayerNormalization", x, *columns, epsilon=ENCODER_EPSILON, to=to)

    apart = graph.constant(np.array([0, 0, spec.heads, spec.head]))
    together = graph.constant(np.array([0, 0, spec.width]))
    product = graph.add("MatMul", heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1]))
    scores = graph.add("Mul", product, graph.constant(np.float32(spec.head**-0.5).reshape(1)))
    mixed = graph.add("MatMul", graph.add("Softmax", scores), heads("v", [0, 2, 1, 3]))
    mixed = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), together)
    y = normalised("first", graph.add("Add", "x", affine("o", mixed)))
    inner = affine("down", graph.add("Relu", affine("up", y)))
    normalised("second", graph.add("Add", y, inner), to=OUTPUT)


def recurrent(spec: Recurrent, graph: Graph) -> None:
    """ONNX's LSTM has peepholes, and gates in the order i, o, f, c."""
    if spec.cell == "sigmoid" or spec.classes or not spec.biased:
        raise CannotSay("only the tagger is asked for its scores")
    c = graph.constants

    def gates(a: Array) -> Array:
        i, f, g, o = np.split(a, 4)
        return np.concatenate([i, o, f, g])[None]

    inputs = [gates(c["Wx"]), gates(c["R"])]
    biases = np.concatenate([gates(c["b"]), np.zeros((1, 4 * spec.hidden), np.float32)], axis=1)
    names = [graph.constant(v) for v in (*inputs, biases)]
    if spec.cell == "peepholes":
        peepholes = np.concatenate([c["di"], c["do"], c["df"]])[None]
        names += ["", "", "", graph.constant(peepholes)]
    each = graph.add("Gather", "E", "words")
    x = graph.add("ReduceSum", each, graph.constant(np.array([2])), keepdims=0)
    y = graph.add("LSTM", x, *names, hidden_size=spec.hidden)  # [T, 1, S, hidden]
    h = graph.add("Reshape", y, graph.constant(np.array([-1, spec.hidden])))
    graph.add("Gemm", h, "V", "a", transB=1, to=OUTPUT)


def rows(spec: Rows, graph: Graph) -> None:
    if spec.function == "softmax":
        graph.add("Softmax", "x", axis=1, to=OUTPUT)
        return
    if spec.function == "norm":
        scale = graph.constant(np.ones(spec.columns, np.float32))  # required; one more product
        graph.add("LayerNormalization", "x", scale, axis=1, epsilon=EPSILON, to=OUTPUT)
        return
    first = graph.add("Tanh", graph.add("Add", graph.add("Mul", "x", "a"), "b"))
    second = graph.add("Sigmoid", graph.add("Sub", "x", "c"))
    square = graph.add("Mul", "x", "x")
    graph.add("Add", graph.add("Mul", first, second), square, to=OUTPUT)


WRITERS: dict[type[Any], Callable[[Any, Graph], None]] = {
    ConvNet: convnet,
    Encoder: encoder,
    Mlp: mlp,
    Recurrent: recurrent,
    ResNet: resnet,
    Rows: rows,
}
