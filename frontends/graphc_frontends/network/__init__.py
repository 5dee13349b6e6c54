"""The Python builder: a network as Python expressions.

    net = Network()
    x = net.input("features", 64, tag="feature")
    h = net.sigmoid(net.parameter("W0", 32, 64) @ x + net.parameter("B0", 32))

Macros are Python functions. The network is the same as NDL would build, node for node. `Network` is
also what `graphc.load` returns, whatever the model was written in.
"""

from graphc_frontends.network.dbn import load_dbn
from graphc_frontends.network.network import Network
from graphc_frontends.network.node import NetworkNode
from graphc_frontends.network.simple import simple_network
from graphc_frontends.simple.keys import DBN_KEYS
from graphc_frontends.simple.keys import KEYS as SIMPLE_KEYS

__all__ = ["DBN_KEYS", "SIMPLE_KEYS", "Network", "NetworkNode", "load_dbn", "simple_network"]
