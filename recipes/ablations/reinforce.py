"""Hard attention on toy tasks: straight-through gradients and REINFORCE beside soft attention.

    python recipes/ablations/reinforce.py RUNS [--toys copy reverse] [--ways …] [--seeds 1 2 3]

trains each on every toy task with every seed, in RUNS, and writes RUNS/reinforce.md and
RUNS/reinforce.png. Tests take the annotation with the highest energy, except for soft attention.
Finished runs are not trained again.

Source: hard attention with REINFORCE, Xu et al. 2015, "Show, Attend and Tell", section 4.1; the
baseline from a second sample, Kool et al. 2019, "Buy 4 REINFORCE Samples, Get a Baseline for Free".
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from paths import LOSS, MODEL, TRAINING, Results, ToyTask, run
from runs import publish
from summary import cell, draw
from torch import Tensor
from toys import TOYS, Sizes

from asr.attention.additive import AdditiveAttention
from asr.attention.contract import Alignment, Memory
from asr.attention.normalizers import Hard, masked_softmax
from asr.commands.options import count
from asr.errors import exit_status
from asr.render.tables import markdown_table
from asr.training.contract import Losses, Term
from asr.training.losses.sequences import PADDING, sequence_loss, shift
from asr.training.tasks.translation_data import TextBatch

HARD = replace(MODEL, attention=replace(MODEL.attention, normalizer="hard"))
SAMPLES = 2  # of the annotations, for each list


class SampledAttention(AdditiveAttention):
    """Additive attention to one annotation that training samples, without a gradient of its choice.

    In training the weights are one-hot in value, and the gradient of the logarithm of their sum is
    that of the log-probability of the sample. Contexts are computed without that gradient.
    """

    def forward(
        self, query: Tensor, memory: Memory, previous: Alignment
    ) -> tuple[Tensor, Alignment]:
        """See `EnergyAttention.forward`."""
        if not self.training:
            return super().forward(query, memory, previous)
        probabilities = masked_softmax(
            self.energies(query, memory, previous), memory.mask[:, None, :]
        )
        sampled = torch.multinomial(probabilities.detach().flatten(0, 1), 1)
        chosen = sampled.view(*probabilities.shape[:2], 1)
        one = torch.zeros_like(probabilities).scatter(-1, chosen, 1.0)
        log_probability = probabilities.gather(-1, chosen).log()
        weights = one * (log_probability - log_probability.detach()).exp()
        return torch.bmm(one, memory.values), previous.advance(weights)


def surrogate(weights: Tensor, log_probs: Tensor, steps: Tensor) -> Tensor:
    """Return a value whose gradient is that of REINFORCE, per token; its own value is 0.

    weights: (S·B, U, T) of `SampledAttention`, for S samples of each of B lists. log_probs:
    (S·B, U) of the correct tokens. steps: (S·B, U) bool, False at padding.
    The reward of a choice is the log-probability of its token and all later ones. Its baseline is
    the mean reward of the other samples at the same step.
    """
    log_choice = weights.sum(-1).log()
    gains = (log_probs.detach() * steps).flip(1).cumsum(1).flip(1).unflatten(0, (SAMPLES, -1))
    others = (gains.sum(0) - gains) / (SAMPLES - 1)
    advantages = (gains - others).flatten(0, 1)
    return -(advantages * log_choice * steps).sum() / steps.sum()


class ReinforceTask(ToyTask):
    """A toy task with sampled attention and the loss of REINFORCE."""

    def __init__(self, toy: str, seed: int, sizes: Sizes) -> None:
        """Make the data, and the model with the weights that soft attention begins with."""
        super().__init__(toy, seed, sizes, HARD)
        attention, size = self.model.decoder.attention, self.settings.attention.size
        query_size = self.settings.decoder.state_size
        sampled = SampledAttention(query_size, self.model.encoder.size, size, normalizer=Hard())
        sampled.load_state_dict(attention.state_dict())
        self.model.decoder.attention = sampled

    def loss(self, batch: TextBatch, step: int) -> Losses:
        """Return the cross-entropy of a batch with sampled annotations, and the surrogate."""
        amount = float(batch.token_lengths.sum() + len(batch.tokens))
        source, lengths, tokens, token_lengths = (torch.cat([each] * SAMPLES) for each in batch)
        memory = self.model.encode(source, lengths).memory
        previous, expected = shift(tokens, token_lengths)
        output = self.model.decoder(previous, memory)
        total, parts = sequence_loss(output, expected, lengths, LOSS, step)
        steps = expected != PADDING
        wanted = expected.masked_fill(~steps, 0)[:, :, None]
        log_probs = output.logits.log_softmax(-1).gather(-1, wanted)[:, :, 0]
        total = total + surrogate(output.weights, log_probs, steps)
        return Losses([Term(total, parts, amount)], amount)


WAYS = {
    "soft": partial(ToyTask, settings=MODEL),
    "straight-through": partial(ToyTask, settings=HARD),
    "REINFORCE": ReinforceTask,
}


def tables(results: Results) -> str:
    """Return the table in Markdown."""
    names = ("geometric_mean", "exact", "beyond_geometric_mean")
    rows = []
    for key, seeds in results.items():
        figures = [cell([each[-1][name] for each in seeds]) for name in names]
        half_way = cell([each[0]["geometric_mean"] for each in seeds])
        seconds = cell([each[-1]["cpu_seconds"] for each in seeds], 1)
        rows.append((*key, *figures, half_way, seconds))
    last = ("GeoMean, 11 to 20", "GeoMean half-way", "training, CPU-s")
    return markdown_table(("toy", "gradient", "GeoMean", "exact", *last), rows)


def picture(path: Path, results: Results) -> None:
    """Draw the geometric mean of every seed, at the end and half-way."""
    panels: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (toy, way), seeds in results.items():
        panels.setdefault(toy, {})[way] = {
            name: [each[at]["geometric_mean"] for each in seeds]
            for name, at in (("at the end", -1), ("half-way", 0))
        }
    draw(path, panels, "√(PSA · LCSR)", end=1.0)


def main() -> None:
    """Read the arguments, train missing models, and write the table and the picture."""
    parser = argparse.ArgumentParser(description="Compare gradients of hard attention.")
    parser.add_argument("runs", type=Path, help="folder for the runs, the table and the picture")
    parser.add_argument("--toys", nargs="+", choices=TOYS, default=["copy", "reverse"])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--steps", type=count, default=TRAINING.steps)
    parser.add_argument("--lists", type=count, default=Sizes().train)
    given = parser.parse_args()
    results: Results = {}
    for toy, way, seed in product(given.toys, given.ways, given.seeds):
        make = partial(WAYS[way], toy, seed, Sizes(train=given.lists))
        found = run(given.runs / f"{toy}-{way}-{seed}", make, seed, given.steps)
        results.setdefault((toy, way), []).append(found)
    publish(given.runs, "reinforce", tables(results), lambda path: picture(path, results))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
