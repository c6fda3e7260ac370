"""Attention health, computed from the attention weights of any model.

Positions and jumps are in annotations. The thresholds of `SPEECH` are for speech with one
annotation every 80 ms, about one per character; those of `TRANSLATION` are for weights between
words.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from asr.render.tables import text_table

LONGEST_JUMP: Final = 12  # annotations that one step may move ahead: a pause of one second
WAVER: Final = 0.5  # annotations of backward movement that are tolerated
GONE_BACK: Final = (
    4  # annotations behind the furthest position from which a step counts as repeated
)
UNCOVERED: Final = (
    0.1  # weight, as a share of the uniform weight, below which an annotation is unattended
)

FLAT: Final = 0.6  # normalised entropy above which attention may not have formed
STUCK: Final = 0.3  # highest share of the weight at one end
ORDERED: Final = 0.7  # lowest share of ordered steps, and lowest correlation
TOO_MUCH: Final = 0.1  # highest share of skipped annotations or repeated steps

LENGTHS: Final = (62, 125, 188, 250, 375)  # annotations: 5, 10, 15, 20 and 30 seconds


class Health(NamedTuple):
    """Measures of the alignment of one utterance, or their mean over utterances."""

    steps: float  # target steps U
    annotations: float  # annotations T that are not masked
    entropy: float  # mean over steps, divided by log T: 0 sharp, 1 flat
    peak: float  # mean of the largest weight of a step, 0 to 1
    width: float  # effective number of annotations per step: exp of the entropy, 1 to T
    diagonal: float  # share of steps whose expected position moves 0 to LONGEST_JUMP ahead
    monotone: float  # share of steps whose expected position does not move back
    correlation: float  # of the expected position with the step, -1 to 1; 0 if it is constant
    travel: float  # range of the expected position as a share of the annotations
    drift: float  # mean distance from the straight diagonal as a share of T: < 0 behind, > 0 ahead
    first: float  # share of all weight on the first 2 % of annotations (at least one)
    last: float  # the same at the end
    skipped: float  # share of the attended span in unattended runs longer than LONGEST_JUMP
    repeated: float  # share of steps more than GONE_BACK annotations behind the furthest position


WORTH_SAYING: Final = 0.1  # least share of utterances for a finding to count for the corpus


class Finding(enum.Enum):
    """The possible defects of an alignment."""

    UNFORMED = "not formed"
    STUCK_FIRST = "stuck at the beginning"
    STUCK_LAST = "stuck at the end"
    DISORDERED = "jumps about"
    REPEATING = "goes back"
    SKIPPING = "skips"
    DRIFTING = "drifts"
    BLURRED = "blurred"


@dataclass(frozen=True)
class Criteria:
    """Thresholds of good attention health for a task, and the words of its reports.

    monotone: whether output and input have the same order. travel: least range of the expected
        position, a share of T. drift: largest mean distance of the expected position from the
        diagonal, a share of T. width: largest effective number of annotations per step.
    what: plural noun for alignments. unit: of the groups by length. columns: measures to show.
    advice: finding → description and remedy.
    """

    monotone: bool
    travel: float
    drift: float
    width: float
    what: str
    unit: str
    columns: tuple[str, ...]
    advice: Mapping[Finding, str]


SPEECH: Final = Criteria(
    monotone=True,
    travel=0.5,
    drift=0.1,
    width=8.0,
    what="utterances",
    unit="annotations",
    columns=(
        "entropy", "peak", "width", "diagonal", "monotone", "correlation", "drift", "skipped",
        "repeated",
    ),
    advice={
        Finding.UNFORMED: "attention has not formed: train longer, start with short utterances, "
        "add the CTC loss, or raise loss.diagonality",
        Finding.STUCK_FIRST: "attention stays at the beginning: add location features and the CTC "
        "loss, and check that the encoder's annotations differ between positions",
        Finding.STUCK_LAST: "attention stays at the end: check that padding is masked and lengths "
        "are right; then check that transcripts belong to their audio",
        Finding.DISORDERED: "attention is sharp but not in order: add location features, a "
        "diagonal penalty, or a window around the previous alignment",
        Finding.REPEATING: "attention goes back over annotations: use cumulative weights, search "
        "with CTC scores or a window, and cut long audio into segments",
        Finding.SKIPPING: "attention skips annotations: unless they are silence, train on longer "
        "utterances, search with CTC scores, and cut long audio into segments",
        Finding.DRIFTING: "attention runs ahead or falls behind: unless the audio has long "
        "silences, check that transcripts cover their audio, and cut long audio into segments",
        Finding.BLURRED: "attention is in order but not sharp: train longer, or lower the "
        "temperature",
    },
)  # fmt: skip
TRANSLATION: Final = Criteria(
    monotone=False,
    travel=0.25,
    drift=0.2,
    width=4.0,
    what="sentences",
    unit="source words",
    columns=("entropy", "peak", "width", "correlation", "drift", "first", "last"),
    advice={
        Finding.UNFORMED: "attention has not formed, its weights are nearly uniform: train longer "
        "or on more pairs, or start with short sentences (batches.sorted_epochs)",
        Finding.STUCK_FIRST: "attention stays on the first word: train longer or on more pairs; "
        "in very short sentences the encoder's states carry the whole sentence anyway",
        Finding.STUCK_LAST: "attention stays on the end of the sentence: train longer or on more "
        "pairs; normal for a fixed context and for very short sentences",
        Finding.DRIFTING: "attention runs ahead or falls behind: check that targets translate all "
        "of their sources, and whether translations stop early",
        Finding.BLURRED: "attention spreads over too many words: train longer, or lower the "
        "temperature",
    },
)


class Group(NamedTuple):
    """A group of utterances: step-weighted mean of their measures, and frequency of findings."""

    name: str
    utterances: int
    mean: Health  # steps and annotations are plain means
    findings: dict[Finding, float]  # share of utterances, most frequent first


class Corpus(NamedTuple):
    """Result of `aggregate`: all utterances, and groups by length."""

    total: Group
    by_length: tuple[Group, ...]
    criteria: Criteria = SPEECH


def measure(weights: Tensor, length: int | None = None) -> Health:
    """Measure the alignment of one utterance.

    weights: (U, T), not negative, one row per step; for several heads, their mean.
    length: annotations from this one on are padding and are left out.

    Raises ValueError if there is no step or no annotation, or a weight is not finite.
    """
    if weights.dim() != 2 or 0 in weights[:, :length].shape:
        raise ValueError(f"weights are {tuple(weights.shape)}, length {length}; wanted (U, T)")
    weights = weights.detach()[:, :length].double().cpu()
    if not torch.isfinite(weights).all():
        raise ValueError(
            "weights contain infinities or NaN; check for an unmasked or empty softmax"
        )
    weights = weights / weights.sum(1, keepdim=True).clamp(min=1e-12)
    steps, annotations = weights.shape
    entropy = -torch.xlogy(weights, weights).sum(1)  # (U,) nats
    expected = weights @ torch.arange(annotations, dtype=weights.dtype)  # (U,) positions
    moves = expected.diff()
    ahead, edge = moves >= -WAVER, max(1, round(0.02 * annotations))
    line = torch.linspace(0, 1, steps, dtype=weights.dtype) if steps > 1 else torch.full((1,), 0.5)
    span = max(annotations - 1, 1)
    return Health(
        steps=steps,
        annotations=annotations,
        entropy=float(entropy.mean()) / math.log(annotations) if annotations > 1 else 0.0,
        peak=float(weights.amax(1).mean()),
        width=float(entropy.exp().mean()),
        diagonal=_share(ahead & (moves <= LONGEST_JUMP)),
        monotone=_share(ahead),
        correlation=_correlation(expected),
        travel=float(expected.max() - expected.min()) / span,
        drift=float((expected / span - line).mean()),
        first=float(weights[:, :edge].sum() / steps),
        last=float(weights[:, -edge:].sum() / steps),
        skipped=_skipped(weights),
        repeated=_repeated(expected),
    )


def measure_batch(weights: Tensor, steps: Tensor, lengths: Tensor) -> list[Health]:
    """Measure a padded batch: weights (B, U, T), steps (B,) and lengths (B,) in annotations."""
    sizes = zip(weights, steps.tolist(), lengths.tolist(), strict=True)
    return [measure(one[:u], length) for one, u, length in sizes]


def diagnose(health: Health, criteria: Criteria = SPEECH) -> tuple[Finding, ...]:
    """Return the findings of an alignment; empty if it is in good health.

    If the criteria are not monotone, as for translation, order and movement do not count.
    """
    ends = STUCK + 1 / health.annotations  # with few annotations, each end has a large share
    if health.first > ends:
        return (Finding.STUCK_FIRST,)
    if health.last > ends:
        return (Finding.STUCK_LAST,)
    lost = health.correlation < ORDERED or health.travel < criteria.travel
    if health.entropy > FLAT and lost:
        return (Finding.UNFORMED,)
    if criteria.monotone and health.monotone < ORDERED:
        return (Finding.DISORDERED,)
    found = {
        Finding.REPEATING: criteria.monotone and health.repeated > TOO_MUCH,
        Finding.SKIPPING: criteria.monotone and health.skipped > TOO_MUCH,
        Finding.DRIFTING: abs(health.drift) > criteria.drift,
        Finding.BLURRED: health.width > criteria.width,
    }
    return tuple(finding for finding, holds in found.items() if holds)


def aggregate(
    healths: Iterable[Health],
    lengths: Sequence[int] = LENGTHS,
    criteria: Criteria = SPEECH,
    sizes: Sequence[float] | None = None,
) -> Corpus:
    """Average the measures of all utterances and of groups by length.

    lengths: upper ends of the groups. sizes: length of each utterance; default: its number of
    annotations.

    Raises ValueError if there is no utterance, or the number of sizes differs.
    """
    healths = list(healths)
    if not healths:
        raise ValueError("got no utterance; wanted at least one measured alignment")
    sized = list(zip(sizes or [each.annotations for each in healths], healths, strict=True))
    groups = []
    for low, high in zip((0, *lengths), (*lengths, math.inf), strict=True):
        inside = [one for size, one in sized if low < size <= high]
        if inside:
            name = f"over {low}" if math.isinf(high) else f"{low + 1} to {high}"
            groups.append(_mean(name, inside, criteria))
    return Corpus(_mean("all", healths, criteria), tuple(groups), criteria)


def verdict(group: Group, criteria: Criteria = SPEECH) -> str:
    """Return a sentence on the attention health, with a remedy if it is not good.

    A finding in a smaller share of the utterances than `WORTH_SAYING` does not count.
    """
    what = criteria.what if group.utterances > 1 else criteria.what.removesuffix("s")
    if not group.findings:
        return f"attention is in good health in all {group.utterances} {what}"
    if max(group.findings.values()) < WORTH_SAYING:
        finding, share = next(iter(group.findings.items()))
        return (
            f"attention is in good health; the most frequent finding is {finding.value!r}, in "
            f"{share:.0%} of {group.utterances} {what}"
        )
    return "\n".join(
        f"{share:.0%} of {group.utterances} {what}: {criteria.advice[finding]}"
        for finding, share in group.findings.items()
    )


def summary(health: Health, criteria: Criteria = SPEECH) -> str:
    """Return the findings of one alignment as a short text."""
    return ", ".join(finding.value for finding in diagnose(health, criteria)) or "good"


def report(corpus: Corpus) -> str:
    """Return verdict and measures as readable text."""
    total, by_length, criteria = corpus
    rows = [
        (name, utterances, *(getattr(mean, field) for field in criteria.columns))
        for name, utterances, mean, _ in (total, *by_length)
    ]
    table = text_table((criteria.unit, criteria.what, *criteria.columns), rows)
    return f"{verdict(total, criteria)}\n\n{table}"


def to_dict(corpus: Corpus) -> dict[str, Any]:
    """Return the measures as plain objects for JSON."""
    total, by_length, criteria = corpus

    def plain(group: Group) -> dict[str, Any]:
        findings = {finding.name.lower(): share for finding, share in group.findings.items()}
        counted = {"name": group.name, criteria.what: group.utterances, "findings": findings}
        return counted | {"mean": group.mean._asdict()}

    groups = [plain(group) for group in by_length]
    return {"verdict": verdict(total, criteria), "total": plain(total), "by_length": groups}


def _share(holds: Tensor) -> float:
    """Return the share of true values; 1 if there are none: a single step is always in order."""
    return float(holds.double().mean()) if len(holds) else 1.0


def _correlation(expected: Tensor) -> float:
    if len(expected) < 2 or float(expected.std()) < 1e-6:
        return 0.0
    index = torch.arange(len(expected), dtype=expected.dtype)
    return float(torch.corrcoef(torch.stack((index, expected)))[0, 1])


def _skipped(weights: Tensor) -> float:
    """Return the share of long unattended runs in the span between the outermost peaks.

    Short runs do not count: sharp attention on slow speech often skips single annotations.
    """
    steps, annotations = weights.shape
    peaks = weights.argmax(1)
    coverage = weights.sum(0)[int(peaks.min()) : int(peaks.max()) + 1]
    unread = (coverage < UNCOVERED * steps / annotations).tolist()
    runs = [len(list(run)) for skipped, run in groupby(unread) if skipped]
    return sum(run for run in runs if run > LONGEST_JUMP) / len(unread)


def _repeated(expected: Tensor) -> float:
    """Return the share of steps behind the furthest position so far, without single outliers."""
    if len(expected) < 3:
        return 0.0
    smooth = torch.cat((expected[:1], expected.unfold(0, 3, 1).median(1).values, expected[-1:]))
    return _share(smooth.cummax(0).values - smooth > GONE_BACK)


def _mean(name: str, healths: Sequence[Health], criteria: Criteria) -> Group:
    values = torch.tensor(healths, dtype=torch.float64)  # (utterances, measures)
    weighted = (values * values[:, :1]).sum(0) / values[:, 0].sum()
    weighted[:2] = values[:, :2].mean(0)
    found = [finding for one in healths for finding in diagnose(one, criteria)]
    shares = {finding: found.count(finding) / len(healths) for finding in Finding}
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    present = {finding: share for finding, share in ranked if share}
    return Group(name, len(healths), Health(*weighted.tolist()), present)
