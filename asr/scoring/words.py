"""Word and character error rates, by group, with confidence intervals and alignments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from asr.errors import UserError
from asr.render.tables import text_table
from asr.text.scripts import split_words

LENGTHS: Final = (0, 5, 10, 20, 30, 50)  # words, upper ends of the length buckets
ENOUGH_SPEAKERS: Final = 10  # resampling fewer speakers makes the interval too narrow
WORST: Final = 10  # default number of utterances kept and printed
WORST_SHARE: Final = 4  # the worst quarter of the speakers
COVERAGE: Final = 95  # per cent of the bootstrap samples inside an interval


@dataclass(frozen=True)
class ErrorCounts:
    """Edits that turn references into hypotheses, and the length of the references."""

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    reference: int = 0

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors per reference symbol, 0 to infinity; on an empty reference, the errors."""
        return self.errors / max(self.reference, 1)

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.reference + other.reference,
        )


class Scored(NamedTuple):
    """One utterance to score; `duration` in seconds. Texts are compared without normalisation."""

    id: str
    reference: str
    hypothesis: str
    speaker: str | None = None
    duration: float | None = None
    gender: str | None = None
    accent: str | None = None


class Interval(NamedTuple):
    """Bootstrap interval of `COVERAGE` per cent of the resampled rates, as fractions."""

    low: float
    high: float


class Group(NamedTuple):
    """Errors of a group of utterances, for example of one speaker."""

    name: str
    utterances: int
    words: ErrorCounts
    characters: ErrorCounts


@dataclass(frozen=True)
class Summary:
    """Scores of a corpus. Rates are fractions; multiply by 100 for per cent."""

    total: Group
    wer_interval: Interval
    cer_interval: Interval
    resampled: str  # "speakers" or "utterances"
    perfect: int  # utterances without a word error
    by_length: tuple[Group, ...]  # words in the reference
    by_speaker: tuple[Group, ...]  # highest WER first; empty if speakers are not known
    by_rate: tuple[Group, ...]  # three speaking rates; empty if durations are not known
    by_gender: tuple[Group, ...]  # highest WER first; utterances without one are left out
    by_accent: tuple[Group, ...]  # likewise
    longest: (
        tuple[str, float] | None
    )  # id and length ratio (characters) of the longest hypothesis relative to its reference
    worst: tuple[Scored, ...]  # the `WORST` utterances with the most word errors

    @property
    def worst_quarter(self) -> Group | None:
        """The quarter of the speakers with the highest WER; None for fewer than 4 speakers."""
        count = len(self.by_speaker) // WORST_SHARE
        worst = self.by_speaker[:count]
        return _joined(f"worst {count} of {len(self.by_speaker)}", worst) if worst else None

    @property
    def wer(self) -> float:
        """Word error rate: errors summed over the corpus, then divided."""
        return self.total.words.rate

    @property
    def cer(self) -> float:
        """Character error rate, spaces included: errors summed, then divided."""
        return self.total.characters.rate


def count_words(reference: str, hypothesis: str) -> ErrorCounts:
    """Count the word edits between two texts.

    Words are separated by white space; each character of Chinese and Japanese is one, as is usual
    for their error rates.
    """
    import jiwer

    wanted, found_words = split_words(reference), split_words(hypothesis)
    if not wanted:  # older releases of jiwer refuse an empty reference
        return ErrorCounts(insertions=len(found_words))
    found = jiwer.process_words(" ".join(wanted), " ".join(found_words))
    return ErrorCounts(found.substitutions, found.deletions, found.insertions, len(wanted))


def count_characters(reference: str, hypothesis: str) -> ErrorCounts:
    """Count the character edits between two texts; runs of white space count as one space."""
    import jiwer

    reference, hypothesis = " ".join(reference.split()), " ".join(hypothesis.split())
    if not reference:
        return ErrorCounts(insertions=len(hypothesis))
    found = jiwer.process_characters(reference, hypothesis)
    return ErrorCounts(found.substitutions, found.deletions, found.insertions, len(reference))


def summarize(items: Iterable[Scored], seed: int = 0, resamples: int = 1000) -> Summary:
    """Score a corpus, in total and by group; errors are summed before dividing.

    The 95 % intervals are bootstrap intervals (Bisani and Ney, ICASSP 2004). Errors of one speaker
    are correlated, so speakers are resampled if every utterance has one and there are at least
    `ENOUGH_SPEAKERS`; otherwise utterances are resampled.

    Raises UserError if there is nothing to score.
    """
    measured = [_measure(item) for item in items]
    if not measured:
        raise UserError("nothing to score: got no pair of reference and hypothesis")
    speakers = _group(measured, lambda one: one.item.speaker)
    known = all(one.item.speaker is not None for one in measured)
    by_speaker = known and len(speakers) >= ENOUGH_SPEAKERS
    units = speakers if by_speaker else tuple(_total("", [one]) for one in measured)
    wer_interval, cer_interval = _bootstrap(units, seed, resamples)
    return Summary(
        total=_total("all", measured),
        wer_interval=wer_interval,
        cer_interval=cer_interval,
        resampled="speakers" if by_speaker else "utterances",
        perfect=sum(one.words.errors == 0 for one in measured),
        by_length=_by_length(measured),
        by_speaker=_worst_first(speakers),
        by_rate=_by_rate(measured),
        by_gender=_worst_first(_group(measured, lambda one: one.item.gender)),
        by_accent=_worst_first(_group(measured, lambda one: one.item.accent)),
        longest=_most_overlong(measured),
        worst=tuple(one.item for one in _worst(measured)[:WORST]),
    )


def worst(items: Iterable[Scored], count: int = WORST, width: int = 80) -> str:
    """Show the utterances with the most word errors: REF, HYP, and the errors as S, D or I.

    Lines wrap near `width` columns. Utterances without errors are left out.
    """
    import jiwer

    drawings = []
    for one in _worst(map(_measure, items))[:count]:
        reference = split_words(one.item.reference)
        hypothesis = split_words(one.item.hypothesis)
        output = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
        lines = jiwer.visualize_alignment(output, show_measures=False, line_width=width)
        body = "\n".join(line.rstrip() for line in lines.splitlines()[2:]).rstrip()
        edits = one.words
        drawings.append(
            f"{one.item.id}: {_errors(edits)} "
            f"({edits.substitutions} S, {edits.deletions} D, {edits.insertions} I)\n{body}"
        )
    return "\n\n".join(drawings)


def _errors(counts: ErrorCounts) -> str:
    wrong = "1 error" if counts.errors == 1 else f"{counts.errors} errors"
    return f"{wrong} in {counts.reference} word{'' if counts.reference == 1 else 's'}"


def report(summary: Summary) -> str:
    """Return the summary as readable text, rates in per cent."""
    words = summary.total.words
    lines = [
        f"WER {summary.wer:.2%} ({_show(summary.wer_interval)}, over {summary.resampled})",
        f"CER {summary.cer:.2%} ({_show(summary.cer_interval)})",
        f"{_errors(words)}: {words.substitutions} substituted, "
        f"{words.deletions} deleted, {words.insertions} inserted; "
        f"{summary.perfect} of {summary.total.utterances} utterances without error",
    ]
    if summary.longest is not None:
        name, ratio = summary.longest
        lines.append(f"longest hypothesis: {ratio:.2f} times its reference, at {name}")
    quarter = summary.worst_quarter
    for title, groups in (
        ("words", summary.by_length),
        ("speaking rate", summary.by_rate),
        ("gender", summary.by_gender),
        ("accent", summary.by_accent),
        ("speaker", (*([quarter] if quarter else []), *summary.by_speaker)),
    ):
        if groups:
            lines += ["", _table(title, groups)]
    return "\n".join(lines)


def to_dict(summary: Summary) -> dict[str, Any]:
    """Return the summary as plain objects for JSON; rates are fractions."""
    return {
        "wer": summary.wer,
        "wer_interval": list(summary.wer_interval),
        "cer": summary.cer,
        "cer_interval": list(summary.cer_interval),
        "resampled": summary.resampled,
        "perfect_utterances": summary.perfect,
        "longest": summary.longest and {"id": summary.longest[0], "ratio": summary.longest[1]},
        "worst": [item._asdict() for item in summary.worst],
        "total": _group_to_dict(summary.total),
        "by_length": [_group_to_dict(group) for group in summary.by_length],
        "by_speaking_rate": [_group_to_dict(group) for group in summary.by_rate],
        "by_gender": [_group_to_dict(group) for group in summary.by_gender],
        "by_accent": [_group_to_dict(group) for group in summary.by_accent],
        "by_speaker": [_group_to_dict(group) for group in summary.by_speaker],
        "worst_quarter": summary.worst_quarter and _group_to_dict(summary.worst_quarter),
    }


class _Measured(NamedTuple):
    item: Scored
    words: ErrorCounts
    characters: ErrorCounts


def _measure(item: Scored) -> _Measured:
    texts = item.reference, item.hypothesis
    return _Measured(item, count_words(*texts), count_characters(*texts))


def _total(name: str, measured: Sequence[_Measured]) -> Group:
    return Group(
        name,
        len(measured),
        sum((one.words for one in measured), ErrorCounts()),
        sum((one.characters for one in measured), ErrorCounts()),
    )


def _group(
    measured: Iterable[_Measured], name: Callable[[_Measured], str | None]
) -> tuple[Group, ...]:
    """Return totals by name, in order of first occurrence, without unnamed utterances."""
    members: dict[str, list[_Measured]] = {}
    for one in measured:
        key = name(one)
        if key is not None:
            members.setdefault(key, []).append(one)
    return tuple(_total(key, group) for key, group in members.items())


def _joined(name: str, groups: Sequence[Group]) -> Group:
    return Group(
        name,
        sum(group.utterances for group in groups),
        sum((group.words for group in groups), ErrorCounts()),
        sum((group.characters for group in groups), ErrorCounts()),
    )


def _worst_first(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: -group.words.rate))


def _by_length(measured: Sequence[_Measured]) -> tuple[Group, ...]:
    def bucket(one: _Measured) -> str:
        length, low = one.words.reference, 0
        for high in LENGTHS:
            if length <= high:
                return f"{low} to {high}" if high else "none"
            low = high + 1
        return f"over {LENGTHS[-1]}"

    return _group(sorted(measured, key=lambda one: one.words.reference), bucket)


def _by_rate(measured: Sequence[_Measured]) -> tuple[Group, ...]:
    """Return three groups of equal size by characters per second; none if there are too few."""
    rates = {
        i: one.characters.reference / one.item.duration
        for i, one in enumerate(measured)
        if one.item.duration and one.characters.reference
    }
    if len(rates) < 3:
        return ()
    groups = []
    ranked = np.array_split(sorted(rates, key=lambda i: rates[i]), 3)
    for name, part in zip(("slow", "medium", "fast"), ranked, strict=True):
        span = f"{rates[int(part[0])]:.1f} to {rates[int(part[-1])]:.1f}"
        groups.append(_total(f"{name}, {span} characters/s", [measured[int(i)] for i in part]))
    return tuple(groups)


def _worst(measured: Iterable[_Measured]) -> list[_Measured]:
    """Return the utterances with word errors, most errors first; ties by rate, then by id."""
    wrong = [one for one in measured if one.words.errors]
    return sorted(wrong, key=lambda one: (-one.words.errors, -one.words.rate, one.item.id))


def _most_overlong(measured: Sequence[_Measured]) -> tuple[str, float] | None:
    """Return the hypothesis with the highest length ratio: a sign of a looping decoder."""
    ratios = [
        (len(one.item.hypothesis.strip()) / one.characters.reference, one.item.id)
        for one in measured
        if one.characters.reference
    ]
    if not ratios:
        return None
    ratio, name = max(ratios)
    return name, ratio


def _bootstrap(units: Sequence[Group], seed: int, resamples: int) -> tuple[Interval, Interval]:
    """Return intervals of the word and character error rates over resamples of the units."""
    counts = np.array(
        [
            (g.words.errors, g.words.reference, g.characters.errors, g.characters.reference)
            for g in units
        ]
    )
    generator = np.random.default_rng(seed)
    rates = np.empty((resamples, 2))
    for row in rates:  # one resample at a time, to limit memory for long corpora
        drawn = generator.integers(0, len(units), len(units))
        times = np.bincount(drawn, minlength=len(units))
        word_errors, words, character_errors, characters = times @ counts
        row[:] = word_errors / max(words, 1), character_errors / max(characters, 1)
    tail = (100 - COVERAGE) / 2
    low, high = np.percentile(rates, [tail, 100 - tail], axis=0)
    return Interval(float(low[0]), float(high[0])), Interval(float(low[1]), float(high[1]))


def _table(title: str, groups: Sequence[Group]) -> str:
    return text_table(
        (title, "utterances", "words", "WER %", "CER %"),
        [
            (g.name, g.utterances, g.words.reference, 100 * g.words.rate, 100 * g.characters.rate)
            for g in groups
        ],
    )


def _show(interval: Interval) -> str:
    return f"{COVERAGE} % interval {interval.low:.2%} to {interval.high:.2%}"


def _group_to_dict(group: Group) -> dict[str, Any]:
    def counts(found: ErrorCounts) -> dict[str, Any]:
        return {**vars(found), "errors": found.errors, "rate": found.rate}

    return {
        "name": group.name,
        "utterances": group.utterances,
        "words": counts(group.words),
        "characters": counts(group.characters),
    }
