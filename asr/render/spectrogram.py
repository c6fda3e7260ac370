"""The spectrogram panel of a picture."""

from __future__ import annotations

from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from numpy.typing import NDArray

RATE: Final = 16_000  # samples per second
WINDOW: Final = 400  # samples, 25 ms
HOP: Final = 160  # samples, 10 ms
FFT: Final = 512  # points
SILENCE: Final = -20.0  # decibels of power, 60 below full scale; quieter audio is not amplified
DECIBELS: Final = 70.0  # range shown below the loudest point
SOUND_COLOURS: Final = "magma"


def show_spectrogram(axes: Axes, samples: NDArray[np.float32]) -> AxesImage:
    """Draw a spectrogram up to half the sample rate, in decibels below its loudest point."""
    padded = np.pad(samples, (0, max(0, WINDOW - len(samples))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]  # (F, WINDOW)
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), FFT)) ** 2  # (F, FFT/2 + 1)
    decibels = 10 * np.log10(np.maximum(power.T, 1e-12))  # (FFT/2 + 1, F)
    start = (WINDOW - HOP) / 2 / RATE  # a frame is drawn around the middle of its window
    image = axes.imshow(
        decibels - max(decibels.max(), SILENCE),
        cmap=SOUND_COLOURS,
        vmin=-DECIBELS,
        vmax=0,
        aspect="auto",
        origin="lower",
        extent=(start, start + len(frames) * HOP / RATE, 0, RATE / 2000),
    )
    axes.set_facecolor(
        "black"
    )  # visible before the middle of the first frame and after that of the last
    axes.set_ylabel("kHz")
    axes.set_yticks(range(0, RATE // 2000 + 1, 2))
    return image
