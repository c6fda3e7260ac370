"""Train a model that finds speech in long recordings, from a recogniser's CTC head.

    python recipes/librispeech/voice_activity.py MODEL --speech MANIFEST [--speech MANIFEST ...]
        --noise MANIFEST

writes MODEL/voice_activity.safetensors (`asr.models.voice_activity`). The recogniser marks the
frames of clean utterances in which its CTC head finds a symbol; no transcripts are needed. The
model learns these marks from windows in which utterances are joined with pauses, changes of level,
noise, and sounds in the pauses. Every tenth utterance is held out; the errors on windows of these
are printed and not used for tuning.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from asr.audio.read import SAMPLE_RATE, read
from asr.checksums import renew_checksum, write_whole
from asr.corpora.manifest import read_manifest, read_noise
from asr.errors import UserError, exit_status
from asr.inference.cutting import Mask, Samples, detector
from asr.inference.loaded import LoadedModel
from asr.inference.recognizer import Recognizer
from asr.models.folder import VOICE_ACTIVITY
from asr.models.voice_activity import VoiceActivityModel, near_symbols
from asr.runtime.voice_activity import FEATURES, FRAME, LEAST, REACH, frame_features

KEPT_OUT = 10  # one of this many utterances is held out
WINDOW = 500 * FRAME  # samples, 20 s
LEVEL = 0.05  # root mean square of speech before its level changes
LEVELS_DB = (-18.0, 6.0)
PAUSE = (0.0, 2.0)  # seconds
GAP = (4.0, 40.0)  # seconds
GAP_SHARE = 0.2  # of the pauses that are gaps
SOUND_SHARE = 0.35  # of the pauses with a sound in them
SOUND_DB = (-20.0, 6.0)  # relative to speech
NOISE_SHARE = 0.8  # of the windows with noise throughout
NOISE_DB = (-50.0, -8.0)
WHITE_SHARE = 0.25  # of that noise that is white; the rest is recorded
BATCH = 16
RATE = 3e-3
FAR = 10  # frames from any symbol that count as a pause

Random = np.random.Generator


class Marked(NamedTuple):
    """An utterance, scaled to `LEVEL`, and its frames with a symbol (⌈S / 640⌉,)."""

    samples: Samples
    symbols: Mask


class Windows(NamedTuple):
    """N windows. features: (N, F, size) float16. symbols: (N, F) bool."""

    features: Tensor
    symbols: Tensor


def marked(loaded: LoadedModel, samples: Sequence[Samples]) -> Iterator[Marked]:
    """Mark the frames in which the CTC head of a model finds a symbol."""
    detect = detector(replace(loaded, voice_activity=None))
    for each in samples:
        yield Marked(_scaled(each, LEVEL), detect(each))


def window(utterances: Sequence[Marked], noise: Sequence[Samples], random: Random) -> Marked:
    """Join utterances to a window that begins and ends anywhere in them."""
    samples = np.zeros(WINDOW, np.float32)
    symbols = np.zeros(WINDOW // FRAME, bool)
    position, gain = -int(random.integers(WINDOW // FRAME)) * FRAME, 1.0
    while position < WINDOW:
        each = utterances[random.integers(len(utterances))]
        if position <= 0 or random.random() < 0.3:
            gain = _factor(random.uniform(*LEVELS_DB))
        _add(samples, gain * each.samples, position)
        _add(symbols, each.symbols, position // FRAME)
        end = position + len(each.symbols) * FRAME
        is_gap = random.random() < GAP_SHARE
        pause = round(random.uniform(*(GAP if is_gap else PAUSE)) * SAMPLE_RATE)
        if random.random() < SOUND_SHARE:
            sound = noise[random.integers(len(noise))][:pause]
            start = end + int(random.integers(pause - len(sound) + 1))
            _add(samples, _scaled(sound, LEVEL * _factor(random.uniform(*SOUND_DB))), start)
        position = end + pause // FRAME * FRAME
    if random.random() < NOISE_SHARE:
        level = LEVEL * _factor(random.uniform(*NOISE_DB))
        samples += _scaled(_throughout(noise, random), level)
    return Marked(samples, symbols)


def _throughout(noise: Sequence[Samples], random: Random) -> Samples:
    if random.random() < WHITE_SHARE:
        return random.standard_normal(WINDOW, np.float32)
    each = noise[random.integers(len(noise))]
    return np.resize(np.roll(each, int(random.integers(len(each)))), WINDOW)


def _add(whole: NDArray[np.generic], part: NDArray[np.generic], start: int) -> None:
    """Add the part of an array that lies inside of another one, from `start` of it."""
    first, last = max(start, 0), min(start + len(part), len(whole))
    if first < last:
        whole[first:last] += part[first - start : last - start]


def _scaled(samples: Samples, level: float) -> Samples:
    """Scale samples to a root mean square."""
    own = float(np.sqrt(np.mean(np.square(samples)))) if len(samples) else 0.0
    return samples * np.float32(level / max(own, 1e-6))


def _factor(decibels: float) -> float:
    return float(10 ** (decibels / 20))


def windows(
    utterances: Sequence[Marked], noise: Sequence[Samples], count: int, random: Random
) -> Windows:
    """Make windows with their features."""
    features, symbols = [], []
    for _ in tqdm(range(count), unit="window"):
        made = window(utterances, noise, random)
        features.append(torch.from_numpy(frame_features(made.samples)).half())
        symbols.append(torch.from_numpy(made.symbols))
    return Windows(torch.stack(features), torch.stack(symbols))


def fit(model: VoiceActivityModel, learnt: Windows, epochs: int) -> None:
    """Train; the learning rate decays to 0."""
    batches = max(1, len(learnt.symbols) // BATCH)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, epochs * batches)
    model.train()
    for _ in tqdm(range(epochs), unit="epoch"):
        for rows in torch.randperm(len(learnt.symbols)).chunk(batches):
            target = near_symbols(learnt.symbols[rows], REACH).float()
            logits = model(learnt.features[rows].float())
            loss = functional.binary_cross_entropy_with_logits(logits, target)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    model.eval()


@torch.inference_mode()
def errors(model: VoiceActivityModel, out: Windows) -> tuple[float, float]:
    """Return the shares of symbols that are missed, and of frames in pauses that are not."""
    found = torch.stack([model(each[None].float())[0] for each in out.features]) > LEAST
    pause = ~near_symbols(out.symbols, FAR)
    missed = (~found & out.symbols).sum() / out.symbols.sum()
    return float(missed), float((found & pause).sum() / pause.sum())


def main() -> None:
    """Read the arguments, train and write the file."""
    parser = argparse.ArgumentParser(description="Train a model of voice activity.")
    parser.add_argument("model", type=Path, help="folder of a speech model with a CTC head")
    parser.add_argument("--speech", type=Path, action="append", required=True, metavar="MANIFEST")
    parser.add_argument("--noise", type=Path, required=True, metavar="MANIFEST")
    parser.add_argument("--most", type=int, default=300, help="utterances of each manifest")
    parser.add_argument("--windows", type=int, default=2500)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    random = np.random.default_rng(given.seed)
    loaded = Recognizer.load(given.model).loaded
    if not loaded.engine.has_ctc:
        raise UserError(f"{given.model}: has no CTC head to learn from")
    noise = [read(each.audio).samples for each in read_noise(given.noise)]
    files = [
        found[at].audio
        for found in map(read_manifest, given.speech)
        for at in random.permutation(len(found))[: given.most]
    ]
    speech = (read(file).samples for file in tqdm(files, unit="utt"))
    found = [*marked(loaded, [each for each in speech if len(each) <= WINDOW])]
    kept = windows(found[::KEPT_OUT], noise, max(1, given.windows // KEPT_OUT), random)
    others = [each for at, each in enumerate(found) if at % KEPT_OUT]
    learnt = windows(others, noise, given.windows, random)
    model = VoiceActivityModel(FEATURES)
    fit(model, learnt, given.epochs)
    missed, false = errors(model, kept)
    held_out = len(found[::KEPT_OUT])
    print(f"{len(others)} utterances in {given.windows} windows; on windows of {held_out} others")
    print(f"{100 * missed:.2f} % of the symbols missed,")
    print(f"{100 * false:.2f} % of the frames in pauses taken for speech")
    stored = {name: value.half().contiguous() for name, value in model.state_dict().items()}
    write_whole(given.model / VOICE_ACTIVITY, save(stored, {"format": "1"}))
    renew_checksum(given.model / VOICE_ACTIVITY)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
