"""Encodings: marks, UTF-8, Western text, and guesses by charset-normalizer."""

import io
from pathlib import Path

import pytest

from asr.errors import UserError
from asr.text.encoding import decode, read_text

ENGLISH = "It’s a café – isn’t it? I do not know, and neither do you.\n" * 2
FRENCH = "00:00:01,000 --> 00:00:02,500\nJe suis très fatigué, mais je ne sais pas pourquoi.\n" * 20
CHINESE = "我爱你。你好吗？我很好，谢谢。今天天气很好。"
RUSSIAN = "Привет, как дела? У меня всё хорошо, спасибо."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (ENGLISH, "utf-8"),
        (ENGLISH, "utf-8-sig"),
        (ENGLISH, "utf-16"),
        (ENGLISH, "utf-32"),
        (ENGLISH, "cp1252"),
        (FRENCH, "cp1252"),
        (CHINESE, "gb18030"),
        (RUSSIAN, "cp1251"),
    ],
)
def test_what_was_encoded_is_read(text: str, encoding: str) -> None:
    found = decode(text.encode(encoding), "talk.srt")
    assert found.text == text
    assert found.is_guess == (not encoding.startswith("utf"))


def test_a_named_encoding_is_used() -> None:
    content = "Łódź".encode("cp1250")
    assert decode(content, "talk.srt", "cp1250") == ("Łódź", "cp1250", False)
    with pytest.raises(UserError, match=r"talk\.srt: not utf-8; name its encoding"):
        decode(content, "talk.srt", "utf-8")
    with pytest.raises(UserError, match="got encoding 'klingon'"):
        decode(content, "talk.srt", "klingon")


def test_no_text_has_no_encoding() -> None:
    with pytest.raises(UserError, match="neither UTF-8 nor another known encoding"):
        decode(bytes(range(128, 256)) * 8, "talk.srt")


def test_a_file_or_stream_is_read_and_a_guess_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes(ENGLISH.encode())
    assert read_text(path) == ENGLISH and capsys.readouterr().err == ""
    assert read_text(io.BytesIO(CHINESE.encode("gb18030")), "gb18030") == CHINESE
    text = "A naïve reader has read this page.\n"
    path.write_bytes(text.encode("cp1252"))
    assert read_text(path) == text
    warning = f"asr: warning: {path}: not UTF-8, read as cp1252; if letters are wrong: --encoding"
    assert capsys.readouterr().err.startswith(warning)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_text(tmp_path)
    with pytest.raises(UserError, match="/dev/zero: more than 64 MiB; wanted a text"):
        read_text(Path("/dev/zero"))
