"""`graphc opt`: text in, text out, and what it can tell about passes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from graphc.cli.opt import main
from graphc.cli.sections import split_text
from tests.support.commands import Done, graphc

SUM = """dim N <= 8

func @main(%x: tensor<Nx2xf32> input) -> (z: tensor<Nx2xf32>) {
  %a = add %x, %x : tensor<Nx2xf32>
  %b = add %x, %x : tensor<Nx2xf32>
  %z = mul %a, %b : tensor<Nx2xf32>
  return %z
}
"""


def opt(text: str, *argv: str) -> Done:
    """Run it on text from stdin."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(argv, io.StringIO(text), stdout, stderr)
    return Done(code, stdout.getvalue(), stderr.getvalue())


def write(tmp_path: Path, text: str, name: str = "case.gir") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_without_passes_the_text_comes_back(tmp_path: Path) -> None:
    assert opt(SUM) == Done(0, SUM, "")
    assert graphc("opt", write(tmp_path, SUM)) == Done(0, SUM, "")


def test_a_pipeline_is_run_in_order() -> None:
    done = opt(SUM, "-p", "cse,dce")
    assert done.code == 0
    assert done.out.count("add") == 1


def test_an_unknown_pass_is_refused_with_the_nearest_name() -> None:
    done = opt(SUM, "-p", "csee")
    assert done.code == 2
    assert "did you mean `cse`" in done.err


def test_wrong_text_is_reported_with_its_place() -> None:
    done = opt(SUM.replace("mul %a, %b", "mul %a, %q"))
    assert done.code == 3
    assert "<stdin>:6:16" in done.err
    assert done.out == ""


def test_ill_typed_text_is_refused_by_the_verifier_unless_it_is_off() -> None:
    wrong = SUM.replace("%z = mul %a, %b : tensor<Nx2xf32>", "%z = mul %a, %b : tensor<Nx3xf32>")
    wrong = wrong.replace("(z: tensor<Nx2xf32>)", "(z: tensor<Nx3xf32>)")
    assert opt(wrong).code == 3
    assert opt(wrong, "--no-verify-each").code == 0


def test_networks_are_read_by_their_suffix(tmp_path: Path) -> None:
    path = write(tmp_path, "x = Input(2, tag=feature)\nh = Sigmoid(x)\n", "net.ndl")
    done = graphc("opt", path, "-p", 'infer-shapes,expand-nodes{outputs = ["h"]}')
    assert done.code == 0
    assert "sigmoid %x" in done.out


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    assert graphc("opt", write(tmp_path, SUM, "case.txt")).code == 2


def test_print_after_all_shows_each_text() -> None:
    done = opt(SUM, "-p", "cse,dce", "--print-after-all")
    heads = [line for line in done.err.splitlines() if line.startswith("// -----")]
    assert heads == ["// ----- after cse", "// ----- after dce"]


def test_timing_names_each_pass_and_its_counts() -> None:
    done = opt(SUM, "-p", "cse", "--timing")
    assert "cse: changed, 1 merged" in done.err


def test_trace_patterns_names_each_rule_that_fired_and_its_operation() -> None:
    text = SUM.replace("%z = mul %a, %b", "%c = neg %a : tensor<Nx2xf32>\n  %z = neg %c")
    done = opt(text, "-p", "simplify", "--trace-patterns")
    assert done.code == 0
    assert "neg" not in done.out
    assert len(done.err.splitlines()) == 1
    assert done.err.endswith(": %z = neg %c : tensor<Nx2xf32>\n")


def test_sections_stand_alone_and_keep_their_line_numbers() -> None:
    wrong = SUM.replace("mul %a, %b", "mul %a, %q")
    done = opt(f"{SUM}// -----\n{wrong}", "--split")
    assert "<stdin>:15:16" in done.err
    assert opt(f"{SUM}// -----\n{SUM}", "--split").out == f"{SUM}// -----\n{SUM}"


def test_splitting_keeps_lines_in_place() -> None:
    assert split_text("a\n# -----\nb\n", "#") == ["a\n", "\n\nb\n"]


def test_check_errors_is_content_when_all_are_announced() -> None:
    wrong = SUM.replace(
        "mul %a, %b : tensor<Nx2xf32>", "mul %a, %q : tensor<Nx2xf32> // error: undefined-name: %q"
    )
    assert opt(wrong, "--check-errors") == Done(0, "", "")


def test_check_errors_fails_for_missing_and_for_unannounced_errors() -> None:
    missing = opt(f"{SUM}// error: parse: never\n", "--check-errors")
    assert (missing.code, "announced but not reported" in missing.err) == (1, True)
    wrong = opt(SUM.replace("mul %a, %b", "mul %a, %q"), "--check-errors")
    assert (wrong.code, "reported but not announced" in wrong.err) == (1, True)


def test_check_errors_reads_networks_too(tmp_path: Path) -> None:
    text = "x = Input(2)\nh = Sigmod(x)  # error: unknown-function: did you mean `Sigmoid`?\n"
    assert graphc("opt", write(tmp_path, text, "net.ndl"), "--check-errors").code == 0


def test_running_computes_with_reproducible_inputs() -> None:
    done = opt(SUM, "--run", "--inputs=seed:7")
    assert done.code == 0
    assert done.out.startswith("z: float32[3, 2]\n")
    assert done.out == opt(SUM, "--run", "--inputs=seed:7").out
    assert done.out != opt(SUM, "--run", "--inputs=seed:8").out


def test_running_means_the_same_before_and_after_a_pass() -> None:
    before = opt(SUM, "--run", "--inputs=seed:7")
    assert opt(SUM, "-p", "cse,dce", "--run", "--inputs=seed:7").out == before.out


def test_sizes_can_be_chosen_within_their_bounds() -> None:
    assert opt(SUM, "--run", "--size", "N=5").out.startswith("z: float32[5, 2]\n")
    assert opt(SUM, "--run", "--size", "N=0").out == "z: float32[0, 2]\n"
    assert opt(SUM, "--run", "--size", "N=9").code == 2
    assert opt(SUM, "--run", "--size", "M=1").code == 2
    assert opt(SUM, "--run", "--size", "N").code == 2


def test_a_network_cannot_be_run_before_it_is_a_function(tmp_path: Path) -> None:
    done = graphc("opt", write(tmp_path, "x = Input(2)\n", "net.ndl"), "--run")
    assert done.code == 2
    assert "expand-nodes" in done.err


def test_the_numpy_source_of_a_function_can_be_seen() -> None:
    done = opt(SUM, "-p", "kernels", "--emit", "numpy")
    assert done.code == 0
    assert "import numpy" in done.out


def test_an_unknown_source_is_refused() -> None:
    assert opt(SUM, "--emit", "fortran").code == 2


@pytest.mark.parametrize(
    ("kind", "name"), [("ops", "matmul"), ("ops", "node.times"), ("passes", "cse")]
)
def test_lists_have_a_line_for_each_thing(kind: str, name: str) -> None:
    lines = opt("", "--list", kind).out.splitlines()
    assert any(line.startswith(f"{name} ") and len(line) > len(name) + 10 for line in lines)


@pytest.mark.parametrize("kind", ["ops", "passes", "backends"])
def test_lists_are_json_when_asked_for(kind: str) -> None:
    record = json.loads(opt("", "--list", kind, "--json").out)
    assert record["schema"] == 1
    assert all(row["name"] and row["summary"] for row in record[kind])


WEIGHTS = """dim N <= 8

func @main(%x: tensor<Nx2xf32> input, %w: tensor<2x3xf32> parameter) -> (z: tensor<Nx3xf32>) {
  %z = matmul %x, %w : tensor<Nx3xf32>
  return %z
}
"""


@pytest.mark.parametrize("backend", ["numpy", pytest.param("llvm", marks=pytest.mark.llvm)])
def test_the_source_of_a_function_with_parameters_can_be_seen(backend: str) -> None:
    done = opt(WEIGHTS, "-p", "kernels", "--emit", backend)
    assert (done.code, done.err) == (0, "")
    assert "main" in done.out


@pytest.mark.parametrize("backend", ["numpy", pytest.param("llvm", marks=pytest.mark.llvm)])
@pytest.mark.parametrize("passes", ["", "fuse-kernels"])
def test_source_of_what_has_no_memory_plan_is_refused(backend: str, passes: str) -> None:
    done = opt(WEIGHTS, "-p", passes, "--emit", backend)
    assert done.code == 3
    assert "error[invariant]" in done.err
    assert "`-p kernels`" in done.err


def test_a_product_of_dims_has_the_size_that_follows(tmp_path: Path) -> None:
    path = tmp_path / "f.gir"
    path.write_text(
        "dim T <= 4\ndim S <= 4\ndim N = T * S\n"
        "func @f(%x: tensor<TxSxf32> input) -> (y: tensor<Nxf32>) {\n"
        "  %y = reshape %x {dims = [N]} : tensor<Nxf32>\n  return %y\n}\n"
    )
    done = graphc("opt", path, "--run", "--inputs", "seed:1", "--size", "T=2")
    assert "y: float32[6]" in done.out
    assert graphc("opt", path, "--run", "--inputs", "seed:1", "--size", "N=2").code == 2


def test_a_dim_that_is_cut_into_parts_has_a_size_that_they_divide(tmp_path: Path) -> None:
    path = tmp_path / "f.gir"
    path.write_text(
        "dim T <= 10\ndim C = T / 5\n"
        "func @f(%x: tensor<Tx2xf32> input) -> (y: tensor<Cx5x2xf32>) {\n"
        "  %y = reshape %x {dims = [C, 5, 2]} : tensor<Cx5x2xf32>\n  return %y\n}\n"
    )
    assert "y: float32[1, 5, 2]" in graphc("opt", path, "--run").out
    assert "y: float32[2, 5, 2]" in graphc("opt", path, "--run", "--size", "T=10").out
    done = graphc("opt", path, "--run", "--size", "T=7")
    assert (done.code, done.out) == (2, "")
    assert "--size T requires a multiple of 5, got 7" in done.err
