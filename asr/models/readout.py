"""The readout of state, last token and context, and the output layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional


def maxout(values: Tensor) -> Tensor:
    """Maximum of adjacent pairs: (…, 2R) → (…, R). Source: Goodfellow et al. 2013."""
    larger: Tensor = values.unflatten(-1, (-1, 2)).amax(-1)
    return larger


# name in a config → function, and number of its inputs per output
ACTIVATIONS: Mapping[str, tuple[Callable[[Tensor], Tensor], int]] = MappingProxyType(
    {"maxout": (maxout, 2), "tanh": (torch.tanh, 1)}
)


class Readout(nn.Linear):
    """t_i = f(U s_i + V y_{i−1} + C c_i), with or without the last two terms.

    Source: maxout, Bahdanau et al. 2015, appendix A.2.2; tanh of state and context, the
    "attentional vector" of Luong et al. 2015, eq. (5); tanh of all three, Sennrich et al. 2017.
    """

    def __init__(
        self,
        kind: str,
        state_size: int,
        embedding_size: int,
        annotation_size: int,
        readout_size: int,
    ) -> None:
        """Build the readout of a kind in `ACTIVATIONS`; a size of 0 omits token or context."""
        activation, width = ACTIVATIONS[kind]
        super().__init__(state_size + embedding_size + annotation_size, width * readout_size)
        self.activation = activation
        self.takes_token = embedding_size > 0
        self.takes_context = annotation_size > 0

    def read(self, hidden: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """Return t_i (B, N, R): hidden (B, N, H), embedded (B, N, M), context (B, N, E)."""
        given = [hidden]
        if self.takes_token:
            given.append(embedded)
        if self.takes_context:
            given.append(context)
        return self.activation(self(torch.cat(given, dim=-1)))


class TiedOutput(nn.Module):
    """An output layer with the matrix of the embedding and a separate bias.

    Source: Press and Wolf 2017; Inan et al. 2017.
    """

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.bias = nn.Parameter(embedding.weight.new_zeros(embedding.num_embeddings))
        # In a tuple, so that the weight is not registered, and saved, a second time.
        self._borrowed = (embedding,)

    @property
    def weight(self) -> Tensor:
        """(V, M), the embedding matrix."""
        return self._borrowed[0].weight

    def forward(self, readout: Tensor) -> Tensor:
        """Return logits (…, V) of readout (…, M)."""
        return functional.linear(readout, self.weight, self.bias)
