"""Measure the perplexity of a word language model on transcripts.

    python recipes/librispeech/perplexity.py asr/pretrained/english/words.npz \
        DATA/librispeech/dev-from-test-clean/manifest.jsonl --ids recipes/librispeech/dev-choose.txt

The end of a text counts as a word. Unknown words are scored by characters, so that models with
different lexicons are comparable. A recurrent model next to the n-grams is interpolated with them
(see README.md).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from asr.commands.options import count
from asr.corpora.collate import pad_tokens
from asr.corpora.manifest import read_manifest, select
from asr.errors import exit_status
from asr.lm.lookahead import WordModel
from asr.text.vocabulary import EOS, Vocabulary

TOGETHER = 50  # texts


def main() -> None:
    """Read the arguments, score and print the perplexity."""
    parser = argparse.ArgumentParser(description="Perplexity of transcripts.")
    parser.add_argument("model", type=Path, help="word n-grams, .npz")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, help="file of utterance ids to score")
    parser.add_argument("--most", type=count, help="score only the first N")
    arguments = parser.parse_args()
    vocabulary = Vocabulary.characters()
    model = WordModel.load(arguments.model, vocabulary)
    utterances = read_manifest(arguments.manifest)
    if arguments.ids:
        utterances = select(utterances, arguments.ids)
    texts = [utterance.text for utterance in utterances[: arguments.most]]
    total = -sum(
        log_probability(model, vocabulary, texts[at : at + TOGETHER])
        for at in range(0, len(texts), TOGETHER)
    )
    words = sum(len(text.split()) + 1 for text in texts)
    letters = sum(len(text) + 1 for text in texts)
    print(
        f"{math.exp(total / words):.1f} per word, {total / letters:.3f} nats per character "
        f"({len(texts)} texts, {words} words and ends)"
    )


def log_probability(model: WordModel, vocabulary: Vocabulary, texts: list[str]) -> float:
    """Return the total log-probability of texts, in nats."""
    tokens, lengths = pad_tokens([[*vocabulary.encode(text), EOS] for text in texts], EOS)
    state, total = model.start(len(texts)), 0.0
    own = np.zeros((len(texts), 1), np.int64)
    for place in range(tokens.shape[1]):
        token = tokens[:, place : place + 1]
        found = np.take_along_axis(model.log_probs(state)[:, 0], token, axis=1)[:, 0]
        total += float(found[place < lengths].sum())
        state = model.advance(state, own, token)
    return total


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
