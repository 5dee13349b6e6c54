"""The command that a record says it was made by."""

from __future__ import annotations

from bench.__main__ import _command


def test_files_and_interpreters_of_the_machine_are_left_out() -> None:
    given = ["W1", "--threads", "1,2", "--json", "a.json", "--python=jax=/x/python", "--quick"]
    assert _command(given) == "python -m bench W1 --threads 1,2 --quick"
