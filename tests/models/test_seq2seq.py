"""Models from settings: shared weights are one tensor, in memory and in a model folder."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from asr.errors import UserError
from asr.models.folder import WEIGHTS, load_weights, save_folder
from asr.models.fused.loop import can_unroll
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    SpeechSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.models.speech import build_speech_model
from asr.models.translation import TranslationModel, build_translation_model
from asr.tables import from_table, to_table

SETTINGS = TranslationSettings(
    encoder=TextualSettings(embedding_size=6, state_size=4),
    attention=AttentionSettings(size=5),
    decoder=DecoderSettings(embedding_size=6, state_size=7, readout_size=6),
)
SENTENCES = torch.tensor([[4, 5, 1], [6, 1, 0]]), torch.tensor([3, 2])
TOKENS = torch.tensor([[1, 4, 3], [1, 7, 2]])


def make(seed: int = 0, joint: bool = True, **decoder: Any) -> TranslationModel:
    torch.manual_seed(seed)
    changed = replace(SETTINGS.decoder, **decoder)
    settings = replace(SETTINGS, decoder=changed, joint_embedding=joint)
    return build_translation_model(settings, 11, 11).eval()


def logits(model: TranslationModel) -> torch.Tensor:
    memory = model.decoder.prepare(model.encoder(*SENTENCES))
    return model.decoder(TOKENS, memory).logits


def test_source_target_and_output_share_one_tensor() -> None:
    model, apart = make(tied=True), make(joint=False)
    tables = [name for name, each in model.named_parameters() if each.shape == (11, 6)]
    assert tables == ["decoder.embedding.weight"]
    assert [name for name in model.state_dict() if name.endswith("weight")].count(tables[0]) == 1
    several = [name for name, each in apart.named_parameters() if each.shape == (11, 6)]
    assert several == [
        "encoder.embedding.weight",
        "decoder.embedding.weight",
        "decoder.output.weight",
    ]


@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False])
def test_a_shared_tensor_is_read_wherever_it_is_shared(tied: bool) -> None:
    model = make(tied=tied)
    annotations = model.encoder(*SENTENCES).values
    readout = torch.randn(1, 1, 6)
    before = model.decoder.output(readout)
    model.decoder.embedding.weight.mul_(2)
    assert not torch.equal(model.encoder(*SENTENCES).values, annotations)
    assert torch.equal(model.decoder.output(readout), before) != tied


@torch.no_grad()
def test_an_untrained_tied_layer_holds_no_strong_opinions() -> None:
    decoder = replace(SETTINGS.decoder, embedding_size=256, readout_size=256, tied=True)
    model = build_translation_model(replace(SETTINGS, decoder=decoder), 11, 500)
    assert 0.5 < model.decoder.output(torch.randn(40, 256)).std() < 2  # not √256


@torch.no_grad()
def test_a_copy_shares_within_itself_and_not_with_the_original() -> None:
    model = make(tied=True)
    copied, before = deepcopy(model), logits(model)
    assert torch.equal(logits(copied), before)
    model.decoder.embedding.weight.zero_()
    assert torch.equal(logits(copied), before)
    copied.decoder.embedding.weight.zero_()
    assert torch.equal(logits(copied), logits(model))


def test_gradients_come_from_all_places() -> None:
    model = make(tied=True)
    logits(model).square().sum().backward()
    table = model.decoder.embedding.weight
    assert table.grad is not None and table.grad.any(1).all()  # each token is an output


@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("joint", [True, False])
def test_shared_weights_survive_a_model_folder(tmp_path: Path, tied: bool, joint: bool) -> None:
    model = make(tied=tied, joint=joint)
    save_folder(tmp_path, "translation", {}, {}, model.state_dict(), {})
    other = make(seed=1, tied=tied, joint=joint)
    assert not torch.equal(logits(other), logits(model))
    load_weights(other, tmp_path)
    assert torch.equal(logits(other), logits(model))
    tables = [each for each in load_file(tmp_path / WEIGHTS).values() if each.shape == (11, 6)]
    assert len(tables) == 3 - tied - joint


def test_a_shared_embedding_wants_one_vocabulary_and_one_size() -> None:
    joint = replace(SETTINGS, joint_embedding=True)
    with pytest.raises(UserError, match=r"one joint vocabulary .* got \(12, 6\) and \(11, 6\)"):
        build_translation_model(joint, 12, 11)
    with pytest.raises(UserError, match="one embedding_size"):
        build_translation_model(replace(joint, encoder=TextualSettings(embedding_size=5)), 11, 11)


def test_a_backward_state_wants_an_encoder_that_reads_backwards() -> None:
    encoder = TextualSettings(layers=0, attention_layers=1, state_size=4)
    with pytest.raises(UserError, match="reads backwards"):
        build_translation_model(replace(SETTINGS, encoder=encoder), 11, 11)
    free = replace(SETTINGS, encoder=encoder, decoder=replace(SETTINGS.decoder, initial="mean"))
    assert logits(build_translation_model(free, 11, 11)).isfinite().all()


def test_every_setting_reaches_the_model() -> None:
    """Changing one setting changes the weights or the computation of the model."""
    changes: dict[str, Any] = {
        "embedding_size": 5, "state_size": 6, "readout_size": 5, "cell": "lstm", "layers": 2,
        "attend": "between", "input_feeding": True, "initial": "mean", "token_to_cell": False,
        "readout": "tanh", "readout_token": False, "readout_context": False, "tied": True,
        "dropout": 0.9, "embedding_dropout": 0.9, "readout_dropout": 0.9,
        "layer_norm": True, "token_dropout": 0.9,
    }  # fmt: skip
    assert changes.keys() == to_table(SETTINGS.decoder).keys()
    base = describe(SETTINGS)
    for name, value in changes.items():
        changed = replace(SETTINGS, decoder=replace(SETTINGS.decoder, **{name: value}))
        assert describe(changed) != base, name
    changes = {
        "embedding_size": 5, "state_size": 6, "layers": 2, "cell": "gru", "attention_layers": 1,
        "dropout": 0.9, "embedding_dropout": 0.9, "annotation_dropout": 0.9, "token_dropout": 0.9,
    }  # fmt: skip
    assert changes.keys() == to_table(SETTINGS.encoder).keys() - {"heads"}
    for name, value in changes.items():
        changed = replace(SETTINGS, encoder=replace(SETTINGS.encoder, **{name: value}))
        assert describe(changed) != base, name
    seeing = replace(SETTINGS, encoder=replace(SETTINGS.encoder, attention_layers=1))
    more = replace(seeing, encoder=replace(seeing.encoder, heads=2))
    assert describe(more) != describe(seeing)


def describe(settings: TranslationSettings) -> str:
    """Return weights by name and shape, modules with their rates, and the result of a step."""
    torch.manual_seed(0)
    model = build_translation_model(settings, 11, 11)
    shapes = {name: tuple(each.shape) for name, each in model.state_dict().items()}
    return f"{shapes} {model} {logits(model.eval()).sum().item()}"


def test_settings_of_an_old_folder_make_the_model_they_made_then() -> None:
    """Names and shapes of the default model, without the optional parts."""
    old = {"embedding_size": 6, "state_size": 7, "readout_size": 6, "dropout": 0.1}
    settings = from_table(SpeechSettings, {"decoder": old, "encoder": {"state_size": 8}})
    decoder = build_speech_model(settings, 9).decoder
    found = {
        name: tuple(each.shape)
        for name, each in decoder.state_dict().items()
        if not name.startswith("attention")
    }
    assert found == {
        "embedding.weight": (9, 6),
        "initial.weight": (7, 8), "initial.bias": (7,),
        "token_gates.weight": (21, 6), "token_gates.bias": (21,),
        "context_gates.weight": (21, 16),
        "state_gates.weight": (21, 7), "state_gates.bias": (21,),
        "readout.weight": (12, 29), "readout.bias": (12,),
        "output.weight": (9, 6), "output.bias": (9,),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "fused"),
    [({}, True), ({"temperature": 0.5}, False), ({"normalizer": "smoothed"}, False),
     ({"heads": 2}, False), ({"kind": "concat"}, False)],
)  # fmt: skip
def test_the_fused_loop_takes_the_additive_softmax_of_the_settings_alone(
    changes: dict[str, Any], fused: bool
) -> None:
    attention = replace(AttentionSettings(size=6), **changes)
    model = build_translation_model(replace(SETTINGS, attention=attention), 11, 11)
    assert can_unroll(model.decoder.attention) == fused
