"""Make training text for a language model from articles of Wikipedia: modern prose.

    python recipes/librispeech/wikipedia.py wikipedia.txt.xz ARTICLES --held-out DEV/manifest.jsonl

ARTICLES contains plain text as WikiExtractor writes it: files of <doc …> … </doc>, in any
subfolder. A line of the output is a normalised sentence or clause (see books.py) without digits, as
read speech has it. Lines are unique, and those that share a sequence of seven words with the
held-out transcripts are removed.
"""

from __future__ import annotations

import argparse
import lzma
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from books import lines_of, sequences
from tqdm import tqdm

from asr.corpora.manifest import read_manifest
from asr.errors import UserError, exit_status

_ARTICLE: Final = re.compile(r"<doc [^>]*>\n[^\n]*\n(.*?)</doc>", re.S)  # without its title
_SENTENCE_END: Final = re.compile(r"[.!?][\"'”’)]*$")
_DIGIT: Final = re.compile(r"\d")


def main() -> None:
    """Read the arguments and write the lines."""
    parser = argparse.ArgumentParser(description="Make text for a language model from articles.")
    parser.add_argument("output", type=Path, help="file of lines, .xz")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--held-out", type=Path, nargs="*", default=[], help="manifests")
    given = parser.parse_args()
    write(given.output, given.folder, given.held_out)


def write(output: Path, folder: Path, held_out: Iterable[Path]) -> None:
    """Write the lines of all articles of a folder.

    Raises:
        UserError: there are no articles, or a manifest cannot be read.
    """
    spoken = {
        sequence
        for manifest in held_out
        for utterance in read_manifest(manifest)
        for sequence in sequences(utterance.text.split())
    }
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    seen: set[int] = set()
    words = left_out = 0
    with lzma.open(output, "wt", encoding="utf-8", preset=1) as file:
        for path in tqdm(paths, unit="file"):
            for line in lines(path.read_text("utf-8", errors="replace")):
                text = " ".join(line)
                if hash(text) in seen:
                    continue
                seen.add(hash(text))
                if not spoken.isdisjoint(sequences(line)):
                    left_out += 1
                    continue
                words += len(line)
                file.write(text + "\n")
    if not seen:
        raise UserError(f"{folder}: no articles (<doc …> … </doc>) in it")
    print(
        f"{output}: {len(seen) - left_out} lines, {words} words; "
        f"{left_out} lines share text with the held-out transcripts"
    )


def lines(text: str) -> Iterator[list[str]]:
    """Yield the sentences and clauses of articles as lists of normalised words.

    Paragraphs that do not end like a sentence (headings, list items) are left out, and sentences
    with digits.
    """
    for article in _ARTICLE.finditer(text):
        for paragraph in article[1].split("\n"):
            if _SENTENCE_END.search(paragraph):
                yield from lines_of(paragraph, without=_DIGIT)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
