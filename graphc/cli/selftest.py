"""`graphc selftest`: whether graphc computes what it should on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from graphc.backends import BACKENDS
from graphc.cli.command import Command
from graphc.cli.options import json_option
from graphc.cli.runner import EXIT_CHECK_FAILED
from graphc.cli.terminal import Terminal, common_options
from graphc.testing.report import Report
from graphc.testing.selftest import self_test

SCHEMA = 1

EPILOG = """\b
Examples:
  graphc selftest                         every backend that can be used here
  graphc selftest --backend numpy         one of them
"""


@click.command(cls=Command, epilog=EPILOG, short_help="Check gradients on this machine's backends.")
@click.option(
    "--backend",
    "backends",
    type=click.Choice([*BACKENDS]),
    multiple=True,
    help="A backend to check; may be given again.  [default: all that can be used here]",
)
@json_option
@common_options
@click.pass_obj
def command(terminal: Terminal, /, backends: Sequence[str], as_json: bool) -> int:
    """Compute the gradients of small networks of each kind and compare them with differences.

    A table goes to stdout. The exit code is 1 if a comparison failed.
    """
    report = self_test(backends)
    terminal.write(_json(report) if as_json else str(report))
    return 0 if report.passed else EXIT_CHECK_FAILED


def _json(report: Report) -> str:
    checks = [
        {
            "what": check.what,
            "backend": check.backend,
            "precision": check.precision,
            "passed": check.passed,
            "error_over_allowed": check.excess if check.excess != float("inf") else None,
        }
        for check in report.checks
    ]
    record = {
        "schema": SCHEMA,
        "passed": report.passed,
        "checks": checks,
        "not_available": list(report.left_out),
    }
    return json.dumps(record, indent=1)
