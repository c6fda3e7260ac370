"""Structured pruning of a recogniser: the least important units of encoder and decoder go.

All layers of the encoder add to one vector (residual connections), so a unit is one place of that
vector with the units of all LSTMs that write to it. A unit of the decoder is one of its cell. The
importance of a unit is the sum of its squared weights, in and out, as shares of each matrix
(magnitude pruning of whole units; source: Li et al. 2017, "Pruning filters for efficient
convnets"). A pruned model needs training: `recipes/librispeech/small.toml`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from asr.errors import UserError
from asr.models.settings import SpeechSettings

MULTIPLE: Final = 8  # of all sizes: matrices of other sizes are slower


class Units(NamedTuple):
    """The units of a model that are kept: places in each vector, ascending.

    ahead, back: of the two directions of the encoder's LSTMs, so the halves of an annotation.
    state: of the decoder's cell.
    """

    ahead: Tensor
    back: Tensor
    state: Tensor


# A dimension of a weight is a sequence of segments; each is a name of `Units`, repeated, or a size
# that stays. "annotation" is "ahead" and "back".
_LAYOUTS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (r"normalizer\..*", ("*",)),
    (r"encoder\.front\..*", ("*", "*", "*", "*")),
    (r"encoder\.enter\.(weight|bias)", ("annotation", "*")),
    (r"encoder\.norms\.\d+\.(weight|bias)", ("annotation",)),
    (r"encoder\.last_norm\.(weight|bias)", ("annotation",)),
    (r"encoder\.layers\.\d+\.(ahead|back)\.weight_ih_l0", (r"4 \1", "annotation")),
    (r"encoder\.layers\.\d+\.(ahead|back)\.weight_hh_l0", (r"4 \1", r"\1")),
    (r"encoder\.layers\.\d+\.(ahead|back)\.bias_.h_l0", (r"4 \1",)),
    (r"encoder\.reduce\.(weight|bias)", ("annotation", "2 annotation")),
    (r"ctc\.output\.(weight|bias)", ("*", "annotation")),
    (r"decoder\.attention\.key\.(weight|bias)", ("*", "annotation")),
    (r"decoder\.attention\.query\.weight", ("*", "state")),
    (r"decoder\.attention\.(energy|location\..*)", ("*", "*", "*")),
    (r"decoder\.context_gates\.weight", ("3 state", "annotation")),
    (r"decoder\.state_gates\.(weight|bias)", ("3 state", "state")),
    (r"decoder\.token_gates\.(weight|bias)", ("3 state", "*")),
    (r"decoder\.embedding\.weight", ("*", "*")),
    (r"decoder\.initial\.(weight|bias)", ("state", "back")),
    (r"decoder\.readout\.weight", ("*", "state * annotation")),
    (r"decoder\.readout\.bias", ("*",)),
    (r"decoder\.output\.(weight|bias)", ("*", "*")),
)


def shrunk_settings(settings: SpeechSettings, share: float) -> SpeechSettings:
    """Return the settings with a share of the units of encoder and decoder.

    Raises:
        UserError: the model has parts that this module cannot prune.
    """
    decoder, attention = settings.decoder, settings.attention
    wanted = {
        "decoder.cell": (decoder.cell, "gru"),
        "decoder.layers": (decoder.layers, 1),
        "decoder.attend": (decoder.attend, "before"),
        "decoder.initial": (decoder.initial, "last_backward"),
        "decoder.input_feeding": (decoder.input_feeding, False),
        "decoder.layer_norm": (decoder.layer_norm, False),
        "decoder.readout_token": (decoder.readout_token, True),
        "decoder.readout_context": (decoder.readout_context, True),
        "attention.kind": (attention.kind, "additive"),
        "attention.heads": (attention.heads, 1),
    }
    for key, (value, supported) in wanted.items():
        if value != supported:
            raise UserError(f"a model with {key} = {value!r} cannot be pruned; with {supported!r}")
    return replace(
        settings,
        encoder=replace(settings.encoder, state_size=_part(settings.encoder.state_size, share)),
        decoder=replace(decoder, state_size=_part(decoder.state_size, share)),
    )


def choose_units(
    state: dict[str, Tensor], settings: SpeechSettings, smaller: SpeechSettings
) -> Units:
    """Choose the most important units of weights `state` for the sizes of smaller settings.

    Raises:
        UserError: a weight that this module does not know.
    """
    totals = Units(*(torch.zeros(size) for size in _sizes(settings)))
    for name, value in state.items():
        squares = value.float().square()
        for dim, segments in enumerate(_segments(name, value, _sizes(settings))):
            each = squares.movedim(dim, 0).reshape(value.size(dim), -1).sum(1)
            each = each / each.sum().clamp_min(torch.finfo(each.dtype).tiny)
            for segment, part in zip(
                segments, each.split([of.size for of in segments]), strict=True
            ):
                if segment.name:
                    getattr(totals, segment.name).add_(part)
    chosen = (
        total.topk(count).indices.sort().values
        for total, count in zip(totals, _sizes(smaller), strict=True)
    )
    return Units(*chosen)


def prune(state: dict[str, Tensor], settings: SpeechSettings, units: Units) -> dict[str, Tensor]:
    """Return the weights of the units alone.

    Raises:
        UserError: a weight that this module does not know.
    """
    pruned = {}
    for name, value in state.items():
        for dim, segments in enumerate(_segments(name, value, _sizes(settings))):
            kept, start = [], 0
            for segment in segments:
                all_of_it = torch.arange(segment.size)
                kept.append(start + getattr(units, segment.name, all_of_it))
                start += segment.size
            value = value.index_select(dim, torch.cat(kept))
        pruned[name] = value
    return pruned


class _Segment(NamedTuple):
    """Adjacent places of a dimension; name: a field of `Units`, or "" for places that stay."""

    name: str
    size: int


def _segments(name: str, value: Tensor, sizes: tuple[int, int, int]) -> list[list[_Segment]]:
    """Return the segments of each dimension of a weight; sizes: as `_sizes`."""
    for pattern, layouts in _LAYOUTS:
        if found := re.fullmatch(pattern, name):
            names = [found.expand(each) for each in layouts]
            return [
                _split(its, whole, sizes) for its, whole in zip(names, value.shape, strict=False)
            ]
    raise UserError(f"the weight {name} cannot be pruned")


def _split(layout: str, whole: int, sizes: tuple[int, int, int]) -> list[_Segment]:
    """Split a dimension of size `whole`; "*" is what the other segments leave."""
    known = dict(zip(Units._fields, sizes, strict=True))
    words = layout.replace("annotation", "ahead back").split()
    if words[0].isdigit():
        words = words[1:] * int(words[0])
    rest = whole - sum(known.get(word, 0) for word in words)
    return [_Segment("", rest) if word == "*" else _Segment(word, known[word]) for word in words]


def _sizes(settings: SpeechSettings) -> tuple[int, int, int]:
    """Return the numbers of units in the order of `Units`."""
    encoder = settings.encoder.state_size
    return encoder, encoder, settings.decoder.state_size


def _part(size: int, share: float) -> int:
    return max(MULTIPLE, min(size, MULTIPLE * round(size * share / MULTIPLE)))
