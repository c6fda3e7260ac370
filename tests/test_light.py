"""What needs no extra works without any; see `light.py`, which CI also runs without them."""

import subprocess
import sys
from pathlib import Path


def test_commands_work_without_extras_or_name_theirs():
    command = [sys.executable, Path(__file__).parent / "light.py", "--block"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stdout + found.stderr
