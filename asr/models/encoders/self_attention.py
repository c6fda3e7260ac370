"""Self-attention layers of an encoder, and sinusoidal positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from asr.errors import UserError
from asr.models.dropout import Dropout

FEED_FORWARD = 4  # size of the layer between the two products, in sizes of an annotation
LONGEST_WAVE = 10_000.0


class SelfAttention(nn.Module):
    """Transformer encoder layers with pre-normalisation, and a normalisation after the last.

    Source: Vaswani et al. 2017, section 3.1; the norm's place, Xiong et al. 2020, "pre-LN".
    """

    def __init__(self, size: int, layers: int, heads: int, dropout: float) -> None:
        """Make the layers.

        Raises:
            UserError: heads that do not divide the size.
        """
        super().__init__()
        if heads < 1 or size % heads:
            raise UserError(
                f"encoder.heads must divide the annotation size {size} (twice "
                f"encoder.state_size), got {heads}"
            )
        self.layers = nn.ModuleList(_layer(size, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(size)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Apply the layers to hidden (B, T, E); mask (B, T): True at allowed keys."""
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=~mask)
        normalised: Tensor = self.norm(hidden)
        return normalised


def _layer(size: int, heads: int, dropout: float) -> nn.TransformerEncoderLayer:
    """Make torch's layer, with `asr.models.dropout.Dropout` for its dropout modules."""
    layer = nn.TransformerEncoderLayer(
        size, heads, FEED_FORWARD * size, dropout, batch_first=True, norm_first=True
    )
    for name, part in layer.named_children():
        if isinstance(part, nn.Dropout):
            setattr(layer, name, Dropout(dropout))
    return layer


def add_positions(values: Tensor) -> Tensor:
    """Add sinusoids of the position to values (B, T, E), E even: half sines, half cosines.

    Source: Vaswani et al. 2017, section 3.5.
    """
    length, size = values.shape[1:]
    places = torch.arange(length, device=values.device)[:, None]  # (T, 1)
    steps = torch.arange(0, size, 2, device=values.device) / size
    angles = places * torch.exp(-math.log(LONGEST_WAVE) * steps)  # (T, E/2)
    return values + torch.cat([angles.sin(), angles.cos()], dim=1).to(values.dtype)
