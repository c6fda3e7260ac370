"""Write the training, dev and test pairs of both directions from a file of Tatoeba's pairs.

    python recipes/cmn_eng/prepare.py --data cmn.txt.xz FOLDER

The file has lines of English<TAB>Chinese<TAB>attribution, plain, .gz or .xz. Target sentences are
converted to simplified characters, so that one sentence has one spelling; Chinese source sentences
are kept in both scripts, so that either can be translated. About 1,000 English sentences are held
out to test on and 500 to validate with, by a hash of their words; training pairs whose Chinese side
is among theirs are left out as well.

With `--english fra.txt.gz deu.txt.gz` it also writes english.txt, sentences for back-translation:
the English of those pairs that is in none of the three parts, if the training pairs have all of its
words.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from asr.corpora.pairs import Pair, hold_out, read_pairs, sentence_key
from asr.errors import exit_status
from asr.text.chinese import script_of, to_simplified, to_traditional

HELD_OUT: Final = 0.058  # share of the English sentences for test and dev together
DEV: Final = 0.02
SHOWN: Final = ("I love you.", "Hi.", "Thank you!")  # phrases of the configs stay in training


class Parts(NamedTuple):
    """Pairs from English to simplified Chinese."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def parted(pairs: Iterable[Pair]) -> Parts:
    """Split pairs of English and Chinese; both sides of the held-out ones are unseen."""
    simplified = dict.fromkeys(Pair(pair.source, to_simplified(pair.target)) for pair in pairs)
    train, held = hold_out(simplified, HELD_OUT, SHOWN)
    shown = {pair.target for pair in train if pair.source in SHOWN}
    held = [pair for pair in held if pair.target not in shown]
    test, dev = hold_out(held, DEV)
    unseen = {pair.target for pair in held}
    return Parts([pair for pair in train if pair.target not in unseen], dev, test)


def both_scripts(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs from Chinese to English, in simplified and in traditional characters."""
    found = (
        Pair(source, pair.source)
        for pair in pairs
        for source in (pair.target, to_traditional(pair.target))
    )
    return list(dict.fromkeys(found))


def new_sentences(pairs: Iterable[Pair], parts: Parts) -> list[str]:
    """Return the sources that are in none of the parts and have only words of the training part."""
    words = {word for pair in parts.train for word in sentence_key(pair.source).split()}
    known = {sentence_key(pair.source) for part in parts for pair in part}
    found = {sentence_key(pair.source): pair.source for pair in pairs}
    return [
        text for key, text in found.items() if key not in known and words.issuperset(key.split())
    ]


def write(path: Path, pairs: Iterable[Pair]) -> None:
    """Write one pair a line."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")


def main() -> None:
    """Read the arguments, write the files, and print what is in them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="cmn.txt, plain, .gz or .xz")
    parser.add_argument(
        "--english", type=Path, nargs="+", default=[], help="pairs of English and other languages"
    )
    parser.add_argument("folder", type=Path, help="folder to write")
    arguments = parser.parse_args()
    pairs = read_pairs(arguments.data)
    scripts = Counter(script_of(pair.target) for pair in pairs)
    print(
        f"{len(pairs)} pairs; " + ", ".join(f"{scripts[name]} {name}" for name in sorted(scripts))
    )
    parts = parted(pairs)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, its in parts._asdict().items():
        backward = [Pair(pair.target, pair.source) for pair in its]
        write(arguments.folder / f"eng-cmn.{name}.tsv", its)
        write(
            arguments.folder / f"cmn-eng.{name}.tsv",
            both_scripts(its) if name == "train" else backward,
        )
        print(f"{name}: {len(its)} pairs")
    if arguments.english:
        others = (pair for path in arguments.english for pair in read_pairs(path))
        sentences = new_sentences(others, parts)
        text = "".join(f"{sentence}\n" for sentence in sentences)
        (arguments.folder / "english.txt").write_text(text, "utf-8")
        print(f"english.txt: {len(sentences)} sentences")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
