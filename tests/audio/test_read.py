"""Reading: every format gives the same audio, every fault a one-line error."""

import io
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from asr.audio.find import find_audio
from asr.audio.read import SAMPLE_RATE, Waveform, read, read_blocks
from asr.errors import UserError

FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "opus": ("OGG", "OPUS"),
    "ogg": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "aiff": ("AIFF", "PCM_16"),
}


def tone(hertz=440.0, seconds=1.0, rate=SAMPLE_RATE):
    return (0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)).astype("f4")


def noise(seconds=2.0):
    generator = np.random.default_rng(0)
    return (0.1 * generator.standard_normal(int(seconds * SAMPLE_RATE))).astype("f4")


def encoded(samples, ending="wav", rate=SAMPLE_RATE, subtype=None):
    container, usual = FORMATS[ending]
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=subtype or usual)
    return file.getvalue()


def loudest_hertz(waveform):
    spectrum = np.abs(np.fft.rfft(waveform.samples))
    return np.argmax(spectrum) * waveform.rate / len(waveform.samples)


def complaint(source, rate=None):
    """Return the message of the UserError that reading must raise; checks that it is one line."""
    with pytest.raises(UserError) as caught:
        read(source, rate)
    message = str(caught.value)
    assert message and "\n" not in message
    return message


@pytest.fixture
def without_ffmpeg(tmp_path_factory, monkeypatch):
    """Hide an installed ffmpeg."""
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))


class OneWay(io.RawIOBase):
    """A stream like a pipe: not seekable, with short reads."""

    def __init__(self, content):
        self.rest = io.BytesIO(content)

    def readable(self):
        return True

    def seekable(self):
        return False

    def readinto(self, buffer):
        return self.rest.readinto(memoryview(buffer)[:1000])


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_gives_the_same_tone(tmp_path, ending):
    path = tmp_path / f"tone.{ending}"
    path.write_bytes(encoded(tone(), ending))
    waveform = read(path)
    assert waveform.rate == SAMPLE_RATE and waveform.samples.dtype == np.float32
    assert waveform.duration == pytest.approx(1.0, abs=0.05)
    assert loudest_hertz(waveform) == pytest.approx(440, abs=3)


@pytest.mark.parametrize("ending", FORMATS)
def test_path_text_bytes_and_streams_agree(tmp_path, ending):
    content = encoded(noise(seconds=5.0), ending)  # longer than the buffer of a codec
    path = tmp_path / f"noise.{ending}"
    path.write_bytes(content)
    expected = read(path).samples
    for source in (str(path), content, io.BytesIO(content), OneWay(content)):
        assert np.array_equal(read(source).samples, expected)


@pytest.mark.parametrize("name", ["flac.wav", "flac.m4a", "flac"])
def test_what_a_file_is_counts_not_what_it_is_called(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(encoded(tone(), "flac"))
    assert read(path).duration == 1.0


def test_raw_samples_are_left_to_ffmpeg(tmp_path, without_ffmpeg):
    path = tmp_path / "flac.raw"  # for soundfile the ending means samples without a header
    path.write_bytes(encoded(tone(), "flac"))
    assert f"{path}: " in complaint(path)


def test_a_named_pipe_is_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    script = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    with subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE) as writer:
        writer.stdin.write(encoded(tone()))
        writer.stdin.close()
        assert read(path).duration == 1.0


def test_channels_are_averaged():
    left, right = tone(300), tone(1000)
    both = np.stack([left, right], axis=1)
    from_array = read(both, SAMPLE_RATE).samples
    assert np.allclose(from_array, (left + right) / 2, atol=1e-7)
    assert np.allclose(read(encoded(both, "flac")).samples, from_array, atol=1e-4)


@pytest.mark.parametrize("rate", [8000, 22_050, 44_100, 48_000])
def test_other_rates_become_16_khz(rate):
    for waveform in (read(tone(rate=rate), rate), read(encoded(tone(rate=rate), "wav", rate))):
        assert waveform.rate == SAMPLE_RATE
        assert waveform.duration == pytest.approx(1.0, abs=1e-3)
        assert loudest_hertz(waveform) == pytest.approx(440, abs=1)
        assert np.abs(waveform.samples).max() == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "uint8", "float32", "float64"])
def test_arrays_of_every_kind_are_scaled_alike(kind):
    scale = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "uint8": 2**7}.get(kind, 1)
    array = tone().astype("f8") * scale + (128 if kind == "uint8" else 0)
    array = (array.round() if scale > 1 else array).astype(kind)
    kept = array.copy()
    assert np.allclose(read(array, SAMPLE_RATE).samples, tone(), atol=1 / 128)
    assert np.array_equal(array, kept)


def test_arrays_that_cannot_be_meant():
    assert "rate" in complaint(tone())
    assert "transpose" in complaint(np.zeros((2, 16_000), "f4"), SAMPLE_RATE)
    assert "(2, 2, 2)" in complaint(np.zeros((2, 2, 2)), SAMPLE_RATE)
    assert "complex" in complaint(np.zeros(9, "complex64"), SAMPLE_RATE)
    assert "no samples" in complaint(np.zeros(0, "f4"), SAMPLE_RATE)
    assert "Hz" in complaint(tone(), 1)
    assert "list" in complaint([0.0, 0.1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_samples_that_are_no_sound_are_refused(bad):
    samples = tone()
    samples[77] = bad
    assert "damaged" in complaint(samples, SAMPLE_RATE)
    assert "damaged" in complaint(encoded(samples, subtype="FLOAT"))


def test_a_rate_belongs_to_arrays_alone():
    assert "only arrays" in complaint(encoded(tone()), SAMPLE_RATE)


def test_files_that_are_not_there_or_not_files(tmp_path, monkeypatch):
    assert "no such file" in complaint(tmp_path / "none.wav")
    assert "folder" in complaint(tmp_path)
    assert "empty file name" in complaint("")
    assert "not a file name" in complaint("a\0b.wav")
    empty = tmp_path / "empty.wav"
    empty.touch()
    assert f"{empty}: the file is empty" in complaint(empty)

    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", forbidden)
    assert "Permission denied" in complaint(empty)


def test_text_is_told_from_audio(tmp_path):
    for content in ("not a recording", "größer\n" * 200, "#EXTM3U\nfile.ts\n"):
        path = tmp_path / "text.wav"
        path.write_text(content, encoding="utf-8")
        assert "text, not audio" in complaint(path)
    assert "binary" in complaint(io.StringIO("text"))
    assert "empty" in complaint(b"")


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("share", [0.97, 0.6, 0.02])
def test_a_cut_file_is_refused(tmp_path, without_ffmpeg, ending, share):
    content = encoded(noise(8.0), ending)
    path = tmp_path / f"cut.{ending}"
    path.write_bytes(content[: int(len(content) * share)])
    assert str(path) in complaint(path)
    if share > 0.5:
        assert "ends early" in complaint(path)


def test_headers_of_streams_do_not_know_the_length():
    wav = bytearray(encoded(noise()))
    for unknown in (0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000):
        wav[40:44] = struct.pack("<I", unknown)
        assert read(bytes(wav)).duration == 2.0
    flac = bytearray(encoded(noise(), "flac"))
    flac[21] &= 0xF0  # the 36 bits of STREAMINFO that count the samples
    flac[22:26] = bytes(4)
    assert read(bytes(flac)).duration == 2.0


def test_a_header_that_claims_years_is_refused_at_once():
    flac = bytearray(encoded(noise(), "flac"))
    flac[21] |= 0x0F
    flac[22:26] = b"\xff" * 4
    assert "hours" in complaint(bytes(flac))


def test_a_file_without_samples_is_refused():
    for ending in ("wav", "flac"):
        assert "the bytes given" in complaint(encoded(noise(0), ending))


def test_without_ffmpeg_the_message_names_it(without_ffmpeg):
    assert "ffmpeg" in complaint(b"\0\0\0\x20ftypM4A " + bytes(range(256)) * 9)


def test_ffmpeg_decodes_what_libsndfile_cannot(tmp_path, monkeypatch):
    """A fake ffmpeg checks that its input is a file and that its output is parsed."""
    (tmp_path / "decoded").write_bytes(tone().tobytes())
    program = tmp_path / "ffmpeg"
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        "source = sys.argv[sys.argv.index('-i') + 1].removeprefix('file:')\n"
        "if b'broken' in pathlib.Path(source).read_bytes():\n"
        "    sys.exit('[mov @ 0x1] moov atom not found\\nand more')\n"
        "if b'silent film' in pathlib.Path(source).read_bytes():\n"
        "    sys.exit('[out#0 @ 0x1] Stream map \"0:a:0\" matches no streams.\\nand more')\n"
        "if b'cut' in pathlib.Path(source).read_bytes():\n"
        "    print('[in#0/webm @ 0x1] File ended prematurely', file=sys.stderr)\n"
        "decoded = pathlib.Path(__file__).with_name('decoded').read_bytes()\n"
        "sys.stdout.buffer.write(decoded)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    content = b"\0\0\0\x20ftypM4A " + bytes(range(256)) * 9
    path = tmp_path / "-sound.m4a"
    path.write_bytes(content)
    for source in (path, content, OneWay(content)):
        assert np.array_equal(read(source).samples, tone())
    path.write_bytes(content + b"broken")
    assert complaint(path).endswith("ffmpeg reports: moov atom not found")
    path.write_bytes(content + b"silent film")
    assert complaint(path) == f"{path}: no audio in it"
    path.write_bytes(content + b"cut")
    assert complaint(path).endswith("File ended prematurely")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
@pytest.mark.parametrize("name", ["tone.m4a", "tone.mka", "tone.webm", "flac.raw"])
def test_an_installed_ffmpeg_decodes_other_formats(tmp_path, name):
    path, source = tmp_path / name, tmp_path / "flac.wav"
    source.write_bytes(encoded(tone(), "flac"))
    if name.startswith("tone"):
        subprocess.run(["ffmpeg", "-v", "error", "-i", source, path], check=True)
    else:
        source.rename(path)
    for given in (path, path.read_bytes()):
        waveform = read(given)
        assert waveform.duration == pytest.approx(1.0, abs=0.1)
        assert loudest_hertz(waveform) == pytest.approx(440, abs=3)
    assert "the bytes given: " in complaint(given[: len(given) // 2])


def test_reading_imports_neither_librosa_nor_scipy_nor_torch():
    script = (
        "import sys, numpy; from asr.audio.read import read;"
        "read(numpy.ones(999), 44100); print({'librosa', 'scipy', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.parametrize("rate", [1000, 8000, 11_025, 22_050, 44_100, 48_000, 96_000, 768_000])
def test_resampling_is_that_of_librosa(rate):
    librosa = pytest.importorskip("librosa")
    random = np.random.default_rng(0)
    for size in (1, 2, 999, rate, 2 * rate + 7):
        samples = random.uniform(-1, 1, size).astype("f4")
        wanted = librosa.resample(samples, orig_sr=rate, target_sr=16_000, res_type="soxr_hq")
        assert np.array_equal(read(samples, rate).samples, wanted)


def test_duration_is_in_seconds():
    assert Waveform(np.zeros(8000, "f4")).duration == 0.5


def test_folders_are_searched_and_files_kept(tmp_path):
    for name in ("b.WAV", "a/c.flac", "a/notes.txt", "a/.hidden.wav", ".cache/d.wav", "x.opus"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.wav").mkdir()
    inside = [tmp_path / name for name in ("a/c.flac", "b.WAV", "x.opus")]
    assert find_audio([tmp_path]) == inside
    assert find_audio(["-", "none.xyz", tmp_path]) == [Path("-"), Path("none.xyz"), *inside]
    with pytest.raises(UserError, match="no audio file"):
        find_audio([tmp_path / "folder.wav"])


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_blocks_are_the_recording_and_come_before_its_end(tmp_path, rate, monkeypatch):
    monkeypatch.setattr("asr.audio.read._BLOCK", 5_000)
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 3 * rate).astype("f4")
    path = tmp_path / "a.wav"
    soundfile.write(path, samples, rate, subtype="FLOAT")
    blocks = list(read_blocks(path))
    assert len(blocks) > 3
    whole = np.concatenate(blocks)
    assert np.array_equal(whole, read(path).samples)
    if rate != 16_000:
        assert np.array_equal(whole, soxr.resample(samples, rate, 16_000, "HQ"))


def test_damage_is_found_when_its_block_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("asr.audio.read._BLOCK", 5_000)
    samples = np.zeros(20_000, "f4")
    samples[15_000] = np.nan
    path = tmp_path / "a.wav"
    soundfile.write(path, samples, 16_000, subtype="FLOAT")
    blocks = read_blocks(path)
    assert [len(next(blocks)) for _ in range(3)] == [5_000] * 3
    with pytest.raises(UserError, match="not finite"):
        next(blocks)
