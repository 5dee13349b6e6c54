"""The network of adding.ndl, built in Python: macros are functions."""

from __future__ import annotations

import graphc as gc
from graphc_frontends.network import NetworkNode as Node


def built(cells: int = 12) -> gc.Network:
    """Names are those that adding.ndl gives, so that parameters of the one fit the other."""
    net = gc.Network()
    features = net.input("features", 2, tag="feature")
    last, total = net.input("last", 1, tag="feature"), net.input("sum", 1, tag="label")
    hidden = lstm(net, "hidden.step", features, 2, cells)
    z = net.plus(weights(net, "V", 1, cells) @ hidden, bias(net, "a", 1), name="z", tag="output")
    net.square_error(last * total, last * z, name="SE", tag="criterion")
    return net


def lstm(net: gc.Network, name: str, x: Node, cols: int, rows: int) -> Node:
    """A layer of `rows` cells over `x` of `cols` rows."""
    h_past = net.past_value(rows, default_hidden_activity=0)
    c_past = net.past_value(rows, default_hidden_activity=0)

    def affine(gate: str) -> Node:
        w = weights(net, f"{name}.{gate}.Wx", rows, cols) @ x
        return (
            w
            + weights(net, f"{name}.{gate}.Rh", rows, rows) @ h_past
            + bias(net, f"{name}.{gate}.b", rows)
        )

    def peephole(gate: str, c: Node) -> Node:
        return net.diag_times(
            net.parameter(f"{name}.{gate}.d", rows, init="fixedValue", value=0), c
        )

    i = net.sigmoid(affine("ai") + peephole("di", c_past))
    f = net.sigmoid(affine("af") + peephole("df", c_past))
    c = c_past.bind(f * c_past + i * net.tanh(affine("ag")))
    o = net.sigmoid(affine("ao") + peephole("do", c))
    return h_past.bind(o * net.tanh(c))


def weights(net: gc.Network, name: str, rows: int, cols: int) -> Node:
    """Of deviation 1 / √cols."""
    return net.parameter(f"{name}.W", rows, cols, init="gaussian", init_value_scale=5)


def bias(net: gc.Network, name: str, rows: int) -> Node:
    return net.parameter(f"{name}.b", rows, init="fixedValue", value=0)
