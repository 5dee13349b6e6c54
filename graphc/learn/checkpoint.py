"""A checkpoint: all that a training needs to go on, bit for bit, in one file.

It is a model file (`graphc/model/container.py`), so that `gc.load` reads the network with the
parameters that were reached. Besides these it has arrays whose names begin with `@`: the learner's,
what sequences go on from, the parameters at the beginning of the epoch, those of the best epoch,
and a table of the epochs' records; and the metadata `training`, numbers as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, get_args, get_origin, get_type_hints

import numpy as np

from graphc.learn.records import EpochRecord, Validation
from graphc.learn.standing import Snapshot, Standing
from graphc.model.container import KIND, container_writer, read_container
from graphc.model.model import TRAINING, TRAINING_ARRAY
from graphc.support.diagnostics import fail
from graphc.support.files import write_atomically

Array = np.ndarray
Arrays = Mapping[str, Array]
VERSION = 1
RECORDS = TRAINING_ARRAY + "records"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training between two minibatches.

    ir, seed, kind the network or program as text, as in a model file
    values         of its parameters and statistics; `exact`: those held with fewer digits than
                   known
    learner        the learner's arrays, `memory`: what it remembers besides
    steps          calls of the step
    carried        what sequences go on from, by name; empty where no minibatch is cut
    start          how the epoch that is not finished began; None between epochs
    best           the parameters of the best epoch, if that is kept
    records        of the finished epochs
    configuration  what has to be the same for whoever goes on, by what it is called
    idle           by what members have chosen where they add gradients; None where they have not
    """

    ir: str
    seed: int
    standing: Standing
    values: Arrays
    learner: Arrays
    memory: Mapping[str, object]
    steps: int
    configuration: Mapping[str, str]
    records: Sequence[EpochRecord] = ()
    exact: Arrays = field(default_factory=dict[str, Array])
    carried: Arrays = field(default_factory=dict[str, Array])
    start: Snapshot | None = None
    best: Arrays = field(default_factory=dict[str, Array])
    kind: str = ""
    idle: float | None = None

    def writer(self) -> Callable[[BinaryIO], None]:
        """A function that writes the file into a stream. GraphcError `limit` for too large ones."""
        return container_writer(self._tensors(), self._metadata(), "a checkpoint")

    def save(self, path: Path) -> None:
        """Write the file, atomically. GraphcError `file` if that cannot be done."""
        write_atomically(path, self.writer())

    def _tensors(self) -> dict[str, Array]:
        names, table = records_table(self.records)
        groups = {
            "learner": self.learner,
            "carried": self.carried,
            "exact": self.exact,
            "best": self.best,
            "start": self.start.values if self.start else {},
            "start-learner": self.start.learner if self.start else {},
        }
        tensors = {
            _place(group, n): a for group, arrays in groups.items() for n, a in arrays.items()
        }
        return {**self.values, **tensors, **({RECORDS: table} if names else {})}

    def _metadata(self) -> dict[str, str]:
        numbers = {
            "version": VERSION,
            "standing": asdict(self.standing),
            "memory": dict(self.memory),
            "start_memory": dict(self.start.memory) if self.start else None,
            "start_steps": self.start.steps if self.start else 0,
            "steps": self.steps,
            "configuration": dict(self.configuration),
            "idle": self.idle,
            "columns": records_table(self.records)[0],
        }
        said = {"ir": self.ir, "seed": str(self.seed), TRAINING: json.dumps(numbers)}
        return {**said, KIND: self.kind} if self.kind else said


def _place(group: str, name: str) -> str:
    return f"{TRAINING_ARRAY}{group}/{name}"


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file, every byte of it checked. GraphcError `bad-model-file` for a file
    that is damaged or none, `file` for one that cannot be read."""
    container = read_container(path)
    text = container.metadata.get(TRAINING)
    if text is None:
        raise fail("bad-model-file", f"{path}: a checkpoint is required, got a model without one")
    try:
        numbers = json.loads(text)
        if numbers.get("version") != VERSION:
            raise ValueError(f"it has version {numbers.get('version')}, not {VERSION}")
        return _read(container.tensors, container.metadata, numbers)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise fail("bad-model-file", f"{path}: not a checkpoint of this graphc: {error}") from error


def _read(tensors: Arrays, metadata: Mapping[str, str], numbers: dict[str, Any]) -> Checkpoint:
    def group(name: str) -> dict[str, Array]:
        prefix = _place(name, "")
        return {n.removeprefix(prefix): a for n, a in tensors.items() if n.startswith(prefix)}

    memory = numbers["start_memory"]
    start = None
    if memory is not None:
        steps = _typed(int, numbers["start_steps"])
        start = Snapshot(group("start"), group("start-learner"), _table(memory), steps)
    columns = _typed(tuple[str, ...], numbers["columns"])
    table = tensors.get(RECORDS, np.zeros((0, len(columns))))
    return Checkpoint(
        ir=metadata["ir"],
        seed=int(metadata["seed"]),
        standing=_typed(Standing, numbers["standing"]),
        values={n: a for n, a in tensors.items() if not n.startswith(TRAINING_ARRAY)},
        learner=group("learner"),
        memory=_table(numbers["memory"]),
        steps=_typed(int, numbers["steps"]),
        configuration=_typed(Mapping[str, str], numbers["configuration"]),
        records=read_records(columns, table),
        exact=group("exact"),
        carried=group("carried"),
        start=start,
        best=group("best"),
        kind=metadata.get(KIND, ""),
        idle=None if (idle := numbers.get("idle")) is None else _typed(float, idle),
    )


def require_arrays(found: Checkpoint, values: Arrays, learner: Arrays) -> None:
    """GraphcError `bad-model-file` for arrays of other names, types or sizes than those of the
    network and of the learner here."""
    groups = [(found.values, values), (found.learner, learner), (found.best, values)]
    if found.start is not None:
        groups += [(found.start.values, values), (found.start.learner, learner)]
    for given, here in groups:
        for name, array in given.items():
            own = here.get(name)
            if own is None or own.dtype != array.dtype or own.shape != array.shape:
                got = f"{array.dtype}{list(array.shape)}"
                wanted = "none" if own is None else f"{own.dtype}{list(own.shape)}"
                message = f"the checkpoint has `{name}` as {got}, this training has {wanted}"
                raise fail("bad-model-file", message)


def _table(given: object) -> dict[str, object]:
    if not isinstance(given, dict):
        raise TypeError(f"a table is required, got {type(given).__name__}")
    return given


def _typed(kind: Any, given: Any) -> Any:
    """A value of JSON as what a field of a record requires; TypeError for another one."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        table = _table(given)
        if table.keys() != {f.name for f in fields(kind)}:
            raise TypeError(f"other fields than those of {kind}")
        values = {name: _typed(hints[name], value) for name, value in table.items()}
        return kind(**values)  # pyright: ignore[reportCallIssue]  # a class, not an instance
    if get_origin(kind) is tuple and isinstance(given, list):
        return tuple(_typed(get_args(kind)[0], item) for item in given)
    if get_origin(kind) is not None and isinstance(given, dict):
        item = get_args(kind)[1]
        return {str(name): _typed(item, value) for name, value in given.items()}
    if kind is float and type(given) is int:
        return float(given)
    if type(given) is not kind:
        raise TypeError(f"{kind} is required, got {type(given).__name__}")
    return given


# --- records as a table --------------------------------------------------------------------------

_EVALUATION, _VALIDATION = "evaluation ", "validation "


def records_table(records: Sequence[EpochRecord]) -> tuple[list[str], Array]:
    """The names of the columns, and f64[epochs, columns]; nothing stands where a record lacks it
    but nan."""
    rows = [_row(record) for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = [[row.get(name, np.nan) for name in names] for row in rows]
    return names, np.array(table, np.float64).reshape(len(rows), len(names))


def _row(record: EpochRecord) -> dict[str, float]:
    numbers = {f.name: getattr(record, f.name) for f in fields(record)}
    evaluations, validation = numbers.pop("evaluations"), numbers.pop("validation")
    row = {name: float(value) for name, value in numbers.items()}
    row |= {_EVALUATION + name: value for name, value in evaluations.items()}
    if validation is not None:
        row |= {_VALIDATION + "samples": validation.samples}
        row |= {_VALIDATION + "criterion": validation.criterion}
        found = validation.evaluations.items()
        row |= {_VALIDATION + _EVALUATION + name: value for name, value in found}
    return row


def read_records(names: Sequence[str], table: Array) -> list[EpochRecord]:
    """The records of a table; ValueError for one that is none."""
    if table.ndim != 2 or table.shape[1] != len(names):
        raise ValueError(f"{len(names)} columns are required, got {table.shape}")
    return [_record(dict(zip(names, row, strict=True))) for row in table.tolist()]


def _record(row: dict[str, float]) -> EpochRecord:
    validation = None
    if (of := row.get(_VALIDATION + "samples")) is not None and of == of:
        prefix = _VALIDATION + _EVALUATION
        validation = Validation(int(of), row[_VALIDATION + "criterion"], _after(row, prefix))
    return EpochRecord(
        epoch=int(row["epoch"]),
        samples=int(row["samples"]),
        criterion=row["criterion"],
        evaluations=_after(row, _EVALUATION),
        learning_rate_per_sample=row["learning_rate_per_sample"],
        seconds=row["seconds"],
        minibatch=int(row["minibatch"]),
        validation=validation,
        undone=bool(row["undone"]),
    )


def _after(row: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {n.removeprefix(prefix): v for n, v in row.items() if n.startswith(prefix)}


__all__ = (
    "Checkpoint",
    "read_checkpoint",
    "read_records",
    "records_table",
    "require_arrays",
)
