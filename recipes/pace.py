"""Train a network that finds the speaking rate of a recording before it is encoded.

    python recipes/pace.py MODEL --speech MANIFEST [--speech MANIFEST …] [--without IDS]

writes MODEL/pace.safetensors (`asr.runtime.pace`). The network learns the number of characters of
each text from the features of its recording, at speeds from 0.8 to 1.35. Every tenth speaker is
held out. On some of these the count is then scaled to that of the model's own CTC head, by which
`fastest` was chosen; the error on the others is printed and not used for tuning.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from asr.audio.augment import speed
from asr.audio.read import Waveform, read
from asr.checksums import renew_checksum, write_whole
from asr.commands.options import count
from asr.corpora.manifest import Utterance, read_manifest
from asr.errors import exit_status
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import pad, whole
from asr.inference.recognizer import Recognizer
from asr.model_folder import PACE, find_folder
from asr.runtime.pace import STRIDE, PaceNetwork
from asr.search.ctc_path import ctc_greedy
from asr.text.lines import read_lines

WIDTHS = 11, 5  # frames of the first convolution, steps of the second
CHANNELS = 48
KEPT_OUT = 10  # one of this many speakers is held out
SPEEDS = 0.8, 1.35
BATCH = 32
EPOCHS = 12
RATE = 3e-3


class Example(NamedTuple):
    """Features (F, mels), normalised, and the number of characters in them."""

    features: Tensor
    characters: int


class PaceModel(nn.Module):
    """`asr.runtime.pace.PaceNetwork` for training."""

    scale: Tensor

    def __init__(self, mels: int) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTHS[0] * (mels // 2), CHANNELS)
        self.second = nn.Linear(WIDTHS[1] * CHANNELS, CHANNELS)
        self.density = nn.Linear(CHANNELS, 1)
        self.register_buffer("scale", torch.tensor(1.0))

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Count characters (B,): features (B, F, mels), 0 beyond lengths (B,)."""
        hidden = functional.avg_pool1d(features, 2)
        for layer, stride, width in zip(
            (self.first, self.second), (STRIDE, 1), WIDTHS, strict=True
        ):
            padded = functional.pad(hidden, (0, 0, width // 2, width // 2))
            windows = padded.unfold(1, width, stride).transpose(2, 3)  # (B, ·, width, I)
            hidden = layer(windows.flatten(2)).relu()
            inside = torch.arange(hidden.size(1)) * STRIDE < lengths[:, None]
            hidden = hidden * inside[..., None]  # as zeros follow a recording that is alone
        densities = functional.softplus(self.density(hidden))[..., 0]
        return (densities * inside).sum(1)


def examples_of(loaded: LoadedModel, utterances: Sequence[Utterance], seed: int) -> list[Example]:
    """Return an example of each recording, at a random speed."""
    drawn = random.Random(seed)
    found = []
    for each in utterances:
        samples = speed(read(each.audio).samples, drawn.uniform(*SPEEDS))
        (features,) = loaded.engine.features(pad([whole(Waveform(samples))]))
        found.append(Example(torch.from_numpy(features).half(), len(each.text)))
    return found


def batch_of(examples: Sequence[Example]) -> tuple[Tensor, Tensor, Tensor]:
    """Return padded features (B, F, mels), their lengths and the numbers of characters (B,)."""
    lengths = torch.tensor([len(each.features) for each in examples])
    features = nn.utils.rnn.pad_sequence([each.features.float() for each in examples], True)
    return features, lengths, torch.tensor([float(each.characters) for each in examples])


def fit(model: PaceModel, examples: Sequence[Example], epochs: int = EPOCHS, seed: int = 0) -> None:
    """Minimise the squared relative error, over recordings of any length alike."""
    drawn, steps = random.Random(seed), epochs * -(-len(examples) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
    for _ in range(epochs):
        mixed = sorted(examples, key=lambda each: len(each.features) * drawn.uniform(0.8, 1.25))
        batches = [mixed[at : at + BATCH] for at in range(0, len(mixed), BATCH)]
        drawn.shuffle(batches)
        for batch in batches:
            features, lengths, wanted = batch_of(batch)
            features = features + 0.2 * torch.randn_like(features)
            loss = (model(features, lengths) / wanted - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def errors(network: PaceNetwork, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Return the relative error of each count."""
    counts = [network.characters(each.features.float().numpy()) for each in examples]
    return np.array(counts) / [each.characters for each in examples] - 1


def counted_by_ctc(loaded: LoadedModel, utterances: Sequence[Utterance]) -> list[Example]:
    """Return recordings at their own speed, with the characters that the CTC head finds."""
    found = []
    for each in utterances:
        encoded = loaded.engine.encode(pad([whole(read(each.audio))]))
        assert encoded.ctc is not None
        (path,) = ctc_greedy(encoded.ctc, encoded.ctc_lengths)
        if path:
            found.append(Example(torch.from_numpy(encoded.features[0]), len(path)))
    return found


def drawn_of(manifests: Sequence[Path], without: Path | None, most: int) -> list[Utterance]:
    """Return at most `most` utterances of each manifest, at random."""
    left_out = {line.text.split()[0] for line in read_lines(without)} if without else set()
    found = []
    for manifest in manifests:
        each = [u for u in read_manifest(manifest) if u.id not in left_out and len(u.text) > 9]
        found += random.Random(0).sample(each, min(most, len(each)))
    return found


def arguments() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Train the pace network of a speech model.")
    parser.add_argument("model", type=Path, help="folder, or name of a model of the package")
    parser.add_argument("--speech", type=Path, action="append", required=True, metavar="MANIFEST")
    parser.add_argument("--without", type=Path, help="ids that are left out, one a line")
    parser.add_argument("--most", type=count, default=400, help="of each manifest (default: 400)")
    parser.add_argument("--ctc", type=count, default=80, help="for the scale (default: 80)")
    return parser.parse_args()


def main() -> None:
    """Train, print the errors, and write the weights."""
    given = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loaded = Recognizer.load(given.model, runtime="numpy").loaded
    utterances = drawn_of(given.speech, given.without, given.most)
    speakers = sorted({each.speaker for each in utterances})
    kept_out = set(speakers[::KEPT_OUT])
    held = [each for each in utterances if each.speaker in kept_out]
    train = examples_of(loaded, [each for each in utterances if each.speaker not in kept_out], 0)
    model = PaceModel(loaded.settings.features.mels)
    fit(model, train)
    found = errors(_at_run_time(model.state_dict()), examples_of(loaded, held, 1))
    print(f"{len(train)} recordings; characters of the text: {_described(found)}")
    by_ctc = counted_by_ctc(loaded, held[: given.ctc])
    half = len(by_ctc) // 2
    model.scale /= np.median(errors(_at_run_time(model.state_dict()), by_ctc[:half]) + 1)
    state = model.state_dict()
    found = errors(_at_run_time(state), by_ctc[half:])
    print(f"scaled by {float(model.scale):.3f}; characters of the CTC head: {_described(found)}")
    folder = find_folder(given.model)
    stored = {name: value.half().contiguous() for name, value in state.items()}
    write_whole(folder / PACE, save(stored, {"format": "1"}))
    renew_checksum(folder / PACE)


def _at_run_time(state: dict[str, Tensor]) -> PaceNetwork:
    return PaceNetwork.of({name: value.numpy() for name, value in state.items()})


def _described(found: NDArray[np.float64]) -> str:
    spread = f"{np.sqrt(np.square(found - np.median(found)).mean()):.3f}"
    return f"median error {np.median(found):+.3f}, spread {spread} ({len(found)} held out)"


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
