"""The workloads in graphc's languages: NDL for networks, functions of arrays for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.ours.encoder import encoder
from bench.ours.how import How
from bench.ours.images import convnet, residual, resnet
from bench.ours.mlp import mlp
from bench.ours.recurrent import recurrent
from bench.ours.rows import rows
from bench.peers import Case
from bench.workloads.encoder import Encoder
from bench.workloads.images import ConvNet, Residual, ResNet
from bench.workloads.mlp import Mlp
from bench.workloads.record import Workload
from bench.workloads.recurrent import Recurrent
from bench.workloads.rows import Rows

FORMS: dict[type[Any], Callable[[Workload, How], Case]] = {
    ConvNet: convnet,
    Encoder: encoder,
    Mlp: mlp,
    Recurrent: recurrent,
    Residual: residual,
    ResNet: resnet,
    Rows: rows,
}

__all__ = ("FORMS", "How")
