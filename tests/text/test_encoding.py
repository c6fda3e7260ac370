"""Encodings: marks, UTF-8, Western text, and guesses by charset-normalizer."""

import pytest

from asr.errors import UserError
from asr.text.encoding import decode

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
