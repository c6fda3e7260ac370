"""A small Transformer translator of torch's layers, with the interface of the package's decoder.

Search, training and the measures of this folder use it like `asr.models.translation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path

import torch
from torch import Tensor, nn

from asr.attention.contract import Alignment, Annotations, Memory
from asr.attention.normalizers import at_least_float32, masked_softmax
from asr.inference.translator import Translator
from asr.models.decoder import DecoderOutput
from asr.models.dropout import Dropout
from asr.models.encoders.acoustic import length_mask
from asr.models.encoders.self_attention import add_positions
from asr.models.folder import load_weights, read_folder, save_folder
from asr.models.readout import TiedOutput
from asr.models.state import DecoderState
from asr.models.translation import EncodedText
from asr.runtime.torch_engine import TorchTextEngine
from asr.text.vocabulary import of_both_sides
from asr.training.config import TranslationConfig
from asr.training.tasks.translation import TranslationTask


@dataclass(frozen=True)
class Sizes:
    """size: of embeddings and annotations. feed_forward: between the products of a layer."""

    size: int = 128
    layers: int = 2  # of the encoder, and of the decoder
    heads: int = 4
    feed_forward: int = 192
    dropout: float = 0.2


class Encoder(nn.Module):
    """Embedding, positions and `nn.TransformerEncoderLayer`s (pre-normalisation)."""

    def __init__(self, embedding: nn.Embedding, sizes: Sizes) -> None:
        """Borrow the embedding of the decoder."""
        super().__init__()
        self._table = (embedding,)  # in a tuple, so that the weight is not registered twice
        self.layers = nn.ModuleList(
            _quick(nn.TransformerEncoderLayer(*_layer(sizes), batch_first=True, norm_first=True))
            for _ in range(sizes.layers)
        )
        self.norm = nn.LayerNorm(sizes.size)
        self.dropout = Dropout(sizes.dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Annotations:
        """Annotate tokens (B, T) of lengths (B,) → (B, T, E)."""
        mask = length_mask(lengths, tokens.size(1))
        hidden = self.dropout(add_positions(_embed(self._table[0], tokens)))
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=~mask)
        return Annotations(self.norm(hidden) * mask[:, :, None], mask)


class TransformerDecoder(nn.Module):
    """`nn.TransformerDecoderLayer`s with the contract of `asr.models.decoder.Decoder`.

    A state holds the keys and values of the steps so far in `rest`, one tensor (B, N, U·2E) per
    layer; keys and values of the annotations are in the memory. The alignment is the mean over
    heads of the attention to the source, of the layers `shown`.
    Source: Vaswani et al. 2017; the norm's place, Xiong et al. 2020.
    """

    def __init__(self, vocabulary_size: int, sizes: Sizes) -> None:
        """Make the layers; one matrix for the embedding and the output layer."""
        super().__init__()
        self.heads = sizes.heads
        self.embedding = nn.Embedding(vocabulary_size, sizes.size)
        nn.init.normal_(self.embedding.weight, std=sizes.size**-0.5)
        self.layers = nn.ModuleList(
            _quick(nn.TransformerDecoderLayer(*_layer(sizes), batch_first=True, norm_first=True))
            for _ in range(sizes.layers)
        )
        self.norm = nn.LayerNorm(sizes.size)
        self.output = TiedOutput(self.embedding)
        self.dropout = Dropout(sizes.dropout)
        self.shown: Sequence[int] = [sizes.layers - 1]

    def prepare(self, annotations: Annotations) -> Memory:
        """Compute the keys and values (B, T, L·2E) of all layers, once per sentence."""
        both = [_project(each.multihead_attn, annotations.values, 1, 3) for each in self.layers]
        return Memory(*annotations, torch.cat(both, dim=-1))

    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first step, with N = 1."""
        nothing = memory.values.new_zeros(len(memory.mask), 1, 0)
        zeros = memory.values.new_zeros(len(memory.mask), 1, memory.mask.size(1))
        first = memory.values.new_zeros(len(memory.mask), 1, memory.values.size(2))
        return DecoderState(first, first, Alignment(zeros, zeros), (nothing,) * len(self.layers))

    def step(
        self, token: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, DecoderState]:
        """Compute one step: last tokens (B, N) → logits (B, N, V) and the next state."""
        size = self.embedding.embedding_dim
        shape = (token.numel(), -1, size)
        at = state.rest[0].size(2) // (2 * size)
        embedded = _embed(self.embedding, token)
        places = add_positions(embedded.new_zeros(1, at + 1, size))[:, -1]
        hidden, kept = self.dropout(embedded + places), []

        def own(number: int, projected: Tensor) -> Tensor:
            query, new = projected.split([size, 2 * size], dim=-1)  # (B, N, E) and (B, N, 2E)
            kept.append(torch.cat([state.rest[number], new], dim=-1))
            both = kept[-1].unflatten(-1, (-1, 2 * size)).chunk(2, dim=-1)
            read, _ = self._attend(*(each.reshape(shape) for each in (query, *both)))
            return read.view_as(query)

        hidden, weights = self._run(hidden, memory, own)
        logits = at_least_float32(self.output(hidden))
        return logits, DecoderState(
            hidden, state.context, state.alignment.advance(weights), tuple(kept)
        )

    def forward(self, previous: Tensor, memory: Memory) -> DecoderOutput:
        """Teacher forcing: previous tokens (B, U) → output of all steps; equal to U steps."""
        length = previous.size(1)
        allowed = torch.ones(length, length, dtype=torch.bool, device=previous.device).tril()
        hidden = self.dropout(add_positions(_embed(self.embedding, previous)))

        def own(_: int, projected: Tensor) -> Tensor:
            return self._attend(*projected.chunk(3, dim=-1), allowed)[0]

        hidden, weights = self._run(hidden, memory, own)
        return DecoderOutput(hidden, weights, self.output.weight, self.output.bias)

    def _run(
        self, hidden: Tensor, memory: Memory, own: Callable[[int, Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Apply all layers to (B, N, E); own: self-attention of a layer's number and q, k, v.

        Returns the readout (B, N, E) and the mean weights (B, N, T) of the layers `shown`.
        """
        prepared = memory.keys.chunk(2 * len(self.layers), dim=-1)
        shown = []
        for number, layer in enumerate(self.layers):
            projected = _project(layer.self_attn, layer.norm1(hidden), 0, 3)
            hidden = hidden + layer.dropout1(layer.self_attn.out_proj(own(number, projected)))
            query = _project(layer.multihead_attn, layer.norm2(hidden), 0, 1)
            read, weights = self._attend(
                query, *prepared[2 * number : 2 * number + 2], memory.mask[:, None, None]
            )
            hidden = hidden + layer.dropout2(layer.multihead_attn.out_proj(read))
            inner = layer.dropout(layer.activation(layer.linear1(layer.norm3(hidden))))
            hidden = hidden + layer.dropout3(layer.linear2(inner))
            if number in self.shown:
                shown.append(weights.mean(1))
        return self.norm(hidden), torch.stack(shown).mean(0)

    def _attend(
        self, query: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend: (B, Q, E) to (B, K, E) → (B, Q, E) and weights (B, heads, Q, K)."""
        query, keys, values = (
            each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (query, keys, values)
        )
        energies = query @ keys.transpose(-1, -2) / sqrt(query.size(-1))
        if allowed is None:
            allowed = energies.new_ones(1, dtype=torch.bool)
        weights = masked_softmax(energies, allowed)
        read = self.dropout(weights).to(values.dtype) @ values
        return read.transpose(1, 2).flatten(2), weights


class Transformer(nn.Module):
    """Tokens in, tokens out, as `asr.models.translation.TranslationModel`."""

    def __init__(self, vocabulary_size: int, sizes: Sizes) -> None:
        super().__init__()
        self.decoder = TransformerDecoder(vocabulary_size, sizes)
        self.encoder = Encoder(self.decoder.embedding, sizes)
        for name, each in self.named_parameters():  # of both, as in `nn.Transformer`
            if each.dim() > 1 and "embedding" not in name:
                nn.init.xavier_uniform_(each)

    def encode(self, tokens: Tensor, lengths: Tensor) -> EncodedText:
        """Encode source tokens (B, T) of lengths (B,)."""
        annotations = self.encoder(tokens, lengths)
        return EncodedText(self.decoder.prepare(annotations), annotations.mask.sum(1))


class TransformerTask(TranslationTask):
    """The translation task with this model: the same pairs, vocabulary, batches and loss."""

    def __init__(
        self, config: TranslationConfig, data: Path, config_folder: Path, sizes: Sizes
    ) -> None:
        """Read the data and make the model; the sizes of the config's model are not used."""
        super().__init__(config, data, config_folder)
        self.sizes = sizes
        torch.manual_seed(config.seed)
        self.model = Transformer(len(self.source), sizes).to(self.device)

    def save(self, folder: Path) -> None:
        """Write a folder for `load`; the package's commands cannot read its sizes."""
        save_folder(
            folder,
            task="translation",
            model={"transformer": asdict(self.sizes)},
            vocabularies={"source": self.source.to_json(), "target": self.target.to_json()},
            state=self.model.state_dict(),
            notes={},
        )


def load(path: Path) -> Translator:
    """Load a folder that `TransformerTask.save` wrote."""
    folder = read_folder(path, "translation")
    source, target = of_both_sides(folder.path, folder.vocabularies)
    model = Transformer(len(target), Sizes(**folder.model["transformer"]))
    load_weights(model, folder.path)
    return Translator((TorchTextEngine(model.eval().requires_grad_(False)),), source, target)


def _embed(embedding: nn.Embedding, tokens: Tensor) -> Tensor:
    """Embed tokens, scaled as in Vaswani et al. 2017, section 3.4."""
    return embedding(tokens) * sqrt(embedding.embedding_dim)


def _project(attention: nn.MultiheadAttention, values: Tensor, first: int, last: int) -> Tensor:
    """Return the projections first … last of query, key and value, side by side."""
    rows = slice(first * attention.embed_dim, last * attention.embed_dim)
    return nn.functional.linear(
        values, attention.in_proj_weight[rows], attention.in_proj_bias[rows]
    )


def _layer(sizes: Sizes) -> tuple[int, int, int, float]:
    return sizes.size, sizes.heads, sizes.feed_forward, sizes.dropout


def _quick(layer: nn.Module) -> nn.Module:
    """Replace the dropout modules of a layer by `asr.models.dropout.Dropout`."""
    for name, part in layer.named_children():
        if isinstance(part, nn.Dropout):
            setattr(layer, name, Dropout(part.p))
    return layer
