"""Calibrate the word confidence of a speech model, and draw how well it agrees with the words.

    python recipes/confidence.py MODEL --fit MANIFEST IDS --report MANIFEST IDS --save
    python recipes/confidence.py MODEL --report MANIFEST IDS --picture FILE.png

--fit: recordings to fit to; each list counts the same. --report: recordings of other speakers. Both
may be repeated. The recordings are decoded with the model's own defaults; the calibration holds for
these alone. --save writes it into the config of the model folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from asr.checksums import renew_checksum, write_whole
from asr.corpora.manifest import read_manifest, select
from asr.errors import exit_status
from asr.inference.confidence import Calibration, logit
from asr.inference.recognizer import Recognizer
from asr.inference.sources import Failure
from asr.model_folder import CONFIG, find_folder
from asr.render.tables import text_table
from asr.scoring.confidence import Bin, correct_words, expected_calibration_error, reliability
from asr.tables import to_table

ROUNDS = 50  # of Newton's method; it converges in less than 10
RIDGE = 1e-6  # keeps the Hessian invertible
UNCHANGED = Calibration(bias=0.0, word=1.0, score=0.0)  # the decoder's own confidence


class Words(NamedTuple):
    """N recognised words: features (N, 3) as `Calibration` weights them, and which are right."""

    features: NDArray[np.float64]  # 1, logit of the word, score of the segment per token
    correct: NDArray[np.bool_]

    def confidences(self, calibration: Calibration) -> NDArray[np.float64]:
        """Return the calibrated confidence (N,)."""
        return calibration.probabilities(self.features[:, 1], self.features[:, 2])


def measure(recognizer: Recognizer, manifest: Path, ids: Path, most: int = 0) -> Words:
    """Decode a list without calibration; failures are left out.

    most: about so many recordings of it, evenly spaced; 0: all.
    """
    plain = Recognizer(replace(recognizer.loaded, calibration=None), recognizer.decoding)
    utterances = select(read_manifest(manifest), ids)
    utterances = utterances[:: max(1, round(len(utterances) / (most or len(utterances))))]
    features: list[tuple[float, float, float]] = []
    correct: list[bool] = []
    results = plain.transcribe_each(each.audio for each in utterances)
    for utterance, result in zip(utterances, results, strict=True):
        if isinstance(result, Failure):
            continue
        for segment in result.segments:
            score = segment.score / (len(segment.characters) + 1)
            features += [(1.0, float(logit(word.confidence)), score) for word in segment.words]
        correct += correct_words(utterance.text, result.text)
    return Words(np.array(features).reshape(-1, 3), np.array(correct, bool))


def fit(lists: Sequence[Words]) -> Calibration:
    """Fit a logistic regression by maximum likelihood; each list has the same total weight."""
    features = np.concatenate([each.features for each in lists])
    correct = np.concatenate([each.correct for each in lists])
    shares = np.concatenate([np.full(len(each.correct), 1 / len(each.correct)) for each in lists])
    weights = np.zeros(features.shape[1])
    for _ in range(ROUNDS):
        probabilities = 1 / (1 + np.exp(-features @ weights))
        gradient = features.T @ (shares * (correct - probabilities))
        curvature = (shares * probabilities * (1 - probabilities))[:, None] * features
        hessian = features.T @ curvature + RIDGE * np.eye(len(weights))
        weights += np.linalg.solve(hessian, gradient)
    return Calibration(*(round(float(weight), 3) for weight in weights))


def draw(path: Path, grouped: dict[str, list[Bin]]) -> None:
    """Draw the share of right words against their confidence, a line for each list."""
    from asr.render.picture import new_figure, save

    figure = new_figure()
    figure.set_size_inches(4.6, 4.4)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, bins in grouped.items():
        axes.plot([each.confidence for each in bins], [each.correct for each in bins], label=name)
        sizes = [max(4.0, 200 * each.words / sum(one.words for one in bins)) for each in bins]
        axes.scatter([each.confidence for each in bins], [each.correct for each in bins], sizes)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="share of words that are right")
    axes.set_aspect("equal")
    axes.legend(loc="upper left", frameon=False)
    save(figure, path)


def main() -> None:
    """Read the arguments, fit, report and save."""
    parser = argparse.ArgumentParser(description="Calibrate word confidence.")
    parser.add_argument("model")
    for name in ("--fit", "--report"):
        parser.add_argument(
            name, nargs=2, type=Path, action="append", default=[], metavar=("MANIFEST", "IDS")
        )
    parser.add_argument(
        "--most", type=int, default=0, metavar="N", help="use about N recordings of each list"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the lists of --report")
    parser.add_argument("--save", action="store_true", help="write into the model folder")
    given = parser.parse_args()
    torch.set_num_threads(1)
    recognizer = Recognizer.load(given.model)
    calibration = recognizer.loaded.calibration
    if given.fit:
        measured = {ids.stem: measure(recognizer, each, ids, given.most) for each, ids in given.fit}
        calibration = fit(list(measured.values()))
        print(calibration)
    rows, grouped = [], {}
    for manifest, ids in given.report:
        words = measure(recognizer, manifest, ids, given.most)
        errors = [
            expected_calibration_error(reliability(words.confidences(UNCHANGED), words.correct))
        ]
        if calibration is not None:
            grouped[ids.stem] = reliability(words.confidences(calibration), words.correct)
            errors.append(expected_calibration_error(grouped[ids.stem]))
        percent = [f"{error:.1%}" for error in errors]
        rows.append((ids.stem, len(words.correct), f"{words.correct.mean():.1%}", *percent))
    header = ("list", "words", "right", "error without", "calibrated")
    print(text_table(header[: len(rows[0])] if rows else header, rows))
    if given.picture:
        draw(given.picture, grouped)
    if given.save and calibration is not None:
        write(find_folder(Path(given.model)), calibration)


def write(folder: Path, calibration: Calibration) -> None:
    """Write a calibration into the config of a model folder."""
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    config["confidence"] = to_table(calibration)
    write_whole(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
    renew_checksum(folder / CONFIG)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
