"""Choose decoding defaults of a speech model on lists of utterances, one option after the other.

    python recipes/ablations/decoding.py MODEL --list MANIFEST IDS EVERY [--list …] \\
        --try lm_weight 0.5 0.75 1.0 --try ctc_weight 0.2 0.4

EVERY takes every n-th utterance of a list. Each option in turn takes the value with the lowest WER,
averaged over the lists; the values before it are kept. With --frame-cache a frozen encoder runs
once for each utterance. The chosen options are for `recipes/ship.py --set`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from spoken import Spoken, decode_all, error_rates, read_spoken

from asr.corpora.manifest import read_manifest, select
from asr.errors import exit_status
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.model_folder import LANGUAGE_MODEL, find_folder
from asr.models.encoders.frozen import FrozenFeatures
from asr.runtime.torch_engine import TorchEngine
from asr.tables import from_table


def read_list(manifest: Path, ids: Path, every: int) -> Spoken:
    """Read every `every`-th utterance of a list; raises UserError if that is not possible."""
    return read_spoken(select(read_manifest(manifest), ids)[::every])


def choose(
    loaded: LoadedModel,
    lists: Sequence[Spoken],
    options: DecodingOptions,
    trials: Sequence[tuple[str, Sequence[float]]],
) -> DecodingOptions:
    """Return the options with the lowest mean WER, found one option after the other."""
    known: dict[DecodingOptions, float] = {}

    def mean_wer(tried: DecodingOptions) -> float:
        if tried not in known:
            rates = [
                error_rates(each.texts, decode_all(loaded, each.pieces, tried)) for each in lists
            ]
            known[tried] = sum(wer for _, wer in rates) / len(rates)
            figures = "  ".join(f"{wer:.2f}/{cer:.2f}" for cer, wer in rates)
            changed = {name: getattr(tried, name) for name, _ in trials}
            print(f"{known[tried]:.2f}  {figures}  {changed}", flush=True)
        return known[tried]

    for name, values in trials:
        tried = [options, *(replace(options, **{name: value}) for value in values)]
        options = min(tried, key=mean_wer)
    return options


def main() -> None:
    """Read the arguments, choose, and print the options."""
    parser = argparse.ArgumentParser(description="Choose decoding defaults.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--language-model", metavar="NAME", help="that of a packaged model")
    parser.add_argument(
        "--list",
        nargs=3,
        action="append",
        required=True,
        metavar=("MANIFEST", "IDS", "EVERY"),
        dest="lists",
    )
    parser.add_argument(
        "--try", nargs="+", action="append", required=True, metavar="VALUE", dest="trials"
    )
    parser.add_argument("--set", nargs=2, action="append", default=[], metavar=("KEY", "VALUE"))
    parser.add_argument("--frame-cache", type=Path, help="of a frozen encoder's frames")
    given = parser.parse_args()
    torch.set_num_threads(1)
    loaded = LoadedModel.load(given.model, runtime="torch" if given.frame_cache else "auto")
    if given.language_model:
        file = find_folder(Path(given.language_model)) / LANGUAGE_MODEL
        loaded = loaded.with_language_model(file)
    if isinstance(loaded.engine, TorchEngine):
        features = loaded.engine.model.features
        if isinstance(features, FrozenFeatures):
            features.load(given.frame_cache)
    lists = [read_list(Path(file), Path(ids), int(every)) for file, ids, every in given.lists]
    start = {name: float(value) for name, value in given.set}
    trials = [(name, [float(each) for each in values]) for name, *values in given.trials]
    chosen = choose(loaded, lists, from_table(DecodingOptions, start), trials)
    differing = {
        name: getattr(chosen, name)
        for name in {**start, **dict(trials)}
        if getattr(chosen, name) != getattr(DecodingOptions(), name)
    }
    print("chosen:", differing)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
