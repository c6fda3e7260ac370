"""The recurrent decoder of Bahdanau et al. 2015: one step, used by training and every search."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from asr.attention.contract import Alignment, Annotations, Attention, Memory
from asr.attention.normalizers import at_least_float32
from asr.models.unrolled import can_unroll, unroll


class DecoderState(NamedTuple):
    """All that a step hands to the next, for N hypotheses of each of B utterances.

    hidden: (B, N, H), s_i. context: (B, N, E), c_i. alignment: where the steps looked.
    """

    hidden: Tensor
    context: Tensor
    alignment: Alignment

    def select(self, index: Tensor) -> DecoderState:
        """Reorder hypotheses: the m-th new one is the old one index[b, m]; index (B, M)."""

        def pick(values: Tensor) -> Tensor:
            return values.gather(1, index[:, :, None].expand(-1, -1, values.size(2)))

        alignment = Alignment(pick(self.alignment.weights), pick(self.alignment.cumulative))
        return DecoderState(pick(self.hidden), pick(self.context), alignment)


class DecoderOutput(NamedTuple):
    """logits: (B, U, V). weights: (B, U, T), where each step looked."""

    logits: Tensor
    weights: Tensor


class Decoder(nn.Module):
    """Attend with s_{i−1}, feed the context to the cell, read the token out of s_i, y_{i−1}, c_i.

    s_0 = tanh(W_s h⃖_1), h⃖_1 the backward half of the first annotation;
    c_i = attention(s_{i−1}, h);  s_i = GRU(s_{i−1}, [y_{i−1}; c_i]);
    p(y_i) = softmax(W_o maxout(U_o s_i + V_o y_{i−1} + C_o c_i)).
    Source: Bahdanau et al. 2015, eq. (4) to (6) and appendix A.2.2. Two things differ: the
    readout takes s_i, as eq. (4) has it, where the appendix writes s_{i−1}; and the GRU applies
    its reset gate after the product with s_{i−1} (as cuDNN does), which needs one product less.
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
    ) -> None:
        super().__init__()
        self.attention = attention
        self.vocabulary_size = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self.initial = nn.Linear(annotation_size // 2, state_size)
        # The GRU's input product in two, so that the tokens' part runs once for all steps.
        self.token_gates = nn.Linear(embedding_size, 3 * state_size)
        self.context_gates = nn.Linear(annotation_size, 3 * state_size, bias=False)
        self.state_gates = nn.Linear(state_size, 3 * state_size)
        self.readout = nn.Linear(state_size + embedding_size + annotation_size, 2 * readout_size)
        self.output = nn.Linear(readout_size, vocabulary_size)
        self.dropout = nn.Dropout(dropout)

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the memory that all steps share: annotations (B, T, E) → keys added."""
        return self.attention.prepare(annotations)

    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first step, with N = 1."""
        backward_half = memory.values[:, 0, memory.values.size(2) // 2 :]  # (B, E/2)
        hidden = torch.tanh(self.initial(backward_half))[:, None]  # (B, 1, H)
        context = memory.values.new_zeros(len(hidden), 1, memory.values.size(2))
        return DecoderState(hidden, context, self.attention.start(memory))

    def step(
        self, token: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, DecoderState]:
        """Take the last tokens (B, N) and give logits (B, N, V) of the next ones."""
        embedded = self.dropout(self.embedding(token))  # (B, N, M)
        state = self._advance(self.token_gates(embedded), state, memory)
        return self._read(state.hidden, embedded, state.context), state

    def forward(self, previous: Tensor, memory: Memory) -> DecoderOutput:
        """Teacher forcing: previous tokens (B, U), the first of them <eos> → all logits.

        The same as U calls of `step`; what does not depend on the recurrence (embedding, the
        tokens' part of the gates, readout, output) runs once for all steps.
        """
        embedded = self.dropout(self.embedding(previous))  # (B, U, M)
        gates = self.token_gates(embedded)  # (B, U, 3H)
        if can_unroll(self.attention):
            hidden, context, weights = unroll(
                self.attention,
                memory,
                self.start(memory).hidden[:, 0],
                gates,
                self.context_gates.weight,
                self.state_gates.weight,
                self.state_gates.bias,
            )
        else:
            hidden, context, weights = self._step_by_step(gates, memory)
        return DecoderOutput(self._read(hidden, embedded, context), weights)

    def _step_by_step(self, gates: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Advance through token gates (B, U, 3H) → states, contexts and weights of all steps."""
        state = self.start(memory)
        states = []
        for step_gates in gates.split(1, dim=1):
            state = self._advance(step_gates, state, memory)
            states.append(state)
        return (
            torch.cat([state.hidden for state in states], dim=1),  # (B, U, H)
            torch.cat([state.context for state in states], dim=1),  # (B, U, E)
            torch.cat([state.alignment.weights for state in states], dim=1),  # (B, U, T)
        )

    def _advance(self, token_gates: Tensor, state: DecoderState, memory: Memory) -> DecoderState:
        """Attend, then move the GRU one step on: token_gates (B, N, 3H)."""
        context, alignment = self.attention(state.hidden, memory, state.alignment)
        new = token_gates + self.context_gates(context)  # (B, N, 3H)
        old = self.state_gates(state.hidden)
        size = state.hidden.size(-1)
        reset, update = torch.sigmoid(new[..., : 2 * size] + old[..., : 2 * size]).chunk(2, -1)
        candidate = torch.tanh(new[..., 2 * size :] + reset * old[..., 2 * size :])
        hidden = torch.lerp(candidate, state.hidden, update)
        return DecoderState(hidden, context, alignment)

    def _read(self, hidden: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """Maxout readout and output layer: (B, N, ·) → logits (B, N, V), in float32 at least."""
        readout = self.readout(torch.cat([hidden, embedded, context], dim=-1))
        maximum = readout.unflatten(-1, (-1, 2)).amax(-1)
        logits: Tensor = self.output(self.dropout(maximum))
        return at_least_float32(logits)
