"""Token ids → annotations: embedding, bidirectional recurrent layers, self-attention."""

from __future__ import annotations

from torch import Tensor, nn

from asr.attention.contract import Annotations
from asr.errors import UserError
from asr.models.dropout import Dropout, TokenDropout
from asr.models.encoders.acoustic import length_mask
from asr.models.encoders.recurrent import Bidirectional, reversal
from asr.models.encoders.self_attention import SelfAttention, add_positions


class TextualEncoder(nn.Module):
    """Embedding, bidirectional recurrent layers, self-attention; either kind may be absent.

    The recurrent layers are those of Bahdanau et al. 2015 (appendix A.2.1), with LSTMs in place
    of gated units unless asked otherwise, and residual from the second on. Without
    self-attention over it, the first half of an annotation was read forwards, the second
    backwards. Without recurrent layers, positions are added to the embedded tokens instead, as
    in Vaswani et al. 2017; where recurrent layers have read the order, they are not.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding_size: int,
        state_size: int,
        layers: int,
        dropout: float,
        cell: str,
        attention_layers: int,
        heads: int,
        token_dropout: float,
        embedding_dropout: float | None,
        annotation_dropout: float | None,
    ) -> None:
        """Make the encoder.

        state_size: of one direction; an annotation is of twice the size, whatever the layers.
        layers: recurrent ones; cell: a name in `asr.models.encoders.recurrent.READERS`.
        attention_layers, heads: see `asr.models.encoders.self_attention.SelfAttention`.
        dropout: between and in layers, and of what the last two leave at None.
        token_dropout: of whole tokens; see `asr.models.dropout.TokenDropout`.
        embedding_dropout, annotation_dropout: of the embedded tokens and of the annotations.

        Raises:
            UserError: no layer at all, an unknown cell, or heads that do not divide the size.
        """
        super().__init__()
        if min(layers, attention_layers) < 0 or layers + attention_layers == 0:
            raise UserError(
                f"encoder.layers + encoder.attention_layers must be at least 1 and neither may "
                f"be negative, got {layers} + {attention_layers}"
            )
        self.size = 2 * state_size
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self._table = (self.embedding,)
        self.first: Bidirectional | None = None
        self.enter: nn.Sequential | None = None
        if layers:
            self.first = Bidirectional(embedding_size, state_size, cell)
        else:  # normalised, so that tokens and positions have the same scale
            project = nn.Linear(embedding_size, self.size)
            self.enter = nn.Sequential(project, nn.LayerNorm(self.size))
        self.rest = nn.ModuleList(
            Bidirectional(self.size, state_size, cell) for _ in range(layers - 1)
        )
        self.self_attention: SelfAttention | None = None
        if attention_layers:
            self.self_attention = SelfAttention(self.size, attention_layers, heads, dropout)
        self.dropout = Dropout(dropout)
        self.token_dropout = TokenDropout(token_dropout)
        self.embedding_dropout = Dropout(
            dropout if embedding_dropout is None else embedding_dropout
        )
        self.annotation_dropout = Dropout(
            dropout if annotation_dropout is None else annotation_dropout
        )

    def borrow_embedding(self, embedding: nn.Embedding) -> None:
        """Use the embedding of another module, which owns it, instead of an own one.

        Raises:
            UserError: it is of other sizes than the own one.
        """
        wanted, got = self._table[0].weight.shape, embedding.weight.shape
        if wanted != got:
            raise UserError(
                "one embedding for both languages wants one joint vocabulary and encoder and "
                f"decoder of one embedding_size, got {tuple(wanted)} and {tuple(got)}"
            )
        del self.embedding
        # In a tuple, so that the weight is not registered twice.
        self._table = (embedding,)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Annotations:
        """Annotate tokens (B, T) of lengths (B,) → (B, T, size), 0 beyond each length."""
        mask = length_mask(lengths, tokens.size(1))
        embedded = self.token_dropout(self._table[0](tokens))
        hidden = self._read(self.embedding_dropout(embedded), lengths)
        if self.self_attention is not None:
            hidden = self.self_attention(hidden, mask)
        return Annotations(self.annotation_dropout(hidden) * mask[:, :, None], mask)

    def _read(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Apply the recurrent layers to embedded tokens (B, T, M) → (B, T, size)."""
        if self.enter is not None:
            return add_positions(self.enter(embedded))
        assert self.first is not None
        order = reversal(lengths, embedded.size(1))
        hidden: Tensor = self.first(embedded, order)
        for layer in self.rest:
            hidden = hidden + layer(self.dropout(hidden), order)
        return hidden
