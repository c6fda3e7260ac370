"""Estimate a word n-gram language model for a recogniser.

    python recipes/librispeech/language_model.py asr/pretrained/english/words.npz \
        books.txt.xz DATA/librispeech/dev-clean/manifest.jsonl

books.txt.xz is the output of books.py. Text files have one text per line, in the last of their
columns, plain or compressed (.gz, .xz); of manifests the transcripts are used. Do not include text
of dev or test lists.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.commands.options import count
from asr.corpora.text import read_texts
from asr.errors import UserError, exit_status
from asr.lm.estimation import lexicon_of, train_word_ngrams

MOST_BYTES = 15_000_000


def main() -> None:
    """Read the arguments, estimate and write the model."""
    parser = argparse.ArgumentParser(description="Estimate a word language model.")
    parser.add_argument("output", type=Path)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("--word-least", type=count, default=2, help="least count of a word")
    parser.add_argument("--words", type=count, default=65_000, help="most words")
    parser.add_argument("--order", type=count, default=4, help="n-gram order")
    parser.add_argument("--ngrams", type=count, default=4_000_000, help="most n-grams, about")
    arguments = parser.parse_args()
    lines = [line for path in arguments.text for line in read_texts(path)]
    words = lexicon_of(map(str.split, lines), arguments.word_least, arguments.words)
    model = train_word_ngrams(map(str.split, lines), words, arguments.order, arguments.ngrams)
    model.save(arguments.output)
    size = arguments.output.stat().st_size
    grams = ", ".join(
        f"{len(table.codes)} {order}-grams" for order, table in enumerate(model.tables, start=2)
    )
    print(f"{arguments.output}: {len(words)} words, {grams}, {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        raise UserError(f"more than {MOST_BYTES / 1e6:.0f} MB: lower --ngrams")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
