"""Speech as frames: logarithms of the energy in bands of frequency, as wide as the ear hears them.

Every 10 ms a frame of 25 ms is cut out. High frequencies are raised (x[t] - 0.97 x[t-1]), the ends
of the frame are faded out (Hamming), and the power of its Fourier transform is summed in triangles
that are equally wide on the mel scale, mel(f) = 2595 log10(1 + f / 700), from 64 Hz to half of the
rate.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray

FRAME, SHIFT = 0.025, 0.010  # seconds
LOWEST = 64.0  # Hz
EMPHASIS = 0.97
FLOOR = 1e-10


def log_mel(samples: Array, rate: int, bands: int = 40) -> Array:
    """f32[frames, bands] of a signal between -1 and 1; frames are the whole ones that fit."""
    length, shift = round(FRAME * rate), round(SHIFT * rate)
    raised = np.append(samples[:1], samples[1:] - EMPHASIS * samples[:-1])
    count = max(0, (len(raised) - length) // shift + 1)
    starts = shift * np.arange(count)[:, None]
    frames = raised[starts + np.arange(length)] * np.hamming(length)
    points = 1 << (length - 1).bit_length()
    power = np.abs(np.fft.rfft(frames, points, axis=1)) ** 2 / points
    energies = power @ triangles(rate, points, bands).T
    return np.log(np.maximum(energies, FLOOR)).astype(np.float32)


def triangles(rate: int, points: int, bands: int) -> Array:
    """f64[bands, points // 2 + 1]: the weight of each frequency in each band."""
    edges = hertz(np.linspace(mel(LOWEST), mel(rate / 2), bands + 2))
    frequencies = np.arange(points // 2 + 1) * rate / points
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising = (frequencies - left) / (middle - left)
    falling = (right - frequencies) / (right - middle)
    return np.maximum(0, np.minimum(rising, falling))


def mel(frequency: Array | float) -> Array:
    """Hz as mels."""
    return 2595 * np.log10(1 + np.asarray(frequency) / 700)


def hertz(mels: Array | float) -> Array:
    """Mels as Hz."""
    return 700 * (10 ** (np.asarray(mels) / 2595) - 1)
