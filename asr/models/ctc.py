"""Connectionist temporal classification (CTC) on the annotations: an auxiliary loss and a score."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from asr.attention.contract import Annotations
from asr.attention.normalizers import at_least_float32

BLANK = 0


class CTCHead(nn.Module):
    """A linear layer with `subframes` label distributions for each annotation.

    Read English has 14 to 15 characters a second and CTC needs a frame for each, and a blank
    between doubled ones: more than the 12.5 annotations a second of an 80 ms encoder. Two
    subframes give the frames of a 40 ms encoder at the cost of an 80 ms one.
    Source: Graves et al. 2006; trained jointly with attention as in Kim, Hori, Watanabe 2017.
    """

    def __init__(self, annotation_size: int, vocabulary_size: int, subframes: int) -> None:
        super().__init__()
        self.subframes = subframes
        self.vocabulary_size = vocabulary_size
        self.output = nn.Linear(annotation_size, subframes * vocabulary_size)

    def forward(self, annotations: Annotations) -> Tensor:
        """Return log-probabilities (B, T·subframes, V) in float32 or more; V[0] is the blank.

        Frames beyond an utterance's own length are undefined.
        """
        logits = self.output(annotations.values)  # (B, T, subframes·V)
        batch, length, _ = logits.shape
        logits = logits.view(batch, length * self.subframes, self.vocabulary_size)
        return torch.log_softmax(at_least_float32(logits), dim=-1)


def ctc_loss(log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
    """Mean negative log-likelihood per target symbol, in nats.

    log_probs: (B, T', V); lengths: (B,) of its frames. targets: (B, U) without end-of-sentence;
    target_lengths: (B,). An utterance too short for its text has no path and counts as 0; an
    empty text counts its blanks.
    """
    losses = functional.ctc_loss(
        log_probs.transpose(0, 1),  # (T', B, V)
        targets,
        lengths,
        target_lengths,
        blank=BLANK,
        reduction="none",
        zero_infinity=True,
    )
    return losses.sum() / target_lengths.clamp_min(1).sum()
