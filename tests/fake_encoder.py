"""A public encoder for tests, which need neither its weights nor its engine."""

import numpy as np

from asr.models.encoders.public import ENCODERS, PublicEncoder


def fake_encoder(name):
    """Two frames for four mel frames: a mean that, as in Whisper, depends on the whole input."""
    size = ENCODERS[name].size

    def encode(mel):
        pairs = mel.reshape(80, -1, 2).mean((0, 2)) + 1e-3 * mel.shape[1]
        return np.tile(pairs[:, None], (1, size)).astype(np.float32)

    def mel(samples):
        return np.tile(samples.reshape(-1, 160).std(1), (80, 1)).astype(np.float32)

    return PublicEncoder(name, size, "digest", mel, encode)
