"""Compare a recurrent translator with a small Transformer trained on the same batches.

    python recipes/ablations/transformer.py CONFIG RUNS --data FOLDER --source … --reference …

trains the config, and a Transformer on the same pairs, vocabulary, batches, loss and number of
steps; with --longer N also one of N steps, for an equal training time. Writes
RUNS/transformer.md: BLEU by source length, time, agreement of the links between words, and
faithfulness (see faithfulness.py) for each. Finished runs are not trained or measured again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
import torch
from faithfulness import Sentence, attention, forced, hidden, removed, summarise, won
from numpy.typing import NDArray
from runs import cpu_seconds, once
from summary import cell
from transformer_model import Sizes, TransformerTask, load

from asr.alignment.links import merge_words
from asr.commands.options import count
from asr.corpora.pairs import Pair, read_parallel
from asr.errors import exit_status
from asr.inference.translator import Translator
from asr.render.tables import markdown_table
from asr.scoring.bleu import LENGTHS, score
from asr.training.config import load_config
from asr.training.loop import model_folder, train
from asr.training.run import run_to_end

RESAMPLES = 1000  # of the bootstrap over sentences
FEWEST = 10  # sentences of a length that is shown
ROUNDS = 5  # in which the models take turns to be timed
DIGITS = (2, 2, 1, 1, 0, 0, 0)  # of the figures of faithfulness
Results = Mapping[str, Sequence[Mapping[str, Any]]]  # model → figures of each seed


def recurrent(config: Path, folder: Path, data: Path, overrides: list[str]) -> Path:
    """Train the config's own model; return its folder."""
    return run_to_end(config, folder, data, overrides)


def transformer(config: Path, folder: Path, data: Path, overrides: list[str]) -> Path:
    """Train a Transformer with the data and settings of the config; return its folder."""
    settings = load_config(config, overrides)
    task = TransformerTask(settings, data, config.parent, Sizes())
    progress = train(task, settings.training, folder, settings.seed)
    if progress is None:
        raise KeyboardInterrupt
    return model_folder(folder, progress.best[0][1])


def shows(layers: Sequence[int]) -> Callable[[Path], Translator]:
    """Return a function that loads a Transformer with the weights of some of its layers."""

    def opened(path: Path) -> Translator:
        translator = load(path)
        (engine,) = translator.engines
        engine.model.decoder.shown = layers
        return translator

    return opened


# name of the weights → function that loads a model which reports them
RECURRENT = {"": partial(Translator.load, runtime="torch")}
LAYERS = range(Sizes().layers)
TRANSFORMER = {f"layer {layer + 1}": shows([layer]) for layer in reversed(LAYERS)}
TRANSFORMER["mean of the layers"] = shows(LAYERS)


class Model(NamedTuple):
    """How a model is trained and loaded: its own overrides, and the weights that it reports."""

    train: Callable[[Path, Path, Path, list[str]], Path]
    weights: Mapping[str, Callable[[Path], Translator]]
    overrides: list[str]


def some(pairs: Sequence[Pair], most: int) -> Sequence[Pair]:
    """Return at most `most` pairs, evenly spaced."""
    return pairs[:: max(1, len(pairs) // most)][:most]


@torch.inference_mode()
def measure(
    model: Model, path: Path, pairs: Sequence[Pair], given: argparse.Namespace
) -> dict[str, Any]:
    """Return the scores of a trained model, and the links and faithfulness of its weights."""
    first = next(iter(model.weights.values()))(path)
    found = bleu(first, pairs, given.beam) | {"greedy": bleu(first, pairs, 1)["bleu"]}
    few = some(pairs, given.most)
    effects = {way.__name__: [way(Sentence(first, *each)) for each in few]
               for way in (hidden, removed)}  # fmt: skip
    for name, opened in model.weights.items():
        translator = opened(path)
        sentences = [Sentence(translator, *each) for each in few]
        weights = [attention(forced(each, each.encode([[]]))[0]) for each in sentences]
        found[f"links {name}"] = [links(*each) for each in zip(sentences, weights, strict=True)]
        for way, its_effects in effects.items():  # these do not depend on the weights
            judged = [each._replace(weights=its_weights)
                      for each, its_weights in zip(its_effects, weights, strict=True)]  # fmt: skip
            found[f"{way} {name}"] = [*summarise(judged, 0), won(judged)]
    (engine,) = first.engines
    return found | {"parameters": sum(each.numel() for each in engine.model.parameters())}


def bleu(translator: Translator, pairs: Sequence[Pair], beam: int) -> dict[str, Any]:
    """Return BLEU, its bootstrap interval (95 %), and BLEU by source length."""
    from sacrebleu.metrics.bleu import BLEU

    sources, references = (list(side) for side in zip(*pairs, strict=True))
    texts = [each.text for each in translator.translate(sources, beam=beam, whole=True)]
    found = score(references, texts, sources, LENGTHS)
    resampled = BLEU(force=True).corpus_score(texts, [references], n_bootstrap=RESAMPLES)
    return {
        "bleu": found.bleu,
        "interval": resampled._ci,  # half its width; sacrebleu has no public name for it
        "signature": found.signature,
        "by_length": [(each.name, each.sentences, each.bleu) for each in found.by_length],
    }


def links(sentence: Sentence, weights: NDArray[np.float64]) -> list[int]:
    """Return for each word of the reference the source word with the largest weight."""
    symbols = sentence.translator.source.symbols
    source, target = symbols(sentence.source), symbols(sentence.tokens.tolist())
    words = merge_words(weights, source, target, subwords=True)
    return words.weights[:-1].argmax(1).tolist()


def agreement(one: Sequence[Sequence[int]], two: Sequence[Sequence[int]]) -> float:
    """Return the share (%) of words with the same link."""
    same = [a == b for first, second in zip(one, two, strict=True)
            for a, b in zip(first, second, strict=True)]  # fmt: skip
    return 100 * mean(same)


def diagonal(pair: Pair) -> list[int]:
    """Return for each word of the target the source word at the same share of the sentence."""
    source, target = (len(side.split()) for side in pair)
    return [min(source - 1, (2 * place + 1) * source // (2 * target)) for place in range(target)]


def timed(models: Mapping[str, Translator], texts: Sequence[str]) -> dict[str, list[float]]:
    """Return CPU-milliseconds per sentence of each round, greedily and one by one, in turns."""
    found: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(ROUNDS + 1):
        for name, translator in models.items():
            before = time.process_time()
            for text in texts:
                translator.translate(text, beam=1, whole=True)
            if turn:  # the first warms up
                found[name].append(1000 * (time.process_time() - before) / len(texts))
    return found


def tables(results: Results, times: Mapping[str, Sequence[float]], pairs: Sequence[Pair]) -> str:
    """Return all tables in Markdown; pairs: those whose links were compared."""
    speeds = [(name, f"{median(each):.1f}", f"{min(each):.1f} to {max(each):.1f}")
              for name, each in times.items()]  # fmt: skip
    return "\n\n".join(
        (
            next(iter(results.values()))[0]["signature"],
            _scores(results),
            "BLEU by source length in words (number of sentences):",
            _lengths(results),
            "CPU-milliseconds per sentence, greedy, one by one:",
            markdown_table(("model", "median", "rounds"), speeds),
            "The same link, % of the words of the references:",
            markdown_table(("links of", "and of", "same, %"), list(_agreements(results, pairs))),
            "Faithfulness:",
            _faithfulness(results),
        )
    )


def _scores(results: Results) -> str:
    rows = []
    for name, seeds in results.items():
        figures = (cell([each[key] for each in seeds], 1) for key in ("bleu", "greedy", "training"))
        beam, greedy, training = figures
        interval = f"± {mean(each['interval'] for each in seeds):.1f}"
        first = seeds[0]
        rows.append((name, first["parameters"], first["steps"], beam, interval, greedy, training))
    header = ("model", "parameters", "steps", "BLEU", "95 %", "BLEU, greedy", "training, CPU-s")
    return markdown_table(header, rows)


def _lengths(results: Results) -> str:
    rows, names = [], []
    for model, seeds in results.items():
        buckets = [bucket for bucket in zip(*(each["by_length"] for each in seeds), strict=True)
                   if bucket[0][1] >= FEWEST]  # fmt: skip
        names = [f"{name} ({lines})" for (name, lines, _), *_ in buckets]
        rows.append((model, *(cell([bleu for *_, bleu in bucket], 1) for bucket in buckets)))
    return markdown_table(("model", *names), rows)


def _faithfulness(results: Results) -> str:
    rows = []
    for name, seeds in results.items():
        for way in ("hidden", "removed"):
            for key in _keys(seeds[0], way):
                columns = zip(*(each[key] for each in seeds), strict=True)
                figures = (cell(*each) for each in zip(columns, DIGITS, strict=True))
                rows.append((_weights_of(name, key), way, *figures))
    header = ("fall, nats", "others", "changed, %", "others", "hit, %", "chance, %", "won, %")
    return markdown_table(("weights of", "taken away", *header), rows)


def _keys(figures: Mapping[str, Any], kind: str) -> list[str]:
    """Return the keys of the results of a kind, one for each choice of weights."""
    return [key for key in figures if key.startswith(f"{kind} ")]


def _weights_of(model: str, key: str) -> str:
    """Return the name of weights: the model, and what follows its first word in a key."""
    return ", ".join(filter(None, (model, key.partition(" ")[2])))


def _agreements(results: Results, pairs: Sequence[Pair]) -> Iterator[tuple[str, str, str]]:
    """Compare links with those of the recurrent model, of another seed, and the diagonal."""
    base = [each["links "] for each in results["recurrent"]]
    straight = [diagonal(pair) for pair in pairs]
    for name, seeds in results.items():
        for key in _keys(seeds[0], "links"):
            mine = [each[key] for each in seeds]
            shown = _weights_of(name, key)
            if name != "recurrent":
                same = [agreement(a, b) for a, b in zip(mine, base, strict=True)]
                yield shown, "recurrent, same seed", cell(same, 1)
            if len(mine) > 1:
                between = [agreement(a, b) for a, b in combinations(mine, 2)]
                yield shown, "itself, another seed", cell(between, 1)
            yield shown, "the diagonal", cell([agreement(each, straight) for each in mine], 1)


def run(trained: Model, folder: Path, given: argparse.Namespace, seed: int) -> Mapping[str, Any]:
    """Train a model with a seed, unless it is there; return its CPU-seconds, steps and folder."""
    overrides = [*trained.overrides, f"seed={seed}"]

    def make() -> dict[str, Any]:
        before = cpu_seconds()
        path = trained.train(given.config, folder, given.data, overrides)
        steps = load_config(given.config, overrides).training.steps
        return {"training": cpu_seconds() - before, "path": str(path), "steps": steps}

    return once(folder.with_suffix(".trained.json"), [given.config.name, *overrides], make)


def main() -> None:
    """Read the arguments, train and measure what is missing, and write the tables."""
    parser = argparse.ArgumentParser(description="Compare a recurrent model and a Transformer.")
    parser.add_argument("config", type=Path, help="config of a translation with subwords")
    parser.add_argument("runs", type=Path, help="folder for the runs and the tables")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--source", nargs="+", required=True, help="test sets, a sentence a line")
    parser.add_argument("--reference", nargs="+", required=True, help="their translations")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--longer", type=count, help="steps of a second Transformer")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--set-transformer", action="append", default=[], metavar="KEY=VALUE",
                        help="settings of the Transformers alone")  # fmt: skip
    parser.add_argument("--beam", type=count, default=4)
    parser.add_argument("--most", type=count, default=100, help="sentences for faithfulness")
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    sets = [read_parallel(*each) for each in zip(given.source, given.reference, strict=True)]
    pairs = [pair for each in sets for pair in each]
    own = [*given.overrides, *given.set_transformer]
    models = {
        "recurrent": Model(recurrent, RECURRENT, given.overrides),
        "Transformer": Model(transformer, TRANSFORMER, own),
    }
    if given.longer:
        longer = [f"training.{key}={given.longer}" for key in ("steps", "validate_every")]
        models["Transformer, longer"] = Model(transformer, TRANSFORMER, [*own, *longer])
    results: dict[str, list[Mapping[str, Any]]] = {}
    for seed, (name, model) in product(given.seeds, models.items()):
        folder = given.runs / f"{name.lower().replace(', ', '-')}-{seed}"
        trained = run(model, folder, given, seed)
        asked = [*given.source, f"beam={given.beam}", f"most={given.most}"]
        measured = once(
            folder.with_suffix(".measured.json"),
            asked,
            partial(measure, model, Path(trained["path"]), pairs, given),
        )
        results.setdefault(name, []).append({**trained, **measured})
    paths = {name: Path(seeds[0]["path"]) for name, seeds in results.items()}
    timing = {
        "recurrent, torch": Translator.load(paths["recurrent"], runtime="torch"),
        "recurrent, default runtime": Translator.load(paths["recurrent"]),
        "Transformer, torch": load(paths["Transformer"]),
    }
    few = some(pairs, given.most)
    text = tables(results, timed(timing, [pair.source for pair in few]), few)
    (given.runs / "transformer.md").write_text(f"{text}\n", "utf-8")
    print(text)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
