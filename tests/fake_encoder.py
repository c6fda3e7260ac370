"""A public encoder for tests, which need neither its weights nor its engine."""

import numpy as np

from asr.models.encoders.public import SAMPLES_PER_FRAME, PublicEncoder
from asr.models.encoders.public_weights import ENCODERS


def fake_encoder(name):
    """A frame is a mean of its 40 ms that, as in Whisper, depends on the whole input."""
    size = ENCODERS[name].size

    def encode(samples):
        loudness = samples.reshape(-1, 4, 160).std(2).mean(1)
        means = loudness + 4e-3 * len(samples) / SAMPLES_PER_FRAME
        return np.tile(means[:, None], (1, size)).astype(np.float32)

    return PublicEncoder(name, size, "digest", encode)
