"""What the command says: how a record was made, and who is absent."""

from __future__ import annotations

import pytest

from bench.__main__ import _command, _report
from bench.peers import Entry
from bench.runner import Problem


def test_files_and_interpreters_of_the_machine_are_left_out() -> None:
    given = ["W1", "--threads", "1,2", "--json", "a.json", "--python=jax=/x/python", "--quick"]
    assert _command(given) == "python -m bench W1 --threads 1,2 --quick"


def test_an_entry_names_the_packages_that_are_missing() -> None:
    assert Entry("numpy", ("numpy",)).missing() == ""
    assert Entry("jax", ("numpy", "no_such_a", "no_such_b")).missing() == (
        "no_such_a, no_such_b is not installed"
    )


def test_who_is_absent_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    problems = [
        Problem(work, entry, 1, kind, "why")
        for work in ("W1", "W4")
        for entry, kind in (("jax", "absent"), ("torch", "absent"), ("numpy", "failed"))
    ]
    _report(problems, {"jax": "said at the start"})
    assert capsys.readouterr().out.splitlines() == [
        "torch: absent, why",
        "numpy W1 1T: failed, why",
        "numpy W4 1T: failed, why",
    ]
