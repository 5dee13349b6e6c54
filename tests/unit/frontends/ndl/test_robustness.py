"""Whatever the text: `load` reports into the sink and comes back, and never raises."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc_frontends.ndl.mistakes import MAX_MISTAKES
from tests.support.ndl import load

BOOK = """
# Variables
SDim=784 ; HDim=256
LDim=10
FF(X1, W1, B1) { T=Times(W1, X1); FF=Plus(T, B1) }
BFF(in, rows, cols) = [ B=Parameter(rows, init=zero); W=Parameter(rows, cols); BFF=FF(in, w, b) ]
RBFF(input, rowCount, colCount)
{
  F = BFF(input, rowCount, colCount);
  RBFF = RectifiedLinear(F);
}
SMBFF(x,r,c, labels) { F = BFF(x,r,c); SM = CrossEntropyWithSoftmax(labels, F) }
features=Input(SDim, tag=feature)
labels=Input(LDim)
L1 = RBFF(features, HDim, $SDim$)
past = PastValue(HDim, 1, L1, timeStep=1, defaultHiddenActivity=0.1)
CE = SMBFF(L1, LDim, HDim, labels, tag=Criteria)
Err=ErrorPrediction(labels, CE.F)
scaled=Scale(0.5, Scale(Constant(-1), CE.F.BFF.FF))
LabelNodes=(labels) OutputNodes=(CE.F, scaled)
"""
WORDS = """
a A e F FF M x 0 1 -1 1#INF 1.2.3 1e400 tag load run $SDim$ CE.F L1.F.BFF Input( Plus( Parameter(
PastValue( init= FF(x)= M(a){ M(a)=[ FeatureNodes= OutputNodes=(
"""
PIECES = [*'()[]{}=,;:#$."\n\r\t \0|*-+%\ufeff\u200b', *WORDS.split()]


def load_anything(text: str) -> None:
    builder = load(text, defines={"SDim": 784, "LDim": 5})
    assert all(d.span is None or d.span.line >= 1 for d in builder.sink.diagnostics)


def test_the_program_that_is_broken_below_has_no_mistakes() -> None:
    assert load(BOOK, defines={"SDim": 784}).sink.diagnostics == []


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_random_text_never_raises(text: str) -> None:
    load_anything(text)


@given(st.lists(st.sampled_from(PIECES), max_size=60))
@settings(max_examples=600, deadline=None)
def test_random_pieces_of_the_language_never_raise(pieces: list[str]) -> None:
    load_anything("".join(pieces))


@given(st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_a_damaged_program_never_raises(rng: random.Random) -> None:
    text = BOOK
    for _ in range(rng.randint(1, 5)):
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.randint(0, 12))
        text = text[:start] + rng.choice(["", rng.choice(PIECES), text[end : end + 9]]) + text[end:]
    load_anything(text)


@given(st.permutations(BOOK.splitlines()))
@settings(max_examples=100, deadline=None)
def test_lines_in_any_order_never_raise(lines: list[str]) -> None:
    load_anything("\n".join(lines))


@pytest.mark.parametrize("cut", range(0, len(BOOK), 7))
def test_a_program_that_ends_early_never_raises(cut: int) -> None:
    load_anything(BOOK[:cut])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000,
        "a(\n" * 20_000,
        "a=b(\n" * 10_000,
        "M(x){\n" * 10_000,
        "a=[" * 10_000,
        "y=" + "Tanh(" * 5_000,
        "".join(f"a{i}=a{i + 1}\n" for i in range(2_000)),
        "x=Input[|" + "|" * 300_000,
        ")" * 100_000,
        "$" * 100_000,
        "a b\n" * 100_000,
        "a=b;" * 100_000,
        "x=Input(1" + ",a=1" * 100_000 + ")",
        "".join(f"a{i}=a{i + 1}.x\n" for i in range(2_000)),
        "".join(f"M{i}(x)=M{i + 1}(x)\n" for i in range(2_000)) + "y=M0(x)",
        "P(p){x=p.y.x;y=p.x}\n"
        + "".join(f"a{i}=P(a{i + 1})\n" for i in range(200))
        + "q=Log(a0.x)",
        "".join(f"a{i + 1}=(a{i}, a{i})\n" for i in range(200)) + "OutputNodes=a200",
    ],
    ids=range(17),
)
def test_large_hostile_texts_end_with_a_few_diagnostics(text: str) -> None:
    sink = load(text).sink
    assert sink.has_errors
    assert len(sink.diagnostics) <= MAX_MISTAKES + 1


@pytest.mark.parametrize(
    "text", ["x=Input(3" + "," * 60, "(" * 60, "a[" * 30, ";" * 60, "a=" * 30, "run=a" + ":b" * 30]
)
def test_a_text_has_a_bounded_number_of_words(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphc_frontends.ndl.lexer.MAX_TOKENS", 50)
    (problem,) = load(text).sink.diagnostics
    assert problem.slug == "limit"
    assert problem.message == "a text has at most 50 words and marks, got more"
    assert problem.span is not None
    assert problem.span.column > 40


def test_blank_lines_do_not_count_as_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphc_frontends.ndl.lexer.MAX_TOKENS", 50)
    assert not load("x=Input(3)" + " \r\n\t\n" * 60 + "y=Tanh(x)").sink.diagnostics
