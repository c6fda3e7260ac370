"""What an optimiser step changes, and how much: frozen parts, weight decay, learning rate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from asr.errors import UserError
from asr.training.config import TrainingSettings


def rate_at(step: int, settings: TrainingSettings) -> float:
    """Return the learning rate of a step: linear warm-up, plateau, linear decay to 0.

    Where warm-up and decay overlap, it is the lower of both.
    """
    warm = settings.rate * (step + 1) / max(1, settings.warmup_steps)
    decay_steps = max(1, round(settings.steps * settings.decay_share))
    left = (settings.steps - step) / decay_steps
    return min(warm, settings.rate * min(1.0, max(0.0, left)))


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Keep the weights of parts of a model as they are.

    Raises:
        UserError: the model has no such part, or nothing is left to train.
    """
    for part in parts:
        try:
            model.get_submodule(part).requires_grad_(False)
        except AttributeError:
            names = ", ".join(name for name, _ in model.named_children())
            raise UserError(
                f"training.frozen: the model has no part {part!r}; it has {names}, and their parts"
            ) from None
    if not any(each.requires_grad for each in model.parameters()):
        raise UserError(f"training.frozen = {list(parts)} leaves nothing to train")


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """Make AdamW with weight decay on matrices only, not on biases, norms and other vectors."""
    trained = [each for each in model.parameters() if each.requires_grad]
    matrices = [each for each in trained if each.dim() > 1]
    vectors = [each for each in trained if each.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98), fused=True)
