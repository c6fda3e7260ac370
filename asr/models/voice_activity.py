"""A small network that finds the speech in a long recording before anything is recognised."""

from __future__ import annotations

from typing import Final

from torch import Tensor, nn

CHANNELS: Final = 64
WIDTH: Final = 5  # frames of 40 ms seen by a convolution
RESIDUAL: Final = 4  # convolutions after the first, dilated 2, 4, 8 and 16 times


class VoiceActivityModel(nn.Module):
    """Logit of speech in each frame of 40 ms, from the log-mel features around it.

    Five convolutions in time, all but the first dilated and with a residual connection: a frame
    sees 2.5 s on either side. Pairs of neighbouring mel filters are averaged.

    features: size of a frame, see `asr.runtime.voice_activity.frame_features`.
    """

    def __init__(self, features: int, dropout: float = 0.1) -> None:
        super().__init__()
        # The names are those of stored weights.
        self.sound = nn.Conv1d(features, CHANNELS, WIDTH, padding="same")
        self.residual = nn.ModuleList(
            nn.Conv1d(CHANNELS, CHANNELS, WIDTH, padding="same", dilation=2 << at)
            for at in range(RESIDUAL)
        )
        self.output = nn.Linear(CHANNELS, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits (B, F) of features (B, F, size)."""
        hidden = self.sound(features.transpose(1, 2)).relu()
        for convolution in self.residual:
            hidden = hidden + convolution(self.dropout(hidden)).relu()
        logits: Tensor = self.output(hidden.transpose(1, 2))[..., 0]
        return logits


def near_symbols(symbols: Tensor, reach: int) -> Tensor:
    """Return the frames (B, F) that are at most `reach` frames from one with a symbol, (B, F)."""
    wide = nn.functional.max_pool1d(symbols.float(), 2 * reach + 1, stride=1, padding=reach)
    return wide > 0
