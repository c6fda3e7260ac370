"""What is given to recognisers, translators and live audio is checked, with one line."""

from pathlib import Path

import numpy as np
import pytest
from tiny_model import write_tiny_model
from tiny_translator import write_tiny_translator

from asr.audio.read import Waveform, read
from asr.errors import UserError
from asr.inference.live import LiveText
from asr.inference.recognizer import Recognizer
from asr.inference.translator import Translator

FLAC = Path(__file__).parents[2] / "data" / "speech" / "5683-32866-0027.flac"


@pytest.fixture(scope="module")
def recognizer(tmp_path_factory: pytest.TempPathFactory) -> Recognizer:
    return Recognizer.load(write_tiny_model(tmp_path_factory.mktemp("tiny"))).configured(beam=1)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(write_tiny_translator(tmp_path_factory.mktemp("translator")))


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return read(FLAC).samples[8000:32000]


def one_line(error: pytest.ExceptionInfo[UserError]) -> bool:
    return "\n" not in str(error.value)


@pytest.mark.parametrize("method", ["transcribe", "align", "read"])
@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros(0, np.float32), "no samples"),
        (np.full(16000, np.nan, np.float32), "not finite"),
        (np.zeros(16000, complex), "wanted floats"),
    ],
)
def test_a_waveform_is_checked_as_an_array(
    recognizer: Recognizer, method: str, samples: np.ndarray, message: str
) -> None:
    arguments = [] if method == "transcribe" else ["a cab"]
    with pytest.raises(UserError, match=message):
        getattr(recognizer, method)(Waveform(samples), *arguments)


def test_a_waveform_of_another_rate_is_resampled(
    recognizer: Recognizer, speech: np.ndarray
) -> None:
    slow = Waveform(np.ascontiguousarray(speech[::2]), 8000)
    found = recognizer.transcribe(slow)
    assert found.duration == pytest.approx(1.5, abs=0.01)
    assert found.text == recognizer.transcribe(slow.samples, rate=8000).text
    with pytest.raises(UserError, match="rate 8000 given for a waveform"):
        recognizer.transcribe(slow, rate=8000)


def test_the_rate_of_a_list_is_that_of_its_arrays(
    recognizer: Recognizer, speech: np.ndarray, tmp_path: Path
) -> None:
    mixed = recognizer.transcribe([speech, FLAC, Waveform(speech)], rate=16000)
    assert [each.path for each in mixed] == [None, str(FLAC), None]
    assert mixed[0].text == mixed[2].text
    with pytest.raises(UserError, match="rate 16000 given for a file"):
        recognizer.transcribe(FLAC, rate=16000)
    for wrong in (None, 5, [[0.0], [0.0]]):
        with pytest.raises(UserError, match="audio of type"):
            read(wrong, 16000)
    with pytest.raises(UserError, match="rate '16000': wanted a number"):
        recognizer.transcribe(speech, rate="16000")
    with pytest.raises(UserError, match=r"range is not known.*int16"):
        recognizer.transcribe((speech * 2**15).astype(np.int64), rate=16000)
    with pytest.raises(UserError, match="as a list"):
        recognizer.transcribe(np.stack([speech] * 3), rate=16000)
    with FLAC.open() as text, pytest.raises(UserError, match="a text stream"):
        recognizer.transcribe(text)


def test_one_recording_is_not_taken_for_several(recognizer: Recognizer, speech: np.ndarray) -> None:
    for one in (str(FLAC), FLAC, FLAC.read_bytes(), speech, Waveform(speech)):
        with pytest.raises(UserError, match="wanted a list of recordings") as error:
            next(recognizer.transcribe_each(one, rate=None))
        assert one_line(error)
    for several in ((FLAC, FLAC), (each for each in [FLAC])):
        with pytest.raises(UserError, match="several of them as a list"):
            recognizer.transcribe(several)


@pytest.mark.parametrize(
    "options",
    [
        {"beam": "4"},
        {"beam": 2.5},
        {"lm_weight": "0.5"},
        {"window": 0.4},
        {"window": ("1", "2")},
        {"window": (float("nan"), 1.0)},
        {"window": (1.0, float("inf"))},
        {"hotwords": "Anna"},
        {"hotwords": [3]},
        {"hotwords": 3},
    ],
)
def test_options_of_a_wrong_type_are_refused(recognizer: Recognizer, options: dict) -> None:
    with pytest.raises(UserError, match=r"wanted|must be") as error:
        recognizer.configured(**options)
    assert one_line(error)


def test_hot_words_may_come_from_an_iterator(recognizer: Recognizer) -> None:
    wide = recognizer.configured(beam=2)
    found, wanted = (
        wide.configured(hotwords=words).loaded.hotwords
        for words in ((word for word in ("Anna", "Bob")), ["Anna", "Bob"])
    )
    assert found is not None and wanted is not None
    assert (found.scores == wanted.scores).all()


def test_texts_of_a_wrong_type_are_refused(recognizer: Recognizer, translator: Translator) -> None:
    for method in (recognizer.align, recognizer.read):
        with pytest.raises(UserError, match="a text of type list"):
            method(FLAC, ["a"])
    for wrong in (None, b"go", Path("go"), ["go", None]):
        with pytest.raises(UserError, match="a text of type"):
            translator.translate(wrong)
    with pytest.raises(UserError, match="beam must be a whole number"):
        translator.translate("go", beam="4")


def test_the_message_of_another_language_names_all_that_there_are() -> None:
    with pytest.raises(UserError, match=r"got language 'nl'.* fr, de, zh, en: to en from Chinese"):
        Translator.load(to="nl")


def test_texts_may_come_from_an_iterator(translator: Translator) -> None:
    found = translator.translate(text for text in ("go .", "home"))
    assert [each.source for each in found] == ["go .", "home"]


@pytest.mark.parametrize("text", ["—", "😀", "...", "♪ ♪", "  ", "", "1984", "10:30 –"])
def test_a_text_without_words_is_copied(translator: Translator, text: str) -> None:
    found = translator.translate(text)
    assert found.text == text.strip() and found.log_probability == 0
    assert found.words.source == found.words.target == (*text.split(), "<eos>")
    assert found.weights.shape == (len(found.target_tokens), len(found.source_tokens))


def test_their_representations_are_short(recognizer: Recognizer, translator: Translator) -> None:
    assert "beam=1" in repr(recognizer)
    assert len(repr(recognizer)) < 600 and len(repr(translator)) < 100


def test_pushed_samples_are_kept_whether_or_not_the_events_are_read(
    recognizer: Recognizer, speech: np.ndarray
) -> None:
    text = LiveText(recognizer)
    text.push(speech)
    assert text.duration == pytest.approx(1.2)  # whole blocks of 0.4 s
    text.finish()
    assert text.duration == pytest.approx(1.5)


@pytest.mark.parametrize(
    "samples",
    [
        np.full(100, np.nan, np.float32),
        np.full(100, np.inf, np.float32),
        np.full(100, 1e300),
        np.zeros((100, 2), np.float32),
        np.zeros(100, np.int16),
    ],
)
def test_pushed_samples_are_checked(recognizer: Recognizer, samples: np.ndarray) -> None:
    with pytest.raises(UserError, match=r"wanted floats|not finite"):
        LiveText(recognizer).push(samples)


def test_the_rate_of_live_audio_is_a_number(recognizer: Recognizer) -> None:
    with pytest.raises(UserError, match="a rate of '16000'"):
        LiveText(recognizer, "16000")
