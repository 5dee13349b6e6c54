"""Choices that are wrong or do not go together; the toolkit's keys."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

import graphc as gc
from graphc.frontend import simple_networks
from graphc_frontends.dbn.network import DbnOptions
from graphc_frontends.simple.options import SimpleOptions

CLASS = "ClassCrossEntropyWithSoftmax"
WORDS: dict[str, Any] = {"training_criterion": CLASS, "eval_criterion": CLASS, "nbr_class": 2}


@pytest.mark.parametrize(
    ("options", "slug", "part"),
    [
        ({"layer_sizes": [3]}, "bad-option", "two or more sizes"),
        ({"layer_sizes": [3, 0, 2]}, "bad-option", "at least 1"),
        ({"rnn_type": "SIMPELNET"}, "bad-option", "did you mean `SIMPLENET`"),
        ({"rnn_type": "nplm"}, "not-supported", "nplm"),
        ({"rnn_type": "BIDIRECTIONALLSTMWITHPASTPREDICTION"}, "not-supported", "BIDIRECT"),
        ({"layer_types": "Sigmiod"}, "bad-option", "did you mean `Sigmoid`"),
        ({"layer_types": []}, "bad-option", "at least one"),
        ({"training_criterion": "ErrorPrediction"}, "bad-option", "requires a slope"),
        ({"eval_criterion": "SquareErr"}, "bad-option", "did you mean `SquareError`"),
        ({"eval_criterion": "noiseContrastiveEstimationNode"}, "not-supported", "contrastive"),
        ({"training_criterion": CLASS}, "bad-option", "SIMPLENET has no classes"),
        ({"rnn_type": "CLASSLM"}, "bad-option", "CLASSLM requires Class"),
        ({"rnn_type": "CLASSLM", **WORDS, "nbr_class": 0}, "bad-option", "nbr_class from 1"),
        ({"rnn_type": "CLASSLM", **WORDS, "vocab_size": 9}, "bad-option", "output layer, 3"),
        ({"rnn_type": "CLASSLSTM", **WORDS}, "bad-option", "lookup_table_order from 1"),
        ({"rnn_type": "LSTM", "lookup_table_order": 3}, "bad-option", "multiple of 3"),
        ({"rnn_type": "LSTM", "lookup_table_order": 2}, "bad-option", "besides the table"),
        ({"rnn_type": "LSTM", "layer_sizes": [3, 2]}, "bad-option", "requires a hidden layer"),
        ({"rnn_type": "LSTM", "recurrent_layer": [2]}, "bad-option", "from 1 to 1, got 2"),
        ({"rnn_type": "LSTM", "const_input_gate_value": True}, "bad-option", "constant gates"),
        ({"direct_connect": [1]}, "bad-option", "direct_connect is for"),
        ({"ma_order": 1}, "bad-option", "ma_order is for LBLM"),
        ({"ma_order": -1, "rnn_type": "LBLM"}, "bad-option", "from 0, got -1"),
        ({"init_value_scale": "big"}, "bad-value", "init_value_scale"),
    ],
)
def test_a_wrong_choice_is_one_error(options: dict[str, Any], slug: str, part: str) -> None:
    given: dict[str, Any] = {"layer_sizes": [4, 5, 3], **options}
    with pytest.raises(gc.GraphcError) as caught:
        gc.simple_network(**given)
    assert {d.slug for d in caught.value.diagnostics} == {slug}
    assert part in str(caught.value)


def test_every_option_has_a_key_of_the_toolkit() -> None:
    keys = simple_networks().SIMPLE_KEYS
    assert {key.option for key in keys.values()} - {None} == {f.name for f in fields(SimpleOptions)}
    required = [name for name, key in keys.items() if key.required]
    assert required == ["layerSizes", "trainingCriterion", "evalCriterion"]


def test_keys_lead_to_a_network() -> None:
    keys = simple_networks().SIMPLE_KEYS
    block = {"layerSizes": [2, 5, 3], "trainingCriterion": "squareError", "uniformInit": False}
    options = {keys[name].option or "": value for name, value in block.items()}
    network = simple_networks().simple_network(**options)
    assert network.find("HLast") is not None


def test_keys_for_dbn_files_are_options_of_load_dbn() -> None:
    keys = {key.option for key in simple_networks().DBN_KEYS.values()}
    assert keys == {f.name for f in fields(DbnOptions)}
