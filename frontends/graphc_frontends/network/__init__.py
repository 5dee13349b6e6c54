"""The Python builder: a network as Python expressions.

    net = Network()
    x = net.input("features", 64, tag="feature")
    h = net.sigmoid(net.parameter("W0", 32, 64) @ x + net.parameter("B0", 32))

Macros are Python functions. The network is the same as NDL would build, node for node. `Network` is
also what `graphc.load` returns, whatever the model was written in.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from graphc_frontends.network.network import Network
from graphc_frontends.network.node import NetworkNode

if TYPE_CHECKING:
    from graphc_frontends.network.dbn import load_dbn
    from graphc_frontends.network.simple import simple_network
    from graphc_frontends.simple.keys import DBN_KEYS, SIMPLE_KEYS

__all__ = ["DBN_KEYS", "SIMPLE_KEYS", "Network", "NetworkNode", "load_dbn", "simple_network"]

_HOMES = {
    "load_dbn": "graphc_frontends.network.dbn",
    "simple_network": "graphc_frontends.network.simple",
    "DBN_KEYS": "graphc_frontends.simple.keys",
    "SIMPLE_KEYS": "graphc_frontends.simple.keys",
}
"""What is imported when it is first used, so that other networks do not wait for it."""


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
