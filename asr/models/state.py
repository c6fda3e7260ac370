"""The state that one decoder step passes to the next."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

from torch import Tensor

from asr.attention.contract import Alignment

Tree = TypeVar("Tree")


class DecoderState(NamedTuple):
    """The state between two steps, for N hypotheses of each of B utterances.

    hidden: (B, N, H), s_i, of the top layer. context: (B, N, E), c_i. alignment: the attention
    weights of the last step and their sum. rest: (B, N, ·) each, all other state, from the top
    layer down: the c of an LSTM, the layers below; last the readout, if it is fed back.
    """

    hidden: Tensor
    context: Tensor
    alignment: Alignment
    rest: tuple[Tensor, ...] = ()

    def select(self, index: Tensor) -> DecoderState:
        """Reorder hypotheses: the new hypothesis m is the old index[b, m]; index (B, M)."""
        return _select(self, index)


def _select(tree: Tree, index: Tensor) -> Tree:
    """Select hypotheses index (B, M) of every tensor (B, N, ·) in nested tuples."""
    if isinstance(tree, Tensor):
        return cast(Tree, tree.gather(1, index[:, :, None].expand(-1, -1, tree.size(2))))
    parts: list[Any] = [_select(part, index) for part in cast(tuple[object, ...], tree)]
    kind = type(tree)
    return cast(Tree, kind(*parts) if hasattr(tree, "_fields") else tuple(parts))
