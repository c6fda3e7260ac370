"""The attention mechanisms, shared by all tasks; they depend only on torch."""

from asr.attention.additive import AdditiveAttention
from asr.attention.build import build_attention
from asr.attention.contract import KINDS, Alignment, Annotations, Attention, Memory
from asr.attention.masks import Window, restrict

__all__ = [
    "KINDS",
    "AdditiveAttention",
    "Alignment",
    "Annotations",
    "Attention",
    "Memory",
    "Window",
    "build_attention",
    "restrict",
]
