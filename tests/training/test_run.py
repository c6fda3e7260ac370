"""Complete runs on tones: learning, exact resumption, and several processes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file
from tiny_model import write_tiny_model
from tones import write_tones

from asr.checksums import renew_checksum
from asr.corpora.manifest import read_manifest
from asr.errors import UserError
from asr.tables import to_table
from asr.training import loop, optimizer
from asr.training.config import TrainingSettings, config_from_table, load_config
from asr.training.run import run
from asr.training.tasks.speech import SpeechTask
from asr.training.tasks.speech_data import SpeechData

RECIPES = Path(__file__).parents[2] / "recipes"
CONFIG = RECIPES / "tones" / "tones.toml"
TINY = [
    "model.encoder.state_size=8",
    "model.decoder.state_size=12",
    "model.decoder.embedding_size=4",
    "model.decoder.dropout=0.2",
    "model.encoder.dropout=0.2",
    "augment.speeds=[0.9, 1.1]",
    "augment.time_masks=1",
    "loss.scheduled_sampling=0.3",
    "training.validate_every=4",
    "training.log_every=2",
]


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    return write_tones(tmp_path_factory.mktemp("tones"), utterances=60)


def weights_of(run_folder, step):
    return load_file(run_folder / "models" / f"step-{step:08d}" / "model.safetensors")


def records(run_folder, kind):
    lines = (run_folder / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == kind]


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tones, tmp_path, monkeypatch):
    plan = [*TINY, "training.steps=12", "training.keep=9", "batches.size=12"]
    run(CONFIG, tmp_path / "whole", tones, plan)

    kept = loop.save_checkpoint

    def stop_after_saving(folder, state, *rest):
        kept(folder, state, *rest)
        if state.progress.step == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save_checkpoint", stop_after_saving)
    with pytest.raises(KeyboardInterrupt):
        run(CONFIG, tmp_path / "parts", tones, plan)
    monkeypatch.setattr(loop, "save_checkpoint", kept)
    run(CONFIG, tmp_path / "parts", tones, plan)

    whole, parts = weights_of(tmp_path / "whole", 12), weights_of(tmp_path / "parts", 12)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert [each["step"] for each in records(tmp_path / "parts", "dev")] == [4, 8, 12]
    assert [each["loss"] for each in records(tmp_path / "whole", "train")] == [
        each["loss"] for each in records(tmp_path / "parts", "train")
    ]


def test_a_resumed_run_keeps_its_normaliser_when_the_data_change(tones, tmp_path, monkeypatch):
    lines = (tones / "train.jsonl").read_text().splitlines(keepends=True)
    manifest = tones / "changing.jsonl"
    options = [*TINY, 'data.train=[{manifest="changing.jsonl"}]']
    manifest.write_text("".join(lines[:30]))
    run(CONFIG, tmp_path / "run", tones, [*options, "training.steps=4"])
    first = weights_of(tmp_path / "run", 4)
    manifest.write_text("".join(lines[30:]))
    run(CONFIG, tmp_path / "run", tones, [*options, "training.steps=8"], continue_anyway=True)
    resumed = weights_of(tmp_path / "run", 8)
    run(CONFIG, tmp_path / "new", tones, [*options, "training.steps=4"])
    new = weights_of(tmp_path / "new", 4)
    finished = load_file(tmp_path / "run" / "model" / "model.safetensors")
    for name in ("normalizer.mean", "normalizer.std"):
        assert torch.equal(first[name], resumed[name])
        assert torch.equal(first[name], finished[name])  # also in an average of models
        assert not torch.equal(first[name], new[name])
    assert not torch.equal(first["encoder.enter.weight"], resumed["encoder.enter.weight"])


def test_a_damaged_newest_checkpoint_is_named_and_passed_over(tones, tmp_path, capsys):
    plan = [*TINY, "training.steps=8"]
    run(CONFIG, tmp_path, tones, plan)
    newest = tmp_path / "checkpoints" / "step-00000008.pt"
    newest.write_bytes(newest.read_bytes()[:1000])
    run(CONFIG, tmp_path, tones, plan)
    told = capsys.readouterr().err
    assert f"{newest}: damaged" in told and "resuming at step 4" in told


def test_two_processes_average_their_gradients(tones, tmp_path):
    run(CONFIG, tmp_path, tones, [*TINY, "training.steps=4", "training.processes=2"])
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert records(tmp_path, "dev")[0]["cer"] > 0


def test_an_error_in_a_process_is_one_line(tones, tmp_path):
    plan = [*TINY, "training.steps=4", "training.processes=2", "training.device=abacus"]
    with pytest.raises(UserError, match="abacus") as caught:
        run(CONFIG, tmp_path, tones, plan)
    assert "\n" not in str(caught.value)


def test_other_sizes_in_the_same_run_folder_are_refused(tones, tmp_path):
    run(CONFIG, tmp_path, tones, [*TINY, "training.steps=4"])
    with pytest.raises(UserError, match="new run folder"):
        run(CONFIG, tmp_path, tones, [*TINY, "training.steps=8", "model.attention.size=16"])


def test_data_is_checked_before_training(tones, tmp_path):
    lines = (tones / "train.jsonl").read_text().splitlines()
    broken = json.loads(lines[0]) | {"audio": str(tmp_path / "lost.flac"), "id": "lost"}
    (tones / "broken.jsonl").write_text("\n".join([*lines, json.dumps(broken)]) + "\n")
    with pytest.raises(UserError, match=r"1 problem[\s\S]*lost\.flac"):
        run(CONFIG, tmp_path / "run", tones, ['data.train=[{manifest="broken.jsonl"}]'])
    words = RECIPES / "fra_eng" / "words.toml"
    with pytest.raises(UserError, match=r"none\.tsv: cannot be read"):
        run(words, tmp_path / "run", None, ["data.train=none.tsv"])
    assert not list((tmp_path / "run").iterdir())  # so that the next attempt is checked as well


@pytest.mark.parametrize(
    "options",
    [
        ["model.attention.silence_mask=true", "data.noise='dev.jsonl'", "augment.noise_share=1.0"],
        ["model.attention.window_back=4", "model.attention.window_ahead=9"],
        ["model.attention.kind=scaled_dot", "loss.coverage=0.1", "loss.entropy=0.1"],
        ["model.ctc.subframes=0", "loss.ctc=0.0", "training.precision=bf16"],
        ["training.accumulate=2", "batches.size=6"],
        ["loss.risk=0.5", "model.attention.silence_mask=true"],
    ],
    ids=lambda options: options[0],
)
def test_options_train(tones, tmp_path, options):
    run(CONFIG, tmp_path, tones, [*TINY, "training.steps=4", *options])
    losses = [each["loss"] for each in records(tmp_path, "train")]
    assert len(losses) == 2 and all(0 < loss < 20 for loss in losses)


NO_DIAGONAL = ["loss.diagonality=0", "loss.diagonality_steps=0"]


def test_the_risk_of_speech_counts_wrong_characters(tones, monkeypatch):
    task = SpeechTask(
        load_config(CONFIG, [*TINY, "loss.risk=0.5", *NO_DIAGONAL]),
        tones,
        CONFIG.parent,
    )
    batch = task.make(0, 0, task.plan(0)[0])
    place = int(batch.token_lengths.argmax())
    tokens = batch.tokens[place, : batch.token_lengths[place]].tolist()
    wrong = task._wrong
    assert wrong(tokens, tokens) == 0
    other = max({*tokens} - {tokens[0]})  # a character
    assert wrong(tokens, [other, *tokens[1:]]) == 1 and wrong(tokens, []) == len(tokens)
    found = task.loss(batch, 0)
    attention = 0.5 * found.parts["cross_entropy"] + 0.5 * found.parts["risk"]
    share = task.config.loss.ctc
    wanted = (1 - share) * attention + share * found.parts["ctc"]
    torch.testing.assert_close(found.total, wanted)
    assert found.parts["risk"] > 0.5  # for a random model
    monkeypatch.setattr("asr.training.tasks.speech.expected_errors", lambda *_: torch.tensor(7.0))
    count = int(batch.token_lengths.sum()) + len(batch.token_lengths)  # with each <eos>
    assert task.loss(batch, 0).parts["risk"] == pytest.approx(7 / count)


def test_training_stops_when_patience_is_out(tones, tmp_path):
    plan = [*TINY, "training.steps=400", "training.rate=1e-9", "training.patience=2"]
    run(CONFIG, tmp_path, tones, plan)
    assert [each["step"] for each in records(tmp_path, "dev")] == [4, 8, 12]


def test_a_missing_manifest_says_what_data_means(tmp_path):
    with pytest.raises(UserError, match=r"train\.jsonl: no such manifest; --data"):
        run(CONFIG, tmp_path / "run", tmp_path)
    (tmp_path / "train.jsonl").mkdir()
    with pytest.raises(UserError, match=r"train\.jsonl: a folder; wanted a manifest: asr prepare"):
        run(CONFIG, tmp_path / "run", tmp_path)


def test_the_learning_rate_rises_stays_and_falls():
    settings = TrainingSettings(steps=100, rate=2.0, warmup_steps=10, decay_share=0.5)
    rates = [optimizer.rate_at(step, settings) for step in range(101)]
    assert rates[0] == pytest.approx(0.2) and rates[9] == rates[50] == 2.0
    assert rates[75] == pytest.approx(1.0) and rates[100] == 0


def test_a_warm_up_that_reaches_into_the_decay_has_no_jump():
    settings = TrainingSettings(steps=100, rate=1.0, warmup_steps=80, decay_share=0.5)
    rates = np.array([optimizer.rate_at(step, settings) for step in range(101)])
    assert np.abs(np.diff(rates)).max() <= 0.021 and rates.argmax() in (61, 62)
    assert rates[100] == 0


def test_tones_are_learnt(tones, tmp_path):
    run(CONFIG, tmp_path, tones, ["training.steps=260", "training.validate_every=130"])
    last = records(tmp_path, "dev")[-1]
    assert last["cer"] < 30 and last["diagonal"] > 0.8
    assert len(list((tmp_path / "alignments").glob("*.png"))) == 2


def test_a_model_that_training_makes_no_better_stays_as_it_was(
    tones, tmp_path, monkeypatch, capsys
):
    model = run(CONFIG, tmp_path / "first", tones, [*TINY, "training.steps=4"])
    validate = SpeechTask.validate

    def worsening(task, step, folder):
        return replace(validate(task, step, folder), figure=float(step))

    monkeypatch.setattr(SpeechTask, "validate", worsening)
    plan = [*TINY, "training.steps=4", "training.rate=0.1", f"training.start_from={model}"]
    second = run(CONFIG, tmp_path / "second", tones, [*plan, "training.keep=2"])
    assert "no step was better than step 0" in capsys.readouterr().err
    before, after = (load_file(each / "model.safetensors") for each in (model, second))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert [each["step"] for each in records(tmp_path / "second", "dev")] == [0, 4]


def test_how_a_model_is_used_is_kept_by_one_that_starts_from_it(tones, tmp_path):
    model = write_tiny_model(tmp_path / "model")
    usage = {
        "decoding": {"beam": 3},
        "confidence": {"bias": 1.0},
        "written": "written",
        "plausibility": {"bias": 2.0},
        "language_model": "english",
    }
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, **usage}))
    renew_checksum(model / "config.json")
    task = SpeechTask(load_config(CONFIG, [f"training.start_from={model}"]), tones, CONFIG.parent)
    task.save(tmp_path / "tuned")
    tuned = json.loads((tmp_path / "tuned" / "config.json").read_text())
    assert {name: tuned.get(name) for name in usage} == usage


def test_a_run_can_start_from_a_model(tones, tmp_path):
    run(CONFIG, tmp_path / "first", tones, [*TINY, "training.steps=8"])
    model = tmp_path / "first" / "model"
    (model / "words.npz").write_bytes(b"language models travel with their model")
    own = json.loads((model / "config.json").read_text()) | {"decoding": {"lm_weight": 0.5}}
    (model / "config.json").write_text(json.dumps(own))
    for name in ("words.npz", "config.json"):
        renew_checksum(model / name)
    (model / "README.md").write_text("# The first model\n")
    still = ["training.steps=4", "training.rate=0.0", "training.average=0.0"]
    plan = [*TINY, *still, f"training.start_from={model}"]
    run(CONFIG, tmp_path / "second", tones, [*plan, "seed=5"])
    before = load_file(model / "model.safetensors")
    after = load_file(tmp_path / "second" / "model" / "model.safetensors")
    # Weights and normalisation are those of the model, although this seed would give others.
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert [each["step"] for each in records(tmp_path / "second", "dev")] == [0, 4]
    tuned = tmp_path / "second" / "model"
    assert (tuned / "words.npz").read_bytes().startswith(b"language models")
    assert json.loads((tuned / "config.json").read_text())["decoding"] == {"lm_weight": 0.5}
    card = (tuned / "README.md").read_text()
    assert card.startswith("# Model card\n") and card.endswith("# The first model\n")
    assert "`train.jsonl`" in card and "Started from `model`" in card

    with pytest.raises(UserError, match="do not fit"):
        run(CONFIG, tmp_path / "third", tones, [*plan, "model.encoder.state_size=10"])
    vocabulary = model / "vocabulary.json"
    vocabulary.write_text(vocabulary.read_text().replace('"z"', '"ä"'))
    renew_checksum(vocabulary)
    with pytest.raises(UserError, match="its characters differ"):
        run(CONFIG, tmp_path / "fourth", tones, plan)


def test_a_manifest_can_be_for_the_first_epochs_only(tones, tmp_path):
    config = load_config(CONFIG)
    train = [{"manifest": "train.jsonl"}, {"manifest": "dev.jsonl", "times": 2.0, "epochs": 1}]
    table = to_table(config)
    table["data"]["train"] = train
    data = SpeechData(config_from_table(table), tones, tmp_path)
    counts = [sum(len(batch) for batch in data.plan(epoch)) for epoch in range(3)]
    first = len(read_manifest(tones / "train.jsonl"))
    assert counts == [first + 2 * len(read_manifest(tones / "dev.jsonl")), first, first]


def test_a_list_says_which_utterances_of_a_manifest_to_leave_out(tones, tmp_path):
    table = to_table(load_config(CONFIG))
    table["data"]["train"] = [{"manifest": "train.jsonl", "without": "held-out.txt"}]
    ids = [each.id for each in read_manifest(tones / "train.jsonl")]
    (tmp_path / "held-out.txt").write_text("\n".join(["# some", *ids[3:5], ids[-1]]))
    data = SpeechData(config_from_table(table), tones, tmp_path)
    left = {ids[place] for place in range(len(ids)) if place not in (3, 4, len(ids) - 1)}
    assert {f"train-{each.audio.stem}" for each in data.examples} == left
    assert sum(map(len, data.plan(0))) == len(left)
    (tmp_path / "held-out.txt").write_text("nobody")
    with pytest.raises(UserError, match=r"held-out\.txt:1: got the id 'nobody'"):
        SpeechData(config_from_table(table), tones, tmp_path)


def test_rooms_and_telephones_are_heard_and_are_no_noise(tones, tmp_path):
    click = np.zeros(4000, np.float32)
    click[[100, 2000]] = 1.0, 0.7
    soundfile.write(tones / "room.flac", click, 16_000)
    lines = [
        {"audio": "dev/0000.flac", "label": "hum"},
        {"audio": "room.flac", "label": "room-impulse-response"},
    ]
    (tones / "noise.jsonl").write_text("\n".join(map(json.dumps, lines)))
    plain = ["data.noise=noise.jsonl", "augment.speeds=[1.0]", "augment.gain_db=0.0"]

    def heard(*options):
        data = SpeechData(load_config(CONFIG, [*plain, *options]), tones, CONFIG.parent)
        assert [each.name for each in data.noise] == ["0000.flac"]
        batch = data.make(0, 0, [0])
        return batch.waveforms.samples[0].numpy()

    dry, room, line = (
        heard(*each) for each in ([], ["augment.room_share=1.0"], ["augment.telephone_share=1.0"])
    )
    assert np.abs(room - dry).max() > 0.1 * np.abs(dry).max()
    first = slice(1900)  # before the echo only the level differs
    gain = room[first] @ dry[first] / (dry[first] @ dry[first])
    assert room[first] == pytest.approx(gain * dry[first], abs=1e-4)
    assert 0 < np.abs(line - dry).mean() < np.abs(dry).mean()
    with pytest.raises(UserError, match="wants room impulse responses"):
        heard("data.noise=dev.jsonl", "augment.room_share=0.1")


def test_vocal_tracts_are_drawn_for_each_utterance_and_in_training_alone(tones):
    plain, drawn = (
        SpeechTask(load_config(CONFIG, options), tones, CONFIG.parent)
        for options in ([], ["augment.tract_lengths=[0.8, 1.25]"])
    )
    batch = drawn.make(0, 0, [0, 1, 2])
    warps = batch.waveforms.warps
    plain_batch = plain.make(0, 0, [0, 1, 2])
    assert torch.equal(batch.waveforms.samples, plain_batch.waveforms.samples)
    assert warps is not None and len(set(warps.tolist())) == 3
    assert torch.equal(warps, drawn.make(0, 0, [0, 1, 2]).waveforms.warps)
    moved = batch.to(torch.device("meta"))
    assert moved.waveforms.warps is warps  # filters are made on the CPU
    assert ((warps >= 0.8) & (warps <= 1.25)).all()
    plain.model.eval()
    assert plain.loss(batch, 0).total != plain.loss(plain_batch, 0).total
    assert plain_batch.waveforms.warps is None
    assert all(batch.waveforms.warps is None for _, batch in drawn.data.dev_batches())


@pytest.mark.parametrize("lengths", ["[1.1, 0.9]", "[0.9]", "[0.1, 1.0]", "[1.0, 2.0]"])
def test_vocal_tracts_that_nobody_has_are_refused(lengths):
    with pytest.raises(UserError, match=r"tract_lengths"):
        load_config(CONFIG, [f"augment.tract_lengths={lengths}"])


SPEECH_RECIPES = sorted(
    path for path in RECIPES.glob("librispeech/*.toml") if load_config(path).task == "speech"
)


@pytest.mark.parametrize("recipe", SPEECH_RECIPES, ids=lambda path: path.name)
def test_every_librispeech_recipe_trains_when_made_small(recipe, tones, tmp_path):
    small = [
        'data.train=[{manifest="train.jsonl"}]',
        "data.dev=dev.jsonl",
        "data.dev_ids=",
        "data.dev_most=2",
        "data.noise=",
        "data.noise_times=1.0",
        "augment.noise_share=0.0",
        "augment.room_share=0.0",
        "batches.size=12.0",
        "training.processes=1",
        "training.loaders=0",
        "training.start_from=",
        "teacher.cache=",
    ]
    config = load_config(recipe)
    if config.teacher.model:
        small.append(f"teacher.model={write_tiny_model(tmp_path / 'teacher')}")
    if config.text.files:
        (tmp_path / "text.txt").write_text("Nobody speaks this. " * 9)
        small.append(f'text.files=["{tmp_path / "text.txt"}"]')
    late = ["augment.after_step=0"]  # everything that starts later
    if config.loss.scheduled_sampling:
        late.append("loss.scheduled_sampling_from=1")
    sizes = [f"model.{part}.state_size=8" for part in ("encoder", "decoder")]
    plan = [*small, *late, *sizes, "training.steps=2", "training.validate_every=2"]
    model = run(recipe, tmp_path / "run", tones, plan)
    assert (model / "model.safetensors").is_file()
    assert [each["step"] for each in records(tmp_path / "run", "dev")] == [2]


def test_the_language_recipe_trains_when_made_small(tones, tmp_path):
    small = [
        'data.train=["train.jsonl"]',
        "data.dev=dev.jsonl",
        "data.dev_ids=",
        "data.window=4",
        "batches.size=8.0",
        "model.state_size=8",
        "training.steps=2",
        "training.validate_every=2",
    ]
    model = run(RECIPES / "librispeech" / "language.toml", tmp_path, tones, small)
    assert (model / "words.json").is_file() and (model / "model.safetensors").is_file()
    assert records(tmp_path, "dev")[0]["perplexity"] > 1
