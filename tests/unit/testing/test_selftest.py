"""`gc.self_test` and `graphc selftest`: pass as graphc is, and find a backend that is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.backends import BACKENDS
from graphc.backends.base import CompiledFunction
from graphc.ir.core import Function
from graphc.runtime.signature import Signature
from graphc.testing import selftest
from graphc.testing.selftest import CASES, self_test
from tests.support.commands import graphc


def test_every_network_passes_in_both_precisions() -> None:
    report = gc.self_test(["numpy"])
    found = {(c.what, c.backend, c.precision) for c in report.checks}
    assert found == {(case.name, "numpy", p) for case in CASES for p in ("f32", "f64")}
    assert report.passed, str(report)


def test_the_networks_differ_in_what_they_use() -> None:
    """Each has an operation that no other one has."""
    ops = [{node.op for node in selftest._network(case).nodes} for case in CASES]
    for i, own in enumerate(ops):
        others = set[str]().union(*(o for j, o in enumerate(ops) if j != i))
        assert own - others, CASES[i].name


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A numpy backend whose functions are off by one part in a thousand."""
    good = BACKENDS["numpy"]()

    class Wrong:
        def __init__(self, compiled: CompiledFunction) -> None:
            self.compiled = compiled

        def __getattr__(self, name: str) -> Any:
            return getattr(self.compiled, name)

        def __call__(self, arguments: Any, results: Sequence[np.ndarray], sizes: Any) -> None:
            self.compiled(arguments, results, sizes)
            for array in results:
                if array.dtype.kind == "f":
                    array *= 1.001

    def compile_wrongly(function: Function, signature: Signature) -> Any:
        return Wrong(good.compile(function, signature))

    bad = replace(good, compile=compile_wrongly, code=None)
    monkeypatch.setitem(BACKENDS, "numpy", lambda: bad)


@pytest.mark.usefixtures("wrong")
def test_a_backend_that_is_wrong_fails() -> None:
    report = self_test(["numpy"], CASES[:1])
    assert [check.passed for check in report.checks] == [False, False]
    assert not report.passed
    done = graphc("selftest", "--backend", "numpy", "--json")
    assert done.code == 1
    record = json.loads(done.out)
    assert record["passed"] is False
    assert not any(check["passed"] for check in record["checks"])


def test_the_command_prints_a_table() -> None:
    done = graphc("selftest", "--backend", "reference")
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == 1 + 2 * len(CASES)
    assert "feed-forward" in done.out


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(gc.GraphcError, match="did you mean `numpy`"):
        gc.self_test(["nunpy"])
    assert graphc("selftest", "--backend", "nunpy").code == 2
