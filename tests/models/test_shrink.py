"""Smaller copies of a model: 8, 4 or 3 bits, and pruning of whole units."""

import pytest
import torch
from tiny_model import write_tiny_model

import asr.models.shrink as shrink_module
from asr import model_folder
from asr.cli import main
from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.model_folder import BOUNDARIES, LANGUAGE_MODEL, VOICE_ACTIVITY, WEIGHTS, read_folder
from asr.models import rounding
from asr.models.folder import read_weights
from asr.models.pruning import Units, choose_units, prune, shrunk_settings
from asr.models.settings import SpeechSettings
from asr.models.shrink import shrink
from asr.models.speech import Waveforms, build_speech_model, load_speech_model
from asr.tables import from_table

UNIT_SETS = (24, 24, 32)


def settings_of(**changes):
    table = {
        "encoder": {"channels": 4, "state_size": 24, "layers": 3},
        "attention": {"size": 8, "location_features": 2},
        "decoder": {"embedding_size": 8, "state_size": 32, "readout_size": 8} | changes,
        "ctc": {"subframes": 2},
    }
    return from_table(SpeechSettings, table)


@pytest.fixture(scope="module")
def settings():
    return settings_of()


@pytest.fixture
def model(settings):
    torch.manual_seed(2)
    return build_speech_model(settings, 31).eval()


def outputs(model):
    generator = torch.Generator().manual_seed(5)
    samples = torch.randn(2, 12_000, generator=generator) * 0.1
    with torch.no_grad():
        encoded = model.encode(Waveforms(samples, torch.tensor([12_000, 9_000])))
        decoded = model.decoder(torch.tensor([[1, 5, 9], [1, 7, 4]]), encoded.memory)
    return encoded.ctc_log_probs, decoded.logits, decoded.weights


def silence_units(model, units):
    """Make all but the given units useless: nothing goes into them and nothing reads them."""
    whole = [torch.ones(size, dtype=torch.bool) for size in UNIT_SETS]
    for mask, kept in zip(whole, units, strict=True):
        mask[kept] = False
    ahead, back, state = whole
    annotation = torch.cat([ahead, back])
    encoder, decoder = model.encoder, model.decoder
    with torch.no_grad():
        encoder.enter.weight[annotation] = 0
        encoder.enter.bias[annotation] = 0
        for norm in [*encoder.norms, encoder.last_norm]:
            norm.weight[annotation] = 0
            norm.bias[annotation] = 0
        for layer in encoder.layers:
            for side, mask in ((layer.ahead, ahead), (layer.back, back)):
                for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
                    getattr(side, name)[mask.repeat(4)] = 0
                side.weight_hh_l0[:, mask] = 0
        encoder.reduce.weight[annotation] = 0
        encoder.reduce.bias[annotation] = 0
        encoder.reduce.weight[:, annotation.repeat(2)] = 0
        for gates in (decoder.context_gates, decoder.state_gates, decoder.token_gates):
            gates.weight[state.repeat(3)] = 0
        for gates in (decoder.state_gates, decoder.token_gates):
            gates.bias[state.repeat(3)] = 0
        decoder.initial.weight[state] = 0
        decoder.initial.bias[state] = 0
        decoder.state_gates.weight[:, state] = 0
        decoder.attention.query.weight[:, state] = 0
        decoder.readout.weight[:, : len(state)][:, state] = 0


def test_what_was_useless_is_removed_and_nothing_else(settings, model):
    """The layer norms see fewer places, so the useful ones are scaled to keep their statistics."""
    units = Units(torch.arange(0, 16), torch.arange(4, 20), torch.arange(8, 32))
    silence_units(model, units)
    smaller = shrunk_settings(settings, 0.7)
    assert (smaller.encoder.state_size, smaller.decoder.state_size) == (16, 24)
    state = model.state_dict()
    chosen = choose_units(state, settings, smaller)
    for found, wanted in zip(chosen, units, strict=True):
        assert found.tolist() == wanted.tolist()
    pruned = build_speech_model(smaller, 31).eval()
    pruned.load_state_dict(prune(state, settings, chosen))
    without_norms(model, pruned)
    for found, wanted in zip(outputs(pruned), outputs(model), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def without_norms(*models):
    """Replace the layer norms, whose statistics depend on the number of places."""
    for model in models:
        encoder = model.encoder
        for at, norm in enumerate(encoder.norms):
            encoder.norms[at] = Scale(norm)
        encoder.last_norm = Scale(encoder.last_norm)


class Scale(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, values):
        return values * self.norm.weight + self.norm.bias


def test_every_weight_of_a_recogniser_has_a_layout(model, settings):
    smaller = shrunk_settings(settings, 0.5)
    pruned = prune(
        model.state_dict(), settings, choose_units(model.state_dict(), settings, smaller)
    )
    wanted = build_speech_model(smaller, 31).state_dict()
    assert {name: each.shape for name, each in pruned.items()} == {
        name: each.shape for name, each in wanted.items()
    }
    with pytest.raises(UserError, match=r"the weight decoder\.new cannot be pruned"):
        prune({"decoder.new": torch.zeros(3)}, settings, Units(*(torch.arange(8),) * 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "lstm"}, "decoder.cell = 'lstm'"),
        ({"layers": 2}, "decoder.layers = 2"),
        ({"attend": "after"}, "decoder.attend = 'after'"),
    ],
)
def test_models_with_other_parts_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        shrunk_settings(settings_of(**changes), 0.5)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def test_all_units_are_kept_if_8_bits_suffice(tiny, tmp_path):
    shrunk = shrink(tiny, tmp_path / "out", 1e6)
    assert not shrunk.is_pruned and shrunk.parameters[0] == shrunk.parameters[1]
    assert shrunk.sizes[1] == (tmp_path / "out" / WEIGHTS).stat().st_size
    wanted, found = read_weights(tiny / WEIGHTS), read_weights(tmp_path / "out" / WEIGHTS)
    for name, value in wanted.items():
        spread = value.abs().max().item() / 127
        torch.testing.assert_close(found[name].float(), value.float(), atol=spread, rtol=0)


def test_fewer_bits_come_before_fewer_units(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(rounding, "LEAST", 256)
    eight = shrink(tiny, tmp_path / "eight", 1e6)
    four = shrink(tiny, tmp_path / "four", eight.sizes[1] - 1)
    three = shrink(tiny, tmp_path / "three", four.sizes[1] - 1)
    assert (eight.bits, four.bits, three.bits) == (8, 4, 3)
    assert not four.is_pruned and not three.is_pruned
    LoadedModel.load(tmp_path / "three")
    fewer = shrink(tiny, tmp_path / "fewer", eight.sizes[1] - 1, bits=8)
    assert fewer.bits == 8 and fewer.is_pruned


def test_units_are_removed_until_the_weights_fit(tiny, tmp_path):
    most = 0.95 * shrink(tiny, tmp_path / "whole", 1e6).sizes[1]
    shrunk = shrink(tiny, tmp_path / "out", most)
    assert shrunk.is_pruned
    assert shrunk.sizes[1] == (tmp_path / "out" / WEIGHTS).stat().st_size <= most
    folder = read_folder(tmp_path / "out")
    assert folder.model["encoder"]["state_size"] == shrunk.encoder[1] == 8
    assert folder.notes["shrunk_from"] == "tiny"
    load_speech_model(folder, 31)
    LoadedModel.load(tmp_path / "out")


def test_the_largest_model_that_fits_is_chosen(settings, tmp_path):
    from asr.models.folder import pack, save_folder
    from asr.tables import to_table
    from asr.text.vocabulary import Vocabulary

    large = from_table(SpeechSettings, to_table(settings) | {"encoder": {"state_size": 48}})
    state = build_speech_model(large, 31).state_dict()
    words = {"vocabulary": Vocabulary.characters().to_json()}
    save_folder(tmp_path / "large", "speech", to_table(large), words, state, {})
    sizes = {}
    for share in (x / 24 for x in range(1, 25)):
        smaller = shrunk_settings(large, share)
        pruned = prune(state, large, choose_units(state, large, smaller))
        sizes[smaller.encoder.state_size] = len(pack(pruned, 8, tmp_path))
    shrunk = shrink(tmp_path / "large", tmp_path / "out", sizes[32] + 100)
    assert shrunk.encoder == (48, 32)


@pytest.mark.parametrize("most", [1e6, 25_000])
def test_the_copy_keeps_language_models_and_boundary_model(tmp_path, monkeypatch, most):
    monkeypatch.setattr(model_folder, "PRETRAINED", tmp_path / "package")
    monkeypatch.setattr(shrink_module, "PRETRAINED", tmp_path / "package")
    for source in (tmp_path / "package" / "first", tmp_path / "mine"):
        write_tiny_model(source)
        (source / LANGUAGE_MODEL).write_text("words")
        (source / BOUNDARIES).write_text("boundaries")
        (source / VOICE_ACTIVITY).write_text("voice activity")
        target = tmp_path / f"small-{source.name}"
        assert shrink(source, target, most).is_pruned == (most < 1e6)
        folder, is_packaged = read_folder(target), source.name == "first"
        own = source if is_packaged else target
        assert folder.language_model_file == own / LANGUAGE_MODEL
        assert folder.boundaries_file == own / BOUNDARIES
        assert folder.voice_activity_file == own / VOICE_ACTIVITY
        for name in (BOUNDARIES, VOICE_ACTIVITY):
            assert (target / name).exists() == (not is_packaged)
    (tmp_path / "package" / "first" / BOUNDARIES).unlink()
    with pytest.raises(UserError, match="names a boundary model that is missing"):
        _ = read_folder(tmp_path / "small-first").boundaries_file


def test_what_cannot_be_is_one_line(tiny, tmp_path, capsys):
    assert main(["shrink", str(tiny), str(tmp_path / "out"), "--to", "1kB"]) == 2
    assert "0.001 MB are too few; the least is 0.0" in capsys.readouterr().err
    assert main(["shrink", str(tiny), str(tmp_path), "--to", "1MB"]) == 2
    assert "exists; name a new folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["shrink", str(tiny), str(tmp_path / "out"), "--to", "5"])
    assert "'5' is not a size such as 5MB" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_prints_what_became_smaller(tiny, tmp_path, capsys):
    assert main(["shrink", str(tiny), str(tmp_path / "a"), "--to", "1 MB"]) == 0
    assert "all units kept, weights in 8 bits" in capsys.readouterr().out
    assert main(["shrink", str(tiny), str(tmp_path / "b"), "--to", "20kB"]) == 0
    assert "pruned, weights in 3 bits; it needs training" in capsys.readouterr().out
    command = ["shrink", str(tiny), str(tmp_path / "c"), "--to", "20kB", "--bits", "8"]
    assert main(command) == 0
    assert "pruned, weights in 8 bits; it needs training" in capsys.readouterr().out
