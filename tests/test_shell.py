"""The command line in a shell: bare `asr`, and completion."""

import subprocess
import sys
from pathlib import Path

import pytest

from asr import cli


def test_bare_asr_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("usage: asr") and "transcribe" in told.out and told.err == ""


def completion(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as left:
        cli.main(["--print-completion", shell])
    assert not left.value.code
    return capsys.readouterr().out


def test_bash_completes_commands_options_and_choices(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "asr.bash"
    script.write_text(completion("bash", capsys), "utf-8")

    def completed(*words: str) -> list[str]:
        code = (
            f"source {script}; COMP_WORDS=({' '.join(words)} ''); COMP_CWORD={len(words)}; "
            f"COMP_LINE='{' '.join(words)} '; _shtab_asr; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        done = subprocess.run(
            ["bash", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        return done.stdout.split()

    assert {"transcribe", "translate", "train"} <= set(completed("asr"))
    assert {"srt", "jsonl"} <= set(completed("asr", "transcribe", "-f"))
    assert {"folder", "kaldi"} <= set(completed("asr", "prepare"))
    (tmp_path / "talk.wav").touch()
    assert "talk.wav" in completed("asr", "transcribe")


def test_a_shell_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--print-completion", "fish"])
    assert left.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_shtab_one_line_says_what_to_install(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["--print-completion", "bash"]) == 2
    assert "pip install -c constraints.txt -e '.[completion]'" in capsys.readouterr().err
