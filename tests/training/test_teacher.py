"""Distillation: distributions of a trained model as targets for another."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_encoder import fake_encoder
from tiny_model import write_tiny_model
from tones import write_tones
from torch.nn import functional

from asr.attention.contract import Annotations
from asr.audio.augment import speed
from asr.audio.read import read
from asr.checksums import renew_checksum
from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.models.encoders import public
from asr.models.folder import read_folder
from asr.models.speech import Waveforms, load_speech_model
from asr.text.vocabulary import Vocabulary
from asr.training import teacher
from asr.training.config import load_config
from asr.training.losses.sequences import shift
from asr.training.run import run
from asr.training.tasks.speech import SpeechTask
from asr.training.teacher import (
    DecoderTargets,
    Teacher,
    alignment_loss,
    distillation_loss,
    relation_loss,
)

CONFIG = Path(__file__).parents[2] / "recipes" / "tones" / "tones.toml"
VOCABULARY = Vocabulary.characters()


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    return write_tones(tmp_path_factory.mktemp("tones"), utterances=12)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def log_probs(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.log_softmax(torch.randn(*shape, generator=generator), -1)


# The loss


def test_the_loss_is_the_divergence_per_frame_of_each_utterance():
    found, wanted = log_probs(2, 6, 5, seed=1), log_probs(2, 6, 5, seed=2)
    loss = distillation_loss(found, torch.tensor([6, 4]), wanted, torch.tensor([6, 4]))
    each = [
        functional.kl_div(found[row, :count], wanted[row, :count], reduction="sum", log_target=True)
        for row, count in ((0, 6), (1, 4))
    ]
    assert loss.item() == pytest.approx(sum(each).item() / 10, rel=1e-5)
    same = distillation_loss(found, torch.tensor([6, 4]), found, torch.tensor([6, 4]))
    assert same.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("own", "taught"), [([4, 2], [5, 3]), ([5, 3], [4, 2])])
def test_frames_that_only_one_of_the_two_has_do_not_count(own, taught):
    found, wanted = log_probs(2, 6, 5, seed=1).requires_grad_(), log_probs(2, 7, 5, seed=2)
    loss = distillation_loss(found, torch.tensor(own), wanted, torch.tensor(taught))
    (gradient,) = torch.autograd.grad(loss, found)
    assert (gradient.abs().sum(-1) > 0).sum(1).tolist() == [4, 2]


def test_no_common_frames_give_no_loss():
    none = torch.tensor([0])
    loss = distillation_loss(log_probs(1, 2, 5, seed=1), none, log_probs(1, 2, 5, seed=2), none)
    assert loss.item() == 0


# The teacher


def test_its_distributions_are_those_of_the_model(tiny, tones, tmp_path):
    samples = read(next((tones / "train").glob("*.flac"))).samples
    model = LoadedModel.load(tiny, runtime="torch").engine.model
    encoded = model.encode(Waveforms(torch.from_numpy(samples)[None], torch.tensor([len(samples)])))
    wanted = encoded.ctc_log_probs[0, : int(encoded.ctc_lengths)].numpy()
    found = Teacher(tiny, VOCABULARY, tmp_path).cached(samples)
    np.testing.assert_allclose(found, wanted, atol=0.02)  # kept in 16 bits
    assert np.exp(found).sum(1) == pytest.approx(np.ones(len(found)), abs=0.01)


def test_distributions_are_kept_by_content_and_model(tiny, tones, tmp_path):
    samples = read(next((tones / "train").glob("*.flac"))).samples
    first = Teacher(tiny, VOCABULARY, tmp_path)
    wanted = first.cached(samples)
    files = sorted(tmp_path.rglob("*.npy"))
    assert len(files) == 1
    first._model.encode = None  # the second time the file is read
    np.testing.assert_array_equal(first.cached(samples), wanted)
    other = write_tiny_model(tmp_path / "other", ctc=True)
    (other / "checksums.json").unlink()
    content = (other / "model.safetensors").read_bytes()
    (other / "model.safetensors").write_bytes(content[:-1] + b"\x01")
    renew_checksum(other / "model.safetensors")
    Teacher(other, VOCABULARY, tmp_path).cached(samples)
    assert len(sorted(tmp_path.rglob("*.npy"))) == 2


@pytest.mark.parametrize("options", [{"ctc": False}, {"silence_mask": True}])
def test_a_model_that_cannot_teach_is_refused(tmp_path, options):
    with pytest.raises(UserError, match="a teacher needs a CTC head"):
        Teacher(write_tiny_model(tmp_path / "model", **options), VOCABULARY)


def test_other_characters_are_refused(tiny):
    other = Vocabulary(("<blank>", "<eos>", "<unk>", "a"))
    with pytest.raises(UserError, match="its characters differ"):
        Teacher(tiny, other)


# Training


def task_of(tones, tiny, *overrides):
    config = load_config(CONFIG, [f"teacher.model={tiny}", *overrides])
    return SpeechTask(config, tones, CONFIG.parent)


def test_the_teacher_gets_the_recording_at_its_speed_before_other_augmentation(
    tones, tiny, tmp_path
):
    settings = ["augment.speeds=[0.8]", "augment.gain_db=20.0"]
    task = task_of(tones, tiny, f"teacher.cache={tmp_path}", *settings)
    indices = [0, 1, 2]
    batch = task.make(0, 0, indices)
    for row, index in enumerate(indices):
        samples = speed(task.data.store[task.data.examples[index].audio], 0.8)
        wanted = task.data.teacher.cached(samples)
        assert batch.targets.lengths[row] == len(wanted)
        np.testing.assert_array_equal(batch.targets.values[row, : len(wanted)], wanted)
        louder = batch.waveforms.samples[row, : len(samples)].numpy()
        assert not np.allclose(louder, samples, rtol=0.01)
    assert batch.to(torch.device("meta")).targets.values.is_meta


def test_without_a_cache_the_teacher_computes_a_whole_batch(tones, tiny, tmp_path):
    settings = ["augment.speeds=[1.0, 0.8]", "teacher.other_speeds=false"]
    kept = task_of(tones, tiny, f"teacher.cache={tmp_path}", *settings).make(0, 0, [0, 1, 2, 3])
    task = task_of(tones, tiny, *settings)
    batch = task.make(0, 0, [0, 1, 2, 3])
    assert batch.targets is None and kept.lesson is None
    values, lengths, decoder, _ = task.data.teacher.teach(batch.lesson)
    assert decoder is None and lengths.tolist() == kept.targets.lengths.tolist()
    for row, length in enumerate(lengths.tolist()):
        wanted = kept.targets.values[row, :length]
        np.testing.assert_allclose(values[row, :length], wanted, atol=0.02)  # kept in 16 bits
    assert batch.to(torch.device("meta")).lesson.waveforms.samples.is_meta


def test_recordings_at_another_speed_may_go_without_targets(tones, tiny, tmp_path):
    settings = [f"teacher.cache={tmp_path}", "teacher.other_speeds=false"]
    task = task_of(tones, tiny, "augment.speeds=[1.0, 0.8]", *settings)
    indices = list(range(8))
    batch = task.make(0, 0, indices)
    own = [len(task.data.store[task.data.examples[index].audio]) for index in indices]
    at_own_speed = batch.waveforms.lengths == torch.tensor(own)
    assert 0 < at_own_speed.sum() < 8
    assert ((batch.targets.lengths > 0) == at_own_speed).all()
    losses = task.loss(batch, 0)
    assert losses.total.isfinite() and losses.parts["teacher"] > 0


def test_the_loss_mixes_both_by_the_share(tones, tiny):
    totals, parts = {}, {}
    for share in (0.0, 0.25, 1.0):
        task = task_of(tones, tiny, "loss.ctc=1.0", f"teacher.share={share}")
        task.model.eval()
        losses = task.loss(task.make(0, 0, [0, 1]), 0)
        totals[share], parts[share] = losses.total.item(), losses.parts
    assert "ctc" not in parts[1.0]  # no transcripts
    assert totals[1.0] == pytest.approx(parts[1.0]["teacher"].item())
    assert totals[0.0] == pytest.approx(parts[0.0]["ctc"].item())
    assert totals[0.25] == pytest.approx(0.75 * totals[0.0] + 0.25 * totals[1.0], rel=1e-4)


# The decoder


ANNOTATIONS = ["model.encoder.layers_before_reduction=1", "model.ctc.subframes=2"]


def test_the_decoder_learns_the_teachers_outputs_and_alignments(tones, tiny):
    weights = ["teacher.outputs=0.75", "teacher.alignments=0.5", "loss.ctc=0.25"]
    task = task_of(tones, tiny, *weights, *ANNOTATIONS, "loss.diagonality=0")
    task.model.eval()
    losses = task.loss(task.make(0, 0, [0, 1, 2]), 0)
    parts = {name: value.item() for name, value in losses.parts.items()}
    assert parts["teacher_outputs"] > 0 and parts["teacher_alignments"] > 0
    decoder = 0.25 * parts["cross_entropy"] + 0.75 * parts["teacher_outputs"]
    decoder += 0.5 * parts["teacher_alignments"]
    ctc = 0.3 * parts["ctc"] + 0.7 * parts["teacher"]
    wanted = 0.75 * decoder + 0.25 * ctc
    assert losses.total.item() == pytest.approx(wanted, rel=1e-4)


def test_alignments_of_encoders_that_differ_by_one_annotation_are_compared_where_both_have_one():
    theirs = torch.tensor([[[0.5, 0.3, 0.2, 0.0]], [[0.4, 0.3, 0.2, 0.1]]])  # 3 and 4 annotations
    own = torch.tensor([[[0.2, 0.6, 0.2]], [[0.5, 0.25, 0.25]]])  # 3 and 3
    one = torch.tensor([1, 1])
    taught = DecoderTargets(torch.empty(2, 1, 5), theirs, torch.tensor([3, 4]), one)
    loss = alignment_loss(own, torch.tensor([3, 3]), one, taught)
    wanted = [theirs[0, 0, :3], theirs[1, 0, :3] / 0.9]
    each = [float((p * (p / q).log()).sum()) for p, q in zip(wanted, own[:, 0], strict=True)]
    assert loss.item() == pytest.approx(sum(each) / 2, rel=1e-5)
    # The other way round: the pupil has one annotation more.
    taught = DecoderTargets(torch.empty(2, 1, 5), own, torch.tensor([3, 3]), one)
    assert alignment_loss(theirs, torch.tensor([3, 4]), one, taught).isfinite()


def test_its_targets_are_those_of_teacher_forcing(tones, tiny):
    task = task_of(tones, tiny, "teacher.outputs=1.0", *ANNOTATIONS)
    batch = task.make(0, 0, [0, 3, 5])
    previous, _ = shift(batch.tokens, batch.token_lengths)
    targets = task.data.teacher.teach(batch.lesson, previous, batch.token_lengths + 1).decoder
    assert targets.lengths.tolist() == (batch.token_lengths + 1).tolist()
    model = load_speech_model(read_folder(tiny), len(VOCABULARY))
    for row, steps in enumerate(targets.lengths.tolist()):
        waveforms, _ = batch.lesson
        samples = waveforms.samples[row : row + 1, : waveforms.lengths[row]]
        memory = model.encode(Waveforms(samples, waveforms.lengths[row : row + 1])).memory
        output = model.decoder(previous[row : row + 1, :steps], memory)
        wanted = torch.log_softmax(output.logits[0], -1)
        torch.testing.assert_close(targets.log_probs[row, :steps], wanted, atol=1e-4, rtol=1e-4)
        length = memory.values.size(1)
        weights = targets.weights[row, :steps, :length]
        torch.testing.assert_close(weights, output.weights[0], atol=1e-5, rtol=1e-4)


def test_recordings_without_targets_do_not_count_for_the_decoder(tones, tiny):
    settings = ["teacher.outputs=1.0", "teacher.other_speeds=false", "augment.speeds=[0.8]"]
    task = task_of(tones, tiny, *settings, *ANNOTATIONS)
    losses = task.loss(task.make(0, 0, [0, 1]), 0)
    assert losses.parts["teacher_outputs"] == 0


@pytest.mark.parametrize("key", ["alignments", "annotations"])
def test_they_need_annotations_of_the_same_length(tones, tiny, key):
    message = f"teacher.{key}: .* has an annotation every 80 ms, this model every 40 ms"
    with pytest.raises(UserError, match=message):
        task_of(tones, tiny, f"teacher.{key}=0.5")


# The encoder


def annotations(*shape, lengths, seed):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return Annotations(values, torch.arange(shape[1]) < torch.tensor(lengths)[:, None])


def test_similarities_of_annotations_are_compared_with_the_teachers():
    own = annotations(2, 5, 6, lengths=[5, 3], seed=1)
    theirs = annotations(2, 6, 4, lengths=[5, 4], seed=2)  # of another size, and one more
    loss, count = relation_loss(own, theirs)
    assert count == 8
    logs = []
    for each in (own, theirs):
        vectors = torch.cat([each.values[0, :5], each.values[1, :3]])
        vectors = functional.normalize(vectors - vectors.mean(0), dim=1)
        cosines = vectors @ vectors.T
        others = ~torch.eye(8, dtype=torch.bool)
        logs.append((20 * cosines[others].view(8, 7)).log_softmax(1))  # e for each 0.05
    wanted = functional.kl_div(*logs, log_target=True, reduction="batchmean")
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_annotations_that_are_turned_and_stretched_cost_nothing():
    theirs = annotations(2, 5, 6, lengths=[5, 3], seed=1)
    turn, _ = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(3)))
    loss, _ = relation_loss(theirs._replace(values=3 * theirs.values @ turn + 0.5), theirs)
    assert loss.item() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("lengths", [[0, 0], [1, 0]])
def test_less_than_two_annotations_cost_nothing(lengths):
    own = annotations(2, 5, 6, lengths=lengths, seed=1)
    own.values.requires_grad_()
    loss, _ = relation_loss(own, annotations(2, 5, 6, lengths=lengths, seed=2))
    (gradient,) = torch.autograd.grad(loss, own.values)
    assert loss.item() == 0 and not gradient.any()


def test_of_many_annotations_some_are_compared(monkeypatch):
    monkeypatch.setattr(teacher, "MOST_COMPARED", 4)
    own = annotations(2, 5, 6, lengths=[5, 4], seed=1)  # each third: 0, 3 and the second's 1
    theirs = annotations(2, 5, 6, lengths=[5, 4], seed=2)
    loss, count = relation_loss(own, theirs)
    places = (torch.tensor([0, 0, 1]), torch.tensor([0, 3, 1]))
    chosen = [Annotations(each.values[places][None], own.mask[:1, :3]) for each in (own, theirs)]
    assert count == 3 and loss.item() == pytest.approx(relation_loss(*chosen)[0].item(), rel=1e-5)


def test_the_encoder_learns_the_teachers_annotations(tones, tiny):
    task = task_of(tones, tiny, "teacher.annotations=0.5", *ANNOTATIONS)
    task.model.eval()
    batch = task.make(0, 0, [0, 3, 5])
    losses = task.loss(batch, 0)
    term = losses.terms[-1]
    assert term.value.item() == pytest.approx(0.5 * losses.parts["teacher_annotations"].item())
    model = load_speech_model(read_folder(tiny), len(VOCABULARY))
    encoded = (model.encode(batch.lesson.waveforms), task.model.encode(batch.waveforms))
    theirs, own = (Annotations(each.memory.values, each.memory.mask) for each in encoded)
    loss, count = relation_loss(own, theirs)
    assert term.size == count > 2
    assert loss.item() == pytest.approx(losses.parts["teacher_annotations"].item(), rel=1e-3)


def test_recordings_without_targets_do_not_count_for_the_encoder(tones, tiny):
    settings = ["teacher.annotations=1.0", "teacher.other_speeds=false", "augment.speeds=[0.8]"]
    task = task_of(tones, tiny, *settings, *ANNOTATIONS)
    losses = task.loss(task.make(0, 0, [0, 1]), 0)
    assert losses.parts["teacher_annotations"] == 0 and losses.total.isfinite()


def test_the_frames_of_a_public_encoder_are_kept(tones, tmp_path, monkeypatch):
    monkeypatch.setattr(public, "load_public", fake_encoder)
    kept = ["teacher.annotations=1.0", f"teacher.cache={tmp_path}", *ANNOTATIONS]
    task = task_of(tones, "english-plus", *kept)
    batch = task.make(0, 0, [0, 1])
    first = task.data.teacher.teach(batch.lesson).annotations
    assert len(list(tmp_path.rglob("*.npy"))) == 2
    broken = replace(fake_encoder("whisper-base"), encode=None)
    monkeypatch.setattr(public, "load_public", lambda name: broken)
    again = task_of(tones, "english-plus", *kept).data.teacher.teach(batch.lesson).annotations
    assert torch.equal(again.values, first.values) and torch.equal(again.mask, first.mask)


def test_only_a_public_encoder_has_frames_to_keep(tones, tiny, tmp_path):
    with pytest.raises(UserError, match="has no public encoder whose frames could be kept"):
        task_of(tones, tiny, "teacher.annotations=1.0", f"teacher.cache={tmp_path}", *ANNOTATIONS)


def test_a_pupil_comes_close_to_its_teacher(tones, tiny, tmp_path):
    settings = ["training.steps=30", "training.validate_every=30", "training.log_every=1"]
    cache = tmp_path / "cache"
    taught = [f"teacher.model={tiny}", "teacher.share=1.0", f"teacher.cache={cache}"]
    model = run(CONFIG, tmp_path / "run", tones, [*taught, "loss.ctc=0.9", *settings])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [each["teacher"] for each in map(json.loads, lines) if each["kind"] == "train"]
    assert losses[-1] < 0.7 * losses[0]
    assert list(cache.rglob("*.npy"))
    assert "Teacher: the model `tiny` (CTC)." in (model / "README.md").read_text()


def test_a_cache_is_in_the_run_folder_unless_the_current_one_has_it(
    tones, tiny, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    given = [f"teacher.model={tiny}", "teacher.cache=kept", "training.steps=1"]
    run(CONFIG, tmp_path / "run", tones, [*given, "training.validate_every=1"])
    assert list((tmp_path / "run" / "kept").rglob("*.npy")) and not (tmp_path / "kept").exists()
    (tmp_path / "kept").mkdir()
    run(CONFIG, tmp_path / "other", tones, [*given, "training.validate_every=1"])
    assert list((tmp_path / "kept").rglob("*.npy")) and not (tmp_path / "other" / "kept").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["teacher.share=0.5"], "share"),
        (["teacher.cache=x"], "cache"),
        (["teacher.other_speeds=false"], "other_speeds"),
        (["teacher.outputs=0.5"], "outputs"),
        (["teacher.alignments=0.5"], "alignments"),
        (["teacher.annotations=0.5"], "annotations"),
        (["teacher.model=english", "loss.ctc=0.0"], "teacher.model"),
        (["teacher.model=english", "model.ctc.subframes=0", "loss.ctc=0.0"], "teacher.model"),
    ],
)
def test_keys_that_have_no_effect_are_refused(overrides, message):
    with pytest.raises(UserError, match=f"{message}.* is not read"):
        load_config(CONFIG, overrides)


def test_frames_of_another_length_are_refused(tones, tiny):
    with pytest.raises(UserError, match="a CTC frame every 40 ms, this model every 20 ms"):
        task_of(tones, tiny, "model.ctc.subframes=2")
