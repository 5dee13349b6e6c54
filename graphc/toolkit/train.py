"""The actions `train`, `trainRNN` and `adapt`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from graphc.config.keys import optional, path, text
from graphc.config.lookup import Scope
from graphc.data.reader import Reader
from graphc.driver.compile import node_names
from graphc.learn.adaptation import Adaptation
from graphc.learn.agreement import require_agreement
from graphc.learn.checkpoints import Checkpoints
from graphc.learn.loop import run_training
from graphc.learn.network_training import NetworkTrainee
from graphc.learn.plan import TrainingPlan
from graphc.learn.records import EpochStart, Progress
from graphc.learn.step import training_outputs
from graphc.learn.training import Extras
from graphc.learn.warm_start import run_after_warm_start
from graphc.model.model import Model
from graphc.support.diagnostics import fail
from graphc.toolkit.action import Action, Run, Session, Showing
from graphc.toolkit.checks import check_gradients
from graphc.toolkit.model_files import ModelFiles, epoch_path
from graphc.toolkit.networks import (
    MODEL_PATH,
    NDL_BUILDER,
    SIMPLE_BUILDER,
    build_network,
    open_model,
    planned_model,
)
from graphc.toolkit.parallel import BLOCKS, Parallel, ignored_block, planned_parallel
from graphc.toolkit.readers import CV_READER, READER, planned_reader
from graphc.toolkit.sgd import (
    ADAPT_TYPE,
    ADAPT_WEIGHT,
    AUTO_BLOCK,
    DIGITS,
    EVALUATION,
    GRADIENT_CHECK,
    KEEP_CHECKPOINTS,
    SGD_BLOCK,
    SHOW_EVERY,
    training_plan,
)
from graphc.toolkit.sync_stats import SyncStats, TimedMember
from graphc.toolkit.top import MAKE_MODE, TRACE_LEVEL

ORIGINAL = path("origModelFileName", "the model to adapt")
REFERENCE = optional(text("refNodeName", "the output that an adapted model is kept near"))


@dataclass(frozen=True)
class _Plan:
    """A training, checked.

    network  what is trained where nothing is there to go on from
    digits   to which gradients are compared with differences before, 0: they are not
    parallel how members share it; None: it is trained by one
    note     a line of the log before it begins
    """

    network: Model
    plan: TrainingPlan
    files: ModelFiles
    reader: Reader
    validation: Reader | None
    showing: Showing
    adaptation: Adaptation | None = None
    digits: int = 0
    parallel: Parallel | None = None
    note: str = ""


def plan_training(scope: Scope, session: Session) -> Run:
    """Check the block of `train`: the network is built, the readers made, every key read."""
    plan = _plan(scope, session, lambda: build_network(scope))
    return lambda: _run(plan, session)


def plan_adaptation(scope: Scope, session: Session) -> Run:
    """Check the block of `adapt`: a training that begins with a model and stays near it."""
    builder = scope.find_section(NDL_BUILDER.name)
    original = planned_model(scope if builder is None else builder, session, ORIGINAL)
    network = original.network
    if network is None:
        raise scope.require(ORIGINAL.name).fail(
            "the model to adapt is required to be there", "file"
        )
    plan = _plan(scope, session, lambda: network)
    sgd = scope.section(SGD_BLOCK.name)
    weight = ADAPT_WEIGHT.of(sgd)
    if ADAPT_TYPE.of(sgd) == "kl" and weight:
        value = scope.require(REFERENCE.name)
        with value.blamed():
            (name,) = node_names(plan.network, [value.text()])
        with sgd.require(ADAPT_WEIGHT.name).blamed():
            plan = replace(plan, adaptation=Adaptation(name, weight))

    def run() -> None:
        loaded = original.load()
        adaptation = plan.adaptation
        if adaptation is not None:
            adaptation = replace(adaptation, reference=original.load())
        _run(replace(plan, network=loaded, adaptation=adaptation), session)

    return run


def _plan(scope: Scope, session: Session, network: Callable[[], Model]) -> _Plan:
    sgd = scope.section(SGD_BLOCK.name)
    file = MODEL_PATH.of(sgd)
    make_mode = MAKE_MODE.of(scope)
    evaluation = EVALUATION.of(sgd)
    files = ModelFiles(file, 0, KEEP_CHECKPOINTS.of(sgd), make_mode)
    model = network()
    names = training_outputs(model, None)
    plan = training_plan(sgd, evaluation or next(iter(names[1:]), None))
    if plan.criterion is not None:
        with sgd.require("trainCriterionNodeName").blamed():
            names = training_outputs(model, plan.criterion)
    if evaluation is not None:
        with sgd.require(EVALUATION.name).blamed():
            node_names(model, [evaluation])
    reader, validation = planned_reader(scope, READER, session), None
    reader.check(model, names, computed=False)
    if scope.find(CV_READER.name) is not None:
        validation = planned_reader(scope, CV_READER, session, in_order=True)
        validation.check(model, names)
    for k in range(plan.epochs):
        session.will_write(epoch_path(file, k), model)
    session.will_write(file, model)
    every = SHOW_EVERY.of(sgd) if TRACE_LEVEL.of(scope) > 0 else 0
    return _Plan(
        model,
        plan,
        replace(files, epochs=plan.epochs),
        reader.reader,
        None if validation is None else validation.reader,
        Showing(plan.epochs, names, lambda: plan.epoch_size or reader.reader.samples, every),
        digits=DIGITS.of(sgd) if GRADIENT_CHECK.of(sgd) else 0,
        parallel=planned_parallel(sgd, session, plan.epochs),
        note=ignored_block(sgd, session),
    )


def _run(plan: _Plan, session: Session) -> None:
    """Train, unless that is done already; go on where a training was stopped."""
    files, report = plan.files, session.report
    is_done, last = _standing(files, session)
    if is_done:
        report.line("Final model exists. No further training is necessary.")
        return
    if plan.note:
        report.line(plan.note)
    if session.is_first:
        files.path.parent.mkdir(parents=True, exist_ok=True)
    model = plan.network
    if last is not None:
        file = epoch_path(files.path, last)
        report.line(f"Starting from checkpoint. Load Network From File {file}.")
        model = open_model(file)
        if last and files.newest() is None:
            raise fail("file", f"there is no checkpoint beside {file}; makeMode=false starts anew")
    if plan.digits:
        minibatch = plan.plan.size(0, 1)
        check_gradients(model, plan.reader, minibatch, plan.plan.criterion, plan.digits, session)

    with report.training(plan.showing) as progress:

        def start(epoch: EpochStart) -> None:
            if epoch.epoch == 1 and last is None and session.is_first:
                model.save(epoch_path(files.path, 0))
            progress.start(epoch)

        watched = replace(progress, start=start, should_stop=session.should_stop)
        extras = Extras(plan.validation, Checkpoints(files, resume=files.resume), plan.adaptation)
        _train(model, plan, session, watched, extras)


def _standing(files: ModelFiles, session: Session) -> tuple[bool, int | None]:
    """Whether everything is trained already, and the epoch to go on after. All members have to find
    the same files."""
    is_done = files.resume and files.path.exists()
    last = files.last_epoch() if files.resume and not is_done else None
    if session.member is not None:
        said = {f"{files.path}": repr(is_done), "the last epoch that is there": repr(last)}
        found = {what: text.encode() for what, text in said.items()}
        require_agreement(session.member, found, "files of the model")
    return is_done, last


def _train(model: Model, plan: _Plan, session: Session, progress: Progress, extras: Extras) -> None:
    """By one, or by members as the block `ParallelTrain` says."""
    trainee, parallel = NetworkTrainee(model), plan.parallel
    if parallel is None:
        run_training(trainee, plan.reader, plan.plan, session.options, progress, extras)
        return
    member = parallel.member
    if parallel.stats:
        member = TimedMember(member)
        stats = SyncStats(member, parallel.averaging, parallel.stats, session.report.line)
        progress = stats.added_to(progress)
    extras = replace(extras, communicator=member, averaging=parallel.averaging)
    run_after_warm_start(
        trainee, plan.reader, plan.plan, session.options, progress, extras, parallel.alone
    )


TRAIN = Action(
    ("train", "trainRNN"),
    "train a network",
    (MAKE_MODE, MODEL_PATH),
    plan_training,
    (NDL_BUILDER, SIMPLE_BUILDER, SGD_BLOCK, AUTO_BLOCK, *BLOCKS, READER, CV_READER),
    shared=True,
)
ADAPT = Action(
    ("adapt",),
    "train a model further, near to what it was",
    (MAKE_MODE, MODEL_PATH, ORIGINAL, REFERENCE),
    plan_adaptation,
    (SGD_BLOCK, AUTO_BLOCK, *BLOCKS, READER, CV_READER),
    shared=True,
)
