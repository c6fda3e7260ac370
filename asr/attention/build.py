"""Construction of attention mechanisms from a name and options."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Collection, Mapping
from typing import Final

from asr.attention.contract import Attention, attention_class
from asr.attention.energies import EnergyAttention
from asr.attention.masks import Window
from asr.attention.multihead import MultiHeadAttention
from asr.attention.normalizers import SOFTMAX

# Keys of a config that `MultiHeadAttention`, the normaliser or the window read. A constructor gets
# the latter two built, and would never get an argument of such a name.
RESERVED: Final = frozenset(
    {
        *("kind", "heads", "key_value_heads", "temperature", "top_k", "silence_mask"),
        *("window_back", "window_ahead", "window_soft", "window_centre", "window_stride"),
    }
)


def build_attention(
    kind: str,
    query_size: int,
    annotation_size: int,
    attention_size: int = 128,
    heads: int = 1,
    key_value_heads: int | None = None,
    options: Mapping[str, object] | None = None,
) -> Attention:
    """Make a mechanism of `KINDS`, with one or several heads.

    attention_size: A, for a constructor that takes it by this name or as `size`; each of several
        heads has keys and values of size A / heads.
    heads: 1 is the plain mechanism; more use `MultiHeadAttention`.
    options: further arguments by name; those that the constructor of the kind lacks are ignored,
        so that the kind can be changed without removing options.

    Raises:
        ValueError: unknown kind, invalid values, several heads of a mechanism without a query, or
            a normaliser or window for a mechanism without energies.
    """
    if heads == 1:
        if key_value_heads not in (None, 1):
            raise ValueError(f"key_value_heads = {key_value_heads} needs as many heads or more")
        return _make(kind, query_size, annotation_size, attention_size, options)
    if kind == "fixed":
        raise ValueError(f"a fixed context is the same for all heads; set heads = 1, got {heads}")
    if heads < 1 or attention_size % heads:
        raise ValueError(f"heads must divide the attention size {attention_size}, got {heads}")
    size = attention_size // heads
    # The heads already project, so the scaled product needs no projections.
    inner = _make(kind, size, size, 0 if kind == "scaled_dot" else size, options)
    return MultiHeadAttention(inner, size, query_size, annotation_size, heads, key_value_heads)


def parameters_of(kind: str, heads: int = 1) -> frozenset[str]:
    """Return the names of a mechanism's options, `attention_size` (or `size`) included.

    heads: with several, `attention_size` is the size of their projections for every kind.

    Raises:
        ValueError: no such kind, or its constructor has an argument of a `RESERVED` name.
    """
    taken = frozenset(_arguments(kind))
    taken -= {"query_size", "annotation_size"}
    return taken | {"attention_size"} if heads > 1 else taken


def with_window(attention: Attention, window: Window | None) -> Attention:
    """Return a mechanism with the same parameters and a window, or none.

    Raises:
        ValueError: the mechanism has no energies and thus takes no window.
    """
    twin = copy.copy(attention)  # the parameters are shared
    if isinstance(twin, MultiHeadAttention):
        twin.__dict__["_modules"] = dict(
            attention._modules
        )  # a new head must not change the original
        twin.head = with_window(twin.head, window)
    elif isinstance(twin, EnergyAttention):
        twin.window = window
    else:
        raise ValueError(f"{type(attention).__name__} takes no window")
    return twin


def _make(
    kind: str,
    query_size: int,
    annotation_size: int,
    attention_size: int,
    options: Mapping[str, object] | None,
) -> Attention:
    """Make a mechanism with the options that its constructor takes."""
    offered = {
        **(options or {}),
        "query_size": query_size,
        "annotation_size": annotation_size,
        "attention_size": attention_size,
        "size": attention_size,
    }
    taken = _arguments(kind)
    for name, without in (("normalizer", SOFTMAX), ("window", None)):
        if name not in taken and offered.get(name, without) != without:
            raise ValueError(f"{kind} attention takes no {name}; leave it out of the settings")
    return attention_class(kind)(
        **{name: value for name, value in offered.items() if name in taken}
    )


def _arguments(kind: str) -> Collection[str]:
    """Return the names of the arguments of a mechanism's constructor."""
    taken = inspect.signature(attention_class(kind)).parameters
    if reserved := RESERVED & taken.keys():
        raise ValueError(
            f"{kind} attention has an argument {min(reserved)!r}, which a config sets for all "
            "mechanisms: give it another name"
        )
    return taken.keys()
