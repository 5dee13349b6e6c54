"""The examples with recurrent networks, with small settings, and what they are made of."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import wave
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import graphc as gc

Load = Callable[[str], ModuleType]
Capture = pytest.CaptureFixture[str]


def parameters_of(net: gc.Network) -> dict[str, np.ndarray]:
    return {name: np.asarray(net.parameters[name]) for name in net.parameters}


# --- adding --------------------------------------------------------------------------------------


def test_sums_over_long_gaps_are_learnt(load: Load, capsys: Capture) -> None:
    assert load("adding/train.py").main(2000, 8) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "always 1:    mean square error 0.1667"
    reached = re.fullmatch(r"mean square error (\S+), at worst \S+ off", lines[-1])
    assert reached is not None
    assert float(reached[1]) < 0.02


def test_the_network_built_in_python_is_that_of_the_file(load: Load) -> None:
    adding = load("adding/train.py")
    one, two = adding.loaded(), load("adding/built.py").built()
    values = parameters_of(one)
    assert sorted(values) == sorted(parameters_of(two))
    for name, value in values.items():
        two.parameters[name] = value
    data = adding.sample(np.random.default_rng(0), 7, 3, 9)
    a, b = (
        gc.compile(net, outputs=["SE"], precision="f64", time=9, sequences=7)(**data)
        for net in (one, two)
    )
    assert a["SE"] == pytest.approx(b["SE"], rel=1e-12)


# --- tagging -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", set()),
        ("B-a I-a O", {(0, 2, "a")}),
        ("B-a B-a", {(0, 1, "a"), (1, 2, "a")}),
        ("I-a I-a", {(0, 2, "a")}),
        ("B-a I-b I-b", {(0, 1, "a"), (1, 3, "b")}),
        ("O B-a.x O I-a.x", {(1, 2, "a.x"), (3, 4, "a.x")}),
        ("", set()),
    ],
)
def test_chunks_are_those_of_conlleval(
    tags: str, expected: set[tuple[int, int, str]], load: Load
) -> None:
    assert load("tagging/chunks.py").chunks(tags.split()) == expected


def test_a_chunk_counts_only_if_it_is_right_in_every_way(load: Load) -> None:
    chunks = load("tagging/chunks.py")
    true = [["B-a", "I-a", "O", "B-b"], ["B-a"]]
    found = [["B-a", "O", "O", "B-b"], ["B-b"]]
    measured = chunks.score(true, found)
    assert (measured.true, measured.found, measured.right) == (3, 3, 1)
    assert measured.precision == measured.recall == measured.f1 == pytest.approx(1 / 3)
    nothing = chunks.score([["O"]], [["O"]])
    assert nothing.precision == nothing.recall == nothing.f1 == 0


def test_a_score_requires_a_tag_for_each_word(load: Load) -> None:
    with pytest.raises(ValueError, match="a sentence of 2 words has 1 tags"):
        load("tagging/chunks.py").score([["O", "O"]], [["O"]])


def test_a_window_points_at_a_word_and_its_neighbours(load: Load) -> None:
    tagging = load("tagging/sentences.py")
    numbering = tagging.Numbering({"<edge>": 0, "<unk>": 1, "to": 2}, {"O": 0})
    indices, offsets = numbering.windows(tagging.Sentence(["to", "oslo"], ["O", "O"]))
    assert indices.reshape(2, 3).tolist() == [[0, 3 + 2, 6 + 1], [2, 3 + 1, 6 + 0]]
    assert offsets.tolist() == [0, 3, 6]


def test_sentences_are_read_from_parallel_files(load: Load, tmp_path: Path) -> None:
    tagging = load("tagging/sentences.py")
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.seq.in").write_text("Leave at 730\n", encoding="utf-8")
        (tmp_path / f"{name}.seq.out").write_text("O O B-time\n", encoding="utf-8")
    (sentence,) = tagging.read_atis(tmp_path).test
    assert sentence.words == ["leave", "at", "000"]
    (tmp_path / "dev.seq.out").write_text("O O\n", encoding="utf-8")
    with pytest.raises(ValueError, match="dev, line 1: a tag for each word"):
        tagging.read_atis(tmp_path)


def test_words_are_tagged(load: Load, capsys: Capture) -> None:
    train = load("tagging/train.py")
    corpus = train.make_corpus(300, 60)
    reached = train.run(corpus, epochs=8, cells=24, rate="0.02", dropout=0.1)
    assert reached.f1 > 0.9
    assert "300 sentences to learn from" in capsys.readouterr().out


def test_a_tagger_loses_as_much_in_bf16_as_in_f32(load: Load) -> None:
    train = load("tagging/train.py")
    corpus = train.make_corpus(300, 60)
    numbering = train.Numbering.of(corpus)
    found: dict[str, list[float]] = {}
    for precision in ("f32", "bf16"):
        net = train.network(numbering, 24)
        records = gc.train(
            net,
            train.data(numbering, corpus.training),
            epochs=4,
            minibatch=train.SIDE_BY_SIDE,
            learning_rate_per_sample="0.02",
            momentum=0.9,
            precision=precision,
            seed=1,
        )
        found[precision] = [record.criterion for record in records]
    assert found["bf16"] != found["f32"]
    assert found["f32"][-1] < 0.5 * found["f32"][0]
    assert found["bf16"] == pytest.approx(found["f32"], rel=0.01)


# --- language model ------------------------------------------------------------------------------


def test_classes_share_the_square_roots_of_the_counts(load: Load) -> None:
    starts = load("language-model/text.py").class_starts(np.array([400, 100, 100, 25, 25, 4, 1]), 3)
    # roots 20 10 10 5 5 2 1, summed over 53: 0.38 0.57 0.75 0.85 0.94 0.98 1
    assert starts.tolist() == [0, 1, 2, 7]


def test_no_class_is_empty(load: Load) -> None:
    starts = load("language-model/text.py").class_starts(np.array([10000, 1, 1, 1]), 4)
    assert (np.diff(starts) > 0).all()
    assert starts[-1] == 4


def test_a_vocabulary_counts_what_is_left_over_as_unknown(load: Load) -> None:
    text = load("language-model/text.py")
    vocabulary = text.make_vocabulary([*"aaaabbbcd", "<unk>"], 3, 2)
    assert dict(vocabulary.numbers) == {"a": 0, "<unk>": 1, "b": 2}
    words = vocabulary.encode(["b", "c", "never"])
    assert words.tolist() == [2, 1, 1]
    assert vocabulary.targets(words)[:, 0].tolist() == [2, 1, 1]
    starts, ends = vocabulary.targets(words)[:, 2], vocabulary.targets(words)[:, 3]
    assert ((starts <= words) & (words < ends)).all()


def test_text_is_cut_into_words_unless_it_has_been(load: Load, tmp_path: Path) -> None:
    text = load("language-model/text.py")
    for part in ("train", "valid", "test"):
        (tmp_path / f"x.{part}.txt").write_text("Don't go, at 7!\n\n", encoding="utf-8")
    assert text.read_text(tmp_path)["test"] == ["don't", "go", ",", "at", "7", "!", "</s>"]
    for part in ("train", "valid", "test"):
        data = gzip.compress(b" mr. <unk> does n't\n")
        (tmp_path / f"x.{part}.txt").unlink()
        (tmp_path / f"x.{part}.txt.gz").write_bytes(data)
    assert text.read_text(tmp_path)["train"] == ["mr.", "<unk>", "does", "n't", "</s>"]
    (tmp_path / "y.test.txt").write_text("a", encoding="utf-8")
    with pytest.raises(ValueError, match="requires one file"):
        text.read_text(tmp_path)


def test_parts_of_a_text_lie_side_by_side(load: Load) -> None:
    train = load("language-model/train.py")
    vocabulary = train.Vocabulary({str(i): i for i in range(9)}, np.array([0, 9]))
    data = train.side_by_side(vocabulary, np.arange(9), 2)
    assert [indices.tolist() for indices, _ in data["word"]] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [n[:, 0].tolist() for n in data["next"]] == [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_a_chain_of_words_is_learnt(kind: str, load: Load, capsys: Capture) -> None:
    train = load("language-model/train.py")
    chain = train.make_chain(words=20, choices=3)
    texts = train.chain_texts(chain, 6000)
    settings = train.Settings(hidden=20, steps=10, rate="0.03")
    reached = train.run(kind, texts, settings, epochs=5, size=30, classes=5)
    exact = chain.perplexity(np.array([int(w[1:]) for w in texts["test"]]))
    alone = np.unique(texts["train"], return_counts=True)[1] / 6000
    unigram = np.exp(-np.sum(alone * np.log(alone)))
    assert exact * 0.99 < reached["test"] < 0.6 * unigram
    assert "perplexity" in capsys.readouterr().out


def test_no_text_is_likelier_than_the_chain_says(load: Load) -> None:
    text = load("language-model/text.py")
    chain = text.make_chain(words=10, choices=2, echo=0.25)
    words = chain.text(20000, np.random.default_rng(0))
    probabilities = chain.probabilities(words[1:-1], words[:-2])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-300)), axis=1)
    assert chain.perplexity(words) == pytest.approx(np.exp(entropy.mean()), rel=0.02)


# --- speech --------------------------------------------------------------------------------------


def test_a_tone_is_loudest_in_its_band(load: Load) -> None:
    frames = load("speech/frames.py")
    rate, bands = 16000, 40
    edges = frames.hertz(np.linspace(frames.mel(64), frames.mel(rate / 2), bands + 2))
    for band in (5, 20, 35):
        tone = np.sin(2 * np.pi * edges[band + 1] * np.arange(rate) / rate)
        assert (frames.log_mel(tone, rate).argmax(axis=1) == band).all()


def test_frames_are_the_whole_ones_that_fit(load: Load) -> None:
    frames = load("speech/frames.py")
    for samples in (0, 399, 400, 559, 560, 16000):
        count = max(0, (samples - 400) // 160 + 1)
        assert frames.log_mel(np.ones(samples), 16000).shape == (count, 40)


def test_mels_and_hertz_are_each_other_s_inverse(load: Load) -> None:
    frames = load("speech/frames.py")
    assert frames.mel(1000) == pytest.approx(1000, rel=1e-4)
    np.testing.assert_allclose(
        frames.hertz(frames.mel(np.arange(1, 8000, 100))), range(1, 8000, 100)
    )


def test_recordings_are_read_with_their_states(load: Load, tmp_path: Path) -> None:
    utterances = load("speech/utterances.py")
    frames, samples = 5, 400 + 4 * 160
    with tarfile.open(tmp_path / "wav.tar.xz", "w:xz") as archive:
        for speaker in ("aa", "bb"):
            stream = io.BytesIO()
            with wave.open(stream, "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16000)
                file.writeframes(np.arange(samples, dtype="<i2").tobytes())
            entry = tarfile.TarInfo(f"wav/{speaker}/x-{speaker}.wav")
            entry.size = len(stream.getvalue())
            archive.addfile(entry, io.BytesIO(stream.getvalue()))
    lines = ["#!MLF!#"]
    for speaker in ("aa", "bb"):
        lines += [f'"An4/1/x-{speaker}.lab"', "0 200000 sil[2] -0.7 sil", "200000 500000 ah 1", "."]
    labels = tmp_path / "x.mlf.gz"
    labels.write_bytes(gzip.compress("\n".join(lines).encode()))
    corpus = utterances.read_an4(tmp_path / "wav.tar.xz", labels, every=2)
    assert corpus.states == 2
    assert [len(corpus.training), len(corpus.held_out)] == [1, 1]
    (one,) = corpus.held_out
    assert one.states.tolist() == [1, 1, 0, 0, 0]
    assert one.features.shape == (frames, 40)
    labels.write_bytes(gzip.compress("\n".join(lines).replace("500000", "600000").encode()))
    with pytest.raises(ValueError, match="6 frames have states, 5 frames are there"):
        utterances.read_an4(tmp_path / "wav.tar.xz", labels)


def test_states_of_sounds_are_learnt_from_both_sides(load: Load, capsys: Capture) -> None:
    train = load("speech/train.py")
    corpus = train.make_corpus(80, 15)
    wrong = train.run(corpus, cells=16, epochs=8, rate="0.005")
    assert wrong < 0.5 * train.commonest(corpus)
    assert "held out" in capsys.readouterr().out
