"""Make training text for a language model from books of Project Gutenberg.

    python recipes/librispeech/books.py books.txt.xz GUTENBERG --held-out DEV/manifest.jsonl

GUTENBERG contains books as plain text, one per file (.txt, in any subfolder), with the header and
footer of Project Gutenberg. A line of the output is a normalised sentence, or a clause that ends at
a semicolon or a colon, of 2 to 60 words. Lines are unique.

Test texts must not be in the output. These books are left out: those listed by number or title in a
table (eval-books.tsv: the books of LibriSpeech's dev and test sets), and books that share many
sequences of seven words with them (1 % of their own) or with the held-out transcripts (20), such as
other editions and collections. From the other books, lines that share a sequence with a transcript
are removed.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tqdm import tqdm

from asr.corpora.manifest import read_manifest
from asr.errors import UserError, exit_status
from asr.text.lines import read_lines
from asr.text.normalize import normalize

EVAL_BOOKS: Final = Path(__file__).with_name("eval-books.tsv")
SEQUENCE: Final = 7  # words
MOST_NAMED: Final = 0.01  # largest share of a book's sequences that are also in listed books
MOST_SPOKEN: Final = 20  # largest number of a book's sequences that are also in transcripts
FEWEST, MOST = 2, 60  # words per line

_START: Final = re.compile(r"^\*\*\* ?START OF TH.*$", re.M | re.I)
_END: Final = re.compile(r"^(?:\*\*\* ?)?END OF (?:TH\w+ )?PROJECT GUTENBERG.*$", re.M | re.I)
_MADE_BY: Final = re.compile(
    r"(?:\[?transcri|(?:this )?e-?text |produced by|html version|note: project gutenberg)", re.I
)
_TITLE: Final = re.compile(r"^Title: *(.+(?:\n +.+)*)", re.M)
_NUMBER: Final = re.compile(r"\[(?:EBook|Etext) #(\d+)\]", re.I)
_LANGUAGE: Final = re.compile(r"^Language: *(.+)$", re.M)
_COPYRIGHTED: Final = re.compile(r"COPYRIGHTED Project Gutenberg", re.I)
_MARKUP: Final = re.compile(r"\[[^\]]{0,200}\]|_")
_SENTENCE: Final = re.compile(r"[.!?;:]+[\"'”’)]*(?=\s)")
# The only apostrophes at word edges that are certainly not quotation marks.
_SHORTENED: Final = frozenset(
    ["'tis", "'twas", "'twere", "'twill", "'twould", "'em", "'gainst", "'neath"]
)
# The full stop of "Mr. Knightley" does not end a sentence, nor do those of initials.
_STOPS: Final = re.compile(r"\b(Mr|Mrs|Dr|St|Messrs|Prof|Capt|Col|Gen|Rev|Hon|No|Vol|[A-Z])\.")


class Book(NamedTuple):
    """A book without header and footer; number and title as in Project Gutenberg."""

    number: str
    title: str
    text: str


def main() -> None:
    """Read the arguments, filter the books and write the lines."""
    parser = argparse.ArgumentParser(description="Make text for a language model from books.")
    parser.add_argument("output", type=Path, help="file of lines, .xz")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--eval-books", type=Path, default=EVAL_BOOKS, help="table of books to leave out"
    )
    parser.add_argument("--held-out", type=Path, nargs="*", default=[], help="manifests")
    arguments = parser.parse_args()
    write(arguments.output, arguments.folder, arguments.eval_books, arguments.held_out)


def write(output: Path, folder: Path, eval_books: Path, held_out: Iterable[Path]) -> None:
    """Write the lines of all usable books of a folder, and report the books left out.

    Raises:
        UserError: there are no books, or a table or manifest cannot be read.
    """
    paths = sorted(folder.rglob("*.txt"))
    if not paths:
        raise UserError(f"{folder}: no books (.txt) in it")
    spoken = {
        sequence
        for manifest in held_out
        for utterance in read_manifest(manifest)
        for sequence in sequences(utterance.text.split())
    }
    usable, named = _part(paths, eval_books)
    seen: set[int] = set()
    kept = words = 0
    with lzma.open(output, "wt", encoding="utf-8", preset=1) as file:
        for path in tqdm(usable, unit="book"):
            book = read_book(path)
            assert book is not None
            lines = list(lines_of(book.text))
            own = {each for line in lines for each in sequences(line)}
            if len(own & named) > MOST_NAMED * len(own) or len(own & spoken) > MOST_SPOKEN:
                tqdm.write(f"left out, shares text with the test data: {book.title}")
                continue
            kept += 1
            for line in lines:
                text = " ".join(line)
                if hash(text) not in seen and spoken.isdisjoint(sequences(line)):
                    seen.add(hash(text))
                    words += len(line)
                    file.write(text + "\n")
    print(
        f"{len(paths)} files, {len(paths) - len(usable)} not English, not free or listed, "
        f"{len(usable) - kept} share text with the test data"
    )
    print(f"{output}: {kept} books, {len(seen)} lines, {words} words")


def read_book(path: Path) -> Book | None:
    """Read a book; None if it is not English, not free, or has no header and footer."""
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = _START.search(text)
    if start is None or _COPYRIGHTED.search(text):
        return None
    notes = text[: start.start()]
    language, title, number = (each.search(notes) for each in (_LANGUAGE, _TITLE, _NUMBER))
    if language is None or language[1].strip() != "English" or title is None:
        return None
    end = _END.search(text, start.end())
    body = text[start.end() : end.start() if end else len(text)]
    return Book(number[1] if number else "", " ".join(title[1].split()), body)


def lines_of(text: str, without: re.Pattern[str] | None = None) -> Iterator[list[str]]:
    """Split a text into sentences and clauses, as lists of normalised words.

    without: sentences in which this pattern occurs are left out.
    """
    for paragraph in re.split(r"\n\s*\n", text):
        joined = _STOPS.sub(r"\1", _MARKUP.sub(" ", " ".join(paragraph.split())))
        if joined.isupper() or _MADE_BY.match(joined):  # a heading, or a note on the file
            continue
        for sentence in _SENTENCE.split(joined):
            if without is not None and without.search(sentence):
                continue
            words = [
                word if word in _SHORTENED else word.strip("'")
                for word in normalize(sentence).split()
            ]
            if FEWEST <= len(words) <= MOST:
                yield words


def sequences(words: list[str]) -> Iterator[int]:
    """Yield the hash of each sequence of `SEQUENCE` words."""
    for start in range(len(words) - SEQUENCE + 1):
        yield hash(tuple(words[start : start + SEQUENCE]))


def plain_title(title: str) -> str:
    """Return a title without article, subtitle, volume and version."""
    title = re.sub(r"\(.*?\)|[,:;—].*|\bvol(ume|\.).*", "", title, flags=re.I)
    return re.sub(r"^(the|an|a) ", "", normalize(title)).replace("'", "")


def _part(paths: Sequence[Path], eval_books: Path) -> tuple[list[Path], set[int]]:
    """Return the books that are not in the table, and the sequences of those that are."""
    numbers, titles = _read_eval_books(eval_books)
    others: list[Path] = []
    named: set[int] = set()
    for path in tqdm(paths, unit="book"):
        book = read_book(path)
        if book is None:
            continue
        if book.number in numbers or plain_title(book.title) in titles:
            named.update(each for line in lines_of(book.text) for each in sequences(line))
        else:
            others.append(path)
    return others, named


def _read_eval_books(path: Path) -> tuple[set[str], set[str]]:
    """Read the numbers and plain titles of a table of books."""
    table = csv.DictReader((line.text for line in read_lines(path)), delimiter="\t")
    if missing := {"title", "gutenberg_id"} - set(table.fieldnames or ()):
        raise UserError(f"{path}: has no column {', '.join(sorted(missing))}")
    rows = list(table)
    return {row["gutenberg_id"] for row in rows}, {plain_title(row["title"]) for row in rows}


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
