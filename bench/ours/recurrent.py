"""Recurrent networks in NDL: each gate a product of its own, as people write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import graphc as gc
from bench.ours.how import CRITERION, SCORES, How, inference, loss, one_hot, training_step
from bench.peers import Case
from bench.workloads.record import Values, Workload
from bench.workloads.recurrent import GATES, Recurrent

MACROS = Path(__file__).parents[2] / "examples" / "lstm.ndl"
LAYERS = {"lstm": "Plain", "peepholes": "LSTM"}
INSIDE = {"lstm": "h.", "peepholes": "h.step."}
"""Where the gates are in the layer called h."""
PLAIN_LSTM = """
Plain(x, cols, rows)
{
  hPast = PastValue(rows, h, defaultHiddenActivity=0)
  cPast = PastValue(rows, c, defaultHiddenActivity=0)
  ai = Affine(x, cols, hPast, rows)
  af = Affine(x, cols, hPast, rows)
  ag = Affine(x, cols, hPast, rows)
  ao = Affine(x, cols, hPast, rows)
  c = Plus(ElementTimes(Sigmoid(af), cPast), ElementTimes(Sigmoid(ai), Tanh(ag)))
  h = ElementTimes(Sigmoid(ao), Tanh(c))
}
"""
SIGMOID = """\
U = Parameter({h}, {h})
b = Parameter({h}, 1)
past = PastValue({h}, h, defaultHiddenActivity=0)
h = Sigmoid(Plus(Plus(embedded, Times(U, past)), b))
"""
BY_CLASS = """\
labels = Input(4, tag=label)
W = Parameter({h}, {outputs})
C = Parameter({classes}, {h})
q = Times(C, h)
{criterion} = ClassBasedCrossEntropyWithSoftmax(labels, h, W, q, maxClassSize={size}, tag=criterion)
"""


def text(spec: Recurrent) -> str:
    h = spec.hidden
    lines = [
        f"words = SparseInput({spec.words}, tag=feature)",
        f"E = Parameter({spec.embedding}, {spec.words})",
        "embedded = Times(E, words)",
    ]
    if spec.cell == "sigmoid":
        lines.append(SIGMOID.format(h=h))
    else:
        lines.append(f"h = {LAYERS[spec.cell]}(embedded, {spec.embedding}, {h})")
    if spec.classes:
        sizes = {"outputs": spec.outputs, "classes": spec.classes, "size": spec.class_size}
        lines.append(BY_CLASS.format(h=h, criterion=CRITERION, **sizes))
        return "\n".join(lines)
    lines += [
        f"labels = Input({spec.outputs}, tag=label)",
        f"V = Parameter({spec.outputs}, {h})",
    ]
    if spec.biased:
        lines += [
            f"a = Parameter({spec.outputs}, 1)",
            f"{SCORES} = Plus(Times(V, h), a, tag=output)",
        ]
    else:
        lines.append(f"{SCORES} = Times(V, h, tag=output)")
    lines.append(f"{CRITERION} = CrossEntropyWithSoftmax(labels, {SCORES}, tag=criterion)")
    return "\n".join(lines) + "\n"


def recurrent(work: Workload, how: How) -> Case:
    spec: Recurrent = work.spec
    net = gc.loads(text(spec), macros=[MACROS.read_text(encoding="utf-8"), PLAIN_LSTM])
    stored = net.parameters
    for name, value in to_nodes(spec, work.parameters).items():
        stored[name][...] = value.reshape(stored[name].shape)
    columns = spec.time * spec.sequences
    entries = work.inputs["words"].reshape(-1), spec.window * np.arange(columns + 1)
    bounds = {"time": spec.time, "sequences": spec.sequences}
    lengths = np.full(spec.sequences, spec.time)
    if not work.trains:
        scores = inference(net, how, **bounds)
        shape = (columns, spec.outputs)
        return Case(lambda: scores(words=entries, lengths=lengths)[SCORES].reshape(shape))
    step = training_step(net, work, how, **bounds)
    data = {"words": entries, "labels": labels(work, how), "lengths": lengths}

    def parameters() -> Values:
        step.gather()
        return from_nodes(spec, {n: np.array(net.parameters[n]) for n in net.parameters})

    return Case(lambda: loss(step(**data)), parameters)


def labels(work: Workload, how: How) -> np.ndarray:
    spec: Recurrent = work.spec
    y = work.inputs["y"].reshape(spec.time, spec.sequences)
    if not spec.classes:
        return one_hot(y, spec.outputs, how)
    classes = y // spec.class_size
    first = classes * spec.class_size
    return np.stack([y, classes, first, first + spec.class_size], axis=-1).astype(how.dtype)


def to_nodes(spec: Recurrent, values: Values) -> Values:
    """The network's parameters by node."""
    made = {"E": values["E"].T}
    if spec.cell == "sigmoid":
        made |= {"U": values["R"], "b": values["b"]}
    else:
        stacked = {"Wx.W": "Wx", "Rh.W": "R", "b.b": "b"}
        for node, name in stacked.items():
            parts = np.split(values[name], spec.gates)
            made |= {
                f"{INSIDE[spec.cell]}a{g}.{node}": part
                for g, part in zip(GATES, parts, strict=True)
            }
    if spec.cell == "peepholes":
        made |= {f"h.step.d{g}.d": values[f"d{g}"] for g in "ifo"}
    if spec.classes:
        return {**made, "W": values["W"].T, "C": values["C"]}
    return {**made, **{n: values[n] for n in ("V", "a") if n in values}}


def from_nodes(spec: Recurrent, nodes: Values) -> Values:
    made = {"E": nodes["E"].T}
    if spec.cell == "sigmoid":
        made |= {"R": nodes["U"], "b": nodes["b"][:, 0]}
    else:
        stacked = {"Wx": "Wx.W", "R": "Rh.W", "b": "b.b"}
        for name, node in stacked.items():
            made[name] = np.concatenate([nodes[f"{INSIDE[spec.cell]}a{g}.{node}"] for g in GATES])
        made["b"] = made["b"][:, 0]
    if spec.cell == "peepholes":
        made |= {f"d{g}": nodes[f"h.step.d{g}.d"][:, 0] for g in "ifo"}
    if spec.classes:
        return {**made, "W": nodes["W"].T, "C": nodes["C"]}
    made["V"] = nodes["V"]
    return {**made, "a": nodes["a"][:, 0]} if spec.biased else made
