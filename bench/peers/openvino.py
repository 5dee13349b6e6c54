"""OpenVINO, for inference: the files that are written for ONNX Runtime."""

from __future__ import annotations

import openvino

from bench.peers import CannotSay, Case
from bench.peers.onnx import OUTPUT, model
from bench.workloads.record import Workload
from bench.workloads.recurrent import Recurrent


def case(work: Workload, threads: int, variant: str) -> Case:
    if isinstance(work.spec, Recurrent) and work.spec.cell == "peepholes":
        raise CannotSay("its LSTM leaves the peepholes of ONNX's out, without a word")
    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": str(threads),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # it would take bf16 where a processor has it
    }
    compiled = core.compile_model(core.read_model(model(work)), "CPU", settings)
    return Case(lambda: compiled(work.inputs)[OUTPUT])
