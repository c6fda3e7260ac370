"""Measure whether attention names what a model's output depends on, by taking inputs away.

    python recipes/ablations/faithfulness.py MODEL PAIRS.tsv|MANIFEST.jsonl [--ids LIST] [--most N]

The reference is decoded by teacher forcing. At each step every input position is taken away in
turn, and the fall of the log-probability of the correct token is measured, in two ways:

- hidden: the decoder may not attend to the annotation, at this step alone. Its neighbours, whose
  annotations were computed with it, remain.
- removed: the source token becomes `<unk>`, or the sound silence, before the encoder.

A position of speech is an annotation with one more on each side. The table compares the position
with the largest weight with the mean of all others (what a random one costs), and counts how often
the largest weight marks the position that costs most.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.attention.contract import Memory
from asr.audio.read import SAMPLE_RATE, read
from asr.commands.options import count
from asr.corpora.manifest import read_manifest, select
from asr.corpora.pairs import read_pairs, tidy, tokenise
from asr.errors import UserError, exit_status
from asr.inference.loaded import LoadedModel
from asr.inference.translator import Translator
from asr.model_folder import find_folder, read_folder
from asr.models.decoder import Decoder
from asr.models.speech import Waveforms
from asr.models.state import DecoderState
from asr.render.tables import markdown_table
from asr.runtime.torch_engine import TorchEngine, TorchTextEngine
from asr.search.trees import take
from asr.text.vocabulary import EOS, UNK

REACH = 1  # annotations of speech on each side that are taken away with one


class Effects(NamedTuple):
    """The effects of T positions on U tokens of one output.

    falls: (U, T), by how many nats the log-probability of the correct token falls. changes:
    (U, T) bool, whether the most probable token changes. weights: (U, T), attention.
    divergences: (U, T), KL divergence of the changed distribution of the token from the first.
    """

    falls: NDArray[np.float64]
    changes: NDArray[np.bool_]
    weights: NDArray[np.float64]
    divergences: NDArray[np.float64]


class Example(Protocol):
    """One input and its reference, bound to a model."""

    decoder: Decoder
    tokens: Tensor  # (U,) the reference, which ends in <eos>
    reach: int  # positions on each side that are taken away with one

    def encode(self, removed: Sequence[Sequence[int]]) -> Memory:
        """Encode the input once for each list of positions that are removed from it."""


class Sentence:
    """A sentence and its translation."""

    reach = 0

    def __init__(self, translator: Translator, source: str, target: str) -> None:
        (engine,) = translator.engines
        assert isinstance(engine, TorchTextEngine)
        self.translator = translator
        self.model = engine.model
        self.decoder = engine.model.decoder
        prepare = tokenise if translator.source.kind == "words" else tidy
        self.source = [*translator.source.encode(prepare(source)), EOS]
        self.tokens = torch.tensor([*translator.target.encode(prepare(target)), EOS])

    def encode(self, removed: Sequence[Sequence[int]]) -> Memory:
        """See `Example.encode`."""
        tokens = torch.tensor(self.source).repeat(len(removed), 1)
        for row, positions in enumerate(removed):
            tokens[row, list(positions)] = UNK
        return self.model.encode(tokens, torch.full((len(tokens),), tokens.size(1))).memory


class Recording:
    """A recording and its transcript."""

    reach = REACH

    def __init__(self, loaded: LoadedModel, audio: Path, text: str) -> None:
        assert isinstance(loaded.engine, TorchEngine)
        self.model = loaded.engine.model
        self.decoder = self.model.decoder
        self.samples = torch.from_numpy(read(audio).samples)
        self.tokens = torch.tensor([*loaded.vocabulary.encode(text), EOS])

    def encode(self, removed: Sequence[Sequence[int]]) -> Memory:
        """See `Example.encode`."""
        samples = self.samples.repeat(len(removed), 1)
        size = round(self.model.seconds_per_annotation * SAMPLE_RATE)
        for row, positions in enumerate(removed):
            for position in positions:
                samples[row, position * size : (position + 1) * size] = 0.0
        lengths = torch.full((len(samples),), samples.size(1))
        return self.model.encode(Waveforms(samples, lengths)).memory


def hidden(example: Example) -> Effects:
    """Forbid the decoder to attend to each position, at one step at a time."""
    memory = example.encode([[]])
    length = memory.mask.size(1)
    blocked = torch.zeros(length, length, dtype=torch.bool)
    for position, row in enumerate(blocks(length, example.reach)):
        blocked[position, row] = True
    copies = take(memory, torch.zeros(length, dtype=torch.long))
    copies = copies._replace(mask=copies.mask & ~blocked)
    states, plain = forced(example, memory)
    falls, changes, divergences = [], [], []
    for token, correct, state, log_probs in zip(
        previous(example.tokens), example.tokens, states, plain, strict=False
    ):
        repeated = take(state, torch.zeros(length, dtype=torch.long))
        logits, _ = example.decoder.step(token.expand(length, 1), repeated, copies)
        found = torch.log_softmax(logits[:, 0], dim=-1)  # (T, V)
        falls.append(log_probs[correct] - found[:, correct])
        changes.append(found.argmax(-1) != log_probs.argmax(-1))
        divergences.append(divergence(log_probs, found))
    return Effects(
        torch.stack(falls).double().numpy(),
        torch.stack(changes).numpy(),
        attention(states),
        torch.stack(divergences).double().numpy(),
    )


def removed(example: Example) -> Effects:
    """Take each position out of the input, for all steps."""
    memory = example.encode([[]])
    states, plain = forced(example, memory)
    length = memory.mask.size(1)
    encoded = example.encode(blocks(length, example.reach))
    inputs = previous(example.tokens).expand(length, -1)
    found = torch.log_softmax(example.decoder(inputs, encoded).logits, dim=-1)  # (T, U, V)
    correct = example.tokens[:, None]
    before = plain.gather(1, correct)  # (U, 1)
    after = found.transpose(0, 1).gather(2, correct.expand(-1, length)[:, :, None])[:, :, 0]
    changes = plain.argmax(-1)[:, None] != found.argmax(-1).T
    return Effects(
        (before - after).double().numpy(),
        changes.numpy(),
        attention(states),
        divergence(plain, found).T.double().numpy(),
    )


def divergence(before: Tensor, after: Tensor) -> Tensor:
    """Return KL(before ‖ after) of log-probabilities (…, V)."""
    return (before.exp() * (before - after)).sum(-1)


def blocks(length: int, reach: int) -> list[list[int]]:
    """Return for each of T positions those that are taken away with it."""
    return [
        list(range(max(0, each - reach), min(length, each + reach + 1))) for each in range(length)
    ]


def previous(tokens: Tensor) -> Tensor:
    """Return the inputs (U,) of teacher forcing: <eos>, then all tokens but the last."""
    return torch.cat([tokens.new_tensor([EOS]), tokens[:-1]])


def forced(example: Example, memory: Memory) -> tuple[list[DecoderState], Tensor]:
    """Step along the reference: the states before each step and after the last (U + 1), and the
    log-probabilities (U, V)."""
    states, rows = [example.decoder.start(memory)], []
    for token in previous(example.tokens):
        logits, state = example.decoder.step(token.view(1, 1), states[-1], memory)
        states.append(state)
        rows.append(torch.log_softmax(logits[0, 0], dim=-1))
    return states, torch.stack(rows)


def attention(states: Sequence[DecoderState]) -> NDArray[np.float64]:
    """Return the attention weights (U, T) of U + 1 states."""
    rows = [state.alignment.weights[0, 0] for state in states[1:]]
    return torch.stack(rows).double().numpy()


def summarise(effects: Sequence[Effects], reach: int) -> tuple[float, ...]:
    """Return six figures, means over the tokens of all outputs.

    The fall for the position with the largest weight and for the others; the share (%) of changed
    tokens for both; the share (%) in which the largest weight marks the position that costs most
    (or one of its neighbours in `reach`), and how often a position drawn at random would.
    """
    rows = [row for each in effects for row in _rows(each, reach)]
    falls, others, changed, others_changed, hits, chance = np.mean(rows, axis=0)
    return falls, others, 100 * changed, 100 * others_changed, 100 * hits, 100 * chance


def won(effects: Sequence[Effects]) -> float:
    """Return how often (%) the position with the largest weight changes the output most of two.

    The other is drawn at random; the change is the KL divergence, and a tie counts half.
    """
    shares = []
    for each in effects:
        for weights, divergences in zip(each.weights, each.divergences, strict=True):
            top = int(weights.argmax())
            others = np.delete(divergences, top)
            if len(others):
                beaten = (others < divergences[top]) + 0.5 * (others == divergences[top])
                shares.append(beaten.mean())
    return 100 * float(np.mean(shares))


def _rows(effects: Effects, reach: int) -> Iterator[tuple[float, ...]]:
    """Yield the figures of each token."""
    for falls, changes, weights, _ in zip(*effects, strict=True):
        top, most = int(weights.argmax()), int(falls.argmax())
        near = np.abs(np.arange(len(falls)) - top) <= reach
        if near.all():
            continue  # there is no other position
        others = falls[~near].mean(), changes[~near].mean()
        yield (
            falls[top],
            others[0],
            float(changes[top]),
            others[1],
            float(near[most]),
            near.mean(),
        )


def examples(model: str, data: Path, ids: Path | None, most: int) -> Iterator[Example]:
    """Read pairs or a manifest, about `most` of its entries, evenly spaced, and load the model.

    Raises:
        UserError: the model or the data cannot be read.
    """
    folder = find_folder(Path(model))
    if read_folder(folder).task == "translation":
        if ids is not None:
            raise UserError("--ids is for recordings; the model is a translator")
        translator = Translator.load(folder, runtime="torch")
        pairs = read_pairs(data)
        for pair in pairs[:: _stride(len(pairs), most)]:
            yield Sentence(translator, pair.source, pair.target)
    else:
        loaded = LoadedModel.load(folder, runtime="torch")
        utterances = read_manifest(data)
        if ids is not None:
            utterances = select(utterances, ids)
        for each in utterances[:: _stride(len(utterances), most)]:
            yield Recording(loaded, each.audio, each.text)


def _stride(entries: int, most: int) -> int:
    return max(1, ceil(entries / most))


def main() -> None:
    """Read the arguments, measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure how faithful attention weights are.")
    parser.add_argument("model", help="model folder, or the name of a model of the package")
    parser.add_argument("data", type=Path, help="source<TAB>target lines, or a manifest")
    parser.add_argument("--ids", type=Path, help="list of the utterances of the manifest")
    parser.add_argument("--most", type=count, default=100, help="about so many of them")
    given = parser.parse_args()
    ways: dict[str, list[Effects]] = {"hidden": [], "removed": []}
    reach = tokens = 0
    with torch.inference_mode():
        for example in examples(given.model, given.data, given.ids, given.most):
            ways["hidden"].append(hidden(example))
            ways["removed"].append(removed(example))
            reach, tokens = example.reach, tokens + len(example.tokens)
    header = ("taken away", "fall, nats", "others", "changed, %", "others", "hit, %", "chance, %")
    print(f"{len(ways['hidden'])} outputs, {tokens} tokens\n")
    print(markdown_table(header, [(way, *summarise(each, reach)) for way, each in ways.items()]))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
