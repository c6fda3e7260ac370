"""Settings that several tasks share: the loop, and the loss of a decoder with attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asr.errors import UserError
from asr.tables import Settings, Unread, setting, share

PRECISIONS = ("auto", "bf16", "fp32")


@dataclass(frozen=True)
class LossSettings(Settings):
    """The loss of a decoder: (1 − risk) · (cross-entropy + penalties) + risk · expected errors.

    Each penalty of the attention weights has its factor.
    """

    label_smoothing: float = share(
        0.1, "Share of the target's probability that is spread over the vocabulary."
    )
    risk: float = share(
        0.0,
        "Weight of minimum risk training: expected errors of the best hypotheses of a beam. For "
        "fine-tuning a trained model; see `asr.training.losses.risk`.",
    )
    risk_beam: int = setting(4, "Beam size of minimum risk training.", least=2, most=1024)
    entropy: float = setting(
        0.0,
        "Entropy regularisation of the attention: factor of |H − entropy_target|, H the mean "
        "entropy of a step's weights. Above 0 sharpens the weights, below 0 spreads them.",
        least=-10,
        most=10,
    )
    entropy_target: float = setting(0.0, "Target entropy of a step, in nats.", least=0, most=20)
    coverage: float = setting(
        0.0,
        "Factor of the coverage penalty: weight on annotations that earlier steps attended to (See "
        "et al. 2017).",
        least=0,
        most=100,
    )
    diagonality: float = setting(
        0.0,
        "Initial factor of the guided attention loss: weight far from the diagonal (Tachibana et "
        "al. 2018).",
        least=0,
        most=100,
    )
    diagonality_steps: int = setting(
        0, "Step by which that factor has fallen linearly to 0.", least=0
    )
    scheduled_sampling: float = share(
        0.0, "Share of the previous tokens that are the model's own predictions."
    )
    scheduled_sampling_from: int = setting(0, "First step with scheduled sampling.", least=0)

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        if not self.risk:
            yield Unread("risk_beam", "without minimum risk training (risk = 0)")
        if not self.entropy:
            yield Unread("entropy_target", "without entropy regularisation (entropy = 0)")
        if not self.diagonality:
            yield Unread("diagonality_steps", "without that loss (diagonality = 0)")
        if not self.diagonality_steps:
            yield Unread("diagonality", "without its last step (diagonality_steps = 0)")
        if not self.scheduled_sampling:
            why = "without scheduled sampling (scheduled_sampling = 0)"
            yield Unread("scheduled_sampling_from", why)


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """The training loop: AdamW; the learning rate warms up, stays, and falls linearly to 0."""

    steps: int = setting(10_000, "Optimiser steps.", least=1)
    rate: float = setting(1e-3, "Highest learning rate.", least=0, most=100)
    warmup_steps: int = setting(500, "Steps over which the learning rate rises from 0.", least=0)
    decay_share: float = share(0.3, "Last share of the steps, in which the learning rate falls.")
    weight_decay: float = setting(0.01, "Weight decay of AdamW.", least=0, most=100)
    clip: float = setting(1.0, "Largest norm of the gradient.", above=0)
    accumulate: int = setting(
        1, "Batches whose gradients are summed for one step.", least=1, most=100_000
    )
    average: float = setting(
        0.999,
        "Decay of the running average of the weights, which is validated and saved. 0: none.",
        least=0,
        most=1,
    )
    keep: int = setting(
        3, "Number of best validated models that are averaged at the end.", least=1, most=1000
    )
    validate_every: int = setting(500, "Steps between validations, and checkpoints.", least=1)
    log_every: int = setting(20, "Steps between lines of the log.", least=1)
    patience: int = setting(
        0, "Stop after this many validations without improvement. 0: never.", least=0
    )
    precision: str = setting(
        "auto",
        "Precision of matrix products; weights stay in 32 bits. auto: bf16 where the device has "
        "instructions for it.",
        choices=PRECISIONS,
    )
    bits: int = setting(
        32,
        "Bits of the matrices while the loss is computed: 32, 8, 4 or 3 (asr.models.rounding). The "
        "finished model has weights so rounded, for asr shrink to store.",
    )
    device: str = setting("auto", "auto, cpu or cuda. auto: a GPU where there is one.")
    processes: int = setting(
        1, "Processes that share each batch, on one machine.", least=1, most=1024
    )
    loaders: int = setting(
        0,
        "Processes that prepare batches, such as 12 beside a GPU. 0: a thread of the training.",
        least=0,
        most=1024,
    )
    start_from: str = setting(
        "",
        "Model folder of the same sizes to start from (fine-tuning). A translation model's "
        "vocabularies are kept. Empty: random weights.",
    )
    frozen: tuple[str, ...] = setting(
        (),
        "Parts of the model whose weights stay as they are, such as encoder.front, the first "
        "layers of a recogniser.",
    )

    def __post_init__(self) -> None:
        """Refuse values out of range, and other numbers of bits.

        Raises:
            UserError: the value.
        """
        super().__post_init__()
        if self.bits not in (3, 4, 8, 32):
            raise UserError(f"bits must be 32, 8, 4 or 3, not {self.bits}")
