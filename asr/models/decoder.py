"""The recurrent decoder of Bahdanau et al. 2015 and its variants: one step, one forward pass."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from asr.attention.additive import AdditiveAttention
from asr.attention.contract import Annotations, Attention, Memory
from asr.attention.normalizers import at_least_float32
from asr.errors import UserError
from asr.models.cells import CELLS, Cell, State, gate_norm
from asr.models.dropout import Dropout, TokenDropout
from asr.models.fused.loop import Gates, Unrolled, can_unroll, unroll
from asr.models.initial import initial_state, mean
from asr.models.readout import Readout, TiedOutput
from asr.models.settings import DecoderSettings
from asr.models.state import DecoderState


class DecoderOutput(NamedTuple):
    """The readouts and attention weights of teacher forcing, and the output layer's parameters.

    readout: (B, U, R). weights: (B, U, T), the attention weights of each step. matrix: (V, R).
    bias: (V,).
    """

    readout: Tensor
    weights: Tensor
    matrix: Tensor
    bias: Tensor

    @property
    def logits(self) -> Tensor:
        """(B, U, V), in float32 at least; computed at each access, because they are large."""
        readout = self.readout.to(self.matrix.dtype)
        return at_least_float32(functional.linear(readout, self.matrix, self.bias))


class Decoder(nn.Module):
    """Decoder steps: attention, cell update, and logits from state, last token and context.

    With the default settings: c_i = attention(s_{i−1}, h);  s_i = GRU(s_{i−1}, [y_{i−1}; c_i]);
    p(y_i) = softmax(W_o maxout(U_o s_i + V_o y_{i−1} + C_o c_i));  s_0 from h⃖_1.
    Source: Bahdanau et al. 2015, eq. (4) to (6) and appendix A.2.2; the readout uses s_i, as in
    eq. (4); the appendix has s_{i−1}.

    `settings.attend` selects the query and the input for the context:

    - "before" the cell: the query is s_{i−1}; the inputs of the cell are token and context
      (Bahdanau et al. 2015).
    - "between" two cells: the input of the first is the token, its state is the query, and the
      input of the second is the context (conditional GRU: Sennrich et al. 2017, "Nematus",
      section 2).
    - "after" the cell, whose input is the token alone: the query is s_i (Luong et al. 2015,
      section 3).

    The input of a layer above the first is the state of the layer below, with dropout and without
    residual connections. With "before" and "after" the query is the state of the top layer; the
    two cells of "between" are the first layer. The readout uses the state of the top layer.
    """

    def __init__(
        self,
        attention: Attention,
        vocabulary_size: int,
        annotation_size: int,
        settings: DecoderSettings,
    ) -> None:
        """Build the decoder for V tokens and annotations of size E.

        attention: its query size is `settings.state_size`, its annotation size E.

        Raises:
            UserError: unknown names or incompatible settings.
        """
        super().__init__()
        _check(settings)
        self.attention = attention
        self.vocabulary_size = vocabulary_size
        self.attend = settings.attend
        self.kind = CELLS[settings.cell]
        # This order determines the order in which random weights are drawn.
        self.embedding = nn.Embedding(vocabulary_size, settings.embedding_size)
        self.initial = initial_state(
            settings.initial,
            annotation_size,
            settings.layers * self.kind.parts * settings.state_size,
        )
        self._build_first_cell(annotation_size, settings)
        self._build_readout(annotation_size, settings)
        self._build_feedback(settings)
        self._build_other_cells(annotation_size, settings)
        self._build_dropout(settings)

    def _build_first_cell(self, annotation_size: int, settings: DecoderSettings) -> None:
        """Build the products of the first cell; that of the tokens runs once for all steps."""
        gates = self.kind.gates * settings.state_size
        self.token_gates: nn.Linear | None = None
        if settings.token_to_cell:
            self.token_gates = nn.Linear(settings.embedding_size, gates)
        self.context_gates: nn.Linear | None = None
        if settings.attend == "before":
            self.context_gates = nn.Linear(annotation_size, gates, bias=False)
        self.state_gates = nn.Linear(settings.state_size, gates)
        self.input_norm = gate_norm(settings.layer_norm, gates)
        self.state_norm = gate_norm(settings.layer_norm, gates)

    def _build_readout(self, annotation_size: int, settings: DecoderSettings) -> None:
        """Build the readout and the output layer."""
        self.readout = Readout(
            settings.readout,
            settings.state_size,
            settings.embedding_size if settings.readout_token else 0,
            annotation_size if settings.readout_context else 0,
            settings.readout_size,
        )
        self.output: nn.Linear | TiedOutput
        if settings.tied:
            # With torch's N(0, 1), a tied output layer would give logits of magnitude √M.
            nn.init.normal_(self.embedding.weight, std=settings.readout_size**-0.5)
            self.output = TiedOutput(self.embedding)
        else:
            self.output = nn.Linear(settings.readout_size, self.vocabulary_size)

    def _build_feedback(self, settings: DecoderSettings) -> None:
        """Build input feeding, from the last readout to the first cell, if it is set."""
        self.feed_gates: nn.Linear | None = None
        if settings.input_feeding:
            gates = self.kind.gates * settings.state_size
            self.feed_gates = nn.Linear(settings.readout_size, gates, bias=False)

    def _build_other_cells(self, annotation_size: int, settings: DecoderSettings) -> None:
        """Build the second cell of "between", and the layers above the first."""
        size, norm = settings.state_size, settings.layer_norm
        self.second: Cell | None = None
        if settings.attend == "between":
            self.second = Cell(self.kind, annotation_size, size, norm)
        self.upper = nn.ModuleList(
            Cell(self.kind, size, size, norm) for _ in range(settings.layers - 1)
        )

    def _build_dropout(self, settings: DecoderSettings) -> None:
        """Build all dropout; `settings.dropout` is the default rate."""
        self.dropout = Dropout(settings.dropout)
        self.token_dropout = TokenDropout(settings.token_dropout)
        self.embedding_dropout = _dropout(settings.embedding_dropout, settings.dropout)
        self.readout_dropout = _dropout(settings.readout_dropout, settings.dropout)

    def prepare(self, annotations: Annotations) -> Memory:
        """Compute the memory that all steps share: annotations (B, T, E) and their keys."""
        return self.attention.prepare(annotations)

    def without_audio(self, memory: Memory) -> Memory:
        """Return a memory whose only annotation is the mean: with it the decoder is its own
        internal language model (see `asr.search.internal_model`).
        """
        values = mean(memory)[:, None]  # (B, 1, E)
        mask = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
        return self.prepare(Annotations(values, mask))

    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first step, with N = 1."""
        # In the precision of the weights: under autocast, sums over steps keep full precision.
        first = self.initial.state(memory)[:, None].to(self.embedding.weight.dtype)
        parts = first.chunk((1 + len(self.upper)) * self.kind.parts, dim=-1)  # (B, 1, H) each
        rest = parts[1:]
        if self.feed_gates is not None:
            rest = (*rest, first.new_zeros(len(first), 1, self.feed_gates.in_features))
        context = memory.values.new_zeros(len(first), 1, memory.values.size(2))
        return DecoderState(parts[0], context, self.attention.start(memory), rest)

    def step(
        self, token: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, DecoderState]:
        """Compute one step: last tokens (B, N) → logits (B, N, V) and the next state."""
        embedded = self._embed(token)  # (B, N, M)
        state = self._advance(embedded, self._gate_tokens(embedded), state, memory)
        readout = self.readout_dropout(self._read([state], embedded))
        return at_least_float32(self.output(readout)), state

    def forward(self, previous: Tensor, memory: Memory) -> DecoderOutput:
        """Teacher forcing: previous tokens (B, U), beginning with <eos> → output of all steps.

        Equal to U calls of `step`. Parts outside the recurrence (embedding, the tokens' part of the
        gates, readout without input feeding, output layer) are computed once for all steps.
        """
        embedded = self._embed(previous)  # (B, U, M)
        gates = self._gate_tokens(embedded)
        if (
            self._is_plain
            and can_unroll(self.attention)
            and not self.attention.uses_kernel(previous.device)
        ):
            hidden, context, weights = self._unroll(self.attention, gates, memory)
            return self._output(self.readout.read(hidden, embedded, context), weights)
        states = [self.start(memory)]
        for one, its_gates in zip(embedded.split(1, dim=1), gates.split(1, dim=1), strict=True):
            states.append(self._advance(one, its_gates, states[-1], memory))
        weights = torch.cat([state.alignment.weights for state in states[1:]], dim=1)  # (B, U, T)
        return self._output(self._read(states[1:], embedded), weights)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.embedding_dropout(self.token_dropout(self.embedding(tokens)))
        return embedded

    def _gate_tokens(self, embedded: Tensor) -> Tensor:
        """Compute the tokens' part of the first cell's gates: embedded (B, U, M) → (B, U, ·)."""
        if self.token_gates is None:
            return embedded.new_zeros(*embedded.shape[:2], self.state_gates.out_features)
        gates: Tensor = self.token_gates(embedded)
        return gates

    @property
    def _is_plain(self) -> bool:
        """Whether `unroll` supports the recurrence."""
        return (
            self.attend != "after"
            and not len(self.upper)
            and self.feed_gates is None
            and isinstance(self.input_norm, nn.Identity)
        )

    def _unroll(self, attention: AdditiveAttention, gates: Tensor, memory: Memory) -> Unrolled:
        """Run all steps of one layer; gates (B, U, G·H): of `_gate_tokens`."""
        if self.second is not None:
            second = self.second
            matrices = Gates(second.input_gates, second.state_gates, self.state_gates, self.kind)
        else:
            assert self.context_gates is not None
            matrices = Gates(self.context_gates, self.state_gates, kind=self.kind)
        start = self.start(memory)
        parts = torch.cat([start.hidden, *start.rest], dim=2)[:, 0]  # (B, P·H)
        return unroll(attention, memory, parts, gates, matrices)

    def _advance(
        self, embedded: Tensor, gates: Tensor, state: DecoderState, memory: Memory
    ) -> DecoderState:
        """Compute a step up to the readout: embedded (B, N, M), with gates of `_gate_tokens`."""
        *upper, lowest = self._layers(state)
        if self.feed_gates is not None:
            gates = gates + self.feed_gates(state.rest[-1])
        if self.context_gates is not None:
            context, alignment = self.attention(state.hidden, memory, state.alignment)
            gates = gates + self.context_gates(context)
        old = self.state_norm(self.state_gates(lowest[0]))
        lowest = self.kind.advance(self.input_norm(gates), old, lowest)
        if self.second is not None:
            context, alignment = self.attention(lowest[0], memory, state.alignment)
            lowest = self.second(context, lowest)
        flat = self._advance_upper(lowest, upper)
        if self.attend == "after":
            context, alignment = self.attention(flat[0], memory, state.alignment)
        rest = flat[1:]
        if self.feed_gates is not None:
            rest = (*rest, self.readout.read(flat[0], embedded, context))
        return DecoderState(flat[0], context, alignment, rest)

    def _layers(self, state: DecoderState) -> list[State]:
        """Split a state into layers, top layer first."""
        flat = (state.hidden, *state.rest)
        parts = self.kind.parts
        return [flat[at * parts : (at + 1) * parts] for at in range(1 + len(self.upper))]

    def _advance_upper(self, lowest: State, upper: list[State]) -> State:
        """Update the layers above the first: its new state, their old states → all, top first."""
        flat = lowest
        for cell, old in zip(self.upper, reversed(upper), strict=True):
            flat = (*cell(self.dropout(flat[0]), old), *flat)
        return flat

    def _read(self, states: list[DecoderState], embedded: Tensor) -> Tensor:
        """Return the readouts (B, N, R) of several states, concatenated along N."""
        if self.feed_gates is not None:
            return torch.cat([state.rest[-1] for state in states], dim=1)
        hidden = torch.cat([state.hidden for state in states], dim=1)
        context = torch.cat([state.context for state in states], dim=1)
        return self.readout.read(hidden, embedded, context)

    def _output(self, readout: Tensor, weights: Tensor) -> DecoderOutput:
        """Join readout (B, U, R), weights (B, U, T) and the parameters of the output layer."""
        layer = self.output
        return DecoderOutput(self.readout_dropout(readout), weights, layer.weight, layer.bias)


def _check(settings: DecoderSettings) -> None:
    """Refuse settings that do not fit together."""
    if settings.attend == "after" and not settings.readout_context:
        raise UserError(
            'with decoder.attend = "after" only the readout uses the context, so '
            "decoder.readout_context must be true"
        )
    if settings.tied and settings.readout_size != settings.embedding_size:
        raise UserError(
            "decoder.tied wants decoder.readout_size and decoder.embedding_size to be equal, "
            f"got {settings.readout_size} and {settings.embedding_size}"
        )


def _dropout(rate: float | None, otherwise: float) -> Dropout:
    return Dropout(otherwise if rate is None else rate)
