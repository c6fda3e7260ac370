"""Translation in NumPy is that of torch, for every setting that it supports."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from asr.errors import UserError
from asr.inference.translator import Translator
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.models.translation import build_translation_model
from asr.runtime.numpy_runtime.shapes import text_weight_shapes
from asr.runtime.numpy_runtime.translation import NumpyTextEngine, unsupported
from asr.runtime.torch_engine import TorchTextEngine
from asr.weights import StoredWeights

SIZES = (9, 9)
PLAIN = TranslationSettings(
    TextualSettings(embedding_size=6, state_size=5, layers=1),
    AttentionSettings(size=7),
    DecoderSettings(embedding_size=6, state_size=8, readout_size=6),
)


def encoding(**changes) -> TranslationSettings:
    return replace(PLAIN, encoder=replace(PLAIN.encoder, **changes))


SUPPORTED = {
    "plain": PLAIN,
    "three-layers": encoding(layers=3),
    "one-embedding": replace(PLAIN, joint_embedding=True),
    "all-tied": replace(PLAIN, decoder=replace(PLAIN.decoder, tied=True), joint_embedding=True),
    "location": replace(PLAIN, attention=AttentionSettings(size=7, location_features=2)),
}
UNSUPPORTED = {
    "gru": encoding(cell="gru"),
    "self-attention": encoding(attention_layers=1, heads=5),
    "general": replace(PLAIN, attention=AttentionSettings(kind="general")),
    "between": replace(PLAIN, decoder=replace(PLAIN.decoder, attend="between")),
}


def engines(settings: TranslationSettings) -> tuple[TorchTextEngine, NumpyTextEngine]:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = build_translation_model(settings, *SIZES).eval().requires_grad_(False)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    weights = StoredWeights({name: value.numpy() for name, value in model.state_dict().items()})
    return TorchTextEngine(model), NumpyTextEngine(settings, weights, *SIZES)


@pytest.mark.parametrize("settings", SUPPORTED.values(), ids=SUPPORTED)
def test_both_engines_translate_alike(settings):
    tokens, lengths = np.array([[4, 3, 5, 7], [8, 1, 0, 0]]), np.array([4, 2])
    found = []
    for engine in engines(settings):
        encoded = engine.encode(tokens, lengths)
        assert encoded.lengths.tolist() == [4, 2]
        decoder, steps = engine.decoder(encoded.memory), []
        state = decoder.start()
        for last in ([[1], [1]], [[5], [3]], [[2], [8]]):
            stepped = decoder.step(np.array(last), state)
            state = stepped.state
            steps.append((stepped.log_probs, stepped.weights))
        found.append(steps)
        assert not steps[0][1][1, 0, 2:].any()  # no attention to padding
    for one, other in zip(*found, strict=True):
        for wanted, got in zip(one, other, strict=True):
            np.testing.assert_allclose(got, wanted, atol=2e-5)


@pytest.mark.parametrize("settings", SUPPORTED.values(), ids=SUPPORTED)
def test_the_shapes_of_the_weights_are_those_of_the_trained_model(settings):
    model = build_translation_model(settings, *SIZES)
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert text_weight_shapes(settings, *SIZES) == wanted


@pytest.mark.parametrize("settings", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_needs_torch_is_named(settings):
    assert unsupported(PLAIN) is None
    reason = unsupported(settings)
    assert reason is not None
    with pytest.raises(ValueError, match="needs torch"):
        NumpyTextEngine(settings, StoredWeights({}), *SIZES)


def test_one_embedding_needs_equal_sizes():
    settings = replace(PLAIN, joint_embedding=True)
    with pytest.raises(ValueError, match="needs one vocabulary and one embedding_size"):
        NumpyTextEngine(settings, StoredWeights({}), 9, 8)


def test_the_shipped_translators_give_the_same_with_both():
    texts = ["Where is the station?", "I don't know what you are talking about."]
    for to in ("fr", "de", "zh"):
        one = Translator.load(to=to, runtime="numpy").translate(texts)
        other = Translator.load(to=to, runtime="torch").translate(texts)
        assert isinstance(Translator.load(to=to).engines[0], NumpyTextEngine)
        for found, wanted in zip(one, other, strict=True):
            assert found.text == wanted.text
            assert found.log_probability == pytest.approx(wanted.log_probability, abs=1e-3)
            np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-4)
    with pytest.raises(UserError, match="runtime 'jax'"):
        Translator.load(runtime="jax")
