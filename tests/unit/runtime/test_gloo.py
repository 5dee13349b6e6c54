"""`gc.comm.gloo` before any member has come; tests/torch/test_gloo.py has members."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

import graphc as gc
from graphc.runtime.communicators import gloo
from graphc.support.diagnostics import GraphcError

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_pytorch_the_line_to_install_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(gloo, "import_module", missing)
    with pytest.raises(GraphcError, match=r"need PyTorch: pip install 'graphc\[gloo\]'"):
        gc.comm.gloo(0, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "rank is a number, or RANK says one, got None"),
        ({"rank": 2, "size": 2}, "a rank is from 0 to size - 1, got rank 2 of size 2"),
        ({"rank": 0, "size": 2, "order": "best"}, "an order of sums is any or fixed"),
        ({"rank": 0, "size": 2, "patience": 0.0}, "patience is a number of seconds above 0"),
        ({"rank": 0, "size": 2, "patience": float("inf")}, "of seconds above 0, got inf"),
        ({"rank": 0, "size": 2, "patience": "9"}, "patience requires a number, got str"),
        ({"rank": 0, "size": 2, "port": 65536}, "a port is from 0 to 65535, got 65536"),
        ({"rank": "0", "size": 2}, "rank requires a whole number, got str"),
        ({"rank": 0, "size": 2, "shards": 2.0}, "shards requires a whole number, got float"),
        ({"rank": 0, "size": 2, "shards": 3}, "shards are a power of two that 2 members divide"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(GraphcError, match=said):
        gc.comm.gloo(**given)  # type: ignore[arg-type]


def test_a_port_that_is_taken_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = SimpleNamespace(TCPStore=None)
    monkeypatch.setattr(gloo, "import_module", {"torch.distributed": distributed}.__getitem__)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(GraphcError) as caught:
            gc.comm.gloo(0, 2, port=port)
    said = f"member 0 cannot listen at 127.0.0.1:{port}: Address already in use"
    assert said in str(caught.value)
