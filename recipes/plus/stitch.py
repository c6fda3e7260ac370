"""Put the head of a recogniser on another frozen public encoder, to train it on with that one.

    python recipes/plus/stitch.py english-plus OUT --public moonshine-tiny --audio MANIFEST ...

The first layer, a linear map of the frames, is replaced by the one of the new encoder's frames
whose outputs come nearest to what the old one gives (least squares over the recordings of the
manifests); every other layer is kept. No transcript is read. Every tenth recording is left out,
and the share of the variance that the map explains there is printed. Decoding defaults and
language models are left out. Source: model stitching, Lenc, Vedaldi 2015, "Understanding image
representations by measuring their equivariance and equivalence"; Bansal, Nakkiran, Barak 2021.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from asr.audio.cache import ContentCache, Samples
from asr.audio.read import read
from asr.corpora.manifest import Utterance, read_manifest
from asr.errors import UserError, exit_status
from asr.models.encoders.public import Frames, open_frames
from asr.models.encoders.public_weights import known_encoder
from asr.models.folder import WEIGHTS, read_folder, read_weights, save_folder

LEAST_DEVIATION = 1e-3  # of a channel of the frames
EVERY_HELD_OUT = 10  # of so many recordings one is left out of the fit
RIDGE = 1e-3  # of the mean of the squares, added to each of them

FIRST_LAYER = (
    *("normalizer.mean", "normalizer.std"),
    *("encoder.enter.weight", "encoder.enter.bias"),
)

Numbers = NDArray[np.float64]


def main() -> None:
    """Read the arguments, fit the map and write the model."""
    parser = argparse.ArgumentParser(description="Put a head on another public encoder.")
    parser.add_argument("model", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--public", required=True, help="name of the other encoder")
    parser.add_argument("--audio", type=Path, nargs="+", required=True, help="manifests")
    parser.add_argument("--every", type=int, default=1, help="recording of these; default: all")
    parser.add_argument("--cache", type=Path, help="folder in which frames are kept")
    given = parser.parse_args()
    folder = read_folder(given.model, "speech")
    encoder = dict(folder.model["encoder"])
    if encoder["kind"] != "frozen":
        raise UserError(f"{folder.path}: no head on a public encoder")
    weights = read_weights(folder.path / WEIGHTS)
    first = FirstLayer(open_frames(encoder["public"], given.cache), weights)
    new = open_frames(given.public, given.cache)
    utterances = [each for path in given.audio for each in read_manifest(path)][:: given.every]
    fit = Fit(known_encoder(given.public).size, len(first.bias))

    def pair(utterance: Utterance) -> tuple[Frames, Numbers]:
        samples = read(utterance.audio).samples
        return new(samples), first(samples)

    learnt = [each for index, each in enumerate(utterances, 1) if index % EVERY_HELD_OUT]
    for each in tqdm(learnt, unit="recording"):
        fit.see(*pair(each))
    pairs = [pair(each) for each in utterances[EVERY_HELD_OUT - 1 :: EVERY_HELD_OUT]]
    print(f"explained of {len(pairs)} recordings: {fit.explained(pairs):.3f}")
    weights |= fit.layer()
    model = folder.model | {"encoder": encoder | {"public": given.public}}
    save_folder(given.target, folder.task, model, folder.vocabularies, weights, folder.notes)


class FirstLayer:
    """The first layer of a head: samples → its outputs (T, E) for the frames of its encoder."""

    def __init__(self, frames: ContentCache, weights: Mapping[str, Tensor]) -> None:
        self._frames = frames
        self._mean, self._deviation, self._matrix, self.bias = (
            weights[name].double().numpy() for name in FIRST_LAYER
        )

    def __call__(self, samples: Samples) -> Numbers:
        """Return the outputs (T, E) for a recording."""
        normalised = (self._frames(samples) - self._mean) / self._deviation
        found: Numbers = normalised @ self._matrix.T + self.bias
        return found


class Fit:
    """Least squares of an affine map from frames (T, size) to values (T, E), in sums over pairs."""

    def __init__(self, size: int, values: int) -> None:
        self._squares = np.zeros((size + 1, size + 1))  # the last of a 1 beside each frame
        self._products = np.zeros((size + 1, values))

    def see(self, frames: Frames, values: Numbers) -> None:
        """Add a recording."""
        given = np.append(frames.astype(np.float64), np.ones((len(frames), 1)), axis=1)
        self._squares += given.T @ given
        self._products += given.T @ values

    def layer(self) -> dict[str, Tensor]:
        """Return the weights of the layer, and mean and deviation of the frames, by name."""
        matrix, offset = self._solution()
        count = self._squares[-1, -1]
        mean = self._squares[-1, :-1] / count
        variance = np.diag(self._squares)[:-1] / count - mean**2
        deviation = np.sqrt(np.maximum(variance, LEAST_DEVIATION**2))
        values = mean, deviation, matrix * deviation, offset + matrix @ mean
        return {
            name: torch.tensor(value, dtype=torch.float32)
            for name, value in zip(FIRST_LAYER, values, strict=True)
        }

    def explained(self, pairs: Sequence[tuple[Frames, Numbers]]) -> float:
        """Return the share of the variance of the recordings' values that the map explains."""
        matrix, offset = self._solution()
        frames, values = (np.concatenate(each) for each in zip(*pairs, strict=True))
        rest = values - frames @ matrix.T - offset
        return float(1 - np.square(rest).sum() / np.square(values - values.mean(0)).sum())

    def _solution(self) -> tuple[Numbers, Numbers]:
        """Return the matrix (E, size) and the offset (E,)."""
        ridge = np.full(len(self._squares), RIDGE * np.diag(self._squares)[:-1].mean())
        ridge[-1] = 0.0
        solution = np.linalg.solve(self._squares + np.diag(ridge), self._products).T
        return solution[:, :-1], solution[:, -1]


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
