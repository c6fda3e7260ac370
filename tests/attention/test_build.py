"""Mechanisms from a config: one changed line, and clear errors for invalid settings."""

import dataclasses
import inspect

import pytest

from asr.attention import KINDS, Window
from asr.attention.additive import AdditiveAttention
from asr.attention.build import build_attention
from asr.attention.contract import attention_class
from asr.attention.multihead import MultiHeadAttention
from asr.attention.normalizers import SOFTMAX, Hard, Smoothed, TopK, build_normalizer
from asr.errors import UserError
from asr.models.build import build_decoder
from asr.models.fused.loop import can_unroll
from asr.models.settings import AttentionSettings, DecoderSettings, TranslationSettings
from asr.models.translation import build_translation_model
from asr.tables import from_table

SIZES = {"encoder": {"state_size": 4}, "decoder": {"state_size": 8}}  # annotations of 8 too


def build(**attention):
    settings = from_table(TranslationSettings, {**SIZES, "attention": attention})
    return build_translation_model(settings, 5, 5).decoder.attention


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_one_line_changes_the_kind(kind):
    found = build(kind=kind, size=16, location_features=3, local_reach=4, summary="mean")
    assert type(found) is attention_class(kind)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_settings_and_constructors_have_the_same_defaults(kind):
    settings = {each.name: each.default for each in dataclasses.fields(AttentionSettings)}
    settings["attention_size"] = settings["size"]
    settings["normalizer"] = build_normalizer(settings["normalizer"])
    for name, parameter in inspect.signature(attention_class(kind)).parameters.items():
        if name not in ("query_size", "annotation_size", "window"):
            assert parameter.default == settings[name], name


def test_options_reach_the_mechanism():
    assert build(normalizer="top_k", top_k=3).normalizer == TopK(top_k=3)
    assert build(normalizer="smoothed", temperature=2.0).normalizer == Smoothed(2.0)
    assert build(kind="dot", normalizer="hard", temperature=0.5).normalizer == Hard(0.5)
    window = build(window_back=2, window_ahead=5, window_stride=7).window
    assert window == Window(2, 5, stride=7)
    heads = build(kind="concat", heads=4, key_value_heads=2, window_back=1, window_ahead=1)
    assert isinstance(heads, MultiHeadAttention) and heads.key_value_heads == 2
    assert heads.head_size == 32 and heads.head.window == Window(1, 1)


def test_only_what_the_fused_loop_computes_is_given_to_it():
    assert can_unroll(build()) and can_unroll(build(window_back=2, window_ahead=2, window_stride=3))
    for options in (
        {"temperature": 2.0},
        {"normalizer": "top_k"},
        {"normalizer": "hard"},
        {"heads": 2},
        {"kind": "coverage"},
        {"kind": "concat"},
    ):
        assert not can_unroll(build(**options))
    assert not can_unroll(AdditiveAttention(2, 2, normalizer=Smoothed()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"top_k": 4}, 'top_k = 4 needs normalizer = "top_k", got "softmax"'),
        ({"normalizer": "top_k", "top_k": -1}, "top_k must be at least 1, got -1"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"normalizer": "sharp"}, "'sharp' is not one of: hard, smoothed, softmax, top_k"),
        ({"kind": "addititve"}, "'addititve' is not one of"),
        ({"window_stride": 3}, "window_stride = 3 needs a window"),
        ({"window_back": 3}, "at least 1 annotation both ways"),
        ({"heads": 3}, "heads must divide the attention size 128, got 3"),
        ({"key_value_heads": 2}, "key_value_heads = 2 needs as many heads"),
        ({"kind": "fixed", "temperature": 2.0}, "fixed attention takes no normalizer"),
        ({"kind": "fixed", "window_back": 1, "window_ahead": 1}, "takes no window"),
    ],
)
def test_what_makes_no_sense_is_one_line_that_says_where(options, words):
    with pytest.raises(UserError, match=r"attention[:.]") as caught:
        build(**options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


class Sized(AdditiveAttention):
    def __init__(self, query_size: int, annotation_size: int, size: int = 128) -> None:
        super().__init__(query_size, annotation_size, size)


def test_a_constructor_may_take_the_size_by_its_name_in_a_config(monkeypatch):
    monkeypatch.setattr("asr.attention.build.attention_class", lambda _: Sized)
    assert build_attention("sized", 3, 4, attention_size=16).query.out_features == 16
    unread = {each.name for each in AttentionSettings(kind="sized", size=16).unread()}
    assert "location_features" in unread and "size" not in unread


class _Prior(AdditiveAttention):
    """A mechanism with a key that no other one has."""

    def __init__(
        self, query_size, annotation_size, size=128, prior=1.0, normalizer=SOFTMAX, window=None
    ):
        super().__init__(query_size, annotation_size, size, normalizer=normalizer, window=window)
        self.prior, self.size = prior, size


@dataclasses.dataclass(frozen=True)
class _PriorSettings(AttentionSettings):
    prior: float = 3.0


@pytest.mark.parametrize(("heads", "size"), [(1, 8), (2, 4)])
def test_a_new_field_of_the_settings_reaches_a_mechanism(monkeypatch, heads, size):
    monkeypatch.setattr("asr.attention.build.attention_class", lambda kind: _Prior)
    settings = _PriorSettings(size=8, heads=heads)
    attention = build_decoder(settings, DecoderSettings(), 5, 6).attention
    inner = attention.head if heads > 1 else attention
    assert (inner.prior, inner.size) == (3.0, size)
