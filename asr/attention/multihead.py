"""Several heads of any mechanism, with separate or shared keys and values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr.attention.contract import Alignment, Annotations, Attention, Memory


class MultiHeadAttention(Attention):
    """O [c_1; …; c_M], c_m the context of a mechanism applied to Q_m s, K_m h_j and V_m h_j.

    The mechanism gets the heads of an utterance as utterances of a batch, and query heads that
    share keys and values as hypotheses, so that one call computes all heads. Heads have separate
    Q_m, K_m and V_m and share the parameters of the mechanism. The returned weights, which are
    also the past that each head uses, are the mean over the heads: a window has the same position
    for all heads, and the size of the state does not depend on their number.
    Source: Vaswani et al. 2017, section 3.2.2; shared keys and values: Shazeer 2019
    (multi-query), Ainslie et al. 2023 (grouped-query).
    """

    context_is_weighted_mean = False

    def __init__(
        self,
        head: Attention,
        head_size: int,
        query_size: int,
        annotation_size: int,
        heads: int,
        key_value_heads: int | None = None,
    ) -> None:
        """Make the projections of a mechanism.

        head: a mechanism for queries and annotations of size head_size. heads: M.
        key_value_heads: number of K and V, each shared by M / key_value_heads query heads: M (or
            None) means separate ones, 1 is multi-query attention.
        """
        super().__init__()
        shared = heads if key_value_heads is None else key_value_heads
        if heads < 1 or shared < 1 or heads % shared:
            raise ValueError(
                f"key_value_heads must be at least 1 and divide heads, got {shared} and {heads}"
            )
        self.head = head
        self.head_size = head_size
        self.key_value_heads = shared
        self.query = nn.Linear(query_size, heads * head_size, bias=False)
        self.key = nn.Linear(annotation_size, shared * head_size, bias=False)
        self.value = nn.Linear(annotation_size, shared * head_size, bias=False)
        self.output = nn.Linear(heads * head_size, annotation_size, bias=False)
        # Torch's default initialisation would scale queries, and values after two layers, by a
        # third, and the attention weights would stay flat for a long time.
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the heads' keys and values: annotations (B, T, E) → memory, keys (B, K, T, A + D).

        K key/value heads; the last dimension has the keys of the mechanism, then D = head_size
        values.
        """
        keys, values = self._split(self.key(annotations.values)), self.value(annotations.values)
        mask = annotations.mask.repeat_interleave(self.key_value_heads, 0)  # (B·K, T)
        prepared = self.head.prepare(Annotations(keys, mask)).keys  # (B·K, T, A)
        both = torch.cat([prepared, self._split(values)], dim=-1)  # (B·K, T, A + D)
        keys = both.unflatten(0, (-1, self.key_value_heads))
        return Memory(annotations.values, annotations.mask, keys)

    def forward(
        self, query: Tensor, memory: Memory, previous: Alignment
    ) -> tuple[Tensor, Alignment]:
        """Attend: query (B, N, H) → context (B, N, E) and the alignment of this step (B, N, T)."""
        batch, hypotheses, _ = query.shape
        shared = self.key_value_heads
        queries = self.query(query).view(batch, hypotheses, shared, -1, self.head_size)
        group = queries.size(3)  # query heads for each key/value head, G
        both = memory.keys.flatten(0, 1)  # (B·K, T, A + D)
        head_memory = Memory(
            values=both[..., -self.head_size :],
            mask=memory.mask.repeat_interleave(shared, 0),
            keys=both[..., : -self.head_size],
        )
        context, alignment = self.head(
            queries.transpose(1, 2).reshape(batch * shared, hypotheses * group, self.head_size),
            head_memory,
            Alignment(*(self._to_heads(each, group) for each in previous)),
        )
        contexts = context.view(batch, shared, hypotheses, -1).transpose(1, 2)  # (B, N, K, G·D)
        weights = alignment.weights.view(batch, shared, hypotheses, group, -1).mean((1, 3))
        return self.output(contexts.flatten(2)), previous.advance(weights)

    def _split(self, projected: Tensor) -> Tensor:
        """Move heads to the batch dimension: (B, T, K·D) → (B·K, T, D)."""
        heads = projected.unflatten(-1, (self.key_value_heads, self.head_size))
        split: Tensor = heads.transpose(1, 2).flatten(0, 1)
        return split

    def _to_heads(self, past: Tensor, group: int) -> Tensor:
        """Repeat the past of each hypothesis for all its heads: (B, N, T) → (B·K, N·G, T)."""
        shown = past[:, None, :, None].expand(-1, self.key_value_heads, -1, group, -1)
        return shown.flatten(2, 3).flatten(0, 1)
