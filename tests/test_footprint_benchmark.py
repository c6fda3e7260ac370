"""The measurement of an installation; nothing is installed here."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from asr.errors import UserError

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "footprint.py"
FOOTPRINT = runpy.run_path(str(SCRIPT))


def test_packages_are_measured_without_the_tools_and_compiled_files(tmp_path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, size in (
        ("large/data.bin", 3_000_000),
        ("large/code.pyc", 9_000_000),
        ("large-1.0.dist-info/RECORD", 500_000),
        ("small.py", 1_000_000),
        ("pip/main.py", 9_000_000),
    ):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_bytes(b"x" * size)
    assert FOOTPRINT["sizes"](tmp_path) == [("large", 3.5), ("small", 1.0)]


def test_the_cost_of_a_process_is_its_cpu_time_and_its_peak():
    code = "import time; held = b'x' * 80_000_000; end = time.process_time() + 0.3"
    busy = f"{code}\nwhile time.process_time() < end: pass"
    measured = (
        f"import runpy; cost = runpy.run_path({str(SCRIPT)!r})['cost']; "
        f"found = cost([{sys.executable!r}, '-c', {busy!r}]); print(found.seconds, found.megabytes)"
    )
    # By a small process: the peak of a child includes that of its parent before the start.
    done = subprocess.run(
        [sys.executable, "-c", measured], capture_output=True, text=True, check=True, cwd=ROOT
    )
    seconds, megabytes = map(float, done.stdout.split())
    assert 0.3 <= seconds < 3 and 80 <= megabytes < 200
    with pytest.raises(UserError, match="exit status 3"):
        FOOTPRINT["cost"]([sys.executable, "-c", "raise SystemExit(3)"])


def test_another_checkout_is_installed_with_its_own_versions(tmp_path, monkeypatch):
    commands = []

    def run(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    for checkout, extras in ((ROOT, ""), (tmp_path / "before", "onnx")):
        FOOTPRINT["install"]("python3", extras, tmp_path, checkout)
        *_, versions, what = commands[-1]
        assert versions == str(checkout / "constraints.txt")
        assert what == (f"{checkout}[onnx]" if extras else str(checkout))
