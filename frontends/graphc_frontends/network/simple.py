"""`gc.simple_network`: the toolkit's predefined networks as a function."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.builder import Model
from graphc_frontends.network.network import Network
from graphc_frontends.simple import build
from graphc_frontends.simple.options import SimpleOptions


def simple_network(
    layer_sizes: Sequence[int],
    *,
    rnn_type: str = SimpleOptions.rnn_type,
    layer_types: str | Sequence[str] = SimpleOptions.layer_types,
    training_criterion: str = SimpleOptions.training_criterion,
    eval_criterion: str = SimpleOptions.eval_criterion,
    init_value_scale: float = SimpleOptions.init_value_scale,
    uniform_init: bool = SimpleOptions.uniform_init,
    apply_mean_var_norm: bool = SimpleOptions.apply_mean_var_norm,
    need_prior: bool = SimpleOptions.need_prior,
    add_dropout_nodes: bool = SimpleOptions.add_dropout_nodes,
    lookup_table_order: int = SimpleOptions.lookup_table_order,
    recurrent_layer: Sequence[int] = SimpleOptions.recurrent_layer,
    default_hidden_activity: float = SimpleOptions.default_hidden_activity,
    ma_order: int = SimpleOptions.ma_order,
    vocab_size: int = SimpleOptions.vocab_size,
    nbr_class: int = SimpleOptions.nbr_class,
    sparse_input: bool = SimpleOptions.sparse_input,
    direct_connect: Sequence[int] = SimpleOptions.direct_connect,
    forget_gate_init_val: float = SimpleOptions.forget_gate_init_val,
    input_gate_init_val: float = SimpleOptions.input_gate_init_val,
    output_gate_init_val: float = SimpleOptions.output_gate_init_val,
    const_forget_gate_value: bool = SimpleOptions.const_forget_gate_value,
    const_input_gate_value: bool = SimpleOptions.const_input_gate_value,
    const_output_gate_value: bool = SimpleOptions.const_output_gate_value,
    seed: int = 0,
) -> Network:
    """One of the predefined networks of the toolkit (book 3.2.1; docs/simple-networks.md).

    layer_sizes         of the input, each hidden layer, the output
    rnn_type            SIMPLENET, SIMPLERNN, CLASSLM, LSTM, CLASSLSTM or LBLM, in any case
    layer_types         nonlinearity of the hidden layers, one for all or one each (the last one
                        holds for those that follow): Sigmoid, RectifiedLinear, Tanh, None
    training_criterion, eval_criterion   CrossEntropyWithSoftmax, SquareError,
                        ClassCrossEntropyWithSoftmax; for evaluation ErrorPrediction too
    init_value_scale, uniform_init       of the weights: uniform in ±0.05·scale, or normal with
                        deviation 0.2·scale/√columns
    apply_mean_var_norm normalise features by their mean and deviation over the data
    need_prior          outputs are log likelihoods, scaled by the labels' frequencies
    add_dropout_nodes   a Dropout behind every hidden layer
    lookup_table_order  0, or the number of words side by side that are looked up in a table
    recurrent_layer     numbers of the recurrent hidden layers, from 1
    default_hidden_activity   what a layer gave before the first step
    ma_order            of LBLM: how many steps it looks back
    vocab_size, nbr_class     of CLASSLM and CLASSLSTM: words (-1: as the output), classes
    sparse_input        of SIMPLERNN and LSTM: features are mostly zero
    direct_connect      of LSTM and CLASSLSTM: layers (0 the input) with a connection of their own
                        to the last hidden one
    forget_gate_init_val, input_gate_init_val, output_gate_init_val   biases of LSTMs at the start
    const_forget_gate_value, const_input_gate_value, const_output_gate_value
                        of CLASSLSTM: no such gate, 1 in its place
    seed                of the initial values

    Inputs are called `features` and `labels`. GraphcError `bad-option` for choices that are wrong
    or do not go together, `not-supported` for types beyond the book.
    """
    network = Network(Model(seed=seed))
    build(
        network,
        SimpleOptions(
            layer_sizes=layer_sizes,
            rnn_type=rnn_type,
            layer_types=layer_types,
            training_criterion=training_criterion,
            eval_criterion=eval_criterion,
            init_value_scale=init_value_scale,
            uniform_init=uniform_init,
            apply_mean_var_norm=apply_mean_var_norm,
            need_prior=need_prior,
            add_dropout_nodes=add_dropout_nodes,
            lookup_table_order=lookup_table_order,
            recurrent_layer=recurrent_layer,
            default_hidden_activity=default_hidden_activity,
            ma_order=ma_order,
            vocab_size=vocab_size,
            nbr_class=nbr_class,
            sparse_input=sparse_input,
            direct_connect=direct_connect,
            forget_gate_init_val=forget_gate_init_val,
            input_gate_init_val=input_gate_init_val,
            output_gate_init_val=output_gate_init_val,
            const_forget_gate_value=const_forget_gate_value,
            const_input_gate_value=const_input_gate_value,
            const_output_gate_value=const_output_gate_value,
        ),
    )
    return network
