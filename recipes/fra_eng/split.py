"""Choose the held-out English sentences and write them as two lists.

    python recipes/fra_eng/split.py fra.txt.gz recipes/fra_eng

The lists are in the repository, as are those of recipes/deu_eng; this script reproduces them.
Sentences are sorted by the SHA-256 of their words (`sentence_key`); the first are written to
test.txt, the next to dev.txt. The choice is uniform and depends only on the sentences.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable
from pathlib import Path

from asr.corpora.pairs import read_pairs, sentence_key
from asr.errors import exit_status

SENTENCES = 1000  # in each list
SHOWN = ("Go.", "I lost.", "He's calm.", "I'm home.")  # example phrases of both tatoeba.toml


def choose(sentences: Iterable[str], count: int = SENTENCES) -> tuple[list[str], list[str]]:
    """Return the test and dev sentences, each in its first spelling."""
    spelt: dict[str, str] = {}
    for sentence in sentences:
        spelt.setdefault(sentence_key(sentence), sentence)
    for sentence in SHOWN:
        spelt.pop(sentence_key(sentence), None)
    order = sorted(spelt, key=lambda key: hashlib.sha256(key.encode()).digest())
    chosen = [spelt[key] for key in order[: 2 * count]]
    return sorted(chosen[:count]), sorted(chosen[count:])


def main() -> None:
    """Read the arguments and write the lists."""
    parser = argparse.ArgumentParser(description="Choose test and dev sentences.")
    parser.add_argument("pairs", type=Path, help="fra.txt.gz or deu.txt.gz")
    parser.add_argument("folder", type=Path, help="folder for test.txt and dev.txt")
    arguments = parser.parse_args()
    test, dev = choose(pair.source for pair in read_pairs(arguments.pairs))
    for name, sentences in (("test.txt", test), ("dev.txt", dev)):
        (arguments.folder / name).write_text("".join(f"{each}\n" for each in sentences), "utf-8")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
