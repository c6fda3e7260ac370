"""An ensemble of one is that one; of several, each step is the mean of their probabilities."""

import pytest
import torch

from asr.models.decoder import Decoder
from asr.models.seq2seq import TranslationModel, build_translation_model
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.runtime.ensemble import Ensemble, EnsembleMemory
from asr.search.beam import beam_search
from asr.search.greedy import greedy
from asr.search.options import BeamSettings

SENTENCES = [[4, 5, 6, 1], [7, 1], [3, 4, 1]]
LIMITS = torch.tensor([12, 8, 10])


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


def together(*models: TranslationModel) -> tuple[Ensemble, EnsembleMemory]:
    ensemble = Ensemble([each.decoder for each in models])
    return ensemble, ensemble.prepare([each.encoder.annotate(SENTENCES) for each in models])


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_model_agrees_with_itself_and_its_copies(members: int, beam: int) -> None:
    one = model(1)
    decoders: list[tuple[Decoder | Ensemble, object]] = [
        (one.decoder, one.decoder.prepare(one.encoder.annotate(SENTENCES))),
        together(*[one] * members),
    ]
    results = []
    for decoder, memory in decoders:
        if beam == 1:
            results.append(greedy(decoder, memory, LIMITS))
        else:
            found = beam_search(decoder, memory, LIMITS, BeamSettings(size=beam))
            results.append([best for best, *_ in found])
    for alone, joined in zip(*results, strict=True):
        assert alone.tokens == joined.tokens and alone.stop_reason == joined.stop_reason
        assert alone.log_probability == pytest.approx(joined.log_probability, abs=1e-4)
        torch.testing.assert_close(alone.weights, joined.weights)


def test_a_step_is_the_mean_of_the_members_probabilities() -> None:
    models = model(1), model(2, state_size=16)  # members may differ in size
    ensemble, memory = together(*models)
    token = torch.tensor([[1], [4], [5]])
    logits, state = ensemble.step(token, ensemble.start(memory), memory)
    expected, weights = torch.zeros(3, 1, 11), torch.zeros(3, 1, 4)
    for each, its in zip(models, memory.members, strict=True):
        own, own_state = each.decoder.step(token, each.decoder.start(its), its)
        expected += own.softmax(-1) / 2
        weights += own_state.alignment.weights / 2
    torch.testing.assert_close(logits.exp(), expected)
    torch.testing.assert_close(state.alignment.weights, weights)


def test_an_ensemble_needs_a_member() -> None:
    with pytest.raises(ValueError, match="needs a member"):
        Ensemble([])
