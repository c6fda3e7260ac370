"""Lines of files, plain and compressed, with their numbers."""

import gzip
import io
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.errors import UserError
from asr.text.lines import read_entries, read_lines

PACKERS = {"a.txt": bytes, "a.GZ": gzip.compress, "a.xz": lzma.compress}
TEXT = "\ufeffone\r\n\n # two \n#three\nfo\u2028ur\x0b\x85\tfive "


@pytest.mark.parametrize("name", PACKERS)
def test_lines_and_entries_of_a_file(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(PACKERS[name](TEXT.encode()))
    last = "fo\u2028ur\x0b\x85\tfive "
    lines = [(1, "one"), (2, ""), (3, " # two "), (4, "#three"), (5, last)]
    assert list(read_lines(path)) == list(read_lines(str(path))) == lines
    assert list(read_entries(path)) == [(1, "one"), (3, "# two"), (4, "#three"), (5, last.strip())]
    assert [number for number, _ in read_entries(path, comment="#")] == [1, 5]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n\ufeff", codec="utf-8"))))
def test_a_stream_gives_what_was_written(lines):
    stream = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    assert list(read_lines(stream)) == list(enumerate(lines, 1))
    assert not stream.closed


@pytest.mark.parametrize("name", PACKERS)
def test_bytes_that_are_not_utf_8_are_one_line_with_file_and_number(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(PACKERS[name]("fine\n\nnaïve\n".encode("latin-1")))
    lines = read_lines(path)
    assert [next(lines).text, next(lines).text] == ["fine", ""]  # the lines above are usable
    with pytest.raises(UserError) as caught:
        next(lines)
    assert str(caught.value) == f"{path}:3: not UTF-8; save the file as UTF-8 text"


@pytest.mark.parametrize(
    "name", ["missing.txt", "folder", "text.gz", "cut.gz", "text.xz", "cut.xz"]
)
def test_a_file_that_cannot_be_read_is_one_line_with_its_name(tmp_path, name):
    pack = gzip.compress if name.endswith("gz") else lzma.compress
    whole = pack("".join(f"{number}\n" for number in range(9999)).encode())
    (tmp_path / "folder").mkdir()
    for kind in ("gz", "xz"):
        (tmp_path / f"text.{kind}").write_text("plain text")
        (tmp_path / f"cut.{kind}").write_bytes(whole[:-99])
    with pytest.raises(UserError, match=rf"{name}: cannot be read: .+") as caught:
        list(read_lines(tmp_path / name))
    assert "\n" not in str(caught.value)
