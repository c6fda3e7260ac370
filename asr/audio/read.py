"""Recordings of any format as waveforms: 16 kHz, one channel, float32.

libsndfile decodes WAV, FLAC, Ogg (Opus, Vorbis), MP3 and similar formats; ffmpeg, if installed,
decodes the others (m4a, mp4, webm, aac). A recording that is damaged or ends early is refused: a
transcript that silently lacks its second half is worse than an error.
"""

import io
import math
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeAlias

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from asr.audio import archive
from asr.audio.arrays import MOST_CHANNELS, required_rate, samples_of, takes_rate
from asr.audio.streams import spooled
from asr.errors import UserError

SAMPLE_RATE = 16_000  # Hz
_DIRECT_ENDINGS = ".wav .flac .ogg .oga .opus .mp3 .aif .aiff .aifc .au .caf .w64"
_FFMPEG_ENDINGS = ".m4a .mp4 .aac .webm .mka .mkv .mov .wma .3gp .amr"
AUDIO_ENDINGS = frozenset(f"{_DIRECT_ENDINGS} {_FFMPEG_ENDINGS}".split())

UNKNOWN_FRAMES = (
    2**62
)  # a streamed FLAC, which does not state its length, states at least this many
LONGEST = 24 * 3600.0  # s that are read unless the caller says otherwise
_LOWEST_RATE, _HIGHEST_RATE = 1_000, 768_000  # Hz
_LOUDEST = 2.0**31  # unscaled 32-bit integers stay below; powers of larger values overflow
_BLOCK = 2**18  # samples decoded at once: the length in a header is never allocated
_SHORTFALL = 0.1  # s by which a header may overstate the length; some writers and MP3 padding do
_UNKNOWN_LENGTH = (
    0x7FFFF000  # bytes; when writing to a pipe, programs state this or more for "unknown"
)
_FORMATS = "WAV, FLAC, Ogg, Opus or MP3"

Samples = NDArray[np.float32]


class Waveform(NamedTuple):
    """Mono audio: `samples` (S,) float32, nominally in [-1, 1], at `rate` Hz."""

    samples: Samples
    rate: int = SAMPLE_RATE

    @property
    def duration(self) -> float:
        """Seconds."""
        return len(self.samples) / self.rate


Source: TypeAlias = str | os.PathLike[str] | bytes | BinaryIO | NDArray[Any] | Waveform


def read(source: Source, rate: int | None = None) -> Waveform:
    """Read a recording, average its channels and resample it to 16 kHz.

    Args:
        source: a path, also one inside a tar archive (`asr.audio.archive`); the bytes of a file; a
            binary stream such as `sys.stdin.buffer`, which need not be seekable and is read to its
            end; or an array (S,) or (S, channels), floats in [-1, 1] or integers of at most 32 bits
            over their whole range; or a tensor of torch, (S,) or (channels, S); or a waveform.
        rate: sample rate of an array or a tensor, in Hz; the others state their own.

    Raises:
        UserError: the file does not exist, or is not audio, damaged, empty, or longer than a day.
    """
    blocks = [*read_blocks(source, rate)]
    return Waveform(blocks[0] if len(blocks) == 1 else np.concatenate(blocks))


def read_blocks(
    source: Source, rate: int | None = None, longest: float = LONGEST
) -> Iterator[Samples]:
    """Yield the samples of `read` in blocks of any length; a file is decoded as they are taken.

    longest: seconds; a longer recording is refused, at once if its header says so.

    Raises:
        UserError: as in `read`; damage is found when its block is decoded, a shorter recording
            than its header states after the last block.
    """
    check_rate(source, rate)
    if isinstance(source, Waveform):
        source, rate = source
    if takes_rate(source):
        return _finished([samples_of(source)], required_rate(rate), "the array", longest)
    if isinstance(source, str | os.PathLike):
        return _read_path(os.fspath(source), longest)
    if isinstance(source, bytes | bytearray | memoryview):
        return _read_bytes(bytes(source), "the bytes given", longest)
    return _read_stream(source, str(getattr(source, "name", "the stream")), longest)


def check_rate(source: object, rate: int | None) -> None:
    """Check the type of a source, and that a rate is given to arrays and tensors alone.

    Raises:
        UserError: it is not so.
    """
    known = (str, os.PathLike, bytes, bytearray, memoryview, Waveform)
    if not (takes_rate(source) or isinstance(source, known) or hasattr(source, "read")):
        raise UserError(
            f"audio of type {type(source).__name__}: wanted a path, bytes, a binary stream or an "
            "array; several of them as a list"
        )
    if rate is not None and not takes_rate(source):
        what = "a waveform" if isinstance(source, Waveform) else "a file"
        raise UserError(
            f"rate {rate} given for {what}: only arrays need a rate, files and waveforms state "
            "theirs"
        )


def stated_seconds(path: Path) -> float | None:
    """Return the duration in seconds from the header; None if the header does not state it."""
    try:
        header = soundfile.info(str(path))
    except (soundfile.SoundFileError, TypeError):
        return None
    return float(header.duration) if header.frames < UNKNOWN_FRAMES else None


def _read_path(path: str, longest: float) -> Iterator[Samples]:
    if not path:
        raise UserError("empty file name: wanted the path of a recording")
    try:
        # Opened by Python first: libsndfile reports every error as "System error".
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                yield from _read_stream(file, path, longest)  # a pipe or a device
                return
            if os.fstat(file.fileno()).st_size == 0:
                raise UserError(f"{path}: the file is empty")
            yield from _decode(path, file, path, longest)
            return
    except (FileNotFoundError, NotADirectoryError):
        inside = archive.content(path)
    except IsADirectoryError:
        raise UserError(f"{path}: a folder, wanted a recording") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path!r}: not a file name ({error})") from None
    if inside is None:
        raise UserError(f"{path}: no such file")
    yield from _read_bytes(inside, path, longest)


def _read_bytes(content: bytes, name: str, longest: float) -> Iterator[Samples]:
    if not content:
        raise UserError(f"{name}: empty, wanted a recording")
    return _decode(None, io.BytesIO(content), name, longest)


def _read_stream(stream: Any, name: str, longest: float) -> Iterator[Samples]:
    with spooled(stream, name, longest) as file:
        yield from _decode(None, file, name, longest)


def _decode(path: str | None, file: BinaryIO, name: str, longest: float) -> Iterator[Samples]:
    """Decode an open, seekable file; path: None if it is not on disk."""
    try:
        sound = soundfile.SoundFile(path if path is not None else file)
    except (soundfile.LibsndfileError, TypeError):
        # TypeError: soundfile expects a .raw file to be samples without a header.
        decoded = _with_ffmpeg(path, file, name, longest)
        yield from _finished(decoded, SAMPLE_RATE, name, longest)
        return
    with sound:
        _check_header(sound, name, longest)
        _check_complete(sound, file, name)
        yield from _finished(_blocks(sound, name), sound.samplerate, name, longest)


def _check_header(sound: soundfile.SoundFile, name: str, longest: float) -> None:
    seconds = sound.frames / max(sound.samplerate, 1)
    if sound.frames < UNKNOWN_FRAMES and seconds > longest:
        raise UserError(
            f"{name}: {seconds / 3600:.3g} hours of audio by its header, at most "
            f"{longest / 3600:g} are read: split it, or allow more with --longest"
        )
    if sound.channels > MOST_CHANNELS:
        raise UserError(f"{name}: {sound.channels} channels, at most {MOST_CHANNELS} are read")


def _check_complete(sound: soundfile.SoundFile, file: BinaryIO, name: str) -> None:
    """Refuse truncated WAV, AIFF, AU and Ogg, which libsndfile opens as shorter files."""
    size = re.search(r"(?:data|SSND|Data Size) *: (\d+) \(should be (\d+)\)", sound.extra_info)
    if size:
        claimed, there = int(size[1]), int(size[2])
        seconds = sound.frames / sound.samplerate
        whole = seconds * claimed / max(there, 1)
        if claimed < _UNKNOWN_LENGTH and whole > seconds + _SHORTFALL:
            _ends_early(name, seconds, whole)
    if sound.format == "OGG" and not _last_page_is_whole(file):
        raise UserError(
            f"{name}: damaged, ends early (in the middle of an Ogg page): get a whole copy"
        )


def _last_page_is_whole(file: BinaryIO) -> bool:
    """Whether the last page of an Ogg file is complete (RFC 3533, section 6)."""
    largest_page = 27 + 255 + 255 * 255  # header, table of segments, segments
    place = file.tell()  # libsndfile continues from here
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - largest_page))
    tail = file.read()
    file.seek(place)
    start = tail.rfind(b"OggS")
    if start < 0 or len(tail) < start + 27:
        return start < 0  # no page starts here: other data follow the audio
    table = tail[start + 27 : start + 27 + tail[start + 26]]
    return len(table) == tail[start + 26] and len(tail) >= start + 27 + len(table) + sum(table)


def _ends_early(name: str, seconds: float, whole: float) -> NoReturn:
    raise UserError(
        f"{name}: damaged, ends early (about {seconds:.1f} s of {whole:.1f} s can be read): "
        "get a whole copy"
    )


def _blocks(sound: soundfile.SoundFile, name: str) -> Iterator[Samples]:
    """Yield decoded blocks, averaged to one channel."""
    # Otherwise soundfile seeks after every read, which fails in FLAC of unknown length and loses
    # what can be decoded of a truncated file.
    sound.seekable = lambda: False
    size = _BLOCK // sound.channels
    done = 0
    while True:
        try:
            block = sound.read(size, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise UserError(
                f"{name}: damaged or ends early, decoding failed after "
                f"{done / sound.samplerate:.0f} s ({_reason(error)}): get a whole copy"
            ) from None
        if len(block) == 0:
            break
        done += len(block)
        yield block[:, 0] if sound.channels == 1 else block.mean(axis=1)
    is_known = sound.frames < UNKNOWN_FRAMES
    if is_known and done < sound.frames - _SHORTFALL * sound.samplerate:
        _ends_early(name, done / sound.samplerate, sound.frames / sound.samplerate)


def _reason(error: Exception) -> str:
    return str(getattr(error, "error_string", "") or "no reason given").strip().rstrip(".")


def _with_ffmpeg(path: str | None, file: BinaryIO, name: str, longest: float) -> Iterator[Samples]:
    """Decode by ffmpeg what libsndfile cannot, as 16 kHz mono."""
    file.seek(0)
    if _is_text(file.read(512)):
        is_named_audio = Path(name).suffix.lower() in AUDIO_ENDINGS
        ending = ", in spite of the ending of its name" if is_named_audio else ""
        raise UserError(f"{name}: text, not audio{ending}")
    program = shutil.which("ffmpeg")
    if program is None:
        raise UserError(
            f"{name}: no whole {_FORMATS} file; other formats (m4a, mp4, webm, aac) need ffmpeg, "
            "which is not installed"
        )
    if path is not None:
        yield from _run_ffmpeg(program, path, name, longest)
        return
    # By a file, not a pipe: mp4 often has its index at the end.
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "audio")
        file.seek(0)
        with copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        yield from _run_ffmpeg(program, str(copy), name, longest)


def _run_ffmpeg(program: str, path: str, name: str, longest: float) -> Iterator[Samples]:
    command = [program, "-nostdin", "-v", "error", "-xerror"]  # stop at the first error
    command += ["-protocol_whitelist", "file,pipe", "-i", f"file:{path}"]
    command += ["-map", "0:a:0", "-t", str(longest + 1)]  # one second more is noticed
    command += ["-ac", "1", "-ar", str(SAMPLE_RATE), "-f", "f32le", "-"]
    with tempfile.TemporaryFile() as errors:  # no pipe, which could fill up and block ffmpeg
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout is not None
            try:
                while content := process.stdout.read(4 * _BLOCK):
                    yield np.frombuffer(content[: len(content) // 4 * 4], "<f4").astype(np.float32)
            finally:
                process.stdout.close()  # ends ffmpeg if the reader has stopped early
        errors.seek(0)
        report = errors.read()
    if b"matches no streams" in report:
        raise UserError(f"{name}: no audio in it")
    # For a truncated webm or mka ffmpeg prints an error but exits with 0.
    if process.returncode != 0 or b"ended prematurely" in report:
        lines = report.decode(errors="replace").strip().splitlines() or ["no reason given"]
        reason = re.sub(r"^(\[[^]]*\] *)+", "", lines[0])  # without its "[mov,mp4 @ 0x55d1…]"
        raise UserError(f"{name}: no whole {_FORMATS} file, and ffmpeg reports: {reason}")


def _is_text(start: bytes) -> bool:
    """Whether a file's first bytes are UTF-8 without control characters."""
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3:  # a character cut at the end is still text
            return False
        text = start[: error.start].decode()
    return all(character.isprintable() or character in "\t\n\r\f\ufeff" for character in text)


def _finished(blocks: Iterable[Samples], rate: int, name: str, longest: float) -> Iterator[Samples]:
    """Check decoded blocks and resample them to 16 kHz."""
    if not _LOWEST_RATE <= rate <= _HIGHEST_RATE:
        raise UserError(
            f"{name}: a rate of {rate} Hz, wanted {_LOWEST_RATE:,} to {_HIGHEST_RATE:,}"
        )
    checked = _checked(blocks, rate, name, longest)
    return checked if rate == SAMPLE_RATE else _resampled(checked, rate)


def _checked(blocks: Iterable[Samples], rate: int, name: str, longest: float) -> Iterator[Samples]:
    """Yield the blocks that hold samples.

    Raises:
        UserError: none does, they are longer than `longest`, or samples are not finite.
    """
    done = 0
    for block in blocks:
        done += len(block)
        if done > longest * rate:
            raise UserError(
                f"{name}: over {longest / 3600:g} hours of audio: split it, or allow more with "
                "--longest"
            )
        if not len(block):
            continue
        # In this form the condition also fails for NaN.
        if not (block.min() >= -_LOUDEST and block.max() <= _LOUDEST):
            raise UserError(
                f"{name}: damaged, contains samples that are not finite or out of range"
            )
        yield block
    if not done:
        raise UserError(f"{name}: no samples, the recording is empty")


def _resampled(blocks: Iterable[Samples], rate: int) -> Iterator[Samples]:
    """Resample to 16 kHz; the length is rounded up, if necessary with a zero at the end."""
    stream = soxr.ResampleStream(rate, SAMPLE_RATE, 1, "float32", "HQ")
    taken = given = 0
    for block in blocks:
        taken += len(block)
        found = stream.resample_chunk(block)
        given += len(found)
        yield found
    wanted = math.ceil(taken * (SAMPLE_RATE / rate)) - given
    rest = stream.resample_chunk(np.zeros(0, np.float32), last=True)[:wanted]
    yield np.pad(rest, (0, wanted - len(rest)))
