"""Utterances with the state that each frame is in: AN4's, or made ones."""

from __future__ import annotations

import gzip
import io
import tarfile
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from frames import SHIFT, log_mel

Array = np.ndarray

MLF_UNIT = 1e-7  # seconds


@dataclass(frozen=True)
class Utterance:
    """features  f32[frames, bands]
    states    i64[frames]
    """

    features: Array
    states: Array


@dataclass(frozen=True)
class Corpus:
    """What is learnt from, what is held out, and how many states there are."""

    training: Sequence[Utterance]
    held_out: Sequence[Utterance]
    states: int


# --- AN4 -----------------------------------------------------------------------------------------


def read_an4(recordings: Path, labels: Path, every: int = 10) -> Corpus:
    """AN4's recordings (a .tar.xz of .wav files) and the states of its frames (a HTK .mlf.gz).

    All that every tenth speaker says is held out. Recordings without states are left out. Raises
    OSError, tarfile.TarError, or ValueError where the files do not fit together.
    """
    states = read_mlf(labels)
    names = sorted({name for found in states.values() for name, _ in found})
    numbers = {name: i for i, name in enumerate(names)}
    by_speaker: dict[str, list[Utterance]] = {}
    with tarfile.open(recordings, "r:xz") as archive:
        for member in archive:
            path = Path(member.name)
            if path.suffix != ".wav" or path.stem not in states:
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            features = log_mel(*read_wav(stream.read()))
            found = states[path.stem]
            of_frames = np.repeat([numbers[n] for n, _ in found], [count for _, count in found])
            if len(of_frames) != len(features):
                message = f"{len(of_frames)} frames have states, {len(features)} frames are there"
                raise ValueError(f"{path.stem}: {message}")
            by_speaker.setdefault(path.parent.name, []).append(Utterance(features, of_frames))
    return _split(by_speaker, every, len(names))


def _split(by_speaker: dict[str, list[Utterance]], every: int, states: int) -> Corpus:
    training: list[Utterance] = []
    held_out: list[Utterance] = []
    for place, speaker in enumerate(sorted(by_speaker)):
        (training if place % every else held_out).extend(by_speaker[speaker])
    if not training or not held_out:
        raise ValueError("no recordings with states of frames are there")
    return Corpus(training, held_out, states)


def read_wav(data: bytes) -> tuple[Array, int]:
    """The samples of one channel of 16 bits, between -1 and 1, and how many there are a second."""
    with wave.open(io.BytesIO(data)) as file:
        if file.getnchannels() != 1 or file.getsampwidth() != 2:
            raise ValueError("a recording requires one channel of 16 bits")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return samples / 32768, file.getframerate()


def read_mlf(path: Path) -> dict[str, list[tuple[str, int]]]:
    """The states of each utterance, by its name, one after another: name, number of frames."""
    found: dict[str, list[tuple[str, int]]] = {}
    current: list[tuple[str, int]] = []
    for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines():
        if line.startswith('"'):
            current = found.setdefault(Path(line.strip('"')).stem, [])
        elif line and line[0].isdigit():
            start, end, name = line.split()[:3]
            current.append((name, round((int(end) - int(start)) * MLF_UNIT / SHIFT)))
    return found


# --- made ----------------------------------------------------------------------------------------

RATE = 8000
SOUNDS = ((300, 2300), (450, 1900), (750, 1200), (500, 900), (350, 700))  # two resonances, Hz
PARTS = 3  # states of a sound
MADE_STATES = 1 + PARTS * len(SOUNDS)


def make_corpus(training: int = 200, held_out: int = 50, seed: int = 0) -> Corpus:
    """Sounds with two resonances, one after another, between silence and in noise. The states of a
    sound are its thirds: which one a frame is in depends on where the sound ends."""
    rng = np.random.default_rng(seed)
    made = [_make(rng) for _ in range(training + held_out)]
    return Corpus(made[:training], made[training:], MADE_STATES)


def _make(rng: np.random.Generator) -> Utterance:
    shift = round(SHIFT * RATE)
    pitch = rng.uniform(90, 220)
    states = [0] * int(rng.integers(5, 15))
    tones: list[tuple[float, float] | None] = [None] * len(states)
    for sound in rng.integers(len(SOUNDS), size=rng.integers(3, 8)):
        steps = int(rng.integers(6, 25))
        states += [1 + PARTS * int(sound) + PARTS * t // steps for t in range(steps)]
        tones += [SOUNDS[sound]] * steps
    silence = int(rng.integers(5, 15))
    states += [0] * silence
    tones += [None] * silence
    pieces = [_voice(tone, pitch, place * shift, shift) for place, tone in enumerate(tones)]
    signal = np.concatenate([*pieces, np.zeros(2 * shift)])  # the last frame is longer than a step
    signal += rng.normal(scale=0.02, size=len(signal))
    features = log_mel(signal, RATE)
    return Utterance(features, np.array(states)[: len(features)])


def _voice(tone: tuple[float, float] | None, pitch: float, start: int, length: int) -> Array:
    """Harmonics of the pitch, loud near the resonances."""
    if tone is None:
        return np.zeros(length)
    time = (start + np.arange(length)) / RATE
    harmonics = pitch * np.arange(1, int(3500 / pitch) + 1)
    loudness = sum(1 / (1 + ((harmonics - f) / 120) ** 2) for f in tone)
    return 0.2 * np.sin(2 * np.pi * time[:, None] * harmonics) @ np.asarray(loudness)
