"""`asr score`: compare two files of transcripts."""

from __future__ import annotations

import json
from pathlib import Path

from asr.scoring.transcripts import pair_transcripts
from asr.scoring.words import report, summarize, to_dict, worst
from asr.text.normalize import normalize


def run(reference: Path, hypothesis: Path, normalized: bool, as_json: bool, drawn: int) -> int:
    """Print the error rates of a hypothesis file; return 0.

    normalized: normalise both texts to lower-case a to z first. drawn: number of utterances with
    the most errors to print.

    Raises:
        UserError: a file cannot be read, or the files cannot be paired.
    """
    scored = pair_transcripts(reference, hypothesis)
    if normalized:
        scored = [
            one._replace(reference=normalize(one.reference), hypothesis=normalize(one.hypothesis))
            for one in scored
        ]
    summary = summarize(scored)
    if as_json:
        print(json.dumps(to_dict(summary), indent=1))
        return 0
    print(report(summary))
    if pictures := worst(scored, drawn):
        print("\n" + pictures)
    return 0
