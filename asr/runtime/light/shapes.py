"""The names and shapes of the weights that a speech model of given settings has."""

from __future__ import annotations

from asr.models.settings import SpeechSettings

Shapes = dict[str, tuple[int, ...]]


def weight_shapes(settings: SpeechSettings, vocabulary_size: int, frame_size: int) -> Shapes:
    """Return name → shape of all weights, as in the folder of a model that NumPy supports.

    frame_size: width of the features.

    Raises:
        ValueError: no model can have these settings.
    """
    encoder, decoder = settings.encoder, settings.decoder
    if encoder.layers_before_reduction > encoder.layers:
        raise ValueError(
            f"layers_before_reduction must be between 0 and layers={encoder.layers}, "
            f"got {encoder.layers_before_reduction}"
        )
    size = 2 * encoder.state_size
    shapes: Shapes = {"normalizer.mean": (frame_size,), "normalizer.std": (frame_size,)}
    shapes |= _encoder(settings, size, frame_size)
    shapes |= _attention(settings, size)
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
    if settings.ctc.subframes:
        shapes |= _linear("ctc.output", size, settings.ctc.subframes * vocabulary_size)
    return shapes


def _encoder(settings: SpeechSettings, size: int, frame_size: int) -> Shapes:
    encoder, shapes, entered = settings.encoder, Shapes(), frame_size
    if encoder.kind != "frozen":
        channels = encoder.channels
        entered = channels * ((frame_size + 3) // 4)
        for name, inputs in (("first", 1), ("second", channels)):
            shapes[f"encoder.front.{name}.weight"] = (channels, inputs, 3, 3)
            shapes[f"encoder.front.{name}.bias"] = (channels,)
    shapes |= _linear("encoder.enter", entered, size)
    gates = 4 * encoder.state_size
    for at in range(encoder.layers):
        shapes |= _norm(f"encoder.norms.{at}", size)
        for way in ("ahead", "back"):
            name = f"encoder.layers.{at}.{way}"
            shapes[f"{name}.weight_ih_l0"] = (gates, size)
            shapes[f"{name}.weight_hh_l0"] = (gates, encoder.state_size)
            shapes[f"{name}.bias_ih_l0"] = shapes[f"{name}.bias_hh_l0"] = (gates,)
    if encoder.layers_before_reduction < encoder.layers:
        shapes |= _linear("encoder.reduce", 2 * size, size)
    return shapes | _norm("encoder.last_norm", size)


def _attention(settings: SpeechSettings, size: int) -> Shapes:
    attention, name = settings.attention, "decoder.attention"
    if attention.location_width % 2 == 0:
        raise ValueError(f"location_width must be odd, got {attention.location_width}")
    shapes = _linear(f"{name}.key", size, attention.size)
    shapes[f"{name}.query.weight"] = (attention.size, settings.decoder.state_size)
    shapes[f"{name}.energy"] = (attention.size,)
    if attention.location_features:
        features = attention.location_features
        shapes[f"{name}.location.0.weight"] = (features, 2, attention.location_width)
        shapes[f"{name}.location.1.weight"] = (attention.size, features, 1)
    return shapes


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, size: int) -> Shapes:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}
