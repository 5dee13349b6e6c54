"""`gc.load_dbn`: a DBN file as a network, with choices that the file does not make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphc.builder import Model
from graphc.support import arguments
from graphc.support.files import read_regular_file
from graphc_frontends.dbn import load_bytes
from graphc_frontends.dbn.network import DbnOptions
from graphc_frontends.network.network import Network

MAX_FILE_BYTES = 64 * 2**30


def load_dbn(
    path: str | Path,
    *,
    layer_types: str | Sequence[str] = DbnOptions.layer_types,
    training_criterion: str = DbnOptions.training_criterion,
    eval_criterion: str = DbnOptions.eval_criterion,
    init_value_scale: float = DbnOptions.init_value_scale,
    uniform_init: bool = DbnOptions.uniform_init,
    need_prior: bool = DbnOptions.need_prior,
    add_dropout_nodes: bool = DbnOptions.add_dropout_nodes,
    output_layer_size: int = DbnOptions.output_layer_size,
    seed: int = 0,
) -> Network:
    """A DBN file as a network; `gc.load` does the same with the defaults (docs/model-file.md).

    output_layer_size  rows of the output layer that a stack without one gets, -1: as many as its
                       last layer has
    need_prior         outputs are scaled log likelihoods, as they are where the file has a prior
    seed               of the output layer that is drawn

    The others are those of `gc.simple_network`. GraphcError for a damaged file or a wrong choice.
    """
    path = arguments.path(path, "load_dbn")
    options = DbnOptions(
        layer_types=layer_types,
        training_criterion=training_criterion,
        eval_criterion=eval_criterion,
        init_value_scale=init_value_scale,
        uniform_init=uniform_init,
        need_prior=need_prior,
        add_dropout_nodes=add_dropout_nodes,
        output_layer_size=output_layer_size,
    )
    network = Network(Model(folder=path.parent, seed=seed))
    data = read_regular_file(path, MAX_FILE_BYTES)
    load_bytes(network, data, file=str(path), options=options)
    return network
