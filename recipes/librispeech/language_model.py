"""Count a word language model for the search of a recogniser.

    python recipes/librispeech/language_model.py asr/pretrained/english/words.npz \
        books.txt.xz DATA/librispeech/dev-clean/manifest.jsonl     # books.py makes the former

Text files have one line of text each, the last of their columns, plain or packed (.gz, .xz); of
manifests the transcripts count. No text of a dev or test list belongs here.
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
    """Read the arguments, count and write."""
    parser = argparse.ArgumentParser(description="Count a word language model.")
    parser.add_argument("output", type=Path)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("--word-least", type=count, default=2, help="rarer words are unknown")
    parser.add_argument("--words", type=count, default=65_000, help="so many words at most")
    parser.add_argument("--order", type=count, default=4, help="words of the longest n-grams")
    parser.add_argument("--ngrams", type=count, default=4_000_000, help="about so many are kept")
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
        raise UserError(f"more than {MOST_BYTES / 1e6:.0f} MB: keep fewer n-grams")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
