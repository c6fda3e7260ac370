"""Constructed alignments of known health get the right diagnosis."""

import json
import math

import pytest
import torch
from torch import Tensor

from asr.scoring.health import (
    TRANSLATION,
    Finding,
    Health,
    aggregate,
    diagnose,
    measure,
    measure_batch,
    report,
    to_dict,
    verdict,
)

STEPS = ANNOTATIONS = 100
LINE = torch.linspace(0, ANNOTATIONS - 1, STEPS)


def along(positions: Tensor, width: float = 1.0, annotations: int = ANNOTATIONS) -> Tensor:
    """Return weights (U, T): a Gaussian of this standard deviation around each position."""
    distance = torch.arange(annotations)[None] - positions[:, None]
    return torch.softmax(-0.5 * (distance / width) ** 2, dim=1)


def line(start: float, end: float, steps: int) -> Tensor:
    """Return the positions of the steps, uniform from start to end."""
    return torch.linspace(start, end, steps)


UNIFORM = torch.full((STEPS, ANNOTATIONS), 1 / ANNOTATIONS)
SHUFFLED = torch.eye(ANNOTATIONS)[
    torch.randperm(ANNOTATIONS, generator=torch.Generator().manual_seed(0))
]
SKIPPING = along(torch.cat((line(0, 49, 65), line(80, 99, 35))))
LOOPING = along(torch.cat((line(0, 60, 40), line(20, 60, 25), line(20, 99, 35))))


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        pytest.param(torch.eye(ANNOTATIONS), (), id="sharp diagonal"),
        pytest.param(torch.eye(3), (), id="three steps"),
        pytest.param(along(LINE), (), id="soft diagonal"),
        pytest.param(along(line(0, 99, 40)), (), id="slow speech"),
        pytest.param(torch.eye(300)[::4], (), id="sharp and few steps"),
        pytest.param(along(torch.cat((line(0, 50, 60), line(60, 99, 40)))), (), id="short pause"),
        pytest.param(UNIFORM, (Finding.UNFORMED,), id="uniform"),
        pytest.param(along(LINE * 0 + 50, 30.0), (Finding.UNFORMED,), id="wide and still"),
        pytest.param(along(LINE * 0), (Finding.STUCK_FIRST,), id="stuck first"),
        pytest.param(along(LINE * 0 + 99), (Finding.STUCK_LAST,), id="stuck last"),
        pytest.param(along((LINE * 2).clamp(max=99)), (Finding.STUCK_LAST,), id="waits at the end"),
        pytest.param(along(LINE, 6.0), (Finding.BLURRED,), id="blurred"),
        pytest.param(SKIPPING, (Finding.SKIPPING,), id="skipping"),
        pytest.param(LOOPING, (Finding.REPEATING,), id="looping"),
        pytest.param(along(LINE * 0.6), (Finding.DRIFTING,), id="falls behind"),
        pytest.param(along(LINE**0.6 * 99**0.4), (Finding.DRIFTING,), id="runs ahead"),
        pytest.param(SHUFFLED, (Finding.DISORDERED,), id="shuffled"),
        pytest.param(torch.eye(ANNOTATIONS).flip(0), (Finding.DISORDERED,), id="backwards"),
    ],
)
def test_known_alignments_are_diagnosed(weights: Tensor, wanted: tuple[Finding, ...]) -> None:
    assert diagnose(measure(weights)) == wanted


def test_sharp_diagonal_in_numbers() -> None:
    assert measure(torch.eye(10)) == Health(
        steps=10, annotations=10, entropy=0, peak=1, width=1, diagonal=1, monotone=1,
        correlation=pytest.approx(1), travel=1, drift=pytest.approx(0), first=pytest.approx(0.1),
        last=pytest.approx(0.1), skipped=0, repeated=0,
    )  # fmt: skip


def test_uniform_in_numbers() -> None:
    found = measure(UNIFORM)
    assert found.entropy == pytest.approx(1)
    assert found.peak == pytest.approx(0.01)
    assert found.width == pytest.approx(ANNOTATIONS)
    assert found.correlation == 0
    assert found.travel == pytest.approx(0, abs=1e-6)


def test_width_of_a_bell_is_that_of_theory() -> None:
    bell = along(torch.full((5,), 50.0), 3.0)
    assert measure(bell).width == pytest.approx(3 * math.sqrt(2 * math.pi * math.e), rel=1e-3)


def test_share_of_diagonal_steps_counts_jumps_both_ways() -> None:
    positions = torch.tensor([0, 1, 2, 40, 41, 39, 40, 41, 42, 43, 44])  # 38 ahead, then 2 back
    found = measure(torch.eye(50)[positions])
    assert found.monotone == pytest.approx(0.9)
    assert found.diagonal == pytest.approx(0.8)


def test_skipped_share_is_the_gap() -> None:
    assert measure(torch.eye(ANNOTATIONS)[torch.cat((torch.arange(50), torch.arange(70, 100)))]
                   ).skipped == pytest.approx(0.2)  # fmt: skip


def test_repeated_share_is_the_loop_and_one_stray_step_is_not() -> None:
    loop = torch.cat((torch.arange(0, 50), torch.arange(20, 60)))
    assert measure(torch.eye(60)[loop]).repeated == pytest.approx(25 / 90, abs=0.012)
    stray = torch.arange(60)
    stray[10] = 50
    assert measure(torch.eye(60)[stray]).repeated == 0


def test_drift_is_the_area_between_path_and_line() -> None:
    assert measure(along(LINE * 0.6)).drift == pytest.approx(-0.2, abs=0.01)


def test_padding_and_scale_do_not_matter() -> None:
    weights = along(LINE, 2.0)
    padded = torch.cat((3 * weights, torch.zeros(STEPS, 40)), dim=1)
    assert measure(padded, ANNOTATIONS) == pytest.approx(measure(weights))


def test_batch_is_each_alone() -> None:
    batch = torch.stack((along(LINE), along(LINE * 0.6)))
    found = measure_batch(batch, torch.tensor([100, 50]), torch.tensor([100, 60]))
    assert found == [measure(batch[0]), measure(batch[1, :50, :60])]


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (2, 2), (9, 1)])
def test_smallest_alignments_are_finite(shape: tuple[int, int]) -> None:
    found = measure(torch.ones(shape))
    assert all(math.isfinite(value) for value in found)
    diagnose(found)


@pytest.mark.parametrize("wrong", [torch.zeros(0, 5), torch.ones(3), torch.full((2, 2), math.nan)])
def test_what_is_no_alignment_is_refused(wrong: Tensor) -> None:
    with pytest.raises(ValueError, match="weights"):
        measure(wrong)


def test_translation_may_reorder_but_not_scatter() -> None:
    assert diagnose(measure(SHUFFLED), TRANSLATION) == ()
    assert diagnose(measure(UNIFORM), TRANSLATION) == (Finding.UNFORMED,)


def test_corpus_counts_who_suffers_and_where() -> None:
    short = measure(torch.eye(50))
    long = measure(along(line(0, 299, 300) * 0.5, annotations=300))
    corpus = aggregate([short, short, long])
    assert corpus.total.findings == {Finding.DRIFTING: pytest.approx(1 / 3)}
    assert [(group.name, group.utterances) for group in corpus.by_length] == [
        ("1 to 62", 2),
        ("251 to 375", 1),
    ]
    assert corpus.by_length[0].findings == {}
    assert corpus.by_length[1].mean == pytest.approx(long)
    assert corpus.total.mean.steps == pytest.approx(400 / 3)
    assert corpus.total.mean.drift == pytest.approx((300 * long.drift) / 400)
    assert verdict(corpus.by_length[0]) == "attention is in good health in all 2 utterances"
    assert verdict(corpus.total).startswith("33% of 3 utterances: attention runs ahead")
    assert "251 to 375" in report(corpus)
    assert json.loads(json.dumps(to_dict(corpus)))["total"]["findings"]["drifting"] > 0.3


def test_no_utterance_is_refused() -> None:
    with pytest.raises(ValueError, match="no utterance"):
        aggregate([])


def test_one_odd_utterance_in_many_is_no_verdict_on_the_model() -> None:
    good, odd = measure(torch.eye(50)), measure(UNIFORM)
    few = aggregate([good] * 19 + [odd]).total
    assert verdict(few).startswith("attention is in good health; ") and "5% of 20" in verdict(few)
    many = aggregate([good] * 8 + [odd] * 2).total
    assert verdict(many).startswith("20% of 10 utterances: ")
