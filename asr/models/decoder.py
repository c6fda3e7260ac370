"""The recurrent decoder of Bahdanau et al. 2015 and its kin: one step for training and search."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from asr.attention.additive import AdditiveAttention
from asr.attention.contract import Alignment, Annotations, Attention, Memory
from asr.attention.normalizers import at_least_float32
from asr.errors import UserError
from asr.models.cells import CELLS, Cell, State, gate_norm
from asr.models.dropout import Dropout, TokenDropout
from asr.models.fused.loop import Unrolled, can_unroll, unroll
from asr.models.initial import initial_state
from asr.models.readout import Readout, TiedOutput

ATTEND = ("before", "between", "after")

Tree = TypeVar("Tree")


class DecoderState(NamedTuple):
    """All that a step hands to the next, for N hypotheses of each of B utterances.

    hidden: (B, N, H), s_i, of the top layer. context: (B, N, E), c_i. alignment: where the steps
    looked. rest: (B, N, ·) each, what else is carried on, from the top layer down: the c of an
    LSTM, the layers below; last the readout, where it is fed back.
    """

    hidden: Tensor
    context: Tensor
    alignment: Alignment
    rest: tuple[Tensor, ...] = ()

    def select(self, index: Tensor) -> DecoderState:
        """Reorder hypotheses: the m-th new one is the old one index[b, m]; index (B, M)."""
        return _select(self, index)


class DecoderOutput(NamedTuple):
    """What teacher forcing gives, up to the output layer, and that layer.

    readout: (B, U, R). weights: (B, U, T), where each step looked. matrix: (V, R). bias: (V,).
    """

    readout: Tensor
    weights: Tensor
    matrix: Tensor
    bias: Tensor

    @property
    def logits(self) -> Tensor:
        """(B, U, V), in float32 at least: made anew whenever they are asked for, being large."""
        readout = self.readout.to(self.matrix.dtype)
        return at_least_float32(functional.linear(readout, self.matrix, self.bias))


class Decoder(nn.Module):
    """Attend, move the cell on, read the token out of state, last token and context.

    As it stands without options: c_i = attention(s_{i−1}, h);  s_i = GRU(s_{i−1}, [y_{i−1}; c_i]);
    p(y_i) = softmax(W_o maxout(U_o s_i + V_o y_{i−1} + C_o c_i));  s_0 from h⃖_1.
    Source: Bahdanau et al. 2015, eq. (4) to (6) and appendix A.2.2; the readout takes s_i, as
    eq. (4) has it, where the appendix writes s_{i−1}.

    What attention is asked with, and what reads its answer, is `attend`:

    - "before" the cell, with s_{i−1}; the cell reads token and context (Bahdanau et al. 2015).
    - "between" two cells: the first reads the token, its state asks, the second reads the
      context (conditional GRU: Sennrich et al. 2017, "Nematus", section 2).
    - "after" the cell, which reads the token alone; with s_i (Luong et al. 2015, section 3).

    Layers above the first read the state of the one below, through dropout and without residual
    sums. "before" and "after" ask with the state of the top layer; the two cells of "between"
    are the first layer. The readout takes the top layer's state.
    """

    def __init__(
        self,
        attention: Attention,
        vocabulary_size: int,
        annotation_size: int,
        embedding_size: int = 64,
        state_size: int = 320,
        readout_size: int = 256,
        dropout: float = 0.1,
        *,
        cell: str = "gru",
        layers: int = 1,
        attend: str = "before",
        input_feeding: bool = False,
        initial: str = "last_backward",
        token_to_cell: bool = True,
        readout: str = "maxout",
        readout_token: bool = True,
        readout_context: bool = True,
        tied: bool = False,
        layer_norm: bool = False,
        token_dropout: float = 0.0,
        embedding_dropout: float | None = None,
        readout_dropout: float | None = None,
    ) -> None:
        """Make the decoder.

        cell: a name in `CELLS`. attend: see above. initial: see `asr.models.initial`.
        input_feeding: the first cell also reads the last readout (Luong et al. 2015, section 3.3).
        token_to_cell, readout_token, readout_context: whether the last token reaches the cell,
            and token and context the readout.
        readout: a name in `asr.models.readout.ACTIVATIONS`.
        tied: the output layer's matrix is the embedding's.
        layer_norm: of what enters the gates of all cells; see `asr.models.cells.gate_norm`.
        dropout: between layers, and of what the last two leave at None.
        token_dropout: of whole tokens; see `asr.models.dropout.TokenDropout`.
        embedding_dropout, readout_dropout: of the embedded tokens, and before the output layer.

        Raises:
            UserError: an unknown name, or options that do not go together.
        """
        super().__init__()
        _check(cell, layers, attend)
        if attend == "after" and not readout_context:
            raise UserError(
                'decoder.attend = "after" leaves the context to the readout alone, so '
                "decoder.readout_context must be true"
            )
        self.attention = attention
        self.vocabulary_size = vocabulary_size
        self.attend = attend
        self.kind = CELLS[cell]
        gates = self.kind.gates * state_size
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self.initial = initial_state(
            initial, annotation_size, layers * self.kind.parts * state_size
        )
        # The first cell's input product in parts, so that the tokens' runs once for all steps.
        self.token_gates = nn.Linear(embedding_size, gates) if token_to_cell else None
        self.context_gates = None
        if attend == "before":
            self.context_gates = nn.Linear(annotation_size, gates, bias=False)
        self.state_gates = nn.Linear(state_size, gates)
        self.readout = Readout(
            readout,
            state_size,
            embedding_size if readout_token else 0,
            annotation_size if readout_context else 0,
            readout_size,
        )
        self.output = self._make_output(tied, readout_size)
        self.feed_gates = nn.Linear(readout_size, gates, bias=False) if input_feeding else None
        self.input_norm = gate_norm(layer_norm, gates)
        self.state_norm = gate_norm(layer_norm, gates)
        self.second = None
        if attend == "between":
            self.second = Cell(self.kind, annotation_size, state_size, layer_norm)
        self.upper = nn.ModuleList(
            Cell(self.kind, state_size, state_size, layer_norm) for _ in range(layers - 1)
        )
        self.dropout = Dropout(dropout)
        self.token_dropout = TokenDropout(token_dropout)
        self.embedding_dropout = _dropout(embedding_dropout, dropout)
        self.readout_dropout = _dropout(readout_dropout, dropout)

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the memory that all steps share: annotations (B, T, E) → keys added."""
        return self.attention.prepare(annotations)

    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first step, with N = 1."""
        # In the weights' own precision: under autocast no product is, but what steps sum up is.
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
        """Take the last tokens (B, N) and give logits (B, N, V) of the next ones."""
        embedded = self._embed(token)  # (B, N, M)
        state = self._advance(embedded, self._enter(embedded), state, memory)
        readout = self.readout_dropout(self._read([state], embedded))
        return at_least_float32(self.output(readout)), state

    def forward(self, previous: Tensor, memory: Memory) -> DecoderOutput:
        """Teacher forcing: previous tokens (B, U), the first of them <eos> → all steps' output.

        The same as U calls of `step`; what does not depend on the recurrence (embedding, the
        tokens' part of the gates, readout unless it is fed back, output) runs once for all steps.
        """
        embedded = self._embed(previous)  # (B, U, M)
        gates = self._enter(embedded)
        if self._is_plain and can_unroll(self.attention):
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

    def _unroll(self, attention: AdditiveAttention, gates: Tensor, memory: Memory) -> Unrolled:
        """Run all steps of one layer in one function; gates (B, U, 3H) of `_enter`."""
        start, inner = self.start(memory).hidden[:, 0], self.state_gates
        if self.second is not None:
            second = self.second
            return unroll(
                attention, memory, start, gates, inner, second.input_gates, second.state_gates
            )
        assert self.context_gates is not None
        return unroll(attention, memory, start, gates, None, self.context_gates, inner)

    @property
    def _is_plain(self) -> bool:
        """Whether the recurrence is one that `unroll` computes."""
        return (
            self.attend != "after"
            and self.kind == CELLS["gru"]
            and not len(self.upper)
            and self.feed_gates is None
            and isinstance(self.input_norm, nn.Identity)
        )

    def _enter(self, embedded: Tensor) -> Tensor:
        """What tokens add to the first cell's gates: embedded (B, U, M) → (B, U, ·)."""
        if self.token_gates is None:
            return embedded.new_zeros(*embedded.shape[:2], self.state_gates.out_features)
        gates: Tensor = self.token_gates(embedded)
        return gates

    def _advance(
        self, embedded: Tensor, gates: Tensor, state: DecoderState, memory: Memory
    ) -> DecoderState:
        """Take one step up to the readout: embedded (B, N, M), and its gates of `_enter`."""
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
        flat = self._climb(lowest, upper)
        if self.attend == "after":
            context, alignment = self.attention(flat[0], memory, state.alignment)
        rest = flat[1:]
        if self.feed_gates is not None:
            rest = (*rest, self.readout.read(flat[0], embedded, context))
        return DecoderState(flat[0], context, alignment, rest)

    def _layers(self, state: DecoderState) -> list[State]:
        """Part a state by layers, from the top down."""
        flat = (state.hidden, *state.rest)
        parts = self.kind.parts
        return [flat[at * parts : (at + 1) * parts] for at in range(1 + len(self.upper))]

    def _climb(self, lowest: State, upper: list[State]) -> State:
        """Move the layers above on: new first layer, old others → all, from the top down."""
        flat = lowest
        for cell, old in zip(self.upper, reversed(upper), strict=True):
            flat = (*cell(self.dropout(flat[0]), old), *flat)
        return flat

    def _read(self, states: list[DecoderState], embedded: Tensor) -> Tensor:
        """Give the readouts (B, N, R) of states, those of several steps side by side."""
        if self.feed_gates is not None:
            return torch.cat([state.rest[-1] for state in states], dim=1)
        hidden = torch.cat([state.hidden for state in states], dim=1)
        context = torch.cat([state.context for state in states], dim=1)
        return self.readout.read(hidden, embedded, context)

    def _output(self, readout: Tensor, weights: Tensor) -> DecoderOutput:
        """Put readout (B, U, R) and weights (B, U, T) beside the layer that makes logits."""
        layer = self.output
        return DecoderOutput(self.readout_dropout(readout), weights, layer.weight, layer.bias)

    def _make_output(self, tied: bool, readout_size: int) -> nn.Linear | TiedOutput:
        if not tied:
            return nn.Linear(readout_size, self.vocabulary_size)
        if readout_size != self.embedding.embedding_dim:
            raise UserError(
                "decoder.tied wants decoder.readout_size and decoder.embedding_size to be one, "
                f"got {readout_size} and {self.embedding.embedding_dim}"
            )
        # Torch's N(0, 1) would give an output layer logits of the size of √M.
        nn.init.normal_(self.embedding.weight, std=readout_size**-0.5)
        return TiedOutput(self.embedding)


def _check(cell: str, layers: int, attend: str) -> None:
    if cell not in CELLS:
        raise UserError(f"decoder.cell {cell!r} is not one of: {', '.join(CELLS)}")
    if layers < 1:
        raise UserError(f"decoder.layers must be at least 1, got {layers}")
    if attend not in ATTEND:
        raise UserError(f"decoder.attend {attend!r} is not one of: {', '.join(ATTEND)}")


def _dropout(rate: float | None, otherwise: float) -> Dropout:
    return Dropout(otherwise if rate is None else rate)


def _select(tree: Tree, index: Tensor) -> Tree:
    """Take hypotheses index (B, M) of every tensor (B, N, ·) in nested tuples."""
    if isinstance(tree, Tensor):
        return cast(Tree, tree.gather(1, index[:, :, None].expand(-1, -1, tree.size(2))))
    parts: list[Any] = [_select(part, index) for part in cast(tuple[object, ...], tree)]
    kind = type(tree)
    return cast(Tree, kind(*parts) if hasattr(tree, "_fields") else tuple(parts))
