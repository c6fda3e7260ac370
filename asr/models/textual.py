"""Token ids → annotations: embedding and bidirectional LSTMs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from asr.attention.contract import Annotations
from asr.models.acoustic import length_mask
from asr.models.recurrent import BidirectionalLSTM, reversal


class TextualEncoder(nn.Module):
    """Embedding, then BiLSTM layers; the second and later ones are residual.

    As the encoder of Bahdanau et al. 2015 (appendix A.2.1), with LSTMs in place of gated units.
    The first half of an annotation was read forwards, the second backwards.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int = 128,
        state_size: int = 128,
        layers: int = 1,
        dropout: float = 0.2,
    ) -> None:
        """Make the encoder; state_size is that of one direction of each LSTM."""
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers must be at least 1, got {layers}")
        self.size = 2 * state_size
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self.first = BidirectionalLSTM(embedding_size, state_size)
        self.rest = nn.ModuleList(
            BidirectionalLSTM(self.size, state_size) for _ in range(layers - 1)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Annotations:
        """Annotate tokens (B, T) of lengths (B,) → (B, T, size), 0 beyond each length."""
        order = reversal(lengths, tokens.size(1))
        hidden = self.first(self.dropout(self.embedding(tokens)), order)
        for layer in self.rest:
            hidden = hidden + layer(self.dropout(hidden), order)
        mask = length_mask(lengths, tokens.size(1))
        return Annotations(self.dropout(hidden) * mask[:, :, None], mask)

    def annotate(self, sentences: Sequence[Sequence[int]]) -> Annotations:
        """Annotate sentences of any lengths, each at least one token: pads them to (B, T)."""
        device = self.embedding.weight.device
        rows = [torch.tensor(each, dtype=torch.long) for each in sentences]
        lengths = torch.tensor([len(each) for each in rows], device=device)
        annotations = self(pad_sequence(rows, batch_first=True).to(device), lengths)
        assert isinstance(annotations, Annotations)
        return annotations


def most_target_tokens(lengths: Tensor) -> Tensor:
    """Return how many tokens a translation may have at most: sources (B,) tokens → (B,) long.

    A cap on decoders that find no end, far above any real translation.
    """
    return 2 * lengths + 10
