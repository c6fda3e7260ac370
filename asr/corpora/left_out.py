"""What an importer leaves out of a manifest, and why: one behaviour for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

MISSING: Final = "no such file"
NO_TEXT: Final = "no .txt file next to it"
NO_RECORDING: Final = "no recording next to it"
EMPTY: Final = "its text is empty"
SHOWN: Final = 5  # most files with one reason that are named


class LeftOut(NamedTuple):
    """A file that a manifest lacks, and the reason; an error names the file itself."""

    path: Path
    why: str

    def __str__(self) -> str:
        return self.why if str(self.path) in self.why else f"{self.path}: {self.why}"


def described(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Yield a line for each reason; each file with an error of its own has its own line."""
    for why, group in groupby(sorted(left_out, key=lambda each: each.why), lambda each: each.why):
        found = list(group)
        if len(found) == 1:
            yield f"left out {found[0]}"
            continue
        named = ", ".join(str(each.path) for each in found[:SHOWN])
        yield f"left out {len(found)} files, {why}: {named}{', …' if len(found) > SHOWN else ''}"
