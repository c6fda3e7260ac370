"""Generate sentence pairs of 5 to 59 words, English to French, from a grammar of clauses.

    python recipes/long_sentences/sentences.py FOLDER [--train 12000] [--test 1000] [--seed 0]

makes FOLDER/train.tsv, dev.tsv and test.tsv without common sentences. Each sentence has 1 to 10
clauses of five words, joined by single words:

    three red ships leave monday then nine old trains arrive friday
    lundi partent trois navires rouges puis vendredi arrivent neuf trains vieux

Each word has one translation; within a clause the order changes (day, verb, number, noun,
adjective). The only difficulty is the length: every word must be translated, and no word is
predictable from the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asr.commands.options import count
from asr.corpora.pairs import Pair
from asr.errors import exit_status

CLAUSES = 10  # at most, in a sentence
DEV = 200  # sentences

NUMBERS = {
    "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six",
    "seven": "sept", "eight": "huit", "nine": "neuf", "ten": "dix", "twenty": "vingt",
}  # fmt: skip
ADJECTIVES = {
    "red": "rouges", "blue": "bleus", "green": "verts", "black": "noirs", "white": "blancs",
    "old": "vieux", "new": "neufs", "small": "petits", "heavy": "lourds", "empty": "vides",
}  # fmt: skip
NOUNS = {
    "ships": "navires", "trains": "trains", "trucks": "camions", "planes": "avions",
    "boats": "bateaux", "horses": "chevaux", "dogs": "chiens", "birds": "oiseaux",
    "boxes": "cartons", "letters": "courriers",
}  # fmt: skip
VERBS = {
    "leave": "partent", "arrive": "arrivent", "return": "reviennent", "stop": "s'arrêtent",
    "wait": "attendent", "pass": "passent", "turn": "tournent", "fall": "tombent",
}  # fmt: skip
DAYS = {
    "monday": "lundi", "tuesday": "mardi", "wednesday": "mercredi", "thursday": "jeudi",
    "friday": "vendredi", "saturday": "samedi", "sunday": "dimanche",
}  # fmt: skip
JOINED = {"then": "puis", "and": "et", "but": "mais"}

ORDER = (NUMBERS, ADJECTIVES, NOUNS, VERBS, DAYS)  # of a clause in the source
MOVED = (4, 3, 0, 2, 1)  # source position of each target word


def clause(random: np.random.Generator) -> Pair:
    """Return a clause of five words and its translation."""
    words = [list(each.items())[random.integers(len(each))] for each in ORDER]
    return Pair(
        " ".join(source for source, _ in words), " ".join(words[place][1] for place in MOVED)
    )


def sentence(clauses: int, random: np.random.Generator) -> Pair:
    """Return a sentence of 6 · clauses − 1 words and its translation."""
    found = clause(random)
    for _ in range(clauses - 1):
        join, following = list(JOINED.items())[random.integers(len(JOINED))], clause(random)
        found = Pair(*(" ".join(side) for side in zip(found, join, following, strict=True)))
    return found


def sentences(amount: int, random: np.random.Generator, used: set[Pair]) -> list[Pair]:
    """Return new pairs, equally many for each number of clauses, and add them to `used`."""
    found: list[Pair] = []
    while len(found) < amount:
        pair = sentence(len(found) % CLAUSES + 1, random)
        if pair not in used:
            used.add(pair)
            found.append(pair)
    return found


def write(path: Path, pairs: Sequence[Pair]) -> None:
    """Write pairs, one per line, as `asr.corpora.pairs.read_pairs` reads them."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")


def prepare(folder: Path, train: int, test: int, seed: int) -> None:
    """Write the three files; deterministic for given numbers of sentences and seed."""
    random = np.random.default_rng(seed)
    used: set[Pair] = set()
    folder.mkdir(parents=True, exist_ok=True)
    for name, amount in (("test", test), ("dev", DEV), ("train", train)):
        write(folder / f"{name}.tsv", sentences(amount, random, used))


def main() -> None:
    """Read the arguments and prepare."""
    parser = argparse.ArgumentParser(description="Generate pairs of long sentences.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=count, default=12_000, help="pairs (default: 12000)")
    parser.add_argument("--test", type=count, default=1000, help="pairs (default: 1000)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    prepare(given.folder, given.train, given.test, given.seed)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
