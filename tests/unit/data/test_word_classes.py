"""Words counted and put into classes, against small cases computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphc.data.word_classes import Word, count_words, write_word_and_class
from graphc.support.diagnostics import GraphcError, GraphcWarning

# </s> once for each line, a 4, b 3, c 2, d 1; the </s> in front of a line is not counted.
TEXT = "a b a c\n</s> a b\n\tb a c d </s>  \n\n"


def run(folder: Path, text: str = TEXT, **settings: Any) -> tuple[Word, ...]:
    (folder / "text").write_text(text, encoding="utf-8")
    files = (folder / "vocab", folder / "word2cls", folder / "cls2index")
    return write_word_and_class(folder / "text", *files, **settings)


def test_words_are_counted_in_sentences_with_an_end() -> None:
    assert dict(count_words(TEXT.split("\n"))) == {"a": 4, "b": 3, "c": 2, "</s>": 3, "d": 1}
    # The end within the line counts as there, at both sides.
    assert dict(count_words(["x </s> y"])) == {"</s>": 1, "y": 1}


def test_the_vocabulary_has_the_most_frequent_words_and_one_for_all_others(tmp_path: Path) -> None:
    words = run(tmp_path, size=4)
    assert words == (Word("a", 4, 0), Word("b", 3, 0), Word("</s>", 3, 0), Word("<unk>", 3, 0))
    assert (tmp_path / "vocab").read_text() == (
        "     0\t     4\ta\t0\n     1\t     3\tb\t0\n     2\t     3\t</s>\t0\n"
        "     3\t     3\t<unk>\t0\n"
    )
    assert not (tmp_path / "word2cls").exists()


def test_unknown_words_of_the_text_are_among_the_others(tmp_path: Path) -> None:
    words = run(tmp_path, "<unk> <unk> <unk> a a a a b b c\n", size=3, cutoff=0)
    assert words == (Word("<unk>", 5, 0), Word("a", 4, 0), Word("b", 2, 0))


def test_classes_are_parts_of_the_sum_of_square_roots(tmp_path: Path) -> None:
    # Counts 9, 4, 1 and, of the only other word, 1; roots 3, 2, 1, 1, of 7 together. The running
    # sums 3, 5, 6, 7 pass 7/4 at the first word, 14/4 at the second, 21/4 at the third.
    lines = ["x x x", "x x x", "x x x", "p q"]
    words = run(tmp_path, "\n".join(lines), size=4, classes=4, cutoff=0)
    counts = [("x", 9), ("</s>", 4), ("p", 1), ("<unk>", 1)]
    assert [(word.text, word.count) for word in words] == counts
    assert [word.word_class for word in words] == [1, 2, 3, 3]
    assert (tmp_path / "word2cls").read_text() == "1\n2\n3\n3\n"
    # No word is in class 0: its first word is that of class 1.
    assert (tmp_path / "cls2index").read_text() == "0\n0\n1\n2\n"


def test_a_word_moves_on_by_one_class_at_most(tmp_path: Path) -> None:
    words = run(tmp_path, "a a a a a a a a a\n", size=2, classes=2, cutoff=0)
    # Roots of 9 and 1 (`</s>`, which is not among two words: it counts as `<unk>`): 3/4 and 1.
    assert words == (Word("a", 9, 1), Word("<unk>", 1, 1))


def test_rare_words_make_the_vocabulary_smaller(tmp_path: Path) -> None:
    with pytest.warns(
        GraphcWarning, match="9 words are asked for, those that occur more than 1 times are 4"
    ):
        words = run(tmp_path, size=9)
    assert [word.text for word in words] == ["a", "b", "</s>", "<unk>"]
    assert words[-1].count == 3
    with pytest.warns(GraphcWarning, match="occur more than 3 times are 1"):
        assert [word.text for word in run(tmp_path, size=9, cutoff=3)] == ["<unk>"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "at least 1 word is required"),
        ({"size": 3, "classes": 4}, "at most 3 classes are required for 3 words"),
        ({"size": 3, "cutoff": -1}, "cutoff requires a whole number of at least 0"),
        ({"size": 3, "text": " \n"}, "at least one word is required"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(GraphcError, match=message):
        run(tmp_path, **settings)
    assert sorted(path.name for path in tmp_path.iterdir()) in ([], ["text"])


def test_classes_need_both_files(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT)
    with pytest.raises(GraphcError, match="files for word_to_class and class_to_index"):
        write_word_and_class(tmp_path / "text", tmp_path / "vocab", size=4, classes=2)


def test_a_text_that_is_not_utf_8_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"a b\nc \xff\n")
    with pytest.raises(GraphcError, match=r"text:2:3: text in UTF-8 is required, got 0xff"):
        write_word_and_class(tmp_path / "text", tmp_path / "vocab", size=4)
    assert not (tmp_path / "vocab").exists()
