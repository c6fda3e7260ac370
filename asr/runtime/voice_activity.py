"""The voice activity model of a model folder at run time: which parts are speech, in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from asr.audio.mel import MELS
from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.runtime.numpy_runtime.features import HOP, standardised_log_mel
from asr.runtime.numpy_runtime.layers import Array, Linear, TimeConvolution
from asr.weights import read_arrays

FRAME: Final = SAMPLE_RATE * 40 // 1000  # samples of a frame
REACH: Final = 2  # frames around a symbol that the model is trained to call speech
STEPS: Final = FRAME // HOP  # feature frames of a frame
FEATURES: Final = MELS // 2 * STEPS  # size of a frame
RESIDUAL: Final = 4  # convolutions after the first, dilated 2, 4, 8 and 16 times
# Logit of speech, chosen by greedy search on recordings of `benchmarks/detectors.py`: with 0 both
# models make more errors, with -2 one of them writes words in a gap.
LEAST: Final = -1.0

Mask = NDArray[np.bool_]


class VoiceActivity(NamedTuple):
    """`asr.models.voice_activity.VoiceActivityModel` in NumPy."""

    sound: TimeConvolution
    residual: tuple[TimeConvolution, ...]
    output: Linear

    @classmethod
    def load(cls, file: Path) -> VoiceActivity:
        """Load a voice activity model.

        Raises:
            UserError: the file is damaged or of other sizes.
        """
        weights = read_arrays(file)
        try:
            sound = TimeConvolution.of(weights, "sound")
            residual = tuple(
                TimeConvolution.of(weights, f"residual.{at}", 2 << at) for at in range(RESIDUAL)
            )
            model = cls(sound, residual, Linear.of(weights, "output"))
        except (KeyError, ValueError, IndexError) as error:
            raise UserError(
                f"{file}: not the weights of a voice activity model of this version: {error}"
            ) from error
        channels = len(sound.bias)
        if (
            sound.inputs != FEATURES
            or any(each.inputs != channels or len(each.bias) != channels for each in residual)
            or model.output.matrix.shape != (channels, 1)
        ):
            raise UserError(f"{file}: the sizes do not fit {MELS} filters and each other")
        return model

    def logits(self, samples: Array) -> Array:
        """Return the logit of speech in each frame of 40 ms (⌈S / 640⌉,) of samples (S,)."""
        hidden = self.sound(frame_features(samples)[None])
        np.maximum(hidden, 0, out=hidden)
        for convolution in self.residual:
            hidden += np.maximum(convolution(hidden), 0)
        found: Array = self.output(hidden)[0, :, 0]
        return found

    def __call__(self, samples: Array) -> Mask:
        """Return the frames of 40 ms (⌈S / 640⌉,) with a symbol, as a CTC head would find them.

        Two symbols that are close have no pause between them.
        """
        near = np.pad(self.logits(samples) > LEAST, REACH, constant_values=True)
        return np.asarray(sliding_window_view(near, 2 * REACH + 1).all(1))


def frame_features(samples: Array) -> Array:
    """Return the input (⌈S / 640⌉, `FEATURES`) of a voice activity model for samples (S,)."""
    count = -(-len(samples) // FRAME)
    features = standardised_log_mel(samples)
    if not len(features):
        return np.zeros((count, FEATURES), np.float32)
    pairs = features.reshape(len(features), -1, 2).mean(2)
    missing = count * STEPS - len(pairs)  # of the last frames, which no whole window fits into
    return np.pad(pairs, ((0, missing), (0, 0)), mode="edge").reshape(count, FEATURES)
