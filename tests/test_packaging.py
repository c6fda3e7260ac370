"""The content of an sdist and a wheel, and of an installation."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REPOSITORY = {".gitignore"}  # only in a checkout


def build(kind: str, checkout: Path, folder: Path) -> Path:
    """Make an "sdist" or a "wheel" with the backend that pip calls."""
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    command = [sys.executable, "-c", code, folder]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


def tracked(*folders: str) -> set[str]:
    """Return the files of the repository; skip the test outside a checkout."""
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a checkout")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()} - REPOSITORY


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an unpacked sdist."""
    pytest.importorskip("setuptools", "77")
    folder, clean = tmp_path_factory.mktemp("sdist"), tmp_path_factory.mktemp("clean")
    for name in tracked():  # a copy without the files of earlier builds
        (clean / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clean / name)
    with tarfile.open(build("sdist", clean, folder)) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (each for each in folder.iterdir() if each.is_dir())
    return unpacked


def test_a_folder_of_the_same_name_hides_nothing(tmp_path: Path) -> None:
    """The parent folder of a checkout named asr must not shadow the package."""
    (tmp_path / "asr").mkdir()
    code = "import asr; asr.load; print(asr.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_sdist_holds_the_checkout(sdist: Path) -> None:
    held = {path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if path.is_file()}
    assert not tracked() - held
    assert not {name for name in held if "__pycache__" in name or name.startswith("runs/")}


def test_a_wheel_made_of_an_sdist_holds_the_package_and_its_models_alone(
    sdist: Path, tmp_path: Path
) -> None:
    wheel = build("wheel", sdist, tmp_path)
    dockerfile = (ROOT / "docs" / "deploy" / "Dockerfile").read_text("utf-8")
    (installed,) = re.findall(r"/wheels/(\S+\.whl)", dockerfile)
    assert fnmatch(wheel.name, installed)
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {"asr/py.typed", "asr/pretrained/english/model.safetensors"} <= held
    assert held == tracked("asr")
