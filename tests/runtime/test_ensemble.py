"""An ensemble of one equals its model; several give the mean of their probabilities."""

import numpy as np
import pytest
import torch

from asr.corpora.collate import pad_tokens
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.models.translation import TranslationModel, build_translation_model
from asr.runtime.ensemble import Ensemble
from asr.runtime.torch_runtime import TorchDecoder
from asr.search.beam import beam_search
from asr.search.greedy import greedy
from asr.search.options import BeamSettings

SENTENCES = [[4, 5, 6, 1], [7, 1], [3, 4, 1]]
LIMITS = np.array([12, 8, 10])


def model(seed: int, state_size: int = 12) -> TranslationModel:
    settings = TranslationSettings(
        encoder=TextualSettings(embedding_size=8, state_size=6),
        attention=AttentionSettings(size=8),
        decoder=DecoderSettings(embedding_size=8, state_size=state_size, readout_size=8),
    )
    torch.manual_seed(seed)
    made = build_translation_model(settings, 9, 11).eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.data *= 3
    return made


def bound(model: TranslationModel) -> TorchDecoder:
    padded = map(torch.from_numpy, pad_tokens(SENTENCES))
    return TorchDecoder(model.decoder, model.decoder.prepare(model.encoder(*padded)))


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_model_agrees_with_itself_and_its_copies(members: int, beam: int) -> None:
    one = model(1)
    results = []
    for decoder in (bound(one), Ensemble([bound(one)] * members)):
        if beam == 1:
            results.append(greedy(decoder, LIMITS))
        else:
            found = beam_search(decoder, LIMITS, BeamSettings(size=beam))
            results.append([best for best, *_ in found])
    for alone, joined in zip(*results, strict=True):
        assert alone.tokens == joined.tokens and alone.stop_reason == joined.stop_reason
        assert alone.log_probability == pytest.approx(joined.log_probability, abs=1e-4)
        np.testing.assert_allclose(alone.weights, joined.weights, atol=1e-5)


def test_a_step_is_the_mean_of_the_members_probabilities() -> None:
    models = model(1), model(2, state_size=16)  # members may differ in size
    members = [bound(each) for each in models]
    token = np.array([[1], [4], [5]])
    ensemble = Ensemble(members)
    log_probs, weights, _ = ensemble.step(token, ensemble.start())
    alone = [member.step(token, member.start()) for member in members]
    expected = np.mean([np.exp(each.log_probs) for each in alone], axis=0)
    np.testing.assert_allclose(np.exp(log_probs), expected, rtol=1e-5)
    np.testing.assert_allclose(
        weights, np.mean([each.weights for each in alone], axis=0), rtol=1e-6
    )


def test_what_no_member_allows_stays_impossible() -> None:
    one = bound(model(1))
    ensemble = Ensemble([one, one])
    step = one.step

    def barred(tokens, state, alive=None):
        found = step(tokens, state)
        found.log_probs[..., 3] = -np.inf
        return found

    one.step = barred  # type: ignore[method-assign]
    log_probs = ensemble.step(np.array([[1], [4], [5]]), ensemble.start()).log_probs
    assert (log_probs[..., 3] == -np.inf).all() and np.isfinite(log_probs[..., 4]).all()


def test_an_ensemble_needs_a_member() -> None:
    with pytest.raises(ValueError, match="needs at least one decoder"):
        Ensemble([])
