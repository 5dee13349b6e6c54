"""Malformed MEL: the one error that each mistake gives, and where; and that nothing has changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.mel import network, problems, shape

# text -> the errors, as line:column slug: part of the message; `m` is a network that is there
MISTAKES: dict[str, list[str]] = {
    # what is no command
    "Cpoy(a, b)": ["1:1 unknown-function: `Cpoy` is no command; did you mean `Copy`?"],
    "SetNode(a, b)": ["1:1 unknown-function: `SetNode` may stand for SetNodeInput or SetNodeInput"],
    "Sav(x.dnn)": ["1:1 unknown-function: `Sav` is no command"],
    "Plus(L1.S, L1.S)": ["1:1 unknown-function: `Plus` is no command; in-line NDL is `x = Plus("],
    "x = Plsu(L1.S, L1.S)": ["1:5 unknown-function: `Plsu` is no function, no macro and no comman"],
    "x = Copy(L1.S, y)": ["1:1 argument-type: CopyNode makes no model that could be called `x`"],
    "x = LoadMod(L1.S, y)": ["1:5 argument-count: `LoadModel(file, [format=])` takes 1 argument, "],
    "M(x) = Plus(x, x)": ["1:1 parse: the macro `M` cannot be defined among commands"],
    "M(x) { y = Plus(x, x) }": ["1:1 parse: the macro `M` cannot be defined among commands"],
    # arguments
    "Copy(L1.*)": ["1:1 argument-count: `CopyNode(nodes, copies, [copy=])` takes 2 arguments, got"],
    "Remove()": ["1:1 argument-count: `RemoveNode(nodes, ...)` takes 1 or more arguments, got 0"],
    "SaveModel(a, b, c)": ["1:1 argument-count: `SaveModel([model], file, [format=])` takes 1 or "],
    "SaveModel(c:\\a.dnn, d)": ["1:1 argument-count: ", "a path with a colon needs quotes"],
    'SaveModel("")': ["1:11 bad-value: the path of a file is required, got none"],
    "Copy(L1.*, L2.*, copy=none)": ["1:23 bad-option: `copy` is all or value, got `none`"],
    "Copy(L1.*, L2.*, cop=all, copy=all)": ["1:27 bad-option: the option `copy` is given twice"],
    "Copy(L1.*, L2.*, kopy=all)": [
        "1:18 bad-option: CopyNode has no option `kopy`, it takes copy, copyFlag; did you mean"
    ],
    "Rename(L1.*, L2.*, copy=all)": ["1:20 bad-option: Rename has no option `copy`, it takes none"],
    "Dump(m, f.txt, includeData=yes)": ["1:28 bad-value: true or false is required, got `yes`"],
    "SaveModel(a.dnn, format=onnx)": ["1:25 bad-option: `format` is cntk, got `onnx`"],
    "SetInput(L1.S, one, L1.P)": ["1:16 bad-value: the number of an input is required, from 0 on"],
    "SetInput(L1.S, -1, L1.P)": ["1:16 bad-value: the number of an input is required, from 0 on"],
    "SetInput(L1.S, 99999999999, L1.P)": ["1:16 bad-value: the number of an input is required"],
    "SetProperty(L1.S, Outptu, true)": ["1:19 bad-option: a property is one of "],
    "SetProperty(L1.S, Output, maybe)": ["1:27 bad-value: true or false is required, got `maybe`"],
    "SetPropertyForSubTree(L1.S, Output, true)": ["1:29 bad-option: a property is one of Compute"],
    "Copy(Plus(a, b), c)": ["1:6 argument-type: a command takes names and texts, got a call of"],
    "Copy(a, b, copy=all(c))": ["1:17 argument-type: a command takes names and texts, got a call"],
    "Rename(L1.*, L2.*, [a])": ["1:20 parse: a name, pattern, number or text is required, got `[`"],
    "Rename(L1.*,, L2.*)": ["1:13 parse: an argument is missing here"],
    # models
    "SetDefaultModel(n)": ["1:17 undefined-name: there is no model `n` here"],
    "n = CreateModel()\nSetDefaultModel(N2)": ["2:17 undefined-name: there is no model `N2` here"],
    "m = CreateModel()": ["1:1 duplicate-name: there is a model `m` already; UnloadModel frees"],
    "CreateModelWithName(M)": ["1:21 duplicate-name: there is a model `M` already"],
    "CreateModelWithName(a.b)": ["1:21 bad-value: a model's name is letters, digits and `_`, got "],
    "UnloadModel(m)\nx = Input(1)": ["2:1 undefined-name: there is no default model here"],
    "UnloadModel(m)\nRename(a, b)": ["2:8 undefined-name: there is no default model here"],
    "n = CreateModel()\nRename(m.L1.S, n.x)": ["2:16 argument-type: `n.x` has to be of the same"],
    "n = CreateModel()\nSetInput(L1.S, 0, n.x)": ["2:19 argument-type: `n.x` has to be of the"],
    "CopySubTree(L1.S, n, x)": ["1:19 argument-type: CopySubTree with a prefix requires a model"],
    "CopySubTree(L1.S, n.x)": ["1:19 bad-value: the copy of `L1.S` and those below are called by "],
    "n = LoadModel(no.dnn)": ["1:15 file: there is no model file no.dnn"],
    "LoadNDLSnippet(n, no.ndl)": ["1:19 file: "],
    # syntax
    "Copy(a, b": ["1:5 parse: `(` is never closed"],
    "n = [ x = Input(1)": ["1:5 parse: "],
    "x = ": ["1:5 parse: a name, number or call is required, got the end of the text"],
    "x": ["1:2 parse: `=` after `x` is required, got the end of the text"],
    "L1.* = 3": ["1:1 parse: a statement `name = ...` is required, got `L1.*`"],
    "Copy(a, $b$)": ["1:9 undefined-name: `$b$` is given no value by any define"],
    "Copy(a, \0)": ["1:9 lexical: text is required, got a NUL byte"],
    'Copy(a, "b)': ["1:9 lexical: a quote has to be closed on its line", "1:5 parse: `(` is never"],
    "edit = first": ["1:8 undefined-name: the file has no section `first`"],
    "edit = a\nedit = a\na = [ ]": ["2:1 duplicate-name: `edit=` is given twice"],
    # in-line NDL
    "x = Tanh(y)": ["1:10 undefined-name: `y` is not defined"],
    "x = Tanh(L1.S)\nx = Exp(L1.S)": ["2:1 duplicate-name: `x` is already defined"],
    "features = Exp(L1.S)": ["1:12 duplicate-name: the name `features` is taken by another node"],
    "x = Tanh(L1.S, L1.S)": ["1:5 argument-count: "],
    "n = [ x = Tanh(y) ]": ["1:16 undefined-name: `y` is not defined"],
    "n = [ x = Layre(y) ]": ["1:11 unknown-function: `Layre` is no function and no macro"],
    "n = [ A(x) = B(x)  B(x) = A(x) ]": ["1:14 recursion: "],
    # what the network says
    "Copy(X.*, Y.*)": ["1:1 missing-node: no node of the network is called as `X.*` says"],
    "Remove(L1.Z)": ["1:1 missing-node: the network has no node `L1.Z`"],
    "Rename(L1.S, CE.S)": ["1:1 duplicate-name: the name `CE.S` for `L1.S` is taken by another"],
    "Rename(L1.*, X)": ["1:1 bad-value: `L1.*` may be several nodes"],
    "Copy(L1.*, L1.*)": ["1:1 duplicate-name: "],
    "SetInput(L1.S, 7, L1.P)": ["1:1 bad-value: `L1.S`, a Sigmoid, has 1 inputs, counted from 0"],
    "SetInput(L1.S, 0, L*)": ["1:1 bad-value: `L*` has to mean one node, it means 5"],
    "SetInputs(L1.S, L1.P, L1.P)": ["1:1 argument-count: `L1.S`, a Sigmoid, takes the inputs x; g"],
    "Copy(L1.W, L1.T)": ["1:1 argument-type: `L1.W` is a Parameter and cannot be copied over"],
    "Copy(L1.W, Z.W, copy=value)": ["1:1 missing-node: a copy of values requires the node `Z.W`"],
    "Remove(L1.S)\nDump(m, f.txt)": ["missing-node: Times `CE.T` has no node as its input 1 (B)"],
    "Remove(L1.S)": ["missing-node: Times `CE.T` has no node as its input 1 (B)"],
    "SetInput(CE.T, 1, features)": ["shape-mismatch: Times requires the columns of A to match"],
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_changes_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    net = network()
    before, values = shape(net), {n: v.copy() for n, v in net.parameters.items()}
    found = problems(text, m=net)
    expected = MISTAKES[text]
    assert found, "no error"
    if "colon" in expected[-1]:
        assert expected[0] in found[0]
        assert expected[1] in found[0]
    else:
        assert len(found) == len(expected), found
        for part, line in zip(sorted(expected), sorted(found), strict=True):
            assert part.removesuffix("...") in line, found
    assert shape(net) == before
    assert all(np.array_equal(net.parameters[n], v) for n, v in values.items())
    assert not [*tmp_path.iterdir()]


def test_all_mistakes_of_a_text_are_told_at_once() -> None:
    text = "Cpoy(a, b)\nn = CreateModle()\nSetDefaultModel(q)\nRename(a)\nx = Tahn(L1.S)\n"
    found = problems(text, m=network())
    assert [line.split(":")[0] for line in found] == ["1", "3", "4", "2", "5"]


def test_one_mistake_gives_no_others_that_only_follow() -> None:
    text = 'm1 = LoadModel("no.dnn")\nRename(m1.a, b)\nSaveModel(m1, "x.dnn")\nx = Tanh(y)'
    assert len(problems(text)) == 1
    assert len(problems("LoadModle(x.dnn)\nRename(a, b)\nx = Tanh(a)\nSaveModel(y.dnn)")) == 1


def test_a_mistake_in_a_snippet_or_a_file_of_macros_has_its_place_there(tmp_path: Path) -> None:
    (tmp_path / "s.ndl").write_text("x = Input(1)\ny = Tanh(\n")
    with pytest.raises(gc.GraphcError) as caught:
        gc.edits(f'LoadNDLSnippet(n, "{tmp_path}/s.ndl")')
    assert str(caught.value.diagnostics[0].span) == f"{tmp_path}/s.ndl:2:9"
    with pytest.raises(gc.GraphcError) as caught:
        gc.edits("m = CreateModel()", macros="A(x) { y = }")
    assert str(caught.value.diagnostics[0].span) == "<macros 1>:1:12"


def test_copies_of_copies_end_before_memory_does() -> None:
    text = "n = CreateModel()\na = Input(1)\n" + "".join(f"Copy(*, p{i}.*)\n" for i in range(60))
    (line,) = problems(text)
    assert line.startswith("19:1 limit: a network that is edited has at most 100000 nodes")


def test_macros_that_would_explode_are_refused_before_anything_runs() -> None:
    rows = [f"M{i}(x) {{ a = M{i + 1}(x)  b = M{i + 1}(a) }}" for i in range(40)]
    macros = "\n".join([*rows, "M40(x) = Tanh(x)"])
    with pytest.raises(gc.GraphcError, match="limit"):
        gc.edits("m = CreateModel()\nx = Input(1)\ny = M0(x)", macros=macros)


WRONG_ARGUMENTS: dict[str, tuple[Callable[[], object], str]] = {
    "a file of another kind": (lambda: gc.edit("x.txt"), "one of the suffixes .mel, got `.txt`"),
    "no file": (lambda: gc.edit("none.mel"), "none.mel"),
    "no text": (lambda: gc.edits(3), "edits requires a text, got int"),  # type: ignore[arg-type]
    "no network": (
        lambda: gc.edits("", models={"m": 3}),  # type: ignore[dict-item]
        "the model m requires a network, got int",
    ),
    "no table": (
        lambda: gc.edits("", models=[1]),  # type: ignore[arg-type]
        "models requires networks by name, got list",
    ),
    "another language": (lambda: gc.edits("", language="ndl"), "one of the suffixes .mel"),
    "no truth": (
        lambda: gc.edits("", check_only="yes"),  # type: ignore[arg-type]
        "check_only requires True or False",
    ),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_wrong_arguments(name: str) -> None:
    call, message = WRONG_ARGUMENTS[name]
    with pytest.raises(gc.GraphcError, match=re.escape(message)):
        call()
