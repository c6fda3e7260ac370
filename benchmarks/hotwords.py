"""Measure what favouring rare words (hot words) gains, and what it costs elsewhere.

    python benchmarks/hotwords.py MANIFEST --ids FILE [--weights W,W,…] [--most N] [--length S]

Of the listed utterances of at most --length seconds, --most with rare words are drawn with a seed:
words that are not among the `FREQUENT` most frequent of the language model. The hot words are these
and `DISTRACTORS` other rare words of the language model that no drawn utterance holds. As many
utterances without rare words are decoded with the same list. Weight 0 is the search without hot
words. Recall: the share of occurrences of rare words that stand in the transcript of their
utterance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from asr.audio.read import read
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import exit_status
from asr.inference.decoding import search_encoded
from asr.inference.encoding import encode
from asr.inference.pieces import whole
from asr.inference.recognizer import Recognizer
from asr.lm.word_ngrams import WordNgrams
from asr.render.tables import text_table
from asr.scoring.words import ErrorCounts, count_words

FREQUENT: Final = 20_000  # words of the language model that are not rare
DISTRACTORS: Final = 100
SEED: Final = 7


class Material(NamedTuple):
    """Utterances with rare words and without, the rare words, and the words to favour."""

    rare: Sequence[Utterance]
    others: Sequence[Utterance]
    words: frozenset[str]
    favoured: Sequence[str]
    known: frozenset[str]  # to the language model


class Figures(NamedTuple):
    """A row of the table. found, spoken: occurrences of rare words; unknown: to the model."""

    weight: float
    errors: ErrorCounts
    found: int
    spoken: int
    unknown_found: int
    unknown_spoken: int
    seconds: float  # of CPU


def material(utterances: Sequence[Utterance], ngrams: WordNgrams, most: int) -> Material:
    """Draw the utterances and the words to favour."""
    count = len(ngrams.words)
    order = np.argsort(-np.asarray(ngrams.unigrams[:count]), kind="stable")
    frequent = {ngrams.words[index] for index in order[:FREQUENT]}
    random = np.random.default_rng(SEED)
    mixed = [utterances[index] for index in random.permutation(len(utterances))]
    rare = [each for each in mixed if set(each.text.split()) - frequent][:most]
    others = [each for each in mixed if not set(each.text.split()) - frequent][:most]
    words = frozenset(word for each in rare for word in each.text.split()) - frequent
    unseen = [ngrams.words[index] for index in order[FREQUENT:]]
    unseen = [word for word in unseen if len(word) > 3 and word not in words]
    chosen = random.choice(len(unseen), DISTRACTORS, replace=False)
    favoured = sorted(words | {unseen[index] for index in chosen})
    return Material(rare, others, words, favoured, frozenset(ngrams.words))


def measured(
    recognizer: Recognizer,
    utterances: Sequence[Utterance],
    drawn: Material,
    weights: Sequence[float],
) -> list[Figures]:
    """Decode utterances with each weight; each is encoded once."""
    plain = recognizer.loaded
    favouring = recognizer.configured(hotwords=drawn.favoured).loaded
    figures = [Figures(weight, ErrorCounts(), 0, 0, 0, 0, 0.0) for weight in weights]
    for number, utterance in enumerate(utterances, 1):
        pieces = [whole(read(utterance.audio))]
        encoded = encode(plain, pieces, recognizer.decoding.fastest)
        for place, weight in enumerate(weights):
            options = recognizer.configured(hotword_weight=weight).decoding
            start = time.process_time()
            loaded = favouring if weight else plain
            (segment,) = search_encoded(loaded, pieces, encoded, options)
            seconds = time.process_time() - start
            figures[place] = _added(figures[place], utterance, segment.text, drawn, seconds)
        print(f"{number} of {len(utterances)}", end="\r", file=sys.stderr)
    return figures


def _added(
    figures: Figures, utterance: Utterance, text: str, drawn: Material, seconds: float
) -> Figures:
    """Count the errors and the rare words of one transcript."""
    spoken = Counter(word for word in utterance.text.split() if word in drawn.words)
    found = spoken & Counter(text.split())
    unknown = Counter({word: n for word, n in spoken.items() if word not in drawn.known})
    return figures._replace(
        errors=figures.errors + count_words(utterance.text, text),
        found=figures.found + found.total(),
        spoken=figures.spoken + spoken.total(),
        unknown_found=figures.unknown_found + (found & unknown).total(),
        unknown_spoken=figures.unknown_spoken + unknown.total(),
        seconds=figures.seconds + seconds,
    )


def table(title: str, figures: Sequence[Figures]) -> str:
    """Return the figures of one kind of utterances as a table."""
    rows = [
        (
            f"{each.weight:g}",
            f"{100 * each.errors.rate:.2f} ({each.errors.errors} of {each.errors.reference})",
            f"{each.found} of {each.spoken}",
            f"{each.unknown_found} of {each.unknown_spoken}",
            f"{each.seconds:.0f}",
        )
        for each in figures
    ]
    header = (f"weight, {title}", "WER %", "rare words found", "unknown ones", "CPU s")
    return text_table(header, rows)


def main() -> None:
    """Draw the material, decode it and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--weights", default="0,1,2,3")
    parser.add_argument("--most", type=int, default=60)
    parser.add_argument("--length", type=float, default=10.0)
    given = parser.parse_args()
    recognizer = Recognizer.load(given.model).plain()
    file = recognizer.loaded.language_model_file
    assert file is not None, "a model without a language model has no list of frequent words"
    listed = select(read_manifest(given.manifest), given.ids)
    short = [each for each in listed if each.duration <= given.length]
    drawn = material(short, WordNgrams.load(file), given.most)
    weights = [float(each) for each in given.weights.split(",")]
    unknown = len(drawn.words - drawn.known)
    print(
        f"{len(drawn.words)} rare words, {unknown} of them unknown to the language model; ", end=""
    )
    print(f"{len(drawn.favoured)} hot words; {len(drawn.rare)} + {len(drawn.others)} utterances")
    for title, utterances in (("with rare words", drawn.rare), ("others", drawn.others)):
        print(table(title, measured(recognizer, utterances, drawn, weights)), flush=True)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
