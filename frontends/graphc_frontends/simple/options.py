"""What can be chosen about a predefined network, and which choices go together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, get_args

from graphc.support.diagnostics import GraphcError, fail, suggestion

NetworkType = Literal["SIMPLENET", "SIMPLERNN", "CLASSLM", "LSTM", "CLASSLSTM", "LBLM"]
Nonlinearity = Literal["sigmoid", "rectified_linear", "tanh", "none"]
Criterion = Literal[
    "cross_entropy_with_softmax",
    "square_error",
    "class_based_cross_entropy_with_softmax",
    "error_prediction",
]

NETWORK_TYPES: tuple[NetworkType, ...] = get_args(NetworkType)

NOT_SUPPORTED = (
    "NPLM", "NCELSTM", "CLSTM", "CRF", "LSTMENCODER", "TRANSDUCER", "ALIGNMENTSIMILARITYGENERATOR",
    "UNIDIRECTIONALLSTMWITHPASTPREDICTION", "JOINTCONDITIONALBILSTMSTREAMS",
    "BIDIRECTIONALLSTMWITHPASTPREDICTION",
)  # fmt: skip
"""Types that some version of the toolkit had beyond those of the book."""

NONLINEARITIES: Mapping[str, Nonlinearity] = MappingProxyType(
    {
        "Sigmoid": "sigmoid",
        "RectifiedLinear": "rectified_linear",
        "Tanh": "tanh",
        "None": "none",
    }
)

CRITERIA: Mapping[str, Criterion] = MappingProxyType(
    {
        "CrossEntropyWithSoftmax": "cross_entropy_with_softmax",
        "SquareError": "square_error",
        "ClassCrossEntropyWithSoftmax": "class_based_cross_entropy_with_softmax",
        "ClassBasedCrossEntropyWithSoftmax": "class_based_cross_entropy_with_softmax",
        "ErrorPrediction": "error_prediction",
    }
)
"""Spellings, the toolkit's and the book's, in any case."""

_CLASS_BASED = "class_based_cross_entropy_with_softmax"
_WITH_CLASSES = ("CLASSLM", "CLASSLSTM")


@dataclass(frozen=True)
class SimpleOptions:
    """The choices of `gc.simple_network`, which explains them, with the toolkit's defaults."""

    layer_sizes: Sequence[int]
    rnn_type: str = "SIMPLENET"
    layer_types: str | Sequence[str] = "Sigmoid"
    training_criterion: str = "CrossEntropyWithSoftmax"
    eval_criterion: str = "ErrorPrediction"
    init_value_scale: float = 1.0
    uniform_init: bool = True
    apply_mean_var_norm: bool = False
    need_prior: bool = False
    add_dropout_nodes: bool = False
    lookup_table_order: int = 0
    recurrent_layer: Sequence[int] = ()
    default_hidden_activity: float = 0.1
    ma_order: int = 0
    vocab_size: int = -1
    nbr_class: int = -1
    sparse_input: bool = False
    direct_connect: Sequence[int] = ()
    forget_gate_init_val: float = -1.0
    input_gate_init_val: float = -1.0
    output_gate_init_val: float = -1.0
    const_forget_gate_value: bool = False
    const_input_gate_value: bool = False
    const_output_gate_value: bool = False

    def checked(self) -> SimpleOptions:
        """The same with criteria of classes where the type needs them; GraphcError if choices are
        wrong or do not go together."""
        self._check_sizes()
        _ = self.network_type, self.nonlinearities, self.training, self.evaluation
        self._check_layers("recurrent_layer", self.recurrent_layer, 1, self.hidden)
        self._check_layers("direct_connect", self.direct_connect, 0, self.hidden)
        self._check_classes()
        self._check_where_it_has_effect()
        return replace(self, layer_sizes=tuple(self.layer_sizes))

    @property
    def hidden(self) -> int:
        """How many hidden layers there are."""
        return len(self.layer_sizes) - 2

    @property
    def network_type(self) -> NetworkType:
        """The type as it is spelt here. A SIMPLERNN without recurrent layers is a SIMPLENET."""
        name = self.rnn_type.upper()
        if name in NOT_SUPPORTED:
            raise fail("not-supported", f"networks of the type {self.rnn_type} are not supported")
        for known in NETWORK_TYPES:
            if name == known:
                is_plain = known == "SIMPLERNN" and not self.recurrent_layer
                return "SIMPLENET" if is_plain else known
        raise _unknown("rnn_type", self.rnn_type, NETWORK_TYPES)

    @property
    def nonlinearities(self) -> tuple[Nonlinearity, ...]:
        """One for each hidden layer."""
        given = [self.layer_types] if isinstance(self.layer_types, str) else [*self.layer_types]
        kinds: list[Nonlinearity] = [_nonlinearity(name) for name in given]
        if not kinds:
            raise fail("bad-option", "layer_types requires at least one nonlinearity, got none")
        return tuple(kinds[min(layer, len(kinds) - 1)] for layer in range(self.hidden))

    @property
    def training(self) -> Criterion:
        criterion = _criterion("training_criterion", self.training_criterion)
        if criterion == "error_prediction":
            raise fail(
                "bad-option", "training_criterion requires a slope, ErrorPrediction has none"
            )
        return criterion

    @property
    def evaluation(self) -> Criterion:
        return _criterion("eval_criterion", self.eval_criterion)

    def _check_sizes(self) -> None:
        sizes = list(self.layer_sizes)
        if len(sizes) < 2 or any(size < 1 for size in sizes):
            message = "layer_sizes requires two or more sizes of at least 1, from input to output"
            raise fail("bad-option", f"{message}; got {sizes}")
        order = self.lookup_table_order
        if order < 0 or (order and (self.hidden < 1 or sizes[0] % order)):
            message = f"requires an input of a multiple of {order} and a hidden layer for the table"
            raise fail("bad-option", f"lookup_table_order={order} {message}; got {sizes}")
        if self.ma_order < 0:
            raise fail("bad-option", f"ma_order requires a number from 0, got {self.ma_order}")

    def _check_layers(self, name: str, layers: Sequence[int], least: int, most: int) -> None:
        for layer in layers:
            if not least <= layer <= most:
                message = f"{name} requires numbers of layers from {least} to {most}, got {layer}"
                raise fail("bad-option", message)

    def _check_classes(self) -> None:
        has_classes = self.network_type in _WITH_CLASSES
        for name, criterion in (("training", self.training), ("eval", self.evaluation)):
            if (criterion == _CLASS_BASED) != has_classes:
                wanted = "requires" if has_classes else "has no classes for"
                message = f"{self.network_type} {wanted} ClassCrossEntropyWithSoftmax"
                raise fail("bad-option", f"{message} as its {name} criterion, got {criterion}")
        if not has_classes:
            return
        if self.nbr_class < 1:
            message = f"{self.network_type} requires nbr_class from 1, got {self.nbr_class}"
            raise fail("bad-option", message)
        if self.vocab_size not in (-1, self.layer_sizes[-1]):
            message = f"vocab_size requires the size of the output layer, {self.layer_sizes[-1]}"
            raise fail("bad-option", f"{message}; got {self.vocab_size}")

    def _check_where_it_has_effect(self) -> None:
        kind = self.network_type
        if kind in ("LSTM", "CLASSLSTM") and self.hidden <= bool(self.lookup_table_order):
            raise fail("bad-option", f"{kind} requires a hidden layer besides the table")
        if kind == "CLASSLSTM" and self.lookup_table_order < 1:
            message = "CLASSLSTM requires lookup_table_order from 1: words are looked up in a table"
            raise fail("bad-option", message)
        constants = (
            self.const_forget_gate_value,
            self.const_input_gate_value,
            self.const_output_gate_value,
        )
        if any(constants) and kind != "CLASSLSTM":
            raise fail("bad-option", f"constant gates are for CLASSLSTM, got them for {kind}")
        if self.direct_connect and kind not in ("LSTM", "CLASSLSTM"):
            raise fail("bad-option", f"direct_connect is for LSTM and CLASSLSTM, got {kind}")
        if self.ma_order and kind != "LBLM":
            raise fail("bad-option", f"ma_order is for LBLM, got it for {kind}")


def _nonlinearity(name: str) -> Nonlinearity:
    for known, kind in NONLINEARITIES.items():
        if name.lower() == known.lower():
            return kind
    raise _unknown("layer_types", name, NONLINEARITIES)


def _criterion(option: str, name: str) -> Criterion:
    for known, criterion in CRITERIA.items():
        if name.lower() == known.lower():
            return criterion
    if name.lower() == "noisecontrastiveestimationnode":
        raise fail("not-supported", f"{option}: noise contrastive estimation is not supported")
    raise _unknown(option, name, CRITERIA)


def _unknown(option: str, name: str, known: Collection[str]) -> GraphcError:
    near = suggestion(name, known)
    return fail("bad-option", f"{option} is one of {', '.join(known)}; got `{name}`{near}")
