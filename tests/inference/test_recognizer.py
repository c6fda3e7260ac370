"""Transcription with a small random model: properties that hold for any weights."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_model import write_tiny_model

import asr
from asr import model_folder
from asr.audio.read import SAMPLE_RATE, Waveform, read
from asr.checksums import renew_checksum
from asr.errors import UserError
from asr.inference import decoding
from asr.inference import recognizer as recognizer_module
from asr.inference.decoding import _is_read_from_noise
from asr.inference.options import DecodingOptions
from asr.inference.pieces import whole
from asr.inference.recognizer import Recognizer
from asr.inference.sources import Failure
from asr.lm.estimation import lexicon_of, train_word_ngrams
from asr.models.folder import LANGUAGE_MODEL, copy_folder
from asr.results import Transcript
from asr.search.hypothesis import Hypothesis

SPEECH = Path(__file__).parents[2] / "data" / "speech"
FLAC = SPEECH / "5683-32866-0027.flac"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def recognizer(folder: Path) -> Recognizer:
    return Recognizer.load(folder)


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return read(FLAC).samples


@pytest.fixture(scope="module")
def utterances(samples: np.ndarray) -> list[np.ndarray]:
    """Return three speech signals, not sorted by length."""
    return [samples[8000:32000], samples[30000:70000], samples[40000:50000]]


def require_same(one: Transcript, other: Transcript) -> None:
    assert one.text == other.text
    assert one.stop_reason == other.stop_reason
    assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)
    times = [[(span.start, span.end) for span in each.characters] for each in (one, other)]
    np.testing.assert_allclose(*times, atol=1e-3)


@pytest.mark.parametrize("silence_mask", [False, True])
@pytest.mark.parametrize(("beam", "ctc_weight"), [(1, None), (3, 0.4)])
def test_results_do_not_depend_on_the_batch_and_keep_their_order(
    tmp_path: Path,
    utterances: list[np.ndarray],
    silence_mask: bool,
    beam: int,
    ctc_weight: float | None,
) -> None:
    recognizer = Recognizer.load(write_tiny_model(tmp_path, silence_mask=silence_mask))
    options = {"rate": SAMPLE_RATE, "beam": beam, "ctc_weight": ctc_weight}
    together = recognizer.transcribe(utterances, **options)
    assert [each.duration for each in together] == [1.5, 2.5, 0.625]
    for utterance, found in zip(utterances, together, strict=True):
        require_same(found, recognizer.transcribe(utterance, **options))
    assert len({found.log_probability for found in together}) == 3  # the results differ


def test_small_batches_and_many_windows_change_nothing(
    recognizer: Recognizer, utterances: list[np.ndarray]
) -> None:
    small = recognizer.configured(batch_seconds=0.5)
    for one, other in zip(
        small.transcribe(utterances, rate=SAMPLE_RATE),
        recognizer.transcribe(utterances, rate=SAMPLE_RATE),
        strict=True,
    ):
        require_same(one, other)


def test_every_kind_of_source_gives_the_same(recognizer: Recognizer, samples: np.ndarray) -> None:
    content = FLAC.read_bytes()
    with FLAC.open("rb") as file:
        found = [recognizer.transcribe(source) for source in (FLAC, str(FLAC), content, file)]
    found.append(recognizer.transcribe(io.BytesIO(content)))
    found.append(recognizer.transcribe(samples, rate=SAMPLE_RATE))
    found.append(recognizer.transcribe(read(FLAC)))
    for other in found[1:]:
        require_same(found[0], other)
    assert [each.path for each in found] == [str(FLAC), str(FLAC), *[None] * 5]


def test_a_transcript_fits_together(recognizer: Recognizer) -> None:
    found = recognizer.transcribe(FLAC)
    assert found.duration == pytest.approx(4.755)
    assert found.seconds_per_annotation == pytest.approx(0.08)
    assert found.text == " ".join(word.text for word in found.words)
    assert found.text == " ".join("".join(each.text for each in found.characters).split())
    assert found.weights.shape == (len(found.characters), 60)  # 474 frames, 8 an annotation
    np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-4)
    times = [time for each in found.characters for time in (each.start, each.end)]
    assert times == sorted(times) and times[0] >= 0 and times[-1] <= found.duration
    assert all(0 <= word.confidence <= 1 for word in found.words)
    assert found.log_probability < 0
    record = json.loads(json.dumps(found.record()))
    assert record["path"] == str(FLAC) and record["text"] == found.text
    assert [word["word"] for word in record["words"]] == found.text.split()


@pytest.mark.parametrize("kind", ["silence", "noise", "hum"])
def test_nothing_is_written_where_nobody_speaks(recognizer: Recognizer, kind: str) -> None:
    time = np.arange(5 * SAMPLE_RATE) / SAMPLE_RATE
    sound = {
        "silence": np.zeros_like(time),
        "noise": np.random.default_rng(0).normal(0, 0.1, len(time)),
        "hum": 0.2 * np.sin(2 * np.pi * 100 * time),
    }[kind]
    found = recognizer.transcribe(sound, rate=SAMPLE_RATE)
    assert (found.text, found.words, found.stop_reason) == ("", (), "silence")
    assert found.weights.shape == (0, 0) and found.log_probability == 0
    assert found.duration == 5


def test_a_slow_text_that_the_decoder_doubts_is_left_out() -> None:
    sound = np.random.default_rng(0).normal(0, 0.1, 2 * SAMPLE_RATE).astype(np.float32)
    piece = whole(read(sound, rate=SAMPLE_RATE))
    assert piece.speech.all()  # 2 s of speech: at least 8 characters

    def is_noise(letters: int, mean: float, noise_threshold: float = -0.6) -> bool:
        tokens = [3] * letters
        found = Hypothesis(tokens, mean * (letters + 1), np.empty(0), "eos", [])
        return _is_read_from_noise(piece, found, None, noise_threshold)

    assert is_noise(7, -0.7)
    assert not is_noise(8, -0.7)  # fast enough for speech
    assert not is_noise(7, -0.5)  # slow, but confident
    assert not is_noise(7, -0.7, noise_threshold=-np.inf)


def test_what_is_taken_for_noise_is_an_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        decoding,
        "_is_read_from_noise",
        lambda piece, found, ctc, noise_threshold: noise_threshold > -np.inf,
    )
    model = asr.load()
    found = model.transcribe(FLAC)
    assert found.text == "" and {each.stop_reason for each in found.segments} == {"silence"}
    assert (
        model.configured(beam=1).transcribe(FLAC).text
    )  # without a language model all text is kept


def test_what_is_too_short_is_refused(recognizer: Recognizer) -> None:
    with pytest.raises(UserError, match=r"^the audio: 0\.010 s of audio is too short .* 0\.1 s"):
        recognizer.transcribe(np.ones(160), rate=SAMPLE_RATE)
    speech = np.random.default_rng(0).normal(0, 0.1, 1600)
    assert recognizer.transcribe(speech, rate=SAMPLE_RATE).duration == 0.1


def test_long_audio_is_cut_decoded_and_joined(recognizer: Recognizer, samples: np.ndarray) -> None:
    # Not all zeros: equal frames have equally good paths, and rounding would decide.
    pause = np.random.default_rng(0).normal(0, 1e-3, SAMPLE_RATE // 2).astype(np.float32)
    audio = np.concatenate([samples[:24000], pause, samples[30000:60000], pause, samples[:20000]])
    short = replace(recognizer, decoding=replace(recognizer.decoding, segment_seconds=2.5))
    found = short.transcribe(audio, rate=SAMPLE_RATE)
    assert len(found.segments) >= 3
    assert found.segments[0].start == 0 and found.segments[-1].end == found.duration
    row = 0
    weights = found.weights
    for before, segment in zip((None, *found.segments), found.segments, strict=False):
        assert before is None or segment.start == before.end
        part = audio[round(segment.start * SAMPLE_RATE) : round(segment.end * SAMPLE_RATE)]
        alone = recognizer.transcribe(part, rate=SAMPLE_RATE)
        assert segment.text == alone.text
        shifted = [word.start + segment.start for word in alone.words]
        np.testing.assert_allclose([word.start for word in segment.words], shifted, atol=1e-3)
        if row and segment.characters:
            assert found.characters[row].text == " " and not weights[row].any()
            row += 1
        first = round(segment.start / found.seconds_per_annotation)
        rows = weights[row : row + len(segment.characters)]
        here = rows[:, first : first + segment.weights.shape[1]]
        np.testing.assert_array_equal(here, segment.weights)
        assert rows.sum() == pytest.approx(here.sum())
        row += len(segment.characters)
    assert row == len(found.characters) == len(weights)
    assert found.text == " ".join(each.text for each in found.segments if each.text)


def test_a_silent_segment_leaves_the_others_alone(
    recognizer: Recognizer, samples: np.ndarray
) -> None:
    audio = np.concatenate([samples[:20000], np.zeros(6 * SAMPLE_RATE, np.float32)])
    short = replace(recognizer, decoding=replace(recognizer.decoding, segment_seconds=2.5))
    found = short.transcribe(audio, rate=SAMPLE_RATE)
    reasons = [segment.stop_reason for segment in found.segments]
    assert reasons[0] != "silence" and set(reasons[2:]) == {"silence"}
    assert found.stop_reason != "silence" and found.text
    assert found.weights.shape[0] == len(found.characters)


def test_progress_adds_up_to_the_audio(
    recognizer: Recognizer, utterances: list[np.ndarray]
) -> None:
    told: list[float] = []
    sources = [*utterances, np.zeros(SAMPLE_RATE, np.float32)]
    recognizer.configured(batch_seconds=2).transcribe(
        sources, rate=SAMPLE_RATE, on_progress=told.append
    )
    assert len(told) > 1 and sum(told) == pytest.approx(1.5 + 2.5 + 0.625 + 1)


def test_a_failure_stands_in_its_place(recognizer: Recognizer, tmp_path: Path) -> None:
    missing = tmp_path / "no.wav"
    results = list(recognizer.transcribe_each([missing, FLAC, tmp_path / "none.wav"]))
    assert [type(result) for result in results] == [Failure, Transcript, Failure]
    assert results[0].path == str(missing) and "no such file" in str(results[0].error)
    with pytest.raises(UserError, match="no such file"):
        recognizer.transcribe([FLAC, missing])


def test_recordings_are_read_as_they_are_needed(
    recognizer: Recognizer, utterances: list[np.ndarray]
) -> None:
    taken = []

    def sources():
        for number in range(40):
            taken.append(number)
            yield utterances[2]

    small = recognizer.configured(batch_seconds=0.5, beam=1)
    next(small.transcribe_each(sources(), rate=SAMPLE_RATE))
    assert len(taken) < 10


# aligning


def test_aligning_what_greedy_search_wrote_finds_it_again(recognizer: Recognizer) -> None:
    found = recognizer.transcribe(FLAC, beam=1)
    assert "".join(each.text for each in found.characters) == found.text != ""
    aligned = recognizer.align(FLAC, found.text)
    (segment,) = aligned.segments
    segment = replace(segment, stop_reason=found.stop_reason)  # always EOS for a given text
    require_same(replace(aligned, segments=(segment,)), found)


def test_aligning_keeps_the_words_of_the_text(recognizer: Recognizer) -> None:
    found = recognizer.align(FLAC, "A cold, bright Moon -- was shining!")
    assert found.text == "a cold bright moon was shining"
    assert found.weights.shape == (len(found.text), 60)
    assert found.stop_reason == "eos" and found.path == str(FLAC)


def test_aligning_without_a_text_transcribes(recognizer: Recognizer) -> None:
    require_same(recognizer.align(FLAC), recognizer.transcribe(FLAC))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("привет", "nothing is left of the text 'привет'"),
        ("a" * 200, "200 characters for 4.8 s .* another recording"),
    ],
)
def test_texts_that_cannot_be_aligned_are_refused(
    recognizer: Recognizer, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        recognizer.align(FLAC, text)


def test_characters_that_the_model_lacks_are_named(folder: Path, tmp_path: Path) -> None:
    recognizer = Recognizer.load(folder)
    vocabulary = recognizer.loaded.vocabulary
    symbols = tuple("_" if symbol == "w" else symbol for symbol in vocabulary.inventory)
    poorer = replace(recognizer.loaded, vocabulary=replace(vocabulary, inventory=symbols))
    with pytest.raises(UserError, match="cannot write 'w'"):
        replace(recognizer, loaded=poorer).align(FLAC, "a window")


def test_silent_and_long_audio_is_not_aligned_with_a_text(recognizer: Recognizer) -> None:
    with pytest.raises(UserError, match="no speech"):
        recognizer.align(np.zeros(SAMPLE_RATE), "one", rate=SAMPLE_RATE)
    with pytest.raises(UserError, match=r"130 s; .* at most 120 s"):
        recognizer.align(np.zeros(130 * SAMPLE_RATE), "one", rate=SAMPLE_RATE)


# loading and settings


def test_half_precision_weights_are_used_in_full(folder: Path) -> None:
    model = Recognizer.load(folder, runtime="torch").loaded.engine.model
    for parameter in model.parameters():
        assert parameter.dtype == torch.float32 and not parameter.requires_grad
    assert not model.training
    assert model.normalizer.std[0] == 3.0  # what the folder says, not the default


def test_asr_load_is_the_door(folder: Path) -> None:
    assert (
        asr.load(folder).transcribe(FLAC).text == Recognizer.load(str(folder)).transcribe(FLAC).text
    )


def test_folders_that_are_no_speech_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a model folder"):
        Recognizer.load(tmp_path / "nowhere")
    broken = write_tiny_model(tmp_path / "broken")
    (broken / "model.safetensors").unlink()
    with pytest.raises(UserError, match="no weights there"):
        Recognizer.load(broken)
    changed = write_tiny_model(tmp_path / "changed")
    config = json.loads((changed / "config.json").read_text("utf-8"))
    for part, value, message in [
        ("task", "translation", "a model for translation"),
        ("vocabularies", [], "without its vocabulary.json"),
    ]:
        (changed / "config.json").write_text(json.dumps(config | {part: value}), "utf-8")
        renew_checksum(changed / "config.json")
        with pytest.raises(UserError, match=message):
            Recognizer.load(changed)
    config["model"]["decoder"]["state_size"] = 13
    (changed / "config.json").write_text(json.dumps(config), "utf-8")
    renew_checksum(changed / "config.json")
    with pytest.raises(UserError, match="do not fit"):
        Recognizer.load(changed)
    config["model"]["encoder"]["layers_before_reduction"] = 9
    (changed / "config.json").write_text(json.dumps(config), "utf-8")
    renew_checksum(changed / "config.json")
    with pytest.raises(UserError, match="layers_before_reduction"):
        Recognizer.load(changed)


def test_a_model_has_its_own_decoding_defaults(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    changed = config | {"decoding": {"beam": 3, "fastest": 0.0}}
    (folder / "config.json").write_text(json.dumps(changed), "utf-8")
    renew_checksum(folder / "config.json")
    own = Recognizer.load(folder).decoding
    assert own == replace(DecodingOptions(), beam=3, fastest=0.0)
    assert Recognizer.load(folder).configured(beam=5).decoding.fastest == 0.0
    copy_folder(folder, tmp_path / "copy", bits=16)
    assert Recognizer.load(tmp_path / "copy").decoding == own
    (folder / "config.json").write_text(json.dumps(config | {"decoding": {"beam": 0}}), "utf-8")
    renew_checksum(folder / "config.json")
    with pytest.raises(UserError, match=r"decoding\.beam must be from 1"):
        Recognizer.load(folder)


def test_word_confidence_is_calibrated_for_the_models_own_search(
    tmp_path: Path, utterances: list[np.ndarray]
) -> None:
    folder = write_tiny_model(tmp_path / "tiny")
    speech = Waveform(utterances[0])
    plain = Recognizer.load(folder).transcribe(speech)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["confidence"] = {"bias": 2.5, "word": 0.25, "score": 2.0}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    renew_checksum(folder / "config.json")
    copy_folder(folder, tmp_path / "copy", bits=16)
    recognizer = Recognizer.load(tmp_path / "copy")
    found = recognizer.transcribe(speech)
    assert found.text == plain.text and found.words
    (segment,) = found.segments
    score = segment.score / (len(segment.characters) + 1)
    for word, before in zip(found.words, plain.words, strict=True):
        odds = np.log(before.confidence / (1 - before.confidence))
        wanted = 1 / (1 + np.exp(-(2.5 + 0.25 * odds + 2.0 * score)))
        assert word.confidence == pytest.approx(wanted, rel=1e-4)
    assert [each.confidence for each in found.characters] == [
        each.confidence for each in plain.characters
    ]
    other = recognizer.configured(beam=3)
    assert [each.confidence for each in other.transcribe(speech).words] != [
        each.confidence for each in found.words
    ]
    assert not other.loaded.is_calibrated_for(other.decoding)
    same = recognizer.configured(batch_seconds=7.0)
    assert same.loaded.is_calibrated_for(same.decoding)
    without = Recognizer.load(write_tiny_model(tmp_path / "other"))
    aligned, expected = (each.align(speech, "a cab") for each in (recognizer, without))
    assert aligned.words == expected.words  # a given text: not calibrated


def test_a_calibration_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["confidence"] = {"bias": 0.5, "words": 0.25, "score": 2.0}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    renew_checksum(folder / "config.json")
    with pytest.raises(UserError, match=r"confidence.*words"):
        Recognizer.load(folder)


def test_a_model_may_use_the_language_models_of_a_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "PRETRAINED", tmp_path / "package")
    package = write_tiny_model(tmp_path / "package" / "first")
    sentences = [["a", "cold", "moon"], ["a", "cold", "light"]]
    train_word_ngrams(sentences, lexicon_of(sentences, 1)).save(package / LANGUAGE_MODEL)
    own = write_tiny_model(tmp_path / "own")
    assert Recognizer.load(own).loaded.language_model is None
    copy_folder(own, tmp_path / "copy", bits=16, language_model="first")
    copy_folder(tmp_path / "copy", tmp_path / "again", bits=16)
    for name in ("copy", "again"):
        loaded = Recognizer.load(tmp_path / name).loaded
        assert loaded.language_model_file == package / LANGUAGE_MODEL
        assert loaded.language_model is not None
        assert not (tmp_path / name / LANGUAGE_MODEL).exists()


def test_models_of_the_package_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny_model(tmp_path / "package" / "small")
    monkeypatch.setattr(model_folder, "PRETRAINED", tmp_path / "package")
    monkeypatch.chdir(tmp_path)
    assert not Recognizer.load("small").loaded.settings.attention.silence_mask
    write_tiny_model(tmp_path / "small", silence_mask=True)  # a folder comes first
    assert Recognizer.load("small").loaded.settings.attention.silence_mask
    with pytest.raises(
        UserError, match=r"large: not a model folder, and not a model of the package \(small\)"
    ):
        Recognizer.load("large")
    with pytest.raises(UserError, match="device 'abacus'"):
        Recognizer.load("small", device="abacus")


def test_a_run_in_place_of_its_model_says_where_that_is(tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "run" / "model"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.json").write_text("{}")
    for path in (run, model):
        with pytest.raises(UserError, match=rf"{path}: the run {run} is not finished; the same"):
            Recognizer.load(path)
    write_tiny_model(model)
    with pytest.raises(UserError, match=rf"{run}: a run of asr train; its model is {model}"):
        Recognizer.load(run)
    assert Recognizer.load(model)


def test_a_copy_without_its_model_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(recognizer_module, "SHIPPED", tmp_path / "none")
    with pytest.raises(UserError, match="no model given"):
        asr.load()


def test_settings_are_checked_and_never_changed_in_place(
    recognizer: Recognizer, tmp_path: Path
) -> None:
    before = recognizer.decoding
    assert recognizer.configured(beam=7).decoding.search.size == 7
    assert recognizer.configured(recombine=3, beam=None).decoding == replace(before, recombine=3)
    assert recognizer.decoding == before
    with pytest.raises(UserError, match="unknown setting beams; did you mean beam"):
        recognizer.configured(beams=7)
    for wrong in (
        {"beam": 0},
        {"ctc_weight": 1.5},
        {"lm_weight": -1},
        {"ilm_weight": float("nan")},
        {"fastest": -1},
        {"batch_seconds": 0.0},
    ):
        with pytest.raises(UserError):
            recognizer.configured(**wrong)
    without_ctc = Recognizer.load(write_tiny_model(tmp_path, ctc=False))
    with pytest.raises(UserError, match="no CTC head"):
        without_ctc.transcribe(FLAC, ctc_weight=0.3)
    assert without_ctc.transcribe(FLAC, beam=2).words


def test_a_language_model_has_its_say(recognizer: Recognizer, tmp_path: Path) -> None:
    sentences = [["ab", "ba"], ["ba", "ab", "ab"]]
    file = tmp_path / "words.npz"
    train_word_ngrams(sentences, lexicon_of(sentences, 1)).save(file)
    helped = recognizer.configured(beam=4, lm_weight=3.0, language_model=file)
    without = recognizer.transcribe(FLAC, beam=4).text
    assert helped.transcribe(FLAC, lm_weight=0).text == without
    assert helped.transcribe(FLAC).text != without
    alone = helped.configured(ilm_weight=0)
    assert alone.transcribe(FLAC).text != helped.configured(ilm_weight=5).transcribe(FLAC).text
    assert alone.transcribe(FLAC, lm_weight=0).text == without
    light = alone.configured(lm_weight=0.1)
    assert len(light.transcribe(FLAC).words) > 1
    fewer = replace(light, decoding=replace(light.decoding, word_penalty=99))
    assert len(fewer.transcribe(FLAC).words) <= 1  # none if it is taken for noise
    assert fewer.transcribe(FLAC, lm_weight=0).text == without
    assert helped.transcribe(FLAC, beam=1).text == recognizer.transcribe(FLAC, beam=1).text
    with pytest.raises(UserError, match="cannot read the language model"):
        recognizer.configured(language_model=tmp_path / "missing.npz")


def test_a_model_folder_brings_its_language_model(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path)
    assert Recognizer.load(folder).loaded.language_model is None
    sentences = [["ab", "ba"]]
    train_word_ngrams(sentences, lexicon_of(sentences, 1)).save(folder / LANGUAGE_MODEL)
    assert Recognizer.load(folder).loaded.language_model is not None
