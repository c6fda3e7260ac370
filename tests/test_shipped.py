"""The shipped models, on recordings and sentences that they were not trained on."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asr
from asr.audio.augment import speed
from asr.audio.read import Waveform, read
from asr.corpora import read_manifest
from asr.inference.recognizer import SHIPPED
from asr.inference.translator import SHIPPED as TRANSLATORS
from asr.inference.translator import Translator
from asr.model_folder import PRETRAINED
from asr.models.folder import LANGUAGE_MODEL
from asr.runtime.punctuator import Punctuator
from asr.scoring import health
from asr.scoring.words import ErrorCounts, count_characters
from asr.text.written import read_written

ROOT = Path(__file__).parents[1]
SPEECH = ROOT / "data" / "speech"
PARAMETERS = 14_600_000  # of english
MOST_BYTES = 25_000_000
MOST_LANGUAGE_BYTES = 18_000_000
# The errors of the model on these six recordings are about half of these limits.
HIGHEST_CER = 0.3


@pytest.fixture(scope="module")
def recognizer():
    return asr.load()


@pytest.fixture(scope="module")
def spoken(recognizer):
    utterances = read_manifest(SPEECH / "manifest.jsonl")
    return utterances, recognizer.transcribe([each.audio for each in utterances])


def test_most_weights_stay_packed_and_none_is_in_memory_twice():
    asr.load(runtime="numpy")  # all modules imported
    tracemalloc.start()
    recognizer = asr.load(runtime="numpy")
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recognizer and 30_000_000 < held < 3 * PARAMETERS  # bytes; all unpacked would be 4 each
    assert most < 4 * PARAMETERS


def test_model_folder_is_small_enough_and_says_where_it_comes_from():
    weights = SHIPPED / "model.safetensors"
    assert weights.stat().st_size <= MOST_BYTES
    words = [SHIPPED / LANGUAGE_MODEL, *(SHIPPED / LANGUAGE_MODEL).with_suffix("").iterdir()]
    assert len(words) == 5 and sum(each.stat().st_size for each in words) <= MOST_LANGUAGE_BYTES
    card = (SHIPPED / "README.md").read_text()
    for word in ("WER", "LibriSpeech", "CC BY 4.0", "asr train", "speechocean762"):
        assert word in card
    assert json.loads((SHIPPED / "config.json").read_text())["task"] == "speech"


def test_it_makes_far_fewer_errors_than_chance_and_does_not_run_away(spoken):
    errors = ErrorCounts()
    for utterance, transcript in zip(*spoken, strict=True):
        errors += count_characters(utterance.text, transcript.text)
        assert len(transcript.text) <= 1.5 * len(utterance.text)
        assert transcript.stop_reason == "eos"
    assert errors.rate < HIGHEST_CER


def test_its_attention_runs_along_the_diagonal(spoken):
    _, transcripts = spoken
    measured = [health.measure(torch.from_numpy(transcript.weights)) for transcript in transcripts]
    assert health.aggregate(measured).total.mean.diagonal > 0.95


def test_a_recording_alone_reads_as_in_a_batch(recognizer, spoken):
    utterances, transcripts = spoken
    for utterance, transcript in list(zip(utterances, transcripts, strict=True))[:2]:
        alone = recognizer.transcribe(utterance.audio)
        assert alone.text == transcript.text
        assert alone.log_probability == pytest.approx(transcript.log_probability, abs=1e-2)


def test_word_times_follow_the_sound(recognizer):
    """The example starts after 0.3 s of silence and ends 0.3 s before the end of the file."""
    text = "a cold bright moon was shining with clear sharp lights and shadows"
    words = recognizer.align(SPEECH / "5683-32866-0027.flac", text).words
    assert recognizer.loaded.boundaries is not None
    assert [word.text for word in words] == text.split()
    assert 0.1 < words[0].start < 0.5 and 4.1 < words[-1].end < 4.7
    shining = words[5]
    assert shining.start == pytest.approx(1.75, abs=0.05)  # where the hiss of "sh" begins


def test_fast_speech_is_slowed_down(recognizer, spoken):
    utterances, _ = spoken
    fast = [Waveform(speed(read(each.audio).samples, 1.5)) for each in utterances]
    rates = []
    for fastest in (0, None):  # never, and the default
        errors = ErrorCounts()
        found = recognizer.configured(fastest=fastest).transcribe(fast)
        for utterance, transcript in zip(utterances, found, strict=True):
            errors += count_characters(utterance.text, transcript.text)
        rates.append(errors.rate)
    assert rates[1] < 0.8 * rates[0]


def test_fast_speech_in_a_batch_with_slow_speech_is_decoded_as_alone(recognizer):
    slow, other = (read(SPEECH / name) for name in ("5683-32866-0027.flac", "672-122797-0000.opus"))
    fast = Waveform(speed(other.samples, 1.5))
    for given in ([slow, fast], [fast, slow, other]):
        for source, found in zip(given, recognizer.transcribe(given), strict=True):
            alone = recognizer.transcribe(source)
            assert found.text == alone.text
            assert found.log_probability == pytest.approx(alone.log_probability, abs=1e-2)
            assert found.weights.shape == alone.weights.shape
            np.testing.assert_allclose(found.weights, alone.weights, atol=1e-2)


def test_slowed_speech_keeps_its_times(recognizer):
    """With the example played 1.3 times faster, all times are divided by 1.3."""
    normal = read(SPEECH / "5683-32866-0027.flac")
    fast = Waveform(speed(normal.samples, 1.3))
    wanted = {word.text: word for word in recognizer.transcribe(normal).words}
    slowed, left = (recognizer.configured(fastest=each).transcribe(fast) for each in (None, 0))
    known = [word for word in slowed.words if word.text in wanted]
    assert len(known) > 6
    late = [
        abs(mine - other / 1.3)
        for word in known
        for mine, other in zip(word[1:3], wanted[word.text][1:3], strict=True)
    ]
    assert np.mean(late) < 0.08 and max(late) < 0.3  # one annotation; two words are merged
    # The weights refer to the original time.
    assert slowed.weights.shape[1] == left.weights.shape[1]
    (segment,) = slowed.segments
    assert np.allclose(segment.weights.sum(1), 1, atol=1e-3)
    centres = segment.weights @ np.arange(segment.weights.shape[1]) * slowed.seconds_per_annotation
    middles = [(each.start + each.end) / 2 for each in segment.characters]
    assert np.abs(centres - middles).mean() < 0.15


@pytest.mark.parametrize("kind", ["digital silence", "faint hum", "white noise", "loud hum"])
def test_without_speech_there_are_no_words(recognizer, kind):
    random = np.random.default_rng(0)
    seconds = np.arange(5 * 16_000) / 16_000
    samples = {
        "digital silence": np.zeros(len(seconds)),
        "faint hum": 1e-4 * np.sin(2 * np.pi * 50 * seconds),
        "white noise": 0.1 * random.standard_normal(len(seconds)),
        "loud hum": 0.3 * np.sin(2 * np.pi * 100 * seconds),
    }[kind]
    transcript = recognizer.transcribe(samples.astype(np.float32), rate=16_000)
    assert transcript.text == ""


def test_eight_kilohertz_stereo_still_reads(recognizer, tmp_path):
    samples, rate = soundfile.read(SPEECH / "5683-32866-0027.flac")
    stereo = np.stack([samples, samples], axis=1)[:: rate // 8000]
    soundfile.write(tmp_path / "phone.wav", stereo, 8000)
    assert len(recognizer.transcribe(tmp_path / "phone.wav").text) > 20


WRITTEN = [
    "Where is the station?",
    "The children are playing in the garden.",
    "He was born in London, and she came from New York.",
    "Mr. Brown said that he would be late.",
]


def test_the_package_writes_english_as_people_do(recognizer, spoken):
    folder = PRETRAINED / "written"
    assert sum(each.stat().st_size for each in folder.iterdir()) <= 3_000_000
    card = (folder / "README.md").read_text()
    for word in ("F1", "CC BY-SA 3.0", "Common Voice", "recipes/written/train.py"):
        assert word in card
    punctuator = Punctuator.load(Path("written"))
    for text in WRITTEN:
        words = [each.word for each in read_written(text)]
        assert " ".join(punctuator(words)) == text
    assert recognizer.loaded.punctuator is not None
    for transcript in spoken[1]:
        assert transcript.written[0].isupper() and transcript.text.islower()
        assert len(transcript.written_words) == len(transcript.words)


TRANSLATED = {
    "fr": {
        "Where is the station?": "Où est la gare ?",
        "The children are playing in the garden.": "Les enfants jouent dans le jardin.",
        "where is the station": "Où est la gare ?",  # in the form of transcripts
        "Yes. Hello, Mr. Brown!": "Oui. Bonjour, M. Brown !",
        "I bought 25 apples.": "J'ai acheté 25 pommes.",
        "He came back on Tuesday.": "Il est revenu le mardi.",
        "I saw Mrs. Clark yesterday.": "J'ai vu Mme Clark hier.",
    },
    "de": {
        "Where is the station?": "Wo ist der Bahnhof?",
        "The children are playing in the garden.": "Die Kinder spielen im Garten.",
        "where is the station": "Wo ist der Bahnhof?",
        "Yes. Hello, Mr. Brown!": "Ja. Hallo, Herr Brown!",
        "I bought 25 apples.": "Ich habe 25 Äpfel gekauft.",
        "He came back on Tuesday.": "Er kam am Dienstag zurück.",
        "I saw Mrs. Clark yesterday.": "Ich habe gestern Frau Clark gesehen.",
        "I have never seen such a beautiful sunset.":  # drawn in the README
        "Ich habe noch nie so einen schönen Sonnenuntergang gesehen.",
    },
    "zh": {
        "Where is the station?": "车站在哪里？",
        "The children are playing in the garden.": "孩子们在花园里玩。",
        "where is the station": "车站在哪里？",
        "I love you.": "我爱你。",
        "It's raining.": "下雨了。",
    },
}


@pytest.mark.parametrize(("language", "place"), [("fr", "gare"), ("de", "Bahnhof"), ("zh", "车站")])
def test_the_translators_in_the_package_translate_at_once(language: str, place: str) -> None:
    folder = TRANSLATORS[language]
    assert sum(each.stat().st_size for each in folder.iterdir()) <= 12_000_000
    card = (folder / "README.md").read_text()
    for word in ("BLEU", "CC BY 2.0 FR", "tatoeba.org", "asr train"):
        assert word in card
    wanted = TRANSLATED[language]
    found = Translator.load(to=language).translate([*wanted])
    assert [each.text for each in found] == [*wanted.values()]
    # The word for "station" attends to "station".
    words = found[0].words
    looked = words.weights[[place in word for word in words.target].index(True)]
    assert words.source[int(looked.argmax())].startswith("station")


@pytest.mark.parametrize("language", ["fr", "de"])
def test_a_text_in_capitals_is_translated_as_a_sentence(language: str) -> None:
    texts = ["Where is the station?", "I don't know where I am."]
    translator = Translator.load(to=language)
    plain, shouted = (translator.translate(each) for each in (texts, [*map(str.upper, texts)]))
    for one, other in zip(plain, shouted, strict=True):
        assert other.source == one.source.upper() and other.text == one.text.upper()
        assert other.words.source[:-1] == tuple(map(str.upper, one.words.source[:-1]))
        assert other.words.target[:-1] == tuple(map(str.upper, one.words.target[:-1]))


def test_chinese_is_translated_from_both_scripts() -> None:
    translator = Translator.load(to="en")
    card = (PRETRAINED / "chinese-english" / "README.md").read_text()
    for word in ("BLEU", "CC BY 2.0 FR", "tatoeba.org", "asr train"):
        assert word in card
    wanted = {
        "我爱你": "I love you.",  # drawn in docs/translate.md
        "他昨天买了一本书。": "He bought a book yesterday.",
        "他昨天買了一本書。": "He bought a book yesterday.",
        "我从来没有见过这么美的日落。": "I've never seen such a beautiful sunset.",
        "我從來沒有見過這麼美的日落。": "I've never seen such a beautiful sunset.",
    }
    found = translator.translate([*wanted])
    assert [each.text for each in found] == [*wanted.values()]
    words = found[0].words
    assert words.source[int(words.weights[words.target.index("love")].argmax())] == "爱"


@pytest.mark.parametrize(
    ("to", "text", "is_foreign"),
    [
        ("fr", "我爱你。", True),
        ("en", "我爱你。", False),
        ("en", "I love you.", True),
        ("en", "他看NBA。", False),
        ("en", "10:30", False),
        ("fr", "Why …", False),
    ],
)
def test_a_text_in_another_script_is_foreign(to: str, text: str, is_foreign: bool) -> None:
    translator = Translator.load(to=to)
    assert translator.is_foreign(translator.translate(text)) == is_foreign


@pytest.mark.parametrize(
    "config", sorted(PRETRAINED.rglob("config.json")), ids=lambda path: path.parent.name
)
def test_no_packaged_model_names_a_path_of_one_machine(config):
    assert '": "/' not in config.read_text("utf-8")
