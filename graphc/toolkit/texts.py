"""The actions on data alone: `createLabelMap`, `writeWordAndClass`."""

from __future__ import annotations

from graphc.config.keys import ignored, integer, optional, path, text
from graphc.config.lookup import Scope
from graphc.data.label_map import create_label_map
from graphc.data.settings import file_path, file_paths
from graphc.data.word_classes import write_word_and_class
from graphc.toolkit.action import Action, Run, Session
from graphc.toolkit.readers import READER

SECTION = text("section", "the command whose reader has the labels")
MINIBATCH_SIZE = ignored(
    integer("minibatchSize", "samples that are read at once", 2048), "text is read in pieces"
)

INPUT_FILE = path("inputFile", "a text, a sentence a line")
VOCABULARY = path("outputVocabFile", "what to write: number, count, word and class")
WORD_TO_CLASS = optional(path("outputWord2Cls", "what to write: the class of each word"))
CLASS_TO_INDEX = optional(path("outputCls2Index", "what to write: the first word of each class"))
VOCABULARY_SIZE = integer("vocabSize", "words, `<unk>` among them", least=1)
CLASSES = integer("nbrClass", "classes of words, 0 for none", 0)
CUTOFF = integer("cutoff", "words that occur no more often are rare", 1)


def plan_label_map(scope: Scope, session: Session) -> Run:
    """Check the block of `createLabelMap`: the reader's block names labels and their file."""
    name = SECTION.of(scope)
    reader = session.top.section(name).section(READER.name)
    labels = [
        section
        for section in map(reader.section, reader.own_sections())
        if section.own("labelMappingFile") is not None
    ]
    if not labels:
        raise reader.missing("labelMappingFile")
    jobs = [_label_map(block, session) for block in labels]

    def run() -> None:
        for job in jobs:
            job()

    return run


def _label_map(block: Scope, session: Session) -> Run:
    """The mapping file of one block of labels."""
    files = file_paths(block.require("file"))
    target = file_path(block.require("labelMappingFile"))
    column = block.find("start")
    dim = block.find("labelDim")
    at = 0 if column is None else column.integer()
    classes = None if dim is None else dim.integer()
    for file in files:
        if not session.exists(file):
            raise block.require("file").fail(f"there is no file {file}", "file")
    session.will_write(target)

    def run() -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        found = create_label_map(files, at, target, classes=classes)
        session.report.line(f"{len(found)} labels written to {target}")

    return run


def plan_word_classes(scope: Scope, session: Session) -> Run:
    """Check the block of `writeWordAndClass`."""
    source, vocabulary = INPUT_FILE.of(scope), VOCABULARY.of(scope)
    words, first_words = WORD_TO_CLASS.of(scope), CLASS_TO_INDEX.of(scope)
    size, classes, cutoff = VOCABULARY_SIZE.of(scope), CLASSES.of(scope), CUTOFF.of(scope)
    if not session.exists(source):
        raise scope.require(INPUT_FILE.name).fail(f"there is no file {source}", "file")
    if classes:
        for key in (WORD_TO_CLASS, CLASS_TO_INDEX):
            scope.require(key.name)
    files = [file for file in (vocabulary, words, first_words) if file is not None]
    for file in files:
        session.will_write(file)

    def run() -> None:
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
        found = write_word_and_class(
            source,
            vocabulary,
            words if classes else None,
            first_words if classes else None,
            size=size,
            classes=classes,
            cutoff=cutoff,
        )
        session.report.line(f"{len(found)} words written to {vocabulary}")

    return run


LABEL_MAP = Action(
    ("createLabelMap",),
    "write the labels of data to a mapping file",
    (SECTION, MINIBATCH_SIZE),
    plan_label_map,
)
WORD_CLASSES = Action(
    ("writeWordAndClass",),
    "count the words of a text and give them classes",
    (INPUT_FILE, VOCABULARY, WORD_TO_CLASS, CLASS_TO_INDEX, VOCABULARY_SIZE, CLASSES, CUTOFF),
    plan_word_classes,
)
