"""The web page in Chromium, by mouse and keyboard."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from running_service import FLAC, Running, wait_for
from tiny_translator import write_tiny_translator

import asr
from asr.audio.read import read
from asr.inference.translator import Translator
from asr.render.reading_page import to_html
from asr.render.transcripts import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def recognizer():
    """Return the model of the package: random weights write no words."""
    return asr.load().configured(beam=1)


@pytest.fixture(scope="module")
def speech(tmp_path_factory) -> Path:
    """Return a recording with a pause."""
    path = tmp_path_factory.mktemp("speech") / "speech.wav"
    samples = read(FLAC).samples
    soundfile.write(path, np.concatenate([samples, np.zeros(24000), samples[:40000]]), 16000)
    return path


@pytest.fixture(scope="module")
def browser(speech):
    """Run Chromium, with the recording in place of a microphone."""
    from playwright.sync_api import sync_playwright

    arguments = [
        "--no-sandbox",
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={speech}",
        "--autoplay-policy=no-user-gesture-required",
    ]
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)


@pytest.fixture
def page(browser, running: Running):
    """Open the page; it must cause no error and ask no other host."""
    context = browser.new_context(permissions=["microphone"])
    opened = context.new_page()
    problems = []

    def note(asked):
        if not asked.url.startswith((running.url, "blob:", "data:")):
            problems.append(asked.url)

    opened.on("pageerror", lambda error: problems.append(error))
    opened.on("request", note)
    opened.goto(running.url)
    yield opened
    context.close()
    assert problems == []


def test_a_recording_is_shown_played_and_saved(page, clips, recognizer, tmp_path):
    path = tmp_path / "clip.wav"
    path.write_bytes(clips[0])
    transcript = recognizer.transcribe(clips[0])
    page.set_input_files("#transcribe input[type=file]", path)
    words = page.locator("#transcribe .text .word")
    words.first.wait_for()
    assert words.all_inner_texts() == [word.text for word in transcript.written_words]
    percent = round(100 * round(transcript.words[0].confidence, 4))
    first = f"{transcript.written_words[0].text}, confidence {percent} %"
    assert page.get_by_role("button", name=first).count() >= 1
    canvas = page.get_by_role("img", name="Spectrogram and attention from 0.0")
    canvas.wait_for()
    colours = "(c) => new Set(c.getContext('2d').getImageData(90, 5, 600, 160).data).size"
    assert canvas.evaluate(colours) > 20
    words.nth(1).click()
    played = "([audio, start]) => document.querySelector(audio).currentTime >= start"
    start = round(transcript.words[1].start, 3) - 0.01
    page.wait_for_function(played, arg=["#transcribe audio", start])
    with page.expect_download() as saving:
        page.get_by_role("button", name="Download as SRT").click()
    assert Path(saving.value.path()).read_text("utf-8") == render(transcript, "srt")
    assert saving.value.suggested_filename == "clip.srt"


def test_the_keyboard_reaches_tabs_and_words(page, clips, tmp_path):
    path = tmp_path / "clip.wav"
    path.write_bytes(clips[4])
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tabpanel", name="Read aloud").is_visible()
    page.keyboard.press("ArrowLeft")
    assert page.get_by_role("tabpanel", name="Transcribe").is_visible()
    page.set_input_files("#transcribe input[type=file]", path)
    words = page.locator("#transcribe .text .word")
    words.nth(1).wait_for()
    words.first.focus()
    page.keyboard.press("ArrowRight")
    assert words.nth(1).evaluate("(each) => each === document.activeElement")
    assert [words.nth(at).get_attribute("tabindex") for at in (0, 1)] == ["-1", "0"]
    page.keyboard.press("End")
    assert words.last.evaluate("(each) => each === document.activeElement")


def test_speech_is_shown_while_it_is_spoken(page):
    page.get_by_role("button", name="Speak").click()
    page.locator("#transcribe .text .word").first.wait_for(timeout=60_000)
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Download as VTT").wait_for(timeout=60_000)
    page.get_by_role("button", name="Speak").wait_for()
    assert page.locator("#transcribe audio").evaluate("(audio) => audio.src").startswith("blob:")


def test_a_session_refused_while_the_browser_asks_for_the_microphone_ends(browser, start):
    with start(max_live=0) as running:
        opened = browser.new_context(permissions=["microphone"]).new_page()
        opened.add_init_script(
            """const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
            const allowed = new Promise((resolve) => { window.allow = resolve; });
            navigator.mediaDevices.getUserMedia = async (wanted) => {
              await allowed;
              return window.stream = await ask(wanted);
            };"""
        )
        opened.goto(running.url)
        opened.get_by_role("button", name="Speak").click()
        opened.locator("#transcribe .status.error").wait_for()
        opened.evaluate("window.allow()")
        wait_for(lambda: opened.evaluate("window.stream?.getTracks()[0].readyState === 'ended'"))
        speak = opened.get_by_role("button", name="Speak")
        speak.wait_for()
        assert speak.is_enabled()
        opened.close()


def test_a_microphone_that_cannot_be_used_is_released(page):
    page.evaluate(
        """() => {
          const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
          navigator.mediaDevices.getUserMedia = async (wanted) => window.stream = await ask(wanted);
          AudioWorklet.prototype.addModule = async () => { throw new Error("no worklet"); };
        }"""
    )
    page.get_by_role("tab", name="Read aloud").click()
    page.get_by_role("button", name="Read aloud").click()
    page.locator("#read .status.error").wait_for()
    assert page.evaluate("window.stream.getTracks()[0].readyState") == "ended"


def test_an_earlier_answer_does_not_replace_a_later_one(page):
    waiting = []

    def answer(route, text):
        record = {"text": text, "source_words": [text, "<eos>"], "target_words": [text, "<eos>"]}
        record |= {"weights": None, "links": [[{"word": 0, "share": 0.9}]], "confidence": 1.0}
        route.fulfill(json={"translations": [record]})

    page.route("**/v1/translate", lambda route: waiting.append(route))
    page.get_by_role("tab", name="Translate").click()
    for text in ("one", "two"):
        page.fill("#source-text", text)
        page.get_by_role("button", name="Translate").click()
    page.wait_for_timeout(200)
    answer(waiting[1], "two")
    word = page.locator("#target-words .word")
    word.wait_for()
    with contextlib.suppress(Exception):  # the browser has aborted it
        answer(waiting[0], "one")
    page.wait_for_timeout(200)
    assert word.all_inner_texts() == ["two"]
    assert word.get_attribute("aria-label") == "two: two 90 %"  # before it has the focus
    assert page.locator("#translate details").is_hidden()  # no matrix of all weights
    assert page.locator("#translate .status").inner_text() == ""


def test_the_page_of_a_reading_plays_on_after_a_word(browser, recognizer, tmp_path):
    reading = recognizer.read(FLAC, "A cold lucid indifference reigned")
    flac = Path(FLAC).read_bytes()
    path = tmp_path / "reading.html"
    path.write_text(to_html(reading, flac, "audio/flac", "reading"), "utf-8")
    opened = browser.new_page()
    opened.goto(path.as_uri())
    word = opened.locator("button.word").first
    opened.evaluate("document.querySelector('audio').playbackRate = 0.1")  # time to see the mark
    word.click()
    opened.locator("button.word.now").wait_for()
    opened.evaluate("document.querySelector('audio').pause()")
    opened.wait_for_timeout(100)
    opened.evaluate("document.querySelector('audio').playbackRate = 1")
    opened.evaluate("document.querySelector('audio').play()")
    end = float(word.get_attribute("data-end"))
    wait_for(lambda: opened.evaluate("document.querySelector('audio').currentTime") > end + 0.3)
    opened.close()


def test_a_page_that_was_read_aloud(page, clips, tmp_path, recognizer):
    path = tmp_path / "clip.wav"
    path.write_bytes(clips[0])
    page.get_by_role("tab", name="Read aloud").click()
    page.set_input_files("#read input[type=file]", path)
    assert page.locator("#read .status").inner_text() == "Paste the page first."
    page.fill("#page", "A cold\nbright\n\nmoon")
    page.set_input_files("#read input[type=file]", path)
    page.locator("#read .reading .word").first.wait_for()
    begins = page.locator("#read .reading p").all()
    assert [each.get_attribute("class") or "" for each in begins] == ["", "", "begins"]
    reading = recognizer.read(clips[0], "A cold\nbright\n\nmoon")
    shown = page.locator("#read .reading .word").all()
    classes = [each.get_attribute("class").split()[-1] for each in shown]
    assert classes == [word.status.value for word in reading.words]
    for word, element in zip(reading.words, shown, strict=True):
        if word.start is None:
            assert element.text_content() == f"{word.text}, skipped"


def test_words_of_a_translation_are_linked(page, running, monkeypatch, tmp_path):
    tiny = Translator.load(write_tiny_translator(tmp_path / "tiny"))
    monkeypatch.setattr(Translator, "load", lambda to: tiny)
    running.service._translators.clear()
    found = tiny.translate("go . i lost .", whole=False)
    page.get_by_role("tab", name="Translate").click()
    page.fill("#source-text", "go . i lost .")
    page.get_by_role("button", name="Translate").click()
    target = page.locator("#target-words .word")
    target.first.wait_for()
    assert target.all_inner_texts() == list(found.words.target[:-1])
    target.first.hover()
    share = "(word) => parseInt(word.style.getPropertyValue('--share'))"
    shares = [each.evaluate(share) for each in page.locator("#source-words .word").all()]
    assert shares == pytest.approx([100 * each for each in found.words.weights[0][:-1]], abs=1)
    page.locator("#source-words .word").first.focus()
    shares = [each.evaluate(share) for each in target.all()]
    assert shares == pytest.approx([100 * each for each in found.words.weights[:-1, 0]], abs=1)
    languages = (
        "() => ['source', 'target'].map((id) => document.getElementById(`${id}-words`).lang)"
    )
    assert page.evaluate(languages) == ["en", "fr"]
    page.select_option("#language", "en")
    page.get_by_role("button", name="Translate").click()
    page.wait_for_function(f"() => ({languages})().join() === 'zh,en'")


def test_what_is_wrong_is_said(page, tmp_path):
    path = tmp_path / "notes.wav"
    path.write_text("no audio " * 99)
    page.set_input_files("#transcribe input[type=file]", path)
    problem = page.locator("#transcribe .status.error")
    problem.wait_for()
    assert problem.inner_text().startswith("notes.wav: text, not audio")


def test_the_key_is_asked_for(browser, start, clips, tmp_path):
    path = tmp_path / "clip.wav"
    path.write_bytes(clips[0])
    with start(key="secret") as running:
        opened = browser.new_page()
        opened.goto(running.url)
        opened.set_input_files("#transcribe input[type=file]", path)
        opened.locator("#transcribe .status.error").wait_for()
        opened.fill("#key", "secret")
        opened.set_input_files("#transcribe input[type=file]", path)
        opened.locator("#transcribe .text .word").first.wait_for()
        opened.close()
