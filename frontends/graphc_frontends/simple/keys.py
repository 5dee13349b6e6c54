"""The toolkit's keys of a `SimpleNetworkBuilder` block, and which option each one sets.

Whoever reads a configuration looks its keys up here, reads the value as `kind` says and hands it
over under `option`; an option None is known to the toolkit and has no effect or no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Kind = Literal["integers", "words", "word", "number", "integer", "flag"]


@dataclass(frozen=True, slots=True)
class Key:
    """A key. `required`: the toolkit has no default for it."""

    option: str | None
    kind: Kind
    required: bool = False


SIMPLE_KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "layerSizes": Key("layer_sizes", "integers", required=True),
        "layerTypes": Key("layer_types", "words"),
        "trainingCriterion": Key("training_criterion", "word", required=True),
        "evalCriterion": Key("eval_criterion", "word", required=True),
        "initValueScale": Key("init_value_scale", "number"),
        "uniformInit": Key("uniform_init", "flag"),
        "applyMeanVarNorm": Key("apply_mean_var_norm", "flag"),
        "needPrior": Key("need_prior", "flag"),
        "addDropoutNodes": Key("add_dropout_nodes", "flag"),
        "lookupTableOrder": Key("lookup_table_order", "integer"),
        "recurrentLayer": Key("recurrent_layer", "integers"),
        "defaultHiddenActivity": Key("default_hidden_activity", "number"),
        "rnnType": Key("rnn_type", "word"),
        "maOrder": Key("ma_order", "integer"),
        "vocabSize": Key("vocab_size", "integer"),
        "nbrClass": Key("nbr_class", "integer"),
        "sparseInput": Key("sparse_input", "flag"),
        "directConnect": Key("direct_connect", "integers"),
        "forgetGateInitVal": Key("forget_gate_init_val", "number"),
        "inputGateInitVal": Key("input_gate_init_val", "number"),
        "outputGateInitVal": Key("output_gate_init_val", "number"),
        "constForgetGateValue": Key("const_forget_gate_value", "flag"),
        "constInputGateValue": Key("const_input_gate_value", "flag"),
        "constOutputGateValue": Key("const_output_gate_value", "flag"),
        "outputLayerSize": Key(None, "integer"),  # of networks made from DBN files
        "deviceId": Key(None, "word"),
        "streamSizes": Key(None, "integers"),
        "lookupTableOrderSizes": Key(None, "integers"),
        "nce_noises": Key(None, "integer"),
    }
)

DBN_KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "outputLayerSize": Key("output_layer_size", "integer"),
        **{
            name: SIMPLE_KEYS[name]
            for name in (
                "layerTypes",
                "initValueScale",
                "uniformInit",
                "needPrior",
                "addDropoutNodes",
            )
        },
        # A network made from a file has criteria whatever the block says.
        "trainingCriterion": Key("training_criterion", "word"),
        "evalCriterion": Key("eval_criterion", "word"),
    }
)
"""Those of the block that count where a network is made of a DBN file."""
