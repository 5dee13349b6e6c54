"""What each function takes: spellings, arguments by place, options, tags and special lists."""

from __future__ import annotations

import pytest

from graphc_frontends.ndl.functions import (
    COMMON_OPTIONS,
    FUNCTION_BY_NAME,
    FUNCTIONS,
    NODE_ARRAYS,
    Function,
)
from tests.support.ndl import load, network, node, problem, problems

X = "x = Input(3)\n"

# The spellings that the book lists.
BOOK = """
    InputValue Input ImageInput Image LearnableParameter Parameter Constant Const
    RectifiedLinear ReLU Sigmoid Tanh Log Softmax LogSoftmax SumElements SumColumnElements
    Negate Reshape RowSlice RowStack Scale Times TransposeTimes DiagTimes Plus Minus
    ElementTimes RowElementTimes ColumnElementTimes KhatriRaoProduct ColumnwiseCrossProduct
    GMMLogLikelihood GMMLL SquareError SE CrossEntropyWithSoftmax CEWithSM
    ClassBasedCrossEntropyWithSoftmax CBCEWithSM ErrorPrediction ClassificationError CosDistance
    CosDist CosDistanceWithNegativeSamples CosWithNegSamples MatrixL1Reg L1Reg MatrixL2Reg L2Reg
    Mean InvStdDev PerDimMeanVarNormalization PerDimMVNorm PerDimMeanVarDeNormalization
    PerDimMVDeNorm Dropout Convolution Convolve MaxPooling AveragePooling PastValue Delay
    FutureValue
"""

SIMPLE = [
    ("Plus", "plus", 2),
    ("Minus", "minus", 2),
    ("Times", "times", 2),
    ("ElementTimes", "element_times", 2),
    ("Scale", "scale", 2),
    ("Negate", "negate", 1),
    ("Sigmoid", "sigmoid", 1),
    ("Tanh", "tanh", 1),
    ("RectifiedLinear", "rectified_linear", 1),
    ("ReLU", "rectified_linear", 1),
    ("Exp", "exp", 1),
    ("Cosine", "cosine", 1),
    ("Cos", "cosine", 1),
    ("Log", "log", 1),
    ("Softmax", "softmax", 1),
    ("LogSoftmax", "log_softmax", 1),
    ("SumElements", "sum_elements", 1),
    ("Mean", "mean", 1),
    ("InvStdDev", "inv_std_dev", 1),
    ("PerDimMeanVarNormalization", "per_dim_mean_var_normalization", 3),
    ("PerDimMVNorm", "per_dim_mean_var_normalization", 3),
    ("SquareError", "square_error", 2),
    ("SE", "square_error", 2),
    ("CrossEntropy", "cross_entropy", 2),
    ("CrossEntropyWithSoftmax", "cross_entropy_with_softmax", 2),
    ("CEWithSM", "cross_entropy_with_softmax", 2),
    ("ErrorPrediction", "error_prediction", 2),
    ("ClassificationError", "error_prediction", 2),
    ("TransposeTimes", "transpose_times", 2),
    ("DiagTimes", "diag_times", 2),
    ("RowElementTimes", "row_element_times", 2),
    ("ColumnElementTimes", "column_element_times", 2),
    ("KhatriRaoProduct", "khatri_rao_product", 2),
    ("ColumnwiseCrossProduct", "khatri_rao_product", 2),
    ("SumColumnElements", "sum_column_elements", 1),
    ("Hardmax", "hardmax", 1),
    ("Dropout", "dropout", 1),
    ("BatchNormalization", "batch_normalization", 5),
    ("Transpose", "transpose", 1),
    ("TimeReverse", "time_reverse", 1),
    ("RowStack", "row_stack", 2),
    ("RowStack", "row_stack", 3),
    ("Diagonal", "diagonal", 1),
    ("CosDistance", "cos_distance", 2),
    ("CosDist", "cos_distance", 2),
    ("CRF", "crf", 3),
    ("MatrixL1Reg", "matrix_l1_reg", 1),
    ("L1Reg", "matrix_l1_reg", 1),
    ("MatrixL2Reg", "matrix_l2_reg", 1),
    ("L2Reg", "matrix_l2_reg", 1),
    ("L1Norm", "matrix_l1_reg", 1),
    ("L2Norm", "matrix_l2_reg", 1),
    ("Logistic", "logistic", 2),
    ("Logistic", "logistic", 3),
    ("GMMLogLikelihood", "gmm_log_likelihood", 4),
    ("GMMLL", "gmm_log_likelihood", 4),
    ("ClassBasedCrossEntropyWithSoftmax", "class_based_cross_entropy_with_softmax", 4),
    ("CBCEWithSM", "class_based_cross_entropy_with_softmax", 4),
    ("LookupTable", "lookup_table", 2),
    ("PerDimMeanVarDeNormalization", "per_dim_mean_var_de_normalization", 3),
    ("PerDimMVDeNorm", "per_dim_mean_var_de_normalization", 3),
]


@pytest.mark.parametrize(("name", "op", "count"), SIMPLE)
def test_a_function_of_nodes_becomes_its_op(name: str, op: str, count: int) -> None:
    operands = ", ".join(["x"] * count)
    assert network(f"{X}y={name}({operands})").endswith(f"y = {op}({operands})")


@pytest.mark.parametrize("name", BOOK.split())
def test_every_function_of_the_book_is_known_and_marked_so(name: str) -> None:
    assert FUNCTION_BY_NAME[name.lower()].in_book


def test_no_spelling_stands_for_two_functions() -> None:
    spellings = [name.lower() for function in FUNCTIONS for name in function.names]
    assert len(spellings) == len(set(spellings))


def sample_call(function: Function, spelling: str, count: int) -> str:
    """A call with `count` arguments that are right by kind."""
    places = [p for p in function.positionals if not p.optional]
    places += [p for p in function.positionals if p.optional][: count - len(places)]
    places.sort(key=function.positionals.index)
    return f"{spelling}({', '.join('x' if p.kind == 'node' else '2' for p in places)})"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.names[0])
def test_every_spelling_is_accepted_with_the_least_and_most_arguments(function: Function) -> None:
    needed = sum(not p.optional for p in function.positionals)
    for spelling in function.names:
        for count in {needed, len(function.positionals)}:
            found = problems(f"{X}y={sample_call(function, spelling, count)}")
            assert [p.split(" ", 1)[1] for p in found] == (
                [] if function.op else [f"not-supported: `{spelling}` is not supported yet"]
            )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.names[0])
def test_every_function_refuses_one_argument_less_than_it_needs(function: Function) -> None:
    needed = [p for p in function.positionals if not p.optional][1:]
    arguments = ", ".join("x" if p.kind == "node" else "2" for p in needed)
    found = problems(f"{X}y={function.names[0]}({arguments})")
    assert any("argument-count: " in p for p in found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("Plus(x)", "`Plus(a, b)` takes 2 arguments, got 1"),
        ("Plus(x, x, x)", "`Plus(a, b)` takes 2 arguments, got 3"),
        ("relu()", "`relu(x)` takes 1 argument, got 0"),
        ("Input()", "`Input(rows, [cols])` takes 1 to 2 arguments, got 0"),
        ("Delay(3)", "`Delay(rows, [cols], x)` takes 2 to 3 arguments, got 1"),
    ],
)
def test_a_wrong_count_says_what_is_taken(call: str, message: str) -> None:
    assert problem(f"{X}y={call}") == f"2:3-{3 + len(call)} argument-count: {message}"


def test_row_stack_takes_any_number_of_nodes_from_two_on() -> None:
    assert network(f"{X}y=RowStack(x, x, x, x, x)").endswith("y = row_stack(x, x, x, x, x)")
    found = problems(f"{X}y=RowStack(x)")
    assert any("`RowStack(m1, m2, ...)` takes 2 arguments or more, got 1" in p for p in found)


def test_row_repeat_has_a_number_of_repeats_from_one_on() -> None:
    assert network(f"{X}y=RowRepeat(x, 2)").endswith("y = row_repeat(x) num_repeats=2")
    assert "from 1 to 2147483647 is required, got 0" in problem(f"{X}y=RowRepeat(x, 0)")


@pytest.mark.parametrize("name", ["ImageInput", "Image", "image"])
def test_an_image_input_is_an_input_with_the_sizes_of_an_image(name: str) -> None:
    expected = "x = input() width=28 height=27 channels=1"
    assert network(f"x={name}(28, 27, 1)") == expected
    assert network(f"x={name}(28, 27, 1, 5)") == expected  # the number of images is a placeholder
    assert "from 1 to 2147483647 is required, got 0" in problem(f"x={name}(28, 0, 1)")


IMAGE = "x = ImageInput(9, 8, 1)\nw = Parameter(0, 0)\n"


@pytest.mark.parametrize("name", ["Convolution", "Convolve"])
def test_a_convolution_has_seven_places_and_two_options(name: str) -> None:
    sizes = (
        "kernel_width=3 kernel_height=2 output_channels=5 horizontal_subsample=2 "
        "vertical_subsample=1"
    )
    plain = network(f"{IMAGE}y={name}(w, x, 3, 2, 5, 2, 1)")
    assert plain.endswith(f"y = convolution(w, x) {sizes}")
    padded = f"{IMAGE}y={name}(w, x, 3, 2, 5, 2, 1, maxTempMemSizeInSamples=7, zeroPadding=true)"
    assert network(padded).endswith(f"y = convolution(w, x) {sizes} zero_padding=True")
    assert "takes 7 arguments, got 8" in problem(f"{IMAGE}y={name}(w, x, 3, 2, 5, 2, 1, 0)")
    assert "from 1 to 2147483647 is required, got 0" in problem(f"{IMAGE}y={name}(w,x,3,0,5,2,1)")


@pytest.mark.parametrize(
    ("name", "op"), [("MaxPooling", "max_pooling"), ("AveragePooling", "average_pooling")]
)
def test_pooling_has_a_window_and_steps(name: str, op: str) -> None:
    assert network(f"{IMAGE}y={name}(x, 3, 2, 4, 5)").endswith(
        f"y = {op}(x) window_width=3 window_height=2 step_width=4 step_height=5"
    )
    assert "from 1 to 2147483647 is required, got 0" in problem(f"{IMAGE}y={name}(x, 3, 2, 0, 5)")


def test_a_row_slice_has_its_node_last() -> None:
    assert network(f"{X}y=RowSlice(0, 2, x)").endswith("y = row_slice(x) start_row=0 num_rows=2")
    assert "from 1 to 2147483647 is required, got 0" in problem(f"{X}y=RowSlice(1, 0, x)")


def test_a_reshape_may_say_what_the_columns_are_images_of() -> None:
    assert network(f"{X}y=Reshape(x, 3)").endswith("y = reshape(x) num_rows=3")
    text = f"{X}y=Reshape(x, 3, imageChannels=1, imageWidth=3, imageHeight=1)"
    assert network(text).endswith(
        "y = reshape(x) num_rows=3 image_width=3 image_height=1 image_channels=1"
    )


def test_a_function_that_is_not_supported_yet_does_not_hide_other_mistakes() -> None:
    text = f"{X}y=PairNetwork(x, rate=2)\nz=Sigmod(x)"
    assert [p.split(" ")[1] for p in problems(text)] == [
        "not-supported:",
        "bad-option:",
        "unknown-function:",
    ]


def test_an_unknown_function_gets_the_near_name_of_a_function() -> None:
    assert problem(f"{X}y=Sigmod(x)") == (
        "2:3-9 unknown-function: `Sigmod` is no function and no macro; did you mean `Sigmoid`?"
    )


def test_an_unknown_function_gets_the_near_name_of_a_macro() -> None:
    text = f"{X}HiddenLayer(a)=Tanh(a)\ny=HidenLayer(x)"
    assert problem(text).endswith("did you mean `HiddenLayer`?")


# --- inputs, parameters, constants --------------------------------------------------------------


def test_the_columns_of_an_input_are_a_placeholder() -> None:
    assert network("x=Input(3, 7)") == "x = input() rows=3"


def test_a_parameter_has_rows_and_perhaps_columns() -> None:
    assert network("b=Parameter(3)\nw=LearnableParameter(3, 4)") == (
        "b = parameter() rows=3\nw = parameter() rows=3 cols=4"
    )


def test_zero_rows_or_columns_are_left_to_inference() -> None:
    assert network("w=Parameter(0, 0)") == "w = parameter() rows=0 cols=0"


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("init=uniform", {"init": "uniform"}),
        ("init=GAUSSIAN, initValueScale=10", {"init": "gaussian", "init_value_scale": 10.0}),
        ("init=fixedValue, value=-2", {"init": "fixed_value", "value": -2.0}),
        ("init=zero", {"init": "fixed_value", "value": 0.0}),
        ("init=zero, value=3", {"init": "fixed_value", "value": 0.0}),
        (
            'init=fromFile, initFromFilePath="a/b.txt"',
            {"init": "from_file", "init_from_file_path": "a/b.txt"},
        ),
        ("needGradient=false", {"need_gradient": False}),
        ("NEEDGRADIENT=T", {"need_gradient": True}),
        ("needGradient=0", {"need_gradient": False}),
    ],
)
def test_the_options_of_a_parameter(options: str, settings: dict[str, object]) -> None:
    assert node(f"w=Parameter(3, {options})", "w").settings == {"rows": 3, **settings}


def test_an_initializer_of_a_file_needs_the_file() -> None:
    assert problem("w=Parameter(3, init=fromFile)") == (
        '1:3-30 bad-option: init=fromFile requires initFromFilePath="..."'
    )


def test_a_constant_is_a_scalar_unless_it_says_otherwise() -> None:
    assert network("c=Constant(2.5)") == "c = constant() value=2.5"
    assert network("c=Const(1, 2, 3)") == "c = constant() value=1.0 rows=2 cols=3"
    assert network("c=Const(1, rows=2, cols=3)") == "c = constant() value=1.0 rows=2 cols=3"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("2.5", "bad-value: a whole number from 0 to 2147483647 is required, got 2.5"),
        ("-1", "bad-value: a whole number from 0 to 2147483647 is required, got -1"),
        ("1e10", "bad-value: a whole number from 0 to 2147483647 is required, got 1e10"),
        ("1#INF", "bad-value: a whole number from 0 to 2147483647 is required, got 1#INF"),
        ('"3"', "argument-type: a number is required, got `3`"),
        ("x", "argument-type: a number is required, got the node `x`"),
        ("Tanh(x)", "argument-type: a number is required, got the node `unnamed1`"),
        ("list", "argument-type: a number is required, got the list `list`"),
        ("Hdim", "undefined-name: `Hdim` has to be a number defined before it is used here"),
    ],
)
def test_a_size_has_to_be_a_whole_number(argument: str, message: str) -> None:
    found = problem(f"{X}list=(x, x)\nw=Parameter({argument})")
    assert found.split(" ", 1)[1].startswith(message)


def test_a_node_in_place_of_a_number_is_shown_where_it_is_made() -> None:
    (found,) = load(f"{X}w=Parameter(x)").sink.diagnostics
    assert [(n.message, str(n.span)) for n in found.notes] == [("`x` is a node", "net.ndl:1:5")]


def test_a_number_variable_with_a_near_name_is_suggested() -> None:
    assert problem("HDim=3\nw=Parameter(HDin)").endswith("did you mean `HDim`?")


def test_text_is_no_node() -> None:
    assert problem(f'{X}t="x"\ny=Tanh(t)') == "3:8-9 argument-type: a node is required, got `x`"


def test_quoted_text_in_the_place_of_a_node_is_its_name() -> None:
    assert network(f'{X}"a b"=Tanh("x")\ny=Log("A B")').splitlines()[1:] == [
        "a b = tanh(x)",
        "y = log(a b)",
    ]
    assert problem(f'{X}y=Tanh("z")') == "2:8-11 undefined-name: `z` is not defined"


# --- delays -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("PastValue(3, x)", "past_value(x) rows=3"),
        ("PastValue(3, 1, x)", "past_value(x) rows=3"),
        ("Delay(3, x, delayTime=2)", "past_value(x) rows=3 time_step=2"),
        ("FutureValue(0, x, timeStep=4)", "future_value(x) rows=0 time_step=4"),
        ("PastValue(3, x, timeStep=2, delayTime=5)", "past_value(x) rows=3 time_step=2"),
        ("PastValue(3, x, timeStep=1, delayTime=5)", "past_value(x) rows=3 time_step=5"),
        (
            "PastValue(3, x, defaultHiddenActivity=0)",
            "past_value(x) rows=3 default_hidden_activity=0.0",
        ),
        ("Delay(3, x, defaultPastValue=0)", "past_value(x) rows=3 default_hidden_activity=0.0"),
    ],
)
def test_the_node_of_a_delay_comes_last(call: str, shown: str) -> None:
    assert network(f"{X}y={call}").endswith(f"y = {shown}")


@pytest.mark.parametrize("step", ["0", "-1", "1.5"])
def test_a_delay_goes_at_least_one_step(step: str) -> None:
    message = f"a whole number from 1 to 2147483647 is required, got {step}"
    assert problem(f"{X}y=PastValue(3, x, timeStep={step})").endswith(f"bad-value: {message}")


# --- options ------------------------------------------------------------------------------------


def test_an_unknown_option_gets_the_near_name() -> None:
    assert problem("w=Parameter(3, initvalscale=2)") == (
        "1:16-28 bad-option: `Parameter` takes no `initvalscale`, it is ignored; "
        "did you mean `initValueScale`?"
    )


def test_an_option_that_a_function_does_not_have_is_left_out_with_a_warning() -> None:
    text = (
        "w=Parameter(3, 2, randomSeed=1, init=gaussian)\nx=Input(2)\ny=LookupTable(w, x, init=mode)"
    )
    builder = load(text)
    assert str(builder) == (
        "w = parameter() rows=3 cols=2 init=gaussian\nx = input() rows=2\ny = lookup_table(w, x)"
    )
    assert [d.severity.value for d in builder.sink.diagnostics] == ["warning", "warning"]


def test_a_macro_warns_once_of_an_option_however_often_it_is_called() -> None:
    text = f"{X}F(a) = Tanh(a, rate=2)\n" + "".join(f"y{i}=F(x)\n" for i in range(30))
    assert problem(text).startswith("2:16-20 bad-option: `Tanh` takes no `rate`")


def test_more_warnings_than_anybody_reads_do_not_stop_a_network() -> None:
    text = "".join(f"w{i}=Parameter(3, seed{i}=1)\n" for i in range(1_500))
    builder = load(text)
    assert not builder.sink.has_errors
    assert len(builder.sink.diagnostics) == 1_000
    assert builder.find("w1499") is not None


def test_an_unknown_value_gets_the_near_one() -> None:
    assert problem("w=Parameter(3, init=gausian)").startswith("1:21-28 bad-option: init is one of")
    assert problem("w=Parameter(3, init=gausian)").endswith("did you mean `gaussian`?")


def test_a_flag_is_true_or_false() -> None:
    message = "bad-option: true or false is required, got `maybe`"
    assert problem("w=Parameter(3, needGradient=maybe)") == f"1:29-34 {message}"


def test_an_option_takes_no_node_and_no_call() -> None:
    assert "argument-type: a number is required, got the node `x`" in problem(
        f"{X}w=Parameter(3, value=x)"
    )
    assert problem(f"{X}w=Parameter(3, value=Tanh(x))") == (
        "2:22-26 argument-type: the option `value` takes a constant, got a call"
    )


def test_an_option_is_given_once() -> None:
    assert problem("w=Parameter(3, value=1, Value=2)") == (
        "1:25-30 bad-option: the option `Value` is given twice"
    )


def test_an_option_may_be_a_variable() -> None:
    text = "scale=5\nw=Parameter(3, initValueScale=scale)"
    assert network(text).endswith("init_value_scale=5.0")


@pytest.mark.parametrize("option", COMMON_OPTIONS, ids=lambda o: o.name)
def test_options_without_effect_are_accepted_everywhere(option: object) -> None:
    name = getattr(option, "name", "")
    value = {"imageLayout": "HWC", "maxTempMemSizeInSamples": "5"}.get(name, "true")
    assert network(f"{X}y=Tanh(x, {name}={value})").endswith("y = tanh(x)")


def test_another_image_layout_is_not_silently_ignored() -> None:
    assert "not-supported: the image layout `cudnn`" in problem(f"{X}y=Tanh(x, imageLayout=cudnn)")
    assert "bad-option: imageLayout is legacy or HWC" in problem(f"{X}y=Tanh(x, imageLayout=up)")


# --- tags and special lists ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "tag"),
    [
        ("feature", "feature"),
        ("LABEL", "label"),
        ("criteria", "criterion"),
        ("Criterion", "criterion"),
        ("eval", "evaluation"),
        ("Evaluation", "evaluation"),
        ("output", "output"),
        ("multiseq", "multiseq"),
        ('"output"', "output"),
    ],
)
def test_a_tag_marks_a_node(written: str, tag: str) -> None:
    assert node(f"x=Input(3, tag={written})", "x").tags == [tag]


def test_a_node_may_have_several_tags() -> None:
    assert node(f"{X}y=Tanh(x, tag=output, tag=eval)", "y").tags == ["output", "evaluation"]


def test_an_unknown_tag_gets_the_near_one() -> None:
    found = problem("x=Input(3, tag=featur)")
    assert found.startswith("1:16-22 unknown-tag: a tag is one of feature, label, ")
    assert found.endswith("got `featur`; did you mean `feature`?")


@pytest.mark.parametrize(
    ("array", "tag"),
    [
        ("FeatureNodes", "feature"),
        ("LabelNodes", "label"),
        ("CriteriaNodes", "criterion"),
        ("criterionNodes", "criterion"),
        ("EvalNodes", "evaluation"),
        ("OutputNodes", "output"),
        ("NodesReqMultiSeqHandling", "multiseq"),
    ],
)
def test_a_special_list_tags_its_nodes(array: str, tag: str) -> None:
    text = f"{array}=(y, x)\n{X}y=Tanh(x)"
    assert network(text) == f"x = input() rows=3 #{tag}\ny = tanh(x) #{tag}"


def test_a_special_list_may_be_one_name_or_one_call() -> None:
    assert network(f"{X}FeatureNodes = x").endswith("#feature")
    assert network(f"{X}OutputNodes = Tanh(x)").endswith("unnamed1 = tanh(x) #output")


def test_lists_and_tags_are_united() -> None:
    text = f"{X}a=Tanh(x, tag=output)\nb=Log(x)\nOutputNodes=(b, a, b)"
    assert network(text).endswith("a = tanh(x) #output\nb = log(x) #output")


def test_a_special_list_may_be_empty() -> None:
    assert network(f"{X}EvalNodes=()") == "x = input() rows=3"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("(x, 3)", "2:17-18 argument-type: OutputNodes takes nodes, got `3`"),
        ("(x, y)", "2:17-18 undefined-name: `y` is not defined"),
        ("3", "2:13-14 argument-type: OutputNodes takes nodes, got `3`"),
        (
            "(x, m)\nl=(x, x)\nm=(x, l)",
            "2:17-18 argument-type: OutputNodes takes nodes, got a list in a list",
        ),
    ],
)
def test_what_is_no_node_is_refused_in_a_special_list(value: str, expected: str) -> None:
    assert problem(f"{X}OutputNodes={value}") == expected


def test_a_special_list_is_given_once() -> None:
    assert "duplicate-name: `outputnodes` is already defined" in problem(
        f"{X}OutputNodes=(x)\noutputnodes=(x)"
    )


def test_a_tag_on_what_is_no_node_is_refused() -> None:
    assert "argument-type: tag= takes nodes, got `3`" in problem("F()=3\nn=F(tag=output)")


def test_the_largest_class_is_an_option_of_class_based_cross_entropy() -> None:
    found = network(f"{X}y=CBCEWithSM(x, x, x, x, maxClassSize=7)")
    assert found.endswith("y = class_based_cross_entropy_with_softmax(x, x, x, x) max_class_size=7")


SHIFTED = "y = cos_distance_with_negative_samples(x, x) shift=1 negatives=5"


@pytest.mark.parametrize(
    "call",
    [
        "s = 1; y = CosWithNegSamples(x, x, s, 5)",
        "y = CosDistanceWithNegativeSamples(x, x, Constant(1), Constant(5))",
        "s = Const(1, rows=1); y = CosWithNegSamples(x, x, s, 5)",
    ],
)
def test_shifts_and_samples_are_numbers_or_constants(call: str) -> None:
    assert network(X + call).splitlines()[-1] == SHIFTED


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("CosWithNegSamples(x, x, x, 5)", "a number is required, got the node `x`"),
        ("CosWithNegSamples(x, x, Constant(1, rows=2), 5)", "a number is required, got the node"),
        ("CosWithNegSamples(x, x, Constant(0.5), 5)", "a whole number from 0 to 2147483647 is req"),
        ("CosWithNegSamples(x, x, 1, 0)", "a whole number from 1 to 2147483647 is required, got 0"),
        ("CosWithNegSamples(x, x, 1, Constant(-2))", "from 1 to 2147483647 is required, got -2"),
    ],
)
def test_a_wrong_shift_or_number_of_samples_is_refused(call: str, message: str) -> None:
    assert message in problem(f"{X}y={call}")


@pytest.mark.parametrize("name", NODE_ARRAYS)
def test_a_special_list_gives_its_tag(name: str) -> None:
    made = node(f"x=Input(3)\ny=Tanh(x)\n{name}=(y)", "y")
    assert made.tags == [NODE_ARRAYS[name]]
