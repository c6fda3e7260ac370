"""Small speech models of all settings that run without torch, and recordings for them."""

from dataclasses import replace

import numpy as np
import torch

from asr.audio.speech import speech_mask
from asr.models.settings import (
    AcousticSettings,
    CTCSettings,
    DecoderSettings,
    FeatureSettings,
    SpeechAttentionSettings,
    SpeechSettings,
)
from asr.models.speech import SpeechModel, build_speech_model
from asr.runtime.engine import PaddedAudio

SYMBOLS = 9
ENCODER = AcousticSettings(channels=3, state_size=10, layers=3, layers_before_reduction=1)
ATTENTION = SpeechAttentionSettings(size=7, location_features=2, location_width=5)
DECODER = DecoderSettings(embedding_size=6, state_size=11, readout_size=6)
PLAIN = SpeechSettings(FeatureSettings(mels=10), ENCODER, ATTENTION, DECODER)
FROZEN = AcousticSettings(kind="frozen", state_size=10, layers=2, layers_before_reduction=1)


def attending(**changes) -> SpeechSettings:
    return replace(PLAIN, attention=replace(ATTENTION, **changes))


def decoding(**changes) -> SpeechSettings:
    return replace(PLAIN, decoder=replace(DECODER, **changes))


def encoding(**changes) -> SpeechSettings:
    return replace(PLAIN, encoder=replace(ENCODER, **changes))


SUPPORTED = {
    "plain": PLAIN,
    "frozen": SpeechSettings(encoder=FROZEN, attention=ATTENTION, decoder=DECODER),
    "mean-kept": replace(PLAIN, features=FeatureSettings(mels=10, utterance_mean=False)),
    "no-ctc": replace(PLAIN, ctc=CTCSettings(0)),
    "three-subframes": replace(PLAIN, ctc=CTCSettings(3)),
    "no-reduction": encoding(layers_before_reduction=3),
    "reduction-first": encoding(layers_before_reduction=0),
    "no-layers": encoding(layers=0, layers_before_reduction=0),
    "no-location": attending(location_features=0),
    "temperature": attending(temperature=0.6),
    "silence-mask": attending(silence_mask=True),
    "window": attending(window_back=2, window_ahead=3),
    "window-expectation": attending(window_back=2, window_ahead=3, window_centre="expectation"),
    "window-soft": attending(window_back=2, window_ahead=3, window_soft=True),
    "window-stride": attending(window_back=1, window_ahead=1, window_stride=4),
    "masked-window": attending(window_back=1, window_ahead=1, silence_mask=True),
    "mean": decoding(initial="mean"),
    "zero": decoding(initial="zero"),
    "tanh": decoding(readout="tanh"),
    "tied": decoding(tied=True),
    "no-token": decoding(token_to_cell=False, readout_token=False),
    "no-context": decoding(readout_context=False),
}
UNSUPPORTED = {
    "dot": attending(kind="dot", location_features=0),
    "heads": attending(heads=7, location_features=0),
    "smoothed": attending(normalizer="smoothed"),
    "lstm": decoding(cell="lstm"),
    "two-layers": decoding(layers=2),
    "after": decoding(attend="after"),
    "feeding": decoding(input_feeding=True),
    "layer-norm": decoding(layer_norm=True),
}


def random_model(settings: SpeechSettings) -> SpeechModel:
    """Make a model of random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = build_speech_model(settings, SYMBOLS).eval().requires_grad_(False)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
        model.normalizer.mean.normal_()
        model.normalizer.std.uniform_(1, 3)
    return model


def audio(*seconds: float) -> PaddedAudio:
    """Bursts of noise with silence between them."""
    random = np.random.default_rng(2)
    counts = [round(16_000 * each) for each in seconds]
    samples = np.zeros((len(counts), max(counts)), np.float32)
    masks = []
    for row, count in zip(samples, counts, strict=True):
        loud = np.repeat(random.random(1 + count // 3200) < 0.6, 3200)[:count]
        row[:count] = 0.2 * random.standard_normal(count) * (loud + 1e-4)
        masks.append(speech_mask(row[:count]))
    speech = np.zeros((len(masks), max(map(len, masks))), bool)
    for row, mask in zip(speech, masks, strict=True):
        row[: len(mask)] = mask
    return PaddedAudio(samples, np.array(counts), speech)


def row_of(given: PaddedAudio, row: int) -> PaddedAudio:
    """Return one recording of a batch, without padding."""
    count = int(given.lengths[row])
    frames = len(speech_mask(given.samples[row, :count]))
    return PaddedAudio(
        given.samples[[row], :count], given.lengths[[row]], given.speech[[row], :frames]
    )


def close(one, other, atol=2e-5):
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=atol, rtol=1e-4)
