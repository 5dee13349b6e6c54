"""What every command of MEL does, under each of its names, and when."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc_frontends.mel.commands import COMMANDS
from graphc_frontends.mel.session import ACTIONS
from tests.support.mel import MACROS, changes, edited, network, shape

Changes = dict[str, str | None]

# command -> (text with % for its name, what it changes in the network `m`)
ON_NODES: dict[str, tuple[str, Changes]] = {
    "CopyNode": (
        "%(L1.*, L2.*)  SetInput(L2.T, 1, L1.S)",
        {
            "L2.W": "Parameter()",
            "L2.B": "Parameter()",
            "L2.T": "Times(L2.W, L1.S)",
            "L2.P": "Plus(L2.T, L2.B)",
            "L2.S": "Sigmoid(L2.P)",
        },
    ),
    "CopySubTree": (
        "%(L1.T, m, second.)",
        {
            "second.features": "Input()",
            "second.L1.W": "Parameter()",
            "second.L1.T": "Times(second.L1.W, second.features)",
        },
    ),
    "CopyNodeInputs": ("x = Tanh(L1.T)  %(L1.S, x)", {"x": "Tanh(L1.P)"}),
    "SetNodeInput": ("%(CE.S, 0, CE.T)", {"CE.S": "Sigmoid(CE.T) #output"}),
    "SetNodeInputs": ("%(CE.P, CE.B, CE.T)", {"CE.P": "Plus(CE.B, CE.T)"}),
    "SetProperty": ("%(L1.S, Output, true)", {"L1.S": "Sigmoid(L1.P) #output"}),
    "SetPropertyForSubTree": ("%(CE.S, NeedsGradient, false)", {}),
    "RemoveNode": (
        "%(criterion, labels)",
        {"criterion": None, "labels": None},
    ),
    "Rename": (
        "%(CE.W, Top.W)",
        {"CE.W": None, "Top.W": "Parameter()", "CE.T": "Times(Top.W, L1.S)"},
    ),
}


SHORT = {
    "CopyNode": "CopyN",
    "CopyNodeInputs": "CopyNodeInp",
    "SetNodeInput": "setnodeINPUT",
    "SetNodeInputs": "setinputs",
    "SetPropertyForSubTree": "setPropertyF",
}


def names_of(command: str) -> list[str]:
    """The spellings of a command, one in another case, and one cut short."""
    (row,) = (c for c in COMMANDS if c.names[0] == command)
    first = row.names[0]
    return [*row.names, first.swapcase(), SHORT.get(first, first[: (len(first) + 1) // 2])]


def test_every_command_has_an_action_and_is_tried_here() -> None:
    assert list(ACTIONS) == [command.names[0] for command in COMMANDS]
    here = Path(__file__).read_text(encoding="utf-8")
    tried = {*ON_NODES, *re.findall(r"[A-Z]\w+", here)}
    assert {name for c in COMMANDS for name in c.names[:1]} <= tried


@pytest.mark.parametrize(
    ("command", "name"),
    [(c, n) for c in ON_NODES for n in names_of(c)],
)
def test_a_command_on_nodes(command: str, name: str) -> None:
    text, expected = ON_NODES[command]
    assert edited(text.replace("%", name, 1)) == expected


def test_models_are_made_saved_and_loaded_under_every_name(tmp_path: Path) -> None:
    net = network()
    file, again = tmp_path / "a.dnn", tmp_path / "new" / "folder" / "b.dnn"
    found = gc.edits(
        f"""
        SaveDefaultModel("{file}", format=cntk)
        SAVEMODEL(m, "{again}")
        m2 = LoadModel("{file}", format=CNTK)
        LoadModelWithName(m3, "{again}")
        m4 = CreateModel()
        CreateModelWithName(m5)
        SetDefaultModel(m4)
        x = Input(3)
        y = Tanh(x, tag=output)
        SaveModel("{tmp_path}/y.dnn")
        UnloadModel(m2, m5)
        """,
        models={"m": net},
    )
    assert list(found) == ["m", "m3", "m4"]
    assert found["m"] is net
    assert shape(found["m3"]) == shape(gc.load(file)) == shape(net)
    assert all(
        np.array_equal(gc.load(file).parameters[name], value)
        for name, value in net.parameters.items()
    )
    assert file.read_bytes() == again.read_bytes()
    assert shape(gc.load(tmp_path / "y.dnn")) == {"x": "Input()", "y": "Tanh(x) #output"}


def test_a_model_that_is_named_twice_is_forgotten_once() -> None:
    assert list(gc.edits("a = CreateModel()\nb = CreateModel()\nUnloadModel(a, A)")) == ["b"]


def test_the_first_model_is_the_default_one_until_another_is_set(tmp_path: Path) -> None:
    found = gc.edits("""
        a = CreateModel()
        b = CreateModel()
        x = Input(1)
        SetDefaultModel(B)
        x = Input(2)
        y = Input(3)
        UnloadModel(b)
        c = CreateModel()
        z = Input(4)
    """)
    assert {name: list(shape(net)) for name, net in found.items()} == {"a": ["x"], "c": ["z"]}


def test_a_model_without_a_name_is_called_default_and_gives_way_to_the_next() -> None:
    with pytest.warns(gc.GraphcWarning, match="replaces the model before that has no name"):
        found = gc.edits("CreateModel()\nx = Input(1)\nCreateModel()\ny = Input(2)")
    assert {name: list(shape(net)) for name, net in found.items()} == {"default": ["y"]}


def test_nodes_are_those_of_a_model_by_its_name_and_all_of_it_by_that_alone() -> None:
    net, other = network(), network()
    before = shape(net)
    gc.edits(
        "Rename(n.L1.*, n.K.*)  Copy(n.K.*, K.*)  SetInput(K.T, 1, features)",
        models={"m": net, "N": other},
    )
    assert "L1.W" not in shape(other)
    assert changes(before, shape(net))["K.T"] == "Times(K.W, features)"
    assert np.array_equal(net.parameters["K.W"], other.parameters["K.W"])
    empty = gc.Network()
    gc.edits("Copy(n, e)", models={"n": other, "e": empty})
    plain = {name: text.split(" #")[0] for name, text in shape(other).items()}
    assert shape(empty) == plain


def test_copies_lose_what_is_not_copied_with_them_and_keep_tags_only_where_they_were() -> None:
    net = network()
    with pytest.raises(gc.GraphcError, match=r"Times `X\.T` has no node as its input 1"):
        gc.edits("Copy(L1.*, X.*)", models={"m": net})
    changed = edited(
        "Copy(CE.S, L1.S)  SetInput(L1.S, 0, L1.P)  Copy(CE.S, Q)  SetInput(Q, 0, CE.P)"
    )
    assert changed == {"Q": "Sigmoid(CE.P)"}


def test_values_alone_leave_links_as_they_are() -> None:
    net, other = network(), network()
    other.parameters["L1.W"] = np.ones((5, 4))
    before = shape(net)
    gc.edits("Copy(o.L1.*, L1.*, copy=value)", models={"m": net, "o": other})
    assert shape(net) == before
    assert net.parameters["L1.W"].min() == 1
    gc.edits("CopyNode(o.L1.W, m.*1.W, copyFlag=VALUE)", models={"m": net, "o": other})


def test_a_tree_is_copied_without_a_prefix_where_the_names_are_free() -> None:
    net, empty = network(), gc.Network()
    gc.edits("CopySubTree(L1.S, e)", models={"m": net, "e": empty})
    assert set(shape(empty)) == {"features", "L1.W", "L1.B", "L1.T", "L1.P", "L1.S"}
    gc.edits("CopySubTree(L1.S, e.deep.L1.S)", models={"m": net, "e": empty})
    assert shape(empty)["deep.L1.S"] == "Sigmoid(deep.L1.P)"
    gc.edits("CopySubTree(L1.S, e, deep., copy=value)", models={"m": net, "e": empty})


def test_every_property_has_the_effect_that_its_tag_has() -> None:
    for name, tag in {
        "Feature": "feature", "Label": "label", "FinalCriterion": "criterion",
        "Criteria": "criterion", "MultiSeq": "multiseq", "ReqMultiSeqHandling": "multiseq",
        "Evaluation": "evaluation", "Eval": "evaluation", "Output": "output",
        "ReqMultiSeq": "multiseq", "eval": "evaluation", "Outp": "output",
    }.items():  # fmt: skip
        assert edited(f"SetProperty(L1.T, {name}, t)") == {"L1.T": f"Times(L1.W, features) #{tag}"}
    assert edited("SetProperty(CE.S, Output, False)") == {"CE.S": "Sigmoid(CE.P)"}
    assert edited("SetProperty(CE.*, Recurrent, 1)") == {}


@pytest.mark.parametrize("name", ["ComputeGradient", "NeedsGradient", "needsgrad"])
def test_gradients_are_switched_for_nodes_and_for_all_below(name: str) -> None:
    net = network()
    gc.edits(f"SetPropertyForSubTree(L1.S, {name}, 0)", models={"m": net})
    flags = {n.name: n.operation.params.need_gradient for n in net.nodes if n.op == "parameter"}  # type: ignore[attr-defined]
    assert flags == {"L1.W": False, "L1.B": False, "CE.W": True, "CE.B": True}
    gc.edits(f"SetProperty(L1.*, {name}, true)", models={"m": net})
    assert all(n.operation.params.need_gradient for n in net.nodes if n.op == "parameter")  # type: ignore[attr-defined]


def test_a_property_that_no_node_has_is_a_warning() -> None:
    with pytest.warns(gc.GraphcWarning, match="none of `features` has the property"):
        edited("SetProperty(features, NeedsGradient, false)")


def test_models_and_nodes_are_listed_in_files(tmp_path: Path) -> None:
    for name in ("DumpModel", "Dump", "dumpmod"):
        edited(f'{name}(m, "{tmp_path}/{name}.txt")')
        lines = (tmp_path / f"{name}.txt").read_text().split("\n\n")
        assert lines[0] == "\nCE.B=LearnableParameter [3,1]   NeedGradient=true"
        assert lines[-1] == "labels=InputValue [3,*]\n"
        assert len(lines) == len(network().nodes)
    edited(f'DumpNode(L1.*, "{tmp_path}/n.txt", includeData=true)')
    text = (tmp_path / "n.txt").read_text()
    assert text.count("#" * 68) == 2
    values = [
        float(word)
        for word in text.partition("#")[0].split()
        if "=" not in word and "[" not in word
    ]
    assert np.array_equal(np.float32(values), network().parameters["L1.B"].ravel())


def test_snippets_make_or_fill_a_model(tmp_path: Path) -> None:
    snippet = tmp_path / "more.ndl"
    snippet.write_text("First = [ a = Input(2) b = Twice(a) ]\nTwice(x) = Plus(x, x)\n")
    net = network()
    whole = tmp_path / "whole.ndl"
    whole.write_text("Half(x) { c = Constant(0.5)  y = Scale(c, x) }\nh = Half(features)\n")
    found = gc.edits(
        f"""
        LoadNDLSnippet(s, "{snippet}")
        LoadNDLSnippet(m, "{whole}")
        LoadNDLSnippet(t, "{snippet}", section=first)
        q = Half(L1.S)
        """,
        models={"m": net},
    )
    assert shape(found["s"]) == shape(found["t"]) == {"a": "Input()", "b.Twice": "Plus(a, a)"}
    assert shape(net)["h.y"] == "Scale(h.c, features)"
    assert shape(net)["q.y"] == "Scale(q.c, L1.S)"


def test_ndl_in_brackets_makes_a_model() -> None:
    found = gc.edits("""
        m = [ M(x) { y = Tanh(x) }
              a = Input(2)
              b = M(a) ]
        c = M(b.y)
    """)
    assert shape(found["m"]) == {"a": "Input()", "b.y": "Tanh(a)", "c.y": "Tanh(b.y)"}


def test_sections_that_load_and_edit_name_are_all_that_counts() -> None:
    text = """
        load = macros
        edit = first : second
        macros = [ Twice(x) = Plus(x, x) ]
        second = [ Rename(L1.S, Z)  s = Twice(features) ]
        unused = [ Nonsense(1) ]
        first = [ r = Twice(L1.S)
        ]
    """
    assert edited(text) == {
        "L1.S": None,
        "Z": "Sigmoid(L1.P)",
        "CE.T": "Times(CE.W, Z)",
        "r.Twice": "Plus(Z, Z)",
        "s.Twice": "Plus(features, features)",
    }


def test_variables_and_macros_of_the_caller_are_known() -> None:
    net = network()
    gc.edits(
        "HDim = 5\nL$New$ = Layer(L$Old$.S, HDim, HDim)\nSetInput(CE.$Which$, 1, L$New$)",
        macros=MACROS,
        models={"m": net},
        defines={"New": 2, "Old": 1, "Which": "T"},
    )
    assert shape(net)["CE.T"] == "Times(CE.W, L2.S)"
    assert shape(net)["L2.T"] == "Times(L2.W, L1.S)"


def test_names_of_in_line_ndl_may_come_before_what_they_mean() -> None:
    changed = edited("""
        before = PastValue(5, h)
        SetProperty(before, Output, true)
        both = Plus(L1.S, before)
        h = Tanh(both)
        SetInput(CE.T, 1, h)
    """)
    assert changed == {
        "before": "PastValue(h) #output",
        "both": "Plus(L1.S, before)",
        "h": "Tanh(both)",
        "CE.T": "Times(CE.W, h)",
    }


def test_an_input_that_a_command_sets_does_not_wait_for_a_name_any_more() -> None:
    assert edited("y = Tanh(later)\nSetInput(y, 0, L1.S)\nlater = Tanh(L1.P)") == {
        "y": "Tanh(L1.S)",
        "later": "Tanh(L1.P)",
    }


def test_a_name_of_a_removed_node_is_free_again() -> None:
    assert edited("y = Tanh(L1.S)\nRemove(y)\nRename(L1.S, y)\nz = Exp(y)") == {
        "L1.S": None,
        "y": "Sigmoid(L1.P)",
        "CE.T": "Times(CE.W, y)",
        "z": "Exp(y)",
    }


def test_a_file_that_was_just_saved_can_be_loaded(tmp_path: Path) -> None:
    found = gc.edits(
        f"""
        SaveModel("{tmp_path}/a.dnn")
        Rename(L1.*, K.*)
        n = LoadModel("{tmp_path}/a.dnn")
        """,
        models={"m": network()},
    )
    assert shape(found["n"]) == shape(network())


def test_a_script_that_fails_writes_nothing_and_leaves_given_networks_alone(tmp_path: Path) -> None:
    net = network()
    before, values = shape(net), {n: v.copy() for n, v in net.parameters.items()}
    (tmp_path / "old.dnn").write_text("old")
    with pytest.raises(gc.GraphcError, match=r"network has no node `L9\.T`"):
        gc.edits(
            f"""
            Rename(L1.*, K.*)
            SaveModel("{tmp_path}/a/b.dnn")
            SaveModel("{tmp_path}/old.dnn")
            DumpModel(m, "{tmp_path}/c.txt")
            x = Tanh(K.S)
            Remove(CE.*, criterion)
            SetInput(x, 0, L9.T)
            """,
            models={"m": net},
        )
    assert shape(net) == before
    assert all(np.array_equal(net.parameters[n], v) for n, v in values.items())
    assert [p.name for p in tmp_path.iterdir()] == ["old.dnn"]
    assert (tmp_path / "old.dnn").read_text() == "old"
    assert gc.compile(net, backend="numpy")(features=np.ones((1, 4)))["CE.S"].shape == (1, 3)


def test_no_file_is_written_where_a_given_network_is_left_incomplete(tmp_path: Path) -> None:
    net = network()
    before = shape(net)
    with pytest.raises(gc.GraphcError, match="has no node as its input"):
        gc.edits(f'SaveModel("{tmp_path}/a.dnn")\nRemove(L1.S)', models={"m": net})
    assert not [*tmp_path.iterdir()]
    assert shape(net) == before


def test_given_networks_are_put_back_where_a_file_cannot_be_put_into_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network()
    before = shape(net)

    def fails(_outbox: object) -> list[Path]:
        raise gc.GraphcError([])

    monkeypatch.setattr("graphc_frontends.mel.outbox.Outbox.send", fails)
    with pytest.raises(gc.GraphcError):
        gc.edits(f'Rename(L1.*, K.*)\nSaveModel("{tmp_path}/a/b.dnn")', models={"m": net})
    assert shape(net) == before
    assert not [*tmp_path.iterdir()]


def test_a_check_alone_reads_no_model_and_writes_nothing(tmp_path: Path) -> None:
    text = f'm = LoadModel("{tmp_path}/none.dnn")\nSaveModel("{tmp_path}/b.dnn")\n'
    assert gc.edits(text, check_only=True) == {}
    with pytest.raises(gc.GraphcError, match="`Cpoy` is no command; did you mean `Copy`"):
        gc.edits(text + "Cpoy(a, b)", check_only=True)
    assert not [*tmp_path.iterdir()]
