"""Counts the words of a text and gives them classes, for language models with classes of words.

The words, most frequent first, get numbers from 0. Going through them in this order, the square
roots of their shares of all words are added up, and where the sum passes k/n of the total, class k
begins: classes are then alike in how often they occur (T. Mikolov et al., Extensions of recurrent
neural network language model, 2011, with the roots in place of the shares).

A sentence is a line. `</s>` stands at both ends of each, and is added where it is missing; the one
at its beginning is not counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from graphc.support.arguments import whole
from graphc.support.diagnostics import DiagnosticSink, fail, warn
from graphc.support.files import staged
from graphc.support.pipes import open_file_or_pipe

END = "</s>"
UNKNOWN = "<unk>"
MAX_TEXT_BYTES = 1 << 40
MAX_LINE_BYTES = 1 << 24
MAX_WORDS = 1 << 24
"""Different words, which are all held in memory."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the vocabulary; its number is its place there."""

    text: str
    count: int
    word_class: int


def write_word_and_class(
    text: str | Path,
    vocabulary: str | Path,
    word_to_class: str | Path | None = None,
    class_to_index: str | Path | None = None,
    *,
    size: int,
    classes: int = 0,
    cutoff: int = 1,
) -> tuple[Word, ...]:
    """Count the words of a text file and write the vocabulary, and with classes two files more.

    vocabulary      a line for each word: number, count, word and class, between tabs
    word_to_class   a line for each word: its class
    class_to_index  a line for each class: the number of its first word
    size            words of the vocabulary, `<unk>` among them, which stands for all others
    classes         how many classes there are to be, 0 for none
    cutoff          words that occur no more often are rare: if fewer than `size` words are not, the
                    vocabulary has as many as these, with a GraphcWarning

    Words of equal counts keep the order in which the text has them. GraphcError `file` and
    `bad-data` for a text that cannot be read or has no words, `limit` for too many, `bad-value` for
    numbers that make no sense; then no file is changed.
    """
    _check_settings(size, classes, cutoff, word_to_class, class_to_index)
    words = assign_classes(most_frequent(_count(Path(text)), size, cutoff), classes)
    files = {Path(vocabulary): _vocabulary_lines(words)}
    if classes and word_to_class is not None and class_to_index is not None:
        files[Path(word_to_class)] = (f"{word.word_class}\n" for word in words)
        files[Path(class_to_index)] = _first_words(words, classes)
    with ExitStack() as stack:
        put_into_place = [
            stack.enter_context(staged(path, lambda stream, ls=lines: _write(stream, ls)))
            for path, lines in files.items()
        ]
        for put in put_into_place:
            put()
    return words


def count_words(sentences: Iterable[str]) -> Counter[str]:
    """How often each word occurs, in the order of their first."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        line = sentence.strip(" \t\r\n")
        if not line:
            continue
        if f"{END} " not in line:
            line = f"{END} {line}"
        if f" {END}" not in line:
            line = f"{line} {END}"
        counts.update(line.replace("\t", " ").split()[1:])
        if len(counts) > MAX_WORDS:
            raise fail("limit", f"a text may have at most {MAX_WORDS} different words")
    return counts


def most_frequent(counts: Counter[str], size: int, cutoff: int) -> list[tuple[str, int]]:
    """The words of the vocabulary and their counts, most frequent first."""
    common = sum(1 for count in counts.values() if count > cutoff)
    if size > common:
        sink = DiagnosticSink()
        message = f"{size} words are asked for, those that occur more than {cutoff} times"
        sink.warning("bad-data", f"{message} are {common}: so many the vocabulary has")
        warn(sink.diagnostics)
        size = common
    known = [(word, count) for word, count in counts.items() if word != UNKNOWN]
    known.sort(key=lambda item: -item[1])  # which keeps the order of words of equal counts
    chosen = known[: max(size - 1, 0)]
    others = sum(counts.values()) - sum(count for _, count in chosen)
    return sorted([*chosen, (UNKNOWN, others)], key=lambda item: -item[1])


def assign_classes(words: list[tuple[str, int]], classes: int) -> tuple[Word, ...]:
    """The words with their classes: a class ends where the running sum of the square roots of
    shares, this word's among them, passes its part of the whole."""
    total = sum(count for _, count in words)
    roots = [math.sqrt(count / total) for _, count in words]
    whole_sum = sum(roots)
    done: list[Word] = []
    running, current = 0.0, 0
    for (text, count), root in zip(words, roots, strict=True):
        running = min(running + root / whole_sum, 1.0)
        if classes and running > (current + 1) / classes:
            current += 1
        done.append(Word(text, count, current))
    return tuple(done)


def _check_settings(
    size: int, classes: int, cutoff: int, word_to_class: object, class_to_index: object
) -> None:
    whole(cutoff, "cutoff")
    if whole(size, "size") < 1:
        raise fail("bad-value", f"a vocabulary of at least 1 word is required, got {size}")
    if whole(classes, "classes") > size:
        raise fail("bad-value", f"at most {size} classes are required for {size} words")
    if classes and (word_to_class is None or class_to_index is None):
        raise fail("bad-value", "with classes, files for word_to_class and class_to_index too")


def _count(path: Path) -> Counter[str]:
    with open_file_or_pipe(path, MAX_TEXT_BYTES) as (stream, _):
        counts = count_words(_lines(stream, path))
    if not counts:
        raise fail("bad-data", f"at least one word is required, {path} has none")
    return counts


def _lines(stream: BinaryIO, path: Path) -> Iterator[str]:
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise fail("limit", f"{path}:{number}: a line has more than {MAX_LINE_BYTES} bytes")
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            message = f"{path}:{number}:{error.start + 1}: text in UTF-8 is required"
            raise fail("bad-data", f"{message}, got {line[error.start]:#04x}") from error


def _vocabulary_lines(words: Iterable[Word]) -> Iterator[str]:
    for number, word in enumerate(words):
        yield f"     {number}\t     {word.count}\t{word.text}\t{word.word_class}\n"


def _first_words(words: Iterable[Word], classes: int) -> Iterator[str]:
    """The number of the first word of each class; of a class without words, of the next one's."""
    first = {}
    count = 0
    for number, word in enumerate(words):
        first.setdefault(word.word_class, number)
        count = number + 1
    following = count
    lines: list[str] = []
    for word_class in reversed(range(classes)):
        following = first.get(word_class, following)
        lines.append(f"{following}\n")
    yield from reversed(lines)


def _write(stream: BinaryIO, lines: Iterable[str]) -> None:
    for line in lines:
        stream.write(line.encode())
