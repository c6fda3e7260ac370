"""`asr score`: compare two files of transcripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from asr.errors import UserError
from asr.scoring.transcripts import pair_transcripts
from asr.scoring.words import Scored, report, summarize, to_dict, worst
from asr.text.normalize import normalize


def run(reference: Path, hypothesis: Path, normalized: bool, as_json: bool, drawn: int) -> int:
    """Print the error rates of a hypothesis file; return 0.

    normalized: normalise both texts to lower-case a to z first. drawn: number of utterances with
    the most errors to print.

    Raises:
        UserError: a file cannot be read, the files cannot be paired, or nothing is left of the
            references.
    """
    scored = pair_transcripts(reference, hypothesis)
    if normalized:
        scored = _normalized(scored, reference)
    summary = summarize(scored)
    if as_json:
        print(json.dumps(to_dict(summary), indent=1))
        return 0
    print(report(summary))
    if pictures := worst(scored, drawn):
        print("\n" + pictures)
    return 0


def _normalized(scored: Sequence[Scored], reference: Path) -> list[Scored]:
    """Normalise both texts of each pair; refuse references of which no word is left."""
    found = [
        one._replace(reference=normalize(one.reference), hypothesis=normalize(one.hypothesis))
        for one in scored
    ]
    if not any(one.reference for one in found) and any(one.reference.strip() for one in scored):
        raise UserError(
            f"{reference}: nothing is left of its texts as lower-case a to z; for other scripts "
            "leave --normalize out"
        )
    return found
