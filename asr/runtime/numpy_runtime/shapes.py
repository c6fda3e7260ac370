"""The names and shapes of the weights that a model of given settings has."""

from __future__ import annotations

from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    SpeechSettings,
    TranslationSettings,
)

Shapes = dict[str, tuple[int, ...]]


def weight_shapes(settings: SpeechSettings, vocabulary_size: int, frame_size: int) -> Shapes:
    """Return name → shape of all weights of a speech model that NumPy supports.

    frame_size: width of the features.
    """
    encoder, decoder = settings.encoder, settings.decoder
    size = 2 * encoder.state_size
    shapes: Shapes = {"normalizer.mean": (frame_size,), "normalizer.std": (frame_size,)}
    shapes |= _encoder(settings, size, frame_size)
    shapes |= _attention(settings.attention, decoder.state_size, size)
    shapes |= _decoder(decoder, size, vocabulary_size)
    if settings.ctc.subframes:
        shapes |= _linear("ctc.output", size, settings.ctc.subframes * vocabulary_size)
    return shapes


def text_weight_shapes(settings: TranslationSettings, source_size: int, target_size: int) -> Shapes:
    """Return name → shape of all weights of a translation model that NumPy supports.

    source_size, target_size: of the vocabularies.

    Raises:
        ValueError: no model can have these settings.
    """
    encoder, decoder = settings.encoder, settings.decoder
    size = 2 * encoder.state_size
    shapes = _bilstm("encoder.first", encoder.embedding_size, encoder.state_size)
    for at in range(encoder.layers - 1):
        shapes |= _bilstm(f"encoder.rest.{at}", size, encoder.state_size)
    if not settings.joint_embedding:
        shapes["encoder.embedding.weight"] = (source_size, encoder.embedding_size)
    elif (source_size, encoder.embedding_size) != (target_size, decoder.embedding_size):
        raise ValueError("joint_embedding needs one vocabulary and one embedding_size")
    shapes |= _attention(settings.attention, decoder.state_size, size)
    return shapes | _decoder(decoder, size, target_size)


def fitting(found: Shapes, wanted: Shapes) -> None:
    """Refuse weights whose names or shapes are not the wanted ones.

    Raises:
        ValueError: they differ.
    """
    names = sorted(wanted.keys() | found.keys())
    differing = [name for name in names if wanted.get(name) != found.get(name)]
    if differing:
        raise ValueError(f"{differing[0]} and {len(differing) - 1} more do not fit")


def _encoder(settings: SpeechSettings, size: int, frame_size: int) -> Shapes:
    encoder, shapes, entered = settings.encoder, Shapes(), frame_size
    if encoder.kind != "frozen":
        channels = encoder.channels
        entered = channels * ((frame_size + 3) // 4)
        for name, inputs in (("first", 1), ("second", channels)):
            shapes[f"encoder.front.{name}.weight"] = (channels, inputs, 3, 3)
            shapes[f"encoder.front.{name}.bias"] = (channels,)
    shapes |= _linear("encoder.enter", entered, size)
    for at in range(encoder.layers):
        shapes |= _norm(f"encoder.norms.{at}", size)
        shapes |= _bilstm(f"encoder.layers.{at}", size, encoder.state_size)
    if encoder.layers_before_reduction < encoder.layers:
        shapes |= _linear("encoder.reduce", 2 * size, size)
    return shapes | _norm("encoder.last_norm", size)


def _attention(attention: AttentionSettings, state_size: int, size: int) -> Shapes:
    name = "decoder.attention"
    if attention.location_width % 2 == 0:
        raise ValueError(f"location_width must be odd, got {attention.location_width}")
    shapes = _linear(f"{name}.key", size, attention.size)
    shapes[f"{name}.query.weight"] = (attention.size, state_size)
    shapes[f"{name}.energy"] = (attention.size,)
    if attention.location_features:
        features = attention.location_features
        shapes[f"{name}.location.0.weight"] = (features, 2, attention.location_width)
        shapes[f"{name}.location.1.weight"] = (attention.size, features, 1)
    return shapes


def _decoder(decoder: DecoderSettings, size: int, vocabulary_size: int) -> Shapes:
    shapes = Shapes()
    gates = 3 * decoder.state_size
    shapes["decoder.embedding.weight"] = (vocabulary_size, decoder.embedding_size)
    if decoder.initial != "zero":
        summary = size // 2 if decoder.initial == "last_backward" else size
        shapes |= _linear("decoder.initial", summary, decoder.state_size)
    if decoder.token_to_cell:
        shapes |= _linear("decoder.token_gates", decoder.embedding_size, gates)
    shapes["decoder.context_gates.weight"] = (gates, size)
    shapes |= _linear("decoder.state_gates", decoder.state_size, gates)
    given = decoder.state_size + size * decoder.readout_context
    given += decoder.embedding_size * decoder.readout_token
    width = 2 if decoder.readout == "maxout" else 1
    shapes |= _linear("decoder.readout", given, width * decoder.readout_size)
    shapes |= _linear("decoder.output", decoder.readout_size, vocabulary_size)
    if decoder.tied:
        del shapes["decoder.output.weight"]
    return shapes


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _bilstm(name: str, inputs: int, state_size: int) -> Shapes:
    shapes, gates = Shapes(), 4 * state_size
    for way in ("ahead", "back"):
        shapes[f"{name}.{way}.weight_ih_l0"] = (gates, inputs)
        shapes[f"{name}.{way}.weight_hh_l0"] = (gates, state_size)
        shapes[f"{name}.{way}.bias_ih_l0"] = shapes[f"{name}.{way}.bias_hh_l0"] = (gates,)
    return shapes


def _norm(name: str, size: int) -> Shapes:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}
