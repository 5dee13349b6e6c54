"""Mutated MEL: whatever a text says, it is carried out or it is clean errors that change nothing.

python -m tests.fuzz.test_random_mel 1234          judge this seed again
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

import graphc as gc
from graphc.ir.verifier import verify_module
from graphc.support.diagnostics import DiagnosticSink, Severity
from graphc_frontends.network import Network
from tests.support.distributions import add_new_entry_points
from tests.support.mel import MACROS, network

TEXTS = 400  # judged in every run; more with `python -m tests.fuzz --kinds mel`

SCRIPTS = (
    """m1 = LoadModel(one.dnn, format=cntk)
SetDefaultModel(m1)
DumpModel(m1, list.txt, includeData=true)
Copy(L1.*, L2.*, copy=all)
SetInput(L2.T, 1, features) # another layer
SetInput(CE.*T, 1, L2.S)
meanVal = Mean(features)
invVal = InvStdDev(features)
inputVal = PerDimMeanVarNormalization(features, meanVal, invVal)
SetInput(L1.T, 1, inputVal)
SaveModel("two.dnn")
""",
    """HDim = 5
L$New$ = Layer(L1.S, HDim, HDim)
SetInput(CE.T, 1, L$New$.S)
SetProperty(L$New$.S, Output, true); SetPropertyForSubTree(CE.S, NeedsGradient, false)
Rename(L1.*, First.*)
CopyInputs(First.S, L2.S)
SetInputs(L2.P, L2.B, L2.T)
Remove(criterion, labels)
SaveModel(m, three.dnn, format=cntk)
""",
    """n = [ Twice(x) = Plus(x, x)
      a = Input(2)
      b = Twice(a) ]
CreateModelWithName(k)
CopySubTree(n.b.Twice, k, deep., copy=all)
LoadNDLSnippet(s, more.ndl, section=first)
before = PastValue(5, h)
both = Plus(L1.S, before)
h = Tanh(both)
DumpNode(m.L1.*, nodes.txt, includeData=f)
UnloadModel(n, s)
SetDefaultModel(k)
z = Tanh(deep.a)
SaveDefaultModel(k.dnn)
""",
    """load = macros
edit = first:second
macros = [ Half(x) { c = Constant(0.5)  y = Scale(c, x) } ]
second = [ Rename(q.*, r.*)  SaveModel(m, q.dnn) ]
first = [ q = Half(L1.S)
  SetInput(CE.T, 1, q)
  LoadModelWithName(o, one.dnn)
]
""",
)
WORDS = [
    "L1.S", "CE.*", "*", "m.", "m1", "n", "L*.W", "copy=value", "SetInput(", "Rename(", "x = ",
    "Copy(", "Remove(", "Plus(L1.S, L1.S)", "[", "]", "(", ")", "{", "}", '"', "\n", ",", ";", ":",
    "#", "$New$", "$", "0", "99999999999999", "-1", "1e999", "features", "edit = first", "\0",
    "\ufeff", "\u00e4", "=", "==", ".", "..", "true", "M(x) = Tanh(x)\n", "CreateModel()",
    "UnloadModel(m)\n",
]  # fmt: skip
SNIPPET = "first = [ u = Input(1)  v = Tanh(u) ]\nother = [ w = Exp(features) ]\n"


@functools.cache
def _original() -> Network:
    add_new_entry_points()
    return network()


def _write_files() -> None:
    """What the scripts read, in the current folder."""
    _original().save("one.dnn")
    Path("more.ndl").write_text(SNIPPET, encoding="utf-8")


def mutated(seed: int) -> str:
    """A script with a few random changes."""
    rng = random.Random(seed)
    text = rng.choice(SCRIPTS)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(text) + 1)
        end = min(at + rng.choice((0, 1, 1, 2, 5, 20)), len(text))
        lines = text.split("\n")
        match rng.randrange(5):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + rng.choice(WORDS) + text[end:]
            case 2:
                text = text[:at] + text[at:end] * 2 + text[end:]
            case 3:
                rng.shuffle(lines)
                text = "\n".join(lines)
            case _:
                other = rng.choice(SCRIPTS).split("\n")
                lines.insert(rng.randrange(len(lines) + 1), rng.choice(other))
                text = "\n".join(lines)
    return text


def judge(seed: int, backends: Sequence[str] = ()) -> str | None:
    """What is wrong with what becomes of a seed's text, '' if nothing."""
    original, text = _original(), mutated(seed)
    net = Network(original.model.frozen())
    before = str(net)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _write_files()
        files = {path: path.read_bytes() for path in Path().rglob("*")}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gc.edits(text, macros=MACROS, models={"m": net}, defines={"New": "2"})
        except gc.GraphcError as error:
            errors = [d for d in error.diagnostics if d.severity is Severity.ERROR]
            if not errors or any(d.span is None for d in errors):
                return f"an error without a place: {error}\n{text}"
            if str(net) != before:
                return f"the network has changed:\n{text}\n{net}"
            if {path: path.read_bytes() for path in Path().rglob("*")} != files:
                return f"files have changed:\n{text}"
        except Exception as error:  # whatever it is, the seed has to be named
            return f"{type(error).__name__}: {error}\n{text}"
    verify_module(net.model.module, sink := DiagnosticSink())
    return f"{sink.diagnostics}\n{text}" if sink.has_errors else ""


@pytest.mark.parametrize("chunk", range(4))
def test_mutated_texts_are_carried_out_or_refused_as_a_whole(chunk: int) -> None:
    problems = [judge(seed) for seed in range(chunk, TEXTS, 4)]
    assert [problem for problem in problems if problem] == []


@pytest.mark.parametrize("text", SCRIPTS)
def test_the_texts_are_right_before_they_are_mutated(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_files()
    net = Network(_original().model.frozen())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.edits(
            text,
            macros=MACROS,
            models={"m": net},
            defines={"New": "2"},
        )
    assert len([*tmp_path.iterdir()]) > 2


def test_some_mutated_texts_are_carried_out_and_some_fail_late() -> None:
    """Else the test above would be one of the parser alone."""
    done = late = 0
    for seed in range(100):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            _write_files()
            net = Network(_original().model.frozen())
            options = {"macros": MACROS, "models": {"m": net}, "defines": {"New": "2"}}
            with warnings.catch_warnings(), contextlib.suppress(gc.GraphcError):
                warnings.simplefilter("ignore")
                gc.edits(mutated(seed), check_only=True, **options)  # type: ignore[arg-type]
                late += 1
                gc.edits(mutated(seed), **options)  # type: ignore[arg-type]
                done += 1
    assert done >= 5
    assert late - done >= 5


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
