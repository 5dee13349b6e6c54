"""The toolkit's predefined networks: layer sizes and a few choices in, a whole network out.

    options      what can be chosen, checked                feedforward   SIMPLENET
    keys         the toolkit's words for it                 recurrent     SIMPLERNN, CLASSLM
    parts        layers, criteria, names                    lstm          LSTM, CLASSLSTM
                                                            log_bilinear  LBLM

Node names are those of the toolkit, since model editing scripts and logs refer to them; so is the
order of parameters, in which they are drawn. `docs/simple-networks.md` describes the networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphc_frontends.simple.feedforward import feedforward
from graphc_frontends.simple.log_bilinear import log_bilinear
from graphc_frontends.simple.lstm import class_lstm, lstm
from graphc_frontends.simple.options import NetworkType, SimpleOptions
from graphc_frontends.simple.parts import Parts
from graphc_frontends.simple.recurrent import class_recurrent, simple_recurrent

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder

_TYPES: Mapping[NetworkType, Callable[[Parts], None]] = MappingProxyType(
    {
        "SIMPLENET": feedforward,
        "SIMPLERNN": simple_recurrent,
        "CLASSLM": class_recurrent,
        "LSTM": lstm,
        "CLASSLSTM": class_lstm,
        "LBLM": log_bilinear,
    }
)


def build(builder: GraphBuilder, options: SimpleOptions) -> None:
    """Make the network that the options describe; `builder` is empty before.

    GraphcError for options that do not go together.
    """
    checked = options.checked()
    _TYPES[checked.network_type](Parts(builder, checked))
    builder.sink.raise_if_errors()
