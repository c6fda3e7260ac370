"""`asr score`: score a file of transcripts, or compare two on the same references."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from asr.errors import UserError, warn
from asr.scoring.comparison import compare
from asr.scoring.transcripts import pair_transcripts
from asr.scoring.words import COVERAGE, Scored, count_words, report, summarize, to_dict, worst
from asr.text.normalize import normalize


def run(
    reference: Path, hypotheses: Sequence[Path], normalized: bool, as_json: bool, drawn: int
) -> int:
    """Print the error rates of a hypothesis file, or compare those of two; return 0.

    normalized: normalise all texts to lower-case a to z first. drawn: number of utterances with
    the most errors to print, of one hypothesis file.

    Raises:
        UserError: a file cannot be read, the files cannot be paired, nothing is left of the
            references, or there are more than two hypothesis files.
    """
    if len(hypotheses) > 2:
        raise UserError(f"got {len(hypotheses)} files of hypotheses; wanted one, or two to compare")
    scored = [pair_transcripts(reference, each) for each in hypotheses]
    if normalized:
        scored = [_normalized(each, reference) for each in scored]
    elif any(map(_differs_in_case, scored)):
        warn("most errors are in capitals alone; --normalize scores lower-case words")
    if len(scored) == 2:
        return _compare(scored[0], scored[1], hypotheses, as_json)
    summary = summarize(scored[0])
    if as_json:
        print(json.dumps(to_dict(summary), indent=1))
        return 0
    print(report(summary))
    if pictures := worst(scored[0], drawn):
        print("\n" + pictures)
    return 0


def _compare(
    first: Sequence[Scored], second: Sequence[Scored], names: Sequence[Path], as_json: bool
) -> int:
    """Print the word error rates of two systems, and the difference with its interval."""
    found = compare(first, second)
    if as_json:
        figures = {
            "wer": [found.first.rate, found.second.rate],
            "difference": found.difference,
            "difference_interval": list(found.interval),
            "second_is_better": found.better,
            "second_is_worse": found.worse,
            "resampled": found.resampled,
        }
        print(json.dumps(figures, indent=1))
        return 0
    for name, counts in zip(names, (found.first, found.second), strict=True):
        print(f"{name}: WER {counts.rate:.2%} ({counts.errors} errors in {counts.reference} words)")
    low, high = (100 * each for each in found.interval)
    print(
        f"difference {100 * found.difference:+.2f} points ({COVERAGE} % interval {low:+.2f} to "
        f"{high:+.2f}, over {found.resampled}); the second is better in {found.better:.0%} of the "
        f"resamples and worse in {found.worse:.0%}"
    )
    return 0


def _differs_in_case(scored: Sequence[Scored]) -> bool:
    """Return whether most word errors are none in lower case."""
    exact = sum(count_words(one.reference, one.hypothesis).errors for one in scored)
    lower = sum(count_words(one.reference.lower(), one.hypothesis.lower()).errors for one in scored)
    return lower < exact / 2


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
