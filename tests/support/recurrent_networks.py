"""Recurrent networks in NDL, as the book writes them: one Times for each gate.

Each has the inputs `features` (3 rows) and `labels` (2 rows), the output `z` and the criterion
`ce`. `ROWS` is what stands for hDim.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import graphc as gc
from graphc.driver.prepare import prepare
from graphc_frontends.network import Network

FEATURES, LABELS, ROWS = 3, 2, 4

_AROUND = """
load=Macros
run=Net
Macros=[
Affine2(W, x, R, h, b) = [
  p = Times(W, x)
  q = Times(R, h)
  s = Plus(p, q)
  y = Plus(s, b)
]
Rnn(x, rows, cols) = [
  W = Parameter(rows, cols)
  R = Parameter(rows, rows)
  b = Parameter(rows, 1)
  before = PastValue(rows, h, timeStep=1, defaultHiddenActivity=0.1)
  a = Affine2(W, x, R, before, b)
  h = Tanh(a)
]
RnnBack(x, rows, cols) = [
  W = Parameter(rows, cols)
  R = Parameter(rows, rows)
  b = Parameter(rows, 1)
  behind = FutureValue(rows, h, timeStep=1, defaultHiddenActivity=-0.2)
  a = Affine2(W, x, R, behind, b)
  h = Tanh(a)
]
Lstm(x, rows, cols) = [
  Wxi = Parameter(rows, cols)
  Wxf = Parameter(rows, cols)
  Wxc = Parameter(rows, cols)
  Wxo = Parameter(rows, cols)
  Whi = Parameter(rows, rows)
  Whf = Parameter(rows, rows)
  Whc = Parameter(rows, rows)
  Who = Parameter(rows, rows)
  wci = Parameter(rows, 1)
  wcf = Parameter(rows, 1)
  wco = Parameter(rows, 1)
  bi = Parameter(rows, 1)
  bf = Parameter(rows, 1)
  bc = Parameter(rows, 1)
  bo = Parameter(rows, 1)
  hBefore = PastValue(rows, h, defaultHiddenActivity=0)
  cBefore = PastValue(rows, c, defaultHiddenActivity=0)
  ia = Affine2(Wxi, x, Whi, hBefore, bi)
  ip = DiagTimes(wci, cBefore)
  is = Plus(ia, ip)
  i = Sigmoid(is)
  fa = Affine2(Wxf, x, Whf, hBefore, bf)
  fp = DiagTimes(wcf, cBefore)
  fs = Plus(fa, fp)
  f = Sigmoid(fs)
  ca = Affine2(Wxc, x, Whc, hBefore, bc)
  ct = Tanh(ca)
  kept = ElementTimes(f, cBefore)
  new = ElementTimes(i, ct)
  c = Plus(kept, new)
  oa = Affine2(Wxo, x, Who, hBefore, bo)
  op = DiagTimes(wco, c)
  os = Plus(oa, op)
  o = Sigmoid(os)
  squashed = Tanh(c)
  h = ElementTimes(o, squashed)
]
]
Net=[
features = Input(3, tag=feature)
labels = Input(2, tag=label)
%s
Wo = Parameter(2, %d)
z = Times(Wo, top, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
]
"""

_GRU = """
Wr = Parameter(4, 3)
Wu = Parameter(4, 3)
Wc = Parameter(4, 3)
Rr = Parameter(4, 4)
Ru = Parameter(4, 4)
Rc = Parameter(4, 4)
br = Parameter(4, 1)
bu = Parameter(4, 1)
bc = Parameter(4, 1)
before = PastValue(4, top, defaultHiddenActivity=0.3)
ra = Affine2(Wr, features, Rr, before, br)
r = Sigmoid(ra)
ua = Affine2(Wu, features, Ru, before, bu)
u = Sigmoid(ua)
reset = ElementTimes(r, before)
ca = Affine2(Wc, features, Rc, reset, bc)
candidate = Tanh(ca)
one = Constant(1)
notU = Minus(one, u)
kept = ElementTimes(u, before)
new = ElementTimes(notU, candidate)
top = Plus(kept, new)
"""

_STEP_2 = """
W = Parameter(4, 3)
R = Parameter(4, 4)
Q = Parameter(4, 4)
b = Parameter(4, 1)
one = PastValue(4, top, timeStep=1, defaultHiddenActivity=0.1)
two = PastValue(4, top, timeStep=2, defaultHiddenActivity=0.5)
a = Affine2(W, features, R, two, b)
c = Times(Q, one)
s = Plus(a, c)
top = Tanh(s)
"""

_HIGHWAY = """
l1 = Rnn(features, 4, 3)
l2 = Rnn(l1, 4, 4)
Wt = Parameter(4, 4)
bt = Parameter(4, 1)
Rt = Parameter(4, 4)
g = Affine2(Wt, l1, Rt, before, bt)
t = Sigmoid(g)
before = PastValue(4, top)
one = Constant(1)
carry = Minus(one, t)
changed = ElementTimes(t, l2)
through = ElementTimes(carry, l1)
top = Plus(changed, through)
"""

_PROJECTION = """
W = Parameter(4, 3)
R = Parameter(4, 2)
P = Parameter(2, 4)
b = Parameter(4, 1)
before = PastValue(2, top)
a = Affine2(W, features, R, before, b)
h = Tanh(a)
top = Times(P, h)
"""

_TWO_DELAYS_OF_TWO_NODES = """
W = Parameter(4, 3)
R = Parameter(4, 4)
b = Parameter(4, 1)
h1 = PastValue(4, g, defaultHiddenActivity=0.2)
g1 = PastValue(4, top, timeStep=3, defaultHiddenActivity=0.4)
a = Affine2(W, features, R, h1, b)
g = Sigmoid(a)
m = ElementTimes(g, g1)
top = Plus(m, h1)
"""

NETWORKS: Mapping[str, str] = {
    "rnn": _AROUND % ("top = Rnn(features, 4, 3)", 4),
    "future": _AROUND % ("top = RnnBack(features, 4, 3)", 4),
    "lstm": _AROUND % ("top = Lstm(features, 4, 3)", 4),
    "gru": _AROUND % (_GRU, 4),
    "bidirectional": _AROUND
    % (
        "there = Rnn(features, 4, 3)\nback = RnnBack(features, 4, 3)\ntop = RowStack(there, back)",
        8,
    ),
    "stacked": _AROUND
    % ("l1 = Lstm(features, 4, 3)\nl2 = RnnBack(l1, 4, 4)\ntop = Rnn(l2, 4, 4)", 4),
    "time step 2": _AROUND % (_STEP_2, 4),
    "highway": _AROUND % (_HIGHWAY, 4),
    "projection": _AROUND % (_PROJECTION, 2),
    "several delays": _AROUND % (_TWO_DELAYS_OF_TWO_NODES, 4),
}


def network(name: str) -> Network:
    """The network with parameters of some size: uniform in ±0.7."""
    net = gc.loads(NETWORKS[name])
    assert isinstance(net, Network)
    prepare(net.model)
    rng = np.random.default_rng(len(name))
    for value in net.model.values.values():
        value[...] = rng.uniform(-0.7, 0.7, value.shape)
    return net
