"""Train a model that refines word boundaries to 10 ms, from speech with known word times.

    python recipes/librispeech/boundaries.py MODEL --times MANIFEST TIMES [--times MANIFEST TIMES]

writes MODEL/boundaries.safetensors (`asr.models.boundary`). TIMES are JSON lines as in
`asr.corpora.word_times`; utterances without times are left out. The recogniser aligns each text,
and the model learns the offset of the known times from this alignment; each recogniser needs its
own model. Every tenth utterance is held out; the error on it is printed and not used for tuning.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from asr.alignment.boundaries import word_boundaries
from asr.audio.mel import FRAMES_PER_SECOND, MELS
from asr.audio.read import read
from asr.checksums import renew_checksum, write_whole
from asr.corpora.manifest import read_manifest
from asr.corpora.word_times import Timed, read_word_times, timed_words
from asr.errors import UserError, exit_status
from asr.inference.decoding import force
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import whole
from asr.inference.recognizer import Recognizer
from asr.models.boundary import CONTEXT, FRAMES, REACH, BoundaryModel, surroundings
from asr.models.folder import BOUNDARIES
from asr.runtime.boundary import nearest_frames
from asr.runtime.numpy_runtime.features import standardised_log_mel

KEPT_OUT = 10  # one of this many utterances is held out
JITTER = 4  # frames, largest random shift of a rough time in training
BLUR = 1.0  # frames, standard deviation of the target distribution around the true offset
BATCH = 128
RATE = 2e-3
WEIGHT_DECAY = 0.01


class Examples(NamedTuple):
    """N boundaries. sound: (N, FRAMES + 2 · JITTER, mels) float16. true: (N,) offsets in frames."""

    sound: Tensor
    letters: Tensor
    is_end: Tensor
    true: Tensor


def examples_of(loaded: LoadedModel, audio: Path, text: str, times: list[Timed]) -> Examples | None:
    """Align a text and return examples for the boundaries of words with known times.

    Returns None if there are none, or the text cannot be aligned.
    """
    known = timed_words(text, times)
    piece = whole(read(audio))
    tokens = loaded.vocabulary.encode(text)
    try:
        words = force(loaded, piece, tokens).words
    except UserError as error:
        print(f"{audio.stem}: left out: {error}", file=sys.stderr)
        return None
    boundaries = word_boundaries(words, loaded.vocabulary, CONTEXT)
    features = torch.from_numpy(standardised_log_mel(piece.samples))
    taken = [2 * at + side for at in known for side in (0, 1)]
    true = [round(each * FRAMES_PER_SECOND) for at in known for each in known[at][1:]]
    if not taken:
        return None
    places = torch.from_numpy(nearest_frames(boundaries.times[taken]))
    wide = torch.cat([places - JITTER, places + JITTER])
    early, late = surroundings(features, wide).half().chunk(2)
    sound = torch.cat([early, late[:, FRAMES - 2 * JITTER :]], dim=1)
    offsets = torch.tensor(true) - places
    characters, is_end = map(torch.from_numpy, (boundaries.characters, boundaries.is_end))
    return Examples(sound, characters[taken], is_end[taken], offsets)


def gather(found: Iterable[Examples | None]) -> Examples:
    """Join the examples of several utterances."""
    return Examples(*map(torch.cat, zip(*(each for each in found if each), strict=True)))


def fit(model: BoundaryModel, examples: Examples, epochs: int) -> None:
    """Train on randomly shifted rough times; the learning rate decays to 0."""
    reached = examples.true.abs() <= REACH  # larger offsets are alignment errors
    examples = Examples(*(each[reached] for each in examples))
    bins = torch.arange(-REACH, REACH + 1)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=WEIGHT_DECAY)
    batches = max(1, len(examples.true) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, epochs * batches)
    model.train()
    for _ in range(epochs):
        moved = torch.randint(-JITTER, JITTER + 1, examples.true.shape)
        moved = torch.where((examples.true - moved).abs() <= REACH, moved, 0)
        for rows in torch.randperm(len(examples.true)).chunk(batches):
            logits = model(
                _moved(examples.sound[rows], moved[rows]),
                examples.letters[rows],
                examples.is_end[rows],
            )
            away = bins - (examples.true - moved)[rows, None]
            target = torch.softmax(-((away / BLUR) ** 2) / 2, dim=1)
            loss = functional.cross_entropy(logits, target)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    model.eval()


def _moved(sound: Tensor, moved: Tensor) -> Tensor:
    """Cut (N, FRAMES, mels) out of wider features, `moved` frames from the middle."""
    at = (moved + JITTER)[:, None] + torch.arange(FRAMES)
    return sound[torch.arange(len(sound))[:, None], at].float()


@torch.inference_mode()
def errors(model: BoundaryModel, examples: Examples) -> tuple[float, float]:
    """Return the mean error of the boundaries before and after refinement, in milliseconds."""
    middle = _moved(examples.sound, torch.zeros_like(examples.true))
    offsets = model.offsets(middle, examples.letters, examples.is_end)
    frame = 1000 / FRAMES_PER_SECOND
    before = examples.true.abs().float().mean().item()
    after = (examples.true - offsets).abs().float().mean().item()
    return frame * before, frame * after


def main() -> None:
    """Read the arguments, train and write the file."""
    parser = argparse.ArgumentParser(description="Train a model of word boundaries.")
    parser.add_argument("model", type=Path, help="folder of a speech model")
    parser.add_argument(
        "--times", nargs=2, type=Path, action="append", required=True, metavar=("MANIFEST", "TIMES")
    )
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    loaded = replace(Recognizer.load(given.model).loaded, boundaries=None)
    jobs = [
        (each, times[each.id])
        for manifest, file in given.times
        for times in [read_word_times(file)]
        for each in read_manifest(manifest)
        if each.id in times
    ]
    found = [
        examples_of(loaded, each.audio, each.text, times) for each, times in tqdm(jobs, unit="utt")
    ]
    out = gather(found[::KEPT_OUT])
    learnt = gather(each for at, each in enumerate(found) if at % KEPT_OUT)
    model = BoundaryModel(MELS, len(loaded.vocabulary))
    fit(model, learnt, given.epochs)
    before, after = errors(model, out)
    print(f"{len(learnt.true)} boundaries in training; mean error on {len(out.true)} others:")
    print(f"{before:.1f} ms before, {after:.1f} ms after refinement")
    stored = {name: value.half().contiguous() for name, value in model.state_dict().items()}
    write_whole(given.model / BOUNDARIES, save(stored, {"format": "1"}))
    renew_checksum(given.model / BOUNDARIES)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
