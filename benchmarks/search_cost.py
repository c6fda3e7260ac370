"""Compare the cost of a search with SpeechBrain's searchers, on decoders of the same sizes.

    python benchmarks/search_cost.py [--repeats N] [--json FILE]

Each utterance has 100 annotations (8 s) and a text of 120 characters: both decoders are kept from
ending earlier. Sizes are the small ones of `training_step.py`, weights random, without CTC,
language models and pruning, in fp32 on one thread; ours is the NumPy engine. Greedy search and a
beam of 10, each utterance alone and in batches of 16 and 8. The rows are measured in turn.

SpeechBrain is installed as `training_step.py` says; without it only our figures are printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from training_step import (
    CHANNELS,
    EMBEDDING,
    SIZES,
    VOCABULARY,
    WIDTH,
    Peer,
    find_peer,
)

from asr.errors import exit_status
from asr.models.settings import SpeechSettings
from asr.models.speech import build_speech_model
from asr.render.tables import text_table
from asr.runtime.numpy_runtime.decoder import DecoderLayers, NumpyDecoder
from asr.search.beam import beam_search
from asr.search.options import BeamSettings
from asr.tables import from_table
from asr.text.vocabulary import EOS
from asr.weights import StoredWeights

LENGTH, STEPS = 100, 120
BEAM = 10
SIZE = SIZES["small"]
NEVER = -1e4  # logit of end-of-sentence


class Case(NamedTuple):
    """A search to measure. beam: hypotheses. together: utterances in a batch."""

    location: bool
    beam: int
    together: int

    @property
    def attention(self) -> str:
        """Name of the attention."""
        return "location" if self.location else "content"


CASES = [
    Case(location, beam, together)
    for beam, batch in ((1, 16), (BEAM, 8))
    for location in (False, True)
    for together in (1, batch)
]


class Figures(NamedTuple):
    """CPU milliseconds of an utterance; the peer's are None without it.

    ratio: the median of the peer's time over ours in the same round.
    """

    attention: str
    beam: int
    together: int
    ours: float
    peer: float | None
    ratio: float | None


def annotations(together: int) -> np.ndarray:
    """Return random annotations (together, T, E)."""
    shape = (together, LENGTH, SIZE.annotation)
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def ours(case: Case) -> Callable[[], None]:
    """Return our search of a case."""
    table = {
        "encoder": {"layers": 1, "state_size": SIZE.annotation // 2},
        "attention": {
            "size": SIZE.attention,
            "location_features": CHANNELS if case.location else 0,
            "location_width": WIDTH,
        },
        "decoder": {
            "embedding_size": EMBEDDING,
            "state_size": SIZE.state,
            "readout_size": SIZE.state,
        },
    }
    settings = from_table(SpeechSettings, table)
    torch.manual_seed(1)
    state = build_speech_model(settings, VOCABULARY).state_dict()
    state["decoder.output.bias"][EOS] = NEVER
    weights = StoredWeights({name: value.numpy() for name, value in state.items()})
    layers = DecoderLayers(weights, settings.attention, settings.decoder)
    plain = BeamSettings(case.beam, end_threshold=None, width=1e9, guard=None)
    values, mask = annotations(case.together), np.ones((case.together, LENGTH), bool)
    limits = np.full(case.together, STEPS)

    def search() -> None:
        decoder = NumpyDecoder(layers, layers.attention.prepare(values, mask))
        for (best,) in beam_search(decoder, limits, plain):
            assert len(best.tokens) == STEPS, f"{len(best.tokens)} steps"

    return search


def peer(case: Case) -> Callable[[], None]:
    """Return SpeechBrain's search of a case."""
    from speechbrain.decoders import S2SRNNBeamSearcher, S2SRNNGreedySearcher
    from speechbrain.nnet.linear import Linear

    torch.manual_seed(1)
    model = Peer(SIZE, case.attention).eval()
    output = Linear(VOCABULARY, input_size=SIZE.state)  # the searchers know only this class
    nn.init.constant_(output.w.bias[EOS], NEVER)
    ratio = STEPS / LENGTH
    shared = dict(
        embedding=model.embedding, decoder=model.decoder, linear=output, bos_index=EOS,
        eos_index=EOS, min_decode_ratio=0.0, max_decode_ratio=ratio,
    )  # fmt: skip
    if case.beam == 1:
        searcher = S2SRNNGreedySearcher(**shared)
    else:
        searcher = S2SRNNBeamSearcher(**shared, beam_size=case.beam, using_eos_threshold=False)
    values, lengths = torch.from_numpy(annotations(case.together)), torch.ones(case.together)

    def search() -> None:
        with torch.no_grad():
            found, *_ = searcher(values, lengths)
        # Its beam search takes the last token for an end.
        assert {len(each) for each in found} <= {STEPS, STEPS - 1}, [len(each) for each in found]

    return search


def measure(repeats: int, has_peer: bool) -> list[Figures]:
    """Measure all cases in turn, `repeats` times, after once unmeasured."""
    runs = [(ours(case), peer(case) if has_peer else None) for case in CASES]
    rounds = [
        [tuple(run and _milliseconds(run) / case.together for run in pair)
         for case, pair in zip(CASES, runs, strict=True)]
        for _ in range(repeats + 1)
    ][1:]  # fmt: skip
    rows = []
    for case, pairs in zip(CASES, zip(*rounds, strict=True), strict=True):
        own, theirs = zip(*pairs, strict=True)
        medians = (None, None)
        if has_peer:
            ratios = [right / left for left, right in pairs]
            medians = (statistics.median(theirs), statistics.median(ratios))
        rows.append(
            Figures(case.attention, case.beam, case.together, statistics.median(own), *medians)
        )
    return rows


def _milliseconds(run: Callable[[], None]) -> float:
    before = time.process_time()
    run()
    return 1000 * (time.process_time() - before)


def table(rows: list[Figures]) -> str:
    """Return the table that is printed."""
    header = ("attention", "beam", "together", "asr, ms", "SpeechBrain, ms", "ratio")
    return text_table(
        header,
        [
            (
                row.attention,
                str(row.beam),
                str(row.together),
                f"{row.ours:.0f}",
                "–" if row.peer is None else f"{row.peer:.0f}",
                "–" if row.ratio is None else f"{row.ratio:.2f}×",
            )
            for row in rows
        ],
    )


def main() -> None:
    """Read the arguments, measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    has_peer = find_peer()
    rows = measure(given.repeats, has_peer)
    print(table(rows))
    if given.json is not None:
        given.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
