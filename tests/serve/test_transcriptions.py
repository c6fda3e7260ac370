"""`/v1/audio/transcriptions` by the official client, and equal to the recogniser's own results."""

import asyncio
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from running_service import Running

import asr
from asr.render.transcripts import render
from asr.serve.forms import Form
from asr.serve.transcription import _events, _until


@pytest.fixture(scope="module")
def recognizer():
    """Return the model of the package: random weights write no words."""
    return asr.load().configured(beam=1)


@pytest.fixture(scope="module")
def client(running: Running) -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url=f"{running.url}/v1", max_retries=0)


@pytest.fixture(scope="module")
def expected(recognizer, clips):
    return [recognizer.transcribe(clip) for clip in clips]


def file_of(content: bytes) -> tuple[str, io.BytesIO]:
    return ("clip.wav", io.BytesIO(content))


def test_json_is_what_the_recogniser_writes(client, clips, expected):
    found = client.audio.transcriptions.create(model="english", file=file_of(clips[0]))
    assert found.text == expected[0].written and len(found.text) > 5
    assert found.usage.seconds == 1


@pytest.mark.parametrize("kind", ["text", "srt", "vtt"])
def test_texts_are_those_of_the_command_line(client, clips, expected, kind):
    found = client.audio.transcriptions.create(
        model="whisper-1", file=file_of(clips[1]), response_format=kind
    )
    assert found == render(expected[1], kind)


def test_verbose_json_has_words_and_segments(client, clips, expected):
    found = client.audio.transcriptions.create(
        model="english",
        file=file_of(clips[2]),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        language="en",
        temperature=0,
        prompt="any",
    )
    transcript = expected[2]
    assert found.duration == pytest.approx(transcript.duration)
    assert (found.text, found.language) == (transcript.written, "english")
    assert [(word.word, word.start, word.end) for word in found.words] == [
        (word.text, round(word.start, 3), round(word.end, 3)) for word in transcript.written_words
    ]
    assert [word.confidence for word in found.words] == [
        round(word.confidence, 4) for word in transcript.words
    ]
    (segment,) = found.segments
    assert (segment.id, segment.start, segment.text) == (0, 0.0, transcript.written)
    assert segment.avg_logprob < 0 and segment.compression_ratio > 0


@pytest.mark.parametrize("spelling", ["timestamp_granularities", "timestamp_granularities[]"])
def test_both_spellings_of_granularities(running, clips, spelling):
    asked = {"response_format": "verbose_json", spelling: ["word"]}
    found = running.post("/v1/audio/transcriptions", clips[0], **asked).json()
    assert found["words"] and "segments" not in found
    both = running.post("/v1/audio/transcriptions", clips[0], response_format="verbose_json").json()
    assert both["segments"] and "words" not in both


def test_attention_is_given_when_asked_for(running, clips, expected):
    asked = {"response_format": "verbose_json", "include[]": ["attention"]}
    found = running.post("/v1/audio/transcriptions", clips[0], **asked).json()
    (segment,) = found["attention"]
    assert "".join(segment["characters"]).split() == expected[0].text.split()
    assert [len(segment["weights"]), len(segment["weights"][0])] == list(expected[0].weights.shape)


def test_the_stream_has_all_of_the_text(client, clips, expected):
    events = list(
        client.audio.transcriptions.create(model="english", file=file_of(clips[3]), stream=True)
    )
    *deltas, done = events
    assert {each.type for each in deltas} == {"transcript.text.delta"}
    assert done.type == "transcript.text.done"
    assert "".join(each.delta for each in deltas) == done.text == expected[3].written


def test_an_error_in_a_stream_is_an_error_of_the_client(client, running):
    with pytest.raises(openai.BadRequestError, match=r"clip\.wav: "):
        list(
            client.audio.transcriptions.create(
                model="english", file=file_of(b"RIFFxxxx" * 9), stream=True
            )
        )


def test_a_stream_that_takes_too_long_ends_with_an_error(recognizer, clips, tmp_path):
    (tmp_path / "clip.wav").write_bytes(clips[0])
    segment = recognizer.transcribe(clips[0]).segments[0]

    async def segments():
        yield segment
        await asyncio.sleep(60)

    async def events():
        source = segments()
        first = await anext(source)
        end = asyncio.get_running_loop().time() + 0.05
        return [
            json.loads(each[5:]) async for each in _events(Form({}), _until(end, first, source))
        ]

    delta, error = asyncio.run(events())
    assert delta["type"] == "transcript.text.delta" and error["error"]["code"] == "timeout"


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": "", "response_format": "", "language": ""},
        {"language": "en-US", "model": "gpt-4o-transcribe", "temperature": "1"},
        {"language": "EN_gb", "model": "gpt-4o-mini-transcribe", "temperature": ""},
    ],
)
def test_fields_of_other_clients_are_accepted(running, clips, fields):
    found = running.post("/v1/audio/transcriptions", clips[0], **fields)
    assert found.status_code == 200 and found.json()["text"]


def test_translations_at_the_same_time_load_the_model_once(running, monkeypatch, tmp_path):
    from tiny_translator import write_tiny_translator

    from asr.inference.translator import Translator

    tiny = Translator.load(write_tiny_translator(tmp_path / "tiny"))
    loaded = []

    def load(to):
        time.sleep(0.1)
        loaded.append(to)
        return tiny

    monkeypatch.setattr(Translator, "load", load)
    monkeypatch.setattr(running.service, "_translators", {})
    with ThreadPoolExecutor(5) as pool:
        asked = {"text": "go .", "to": "fr"}
        list(pool.map(lambda _: running.client.post("/v1/translate", json=asked), range(5)))
    assert loaded == ["fr"]


def test_requests_at_the_same_time_share_batches_and_keep_their_results(running, clips, expected):
    batches = running.metric("asr_batch_pieces_count")
    with ThreadPoolExecutor(12) as pool:
        answers = [
            *pool.map(lambda k: running.post("/v1/audio/transcriptions", clips[k % 8]), range(12))
        ]
    assert [each.status_code for each in answers] == [200] * 12
    texts = [each.json()["text"] for each in answers]
    assert texts == [expected[k % 8].written for k in range(12)]
    assert running.metric("asr_batch_pieces_count") - batches < 12


def test_options_that_differ_are_not_mixed(running, clips, recognizer):
    with ThreadPoolExecutor(4) as pool:
        asked = [{}, {"beam": "3"}, {}, {"beam": "3"}]
        answers = [
            *pool.map(lambda f: running.post("/v1/audio/transcriptions", clips[0], **f), asked)
        ]
    texts = [each.json()["text"] for each in answers]
    greedy, beam = (recognizer.transcribe(clips[0], beam=size).written for size in (1, 3))
    assert texts == [greedy, beam, greedy, beam]


def test_models_are_listed(client):
    assert next(each.id for each in client.models.list()) == "english"
    assert client.models.retrieve("english").id == "english"
    with pytest.raises(openai.NotFoundError, match="'huge' is not served"):
        client.models.retrieve("huge")


def test_alignment_and_reading_are_those_of_the_recogniser(running, clips, recognizer):
    found = running.post("/v1/audio/align", clips[0], text="A bright moon").json()
    aligned = recognizer.plain().align(clips[0], "A bright moon")
    assert found["words"] == aligned.record()["words"] and found["path"] == "clip.wav"
    free = running.post("/v1/audio/align", clips[0]).json()
    assert free["text"] == recognizer.transcribe(clips[0]).text
    assert len(free["characters"]) == sum(len(each["weights"]) for each in free["segments"])
    read = running.post("/v1/read", clips[0], text="A bright\nmoon").json()
    assert [word["line"] for word in read["words"] if word["status"] == "skipped"] in (
        [],
        [0],
        [0, 0],
        [0, 0, 1],
        [0, 1],
        [1],
    )
    assert read["words"] == recognizer.read(clips[0], "A bright\nmoon").record()["words"]


def test_translation_has_links_and_weights(running, monkeypatch, tmp_path):
    from tiny_translator import write_tiny_translator

    from asr.inference.translator import Translator

    tiny = Translator.load(write_tiny_translator(tmp_path / "tiny"))
    monkeypatch.setattr(Translator, "load", lambda to: tiny)
    body = {"text": ["go .", "i'm home !"], "to": "fr"}
    answer = running.client.post("/v1/translate", json=body)
    first, second = answer.json()["translations"]
    assert first["text"] == tiny.translate("go .").text and second["source"] == "i'm home !"
    assert first["source_words"] == ["go", ".", "<eos>"] and 0 < first["confidence"] <= 1
    assert [sum(row) for row in first["weights"]] == pytest.approx(
        [1.0] * len(first["weights"]), abs=1e-3
    )
    assert len(first["links"]) == len(first["target_words"]) - 1


def test_a_long_translation_has_links_but_no_matrix(running, monkeypatch, tmp_path):
    from tiny_translator import write_tiny_translator

    from asr.inference.translator import Translator

    tiny = Translator.load(write_tiny_translator(tmp_path / "tiny"))
    monkeypatch.setattr(running.service, "_translators", {"fr": tiny})
    answer = running.client.post("/v1/translate", json={"text": "Go! " * 500})
    (found,) = answer.json()["translations"]
    assert found["weights"] is None and len(found["links"]) == len(found["target_words"]) - 1
    assert len(answer.content) < 1e6


def test_health_and_metrics(running):
    assert running.client.get("/health").json() == {"status": "ok", "model": "english"}
    text = running.client.get("/metrics").text
    assert "asr_requests_total" in text and "# HELP" in text
    assert json.loads(running.client.get("/v1/models").text)["object"] == "list"
