"""Damages to files: bytes of any file, values of structured ones, files of other programs."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

PICKLED = Path("/tmp/asr-fuzzing-executed")  # made by a malicious pickle, if one is ever opened
LARGE = 10**9
ODD: list[Any] = [
    None, True, "", "x" * 3000, "\x00", "0", [], {}, [[]], {"a": {}}, 0, -1, 1, 3, LARGE, -LARGE,
    10**30, 0.5, -0.5, 1e308, float("nan"), float("inf"), float("-inf"), "../../etc/passwd", 2**63,
]  # fmt: skip

Damage = Callable[[Random, Path], None]


class Malicious:
    """Creates the file `PICKLED` when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (PICKLED,))


def damage(random: Random, path: Path) -> None:
    """Damage one file, by its bytes or, in two of three cases, by its values."""
    inner = _BY_ENDING.get(path.suffix)
    if inner is not None and path.exists() and random.random() < 2 / 3:
        return inner(random, path)
    random.choice(_OF_BYTES)(random, path)


def _flip(random: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 1, 1, 2, 8, 64))):
        if content:
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def _truncate(random: Random, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: random.choice((0, 1, 7, random.randrange(len(content) + 1)))])


def _lengthen(random: Random, path: Path) -> None:
    path.write_bytes(path.read_bytes() + random.randbytes(random.choice((1, 9, 5000))))


def _overwrite(random: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    start = random.randrange(len(content) + 1)
    size = random.choice((4, 64, 4096))
    content[start : start + size] = random.choice((b"\0", b"\xff", b"\n", b"{")) * size
    path.write_bytes(content)


def _insert(random: Random, path: Path) -> None:
    content = path.read_bytes()
    start = random.randrange(len(content) + 1)
    path.write_bytes(content[:start] + random.randbytes(random.choice((1, 3))) + content[start:])


def _remove(random: Random, path: Path) -> None:
    path.unlink()


def _folder(random: Random, path: Path) -> None:
    path.unlink()
    path.mkdir()


def _other_program(random: Random, path: Path) -> None:
    """Replace by a file of another program, a malicious pickle among them."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(Malicious()))
        file.writestr("words.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8', }\n")
    contents = (
        b"\x89PNG\r\n\x1a\n" + random.randbytes(200),
        b"\x7fELF" + random.randbytes(200),
        b"GIF89a" + random.randbytes(50),
        pickle.dumps(Malicious()),
        pickle.dumps({"state_dict": [1, 2]}),
        archive.getvalue(),
        b"[section]\nkey = 1\n",
        b'{"a": [1, 2, 3]}',
        b"[" * 100_000,
        b"RIFF\x24\xff\xff\x7fWAVEfmt " + random.randbytes(40),
        "ひらがな\n".encode("utf-16"),
    )
    path.write_bytes(random.choice(contents))


def _changed(random: Random, content: Any) -> Any:
    """Change, delete or repeat one value at a random depth of lists and tables."""
    if isinstance(content, dict) and content and random.random() < 0.85:
        key = random.choice(list(content))
        change = random.random()
        if change < 0.15:
            return {name: each for name, each in content.items() if name != key}
        if change < 0.2:
            return {**content, f"{key}x": content[key]}
        return {**content, key: _changed(random, content[key])}
    if isinstance(content, list) and content and random.random() < 0.85:
        at = random.randrange(len(content))
        change = random.random()
        if change < 0.2:
            return content[:at] + content[at + 1 :]
        if change < 0.3:
            return [*content[:at], content[at], *content[at:]]
        return [*content[:at], _changed(random, content[at]), *content[at + 1 :]]
    return random.choice(ODD)


def _json(random: Random, path: Path) -> None:
    path.write_text(json.dumps(_changed(random, json.loads(path.read_text("utf-8")))), "utf-8")


def _json_lines(random: Random, path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    at = random.randrange(len(lines))
    if random.random() < 0.7:
        lines[at] = json.dumps(_changed(random, json.loads(lines[at])))
        path.write_text("\n".join(lines) + "\n", "utf-8")
    else:
        _text(random, path)


def _toml(random: Random, path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    at = random.choice([at for at, line in enumerate(lines) if "=" in line])
    key, _, _ = lines[at].partition("=")
    values = (
        "0", "-1", "1", "2", "7", "1000000000", "-1000000000", "99999999999999999999", "nan",
        "inf", "-inf", "0.5", "1e308", "1e-308", '""', '"x"', "true", "[]", "{}", "[[1]]", "[nan]",
        "2020-01-01",
    )  # fmt: skip
    lines[at] = random.choice(
        (f"{key}= {random.choice(values)}",) * 6 + ("", key + "x = 1", lines[at] + "\n" + lines[at])
    )
    path.write_text("\n".join(lines), "utf-8")


def _text(random: Random, path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    at = random.randrange(len(lines))
    changed = (
        b"", b"\0", b"\xff\xfe", b"a" * 200_000, lines[at] * 2, lines[at].replace(b"\t", b" "),
        lines[at][: len(lines[at]) // 2], "\u2028\u0085 e\u0301".encode(), b"-1 --> 99:99:99,999",
        b"99999999999:00:00,000 --> 00:00:00,000", b"\t\t\t", b'{"text": 3}', b"\xef\xbb\xbf",
    )  # fmt: skip
    lines[at] = random.choice(changed)
    if random.random() < 0.2:
        random.shuffle(lines)
    path.write_bytes(b"\n".join(lines))


def _arrays_changed(random: Random, arrays: dict[str, Any]) -> dict[str, Any]:
    """Change one array: values that are not finite, other shapes and types, a lack, a surplus."""
    name = random.choice(list(arrays))
    value = np.array(arrays[name])
    flat = value.reshape(-1)
    match random.randrange(9):
        case 0:
            del arrays[name]
            return arrays
        case 1:
            arrays["strange"] = value
            return arrays
        case 2:
            value = value.reshape(-1)[: random.randrange(value.size + 1)]
        case 3:
            value = np.concatenate([flat, flat])
        case 4:
            value = value.astype(random.choice(("f4", "f8", "i1", "u1", "i8", "?", "f2")))
        case 5:
            value = value[None]
        case _ if value.dtype.kind == "f":
            bad = random.choice((np.nan, np.inf, -np.inf, 1e30, -1.0, 0.0))
            with np.errstate(over="ignore"):
                value.reshape(-1)[random.randrange(max(1, value.size)) :] = bad
        case _:
            limits = np.iinfo(value.dtype) if value.dtype.kind in "iu" else None
            bad = 1 if limits is None else random.choice((limits.min, limits.max, 0))
            value.reshape(-1)[random.randrange(max(1, value.size)) :] = bad
    arrays[name] = value
    return arrays


def _safetensors(random: Random, path: Path) -> None:
    if random.random() < 0.3:
        content = path.read_bytes()
        (size,) = struct.unpack("<Q", content[:8])
        header = json.dumps(_changed(random, json.loads(content[8 : 8 + size]))).encode()
        size = random.choice((len(header),) * 5 + (2**63, 0, LARGE))
        path.write_bytes(struct.pack("<Q", size) + header + content[8 + size :])
        return
    save_file(_contiguous(_arrays_changed(random, load_file(path))), path)


def _contiguous(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: np.ascontiguousarray(value) for name, value in arrays.items()}


def _npz(random: Random, path: Path) -> None:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if random.random() < 0.1:
        arrays[random.choice(list(arrays))] = np.array([Malicious()], dtype=object)
    else:
        arrays = _arrays_changed(random, arrays)
    np.savez_compressed(path, **arrays)


def _npy(random: Random, path: Path) -> None:
    value = _arrays_changed(random, {"value": np.load(path)}).get("value", np.zeros(0))
    np.save(path, value)


def _torch(random: Random, path: Path) -> None:
    torch.save(_state_changed(random, torch.load(path, weights_only=True)), path)


def _state_changed(random: Random, content: Any) -> Any:
    """Change one value of nested tables of tensors."""
    if isinstance(content, dict) and content:
        key = random.choice(list(content))
        change = random.random()
        if change < 0.15:
            return {name: each for name, each in content.items() if name != key}
        if change < 0.25:
            return {**content, key: random.choice([*ODD, torch.zeros(3)])}
        return {**content, key: _state_changed(random, content[key])}
    if isinstance(content, list) and content:
        at = random.randrange(len(content))
        return [*content[:at], _state_changed(random, content[at]), *content[at + 1 :]]
    if isinstance(content, torch.Tensor):
        arrays = _arrays_changed(random, {"value": content.float().numpy()})
        return torch.from_numpy(np.ascontiguousarray(arrays.get("value", np.zeros(0))))
    return random.choice(ODD)


def copy(source: Path, target: Path) -> None:
    """Replace a folder by a copy of another."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


_OF_BYTES: tuple[Damage, ...] = (
    *(_flip,) * 4,
    *(_truncate,) * 2,
    _lengthen,
    *(_overwrite,) * 2,
    _insert,
    _remove,
    _folder,
    *(_other_program,) * 2,
)
_TEXTS = (".txt", ".tsv", ".srt", ".vtt")
_BY_ENDING: dict[str, Damage] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".toml": _toml,
    ".safetensors": _safetensors,
    ".npz": _npz,
    ".npy": _npy,
    ".pt": _torch,
    **dict.fromkeys(_TEXTS, _text),
}
