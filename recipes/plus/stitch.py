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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from asr.audio.cache import ContentCache, Samples
from asr.audio.read import read
from asr.corpora.manifest import Utterance, read_manifest
from asr.errors import UserError, exit_status
from asr.models.encoders.public import open_frames
from asr.models.folder import WEIGHTS, read_folder, read_weights, save_folder

LEAST_DEVIATION = 1e-3  # of a channel of the frames
RIDGE = 1e-3  # of the mean of the squares, added to each of them

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
    utterances = [each for path in given.audio for each in read_manifest(path)][:: given.every]
    state = read_weights(folder.path / WEIGHTS)
    mean, deviation, weight, bias = (
        state[name].double().numpy()
        for name in (
            "normalizer.mean",
            "normalizer.std",
            "encoder.enter.weight",
            "encoder.enter.bias",
        )
    )
    old = open_frames(encoder["public"], given.cache)
    new = open_frames(given.public, given.cache)
    model = folder.model | {"encoder": encoder | {"public": given.public}}

    def wanted(samples: Samples) -> Numbers:
        values: Numbers = (old(samples) - mean) / deviation @ weight.T + bias
        return values

    fitted = _Fit(new, wanted)
    held_out = utterances[9::10]
    fitted.see(each for index, each in enumerate(utterances) if index % 10 != 9)
    map_, offset = fitted.solve()
    print(f"explained of {len(held_out)} recordings: {fitted.explained(held_out):.3f}")
    new_mean, new_deviation = fitted.statistics()
    state |= {
        name: torch.tensor(value, dtype=torch.float32)
        for name, value in {
            "normalizer.mean": new_mean,
            "normalizer.std": new_deviation,
            "encoder.enter.weight": map_ * new_deviation,
            "encoder.enter.bias": offset + map_ @ new_mean,
        }.items()
    }
    save_folder(given.target, folder.task, model, folder.vocabularies, state, folder.notes)


class _Fit:
    """Least squares of an affine map from frames to wanted values, in sums over recordings."""

    def __init__(self, frames: ContentCache, wanted: Callable[[Samples], Numbers]) -> None:
        self._frames = frames
        self._wanted = wanted
        self._squares: Any = 0.0  # (size + 1, size + 1), the last of a 1 beside each frame
        self._products: Any = 0.0  # (size + 1, wanted)

    def see(self, utterances: Iterable[Utterance]) -> None:
        """Add recordings."""
        for each in tqdm(list(utterances), unit="recording"):
            frames, values = self._pair(each)
            self._squares = self._squares + frames.T @ frames
            self._products = self._products + frames.T @ values

    def _pair(self, utterance: Utterance) -> tuple[Numbers, Numbers]:
        samples = read(utterance.audio).samples
        frames = self._frames(samples).astype(np.float64)
        return np.concatenate([frames, np.ones((len(frames), 1))], 1), self._wanted(samples)

    def statistics(self) -> tuple[Numbers, Numbers]:
        """Return mean and deviation of each channel of the frames."""
        count = self._squares[-1, -1]
        mean = self._squares[-1, :-1] / count
        variance = np.diag(self._squares)[:-1] / count - mean**2
        return mean, np.sqrt(np.maximum(variance, LEAST_DEVIATION**2))

    def solve(self) -> tuple[Numbers, Numbers]:
        """Return the map (wanted, size) and its offset (wanted,)."""
        ridge = RIDGE * np.diag(self._squares)[:-1].mean()
        penalty = np.diag(np.append(np.full(len(self._squares) - 1, ridge), 0.0))
        solution = np.linalg.solve(self._squares + penalty, self._products).T
        return solution[:, :-1], solution[:, -1]

    def explained(self, utterances: Iterable[Utterance]) -> float:
        """Return the share of the variance of recordings' wanted values that the map explains."""
        map_, offset = self.solve()
        pairs = [self._pair(each) for each in utterances]
        values = np.concatenate([values for _, values in pairs])
        frames = np.concatenate([frames for frames, _ in pairs])
        rest = values - frames[:, :-1] @ map_.T - offset
        return float(1 - np.square(rest).sum() / np.square(values - values.mean(0)).sum())


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
