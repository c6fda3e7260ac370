"""`asr train`: train a model from a config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asr.errors import INTERRUPTED, UserError


def run(
    config: Path,
    folder: Path,
    data: Path | None,
    overrides: Sequence[str],
    continue_anyway: bool = False,
    start: str | None = None,
    dev: Path | None = None,
    audio_in: Path | None = None,
) -> int:
    """Train, or resume training, in a run folder; print the model folder and return 0.

    start: a model to fine-tune, a folder or a name of the package; `config` is then the manifest of
    the recordings to train on, and dev that of those to validate on, or None; audio_in: the folder
    of their audio, see `asr.corpora.read_manifest`.
    A signal stops with a checkpoint, and nothing is printed: 0 is returned after SIGTERM,
    `asr.errors.INTERRUPTED` after Ctrl-C.

    Raises:
        UserError: the config, the data or the folder cannot be used.
    """
    from asr.training.config import load_config

    if start is not None:
        if data is not None:
            raise UserError("got --from and --data; the manifest states where its audio is")
        from asr.training.finetune import write_config

        config = write_config(start, config, dev, folder, overrides, audio_in)
    elif dev is not None:
        raise UserError("--dev belongs to --from MODEL; otherwise the config names the dev set")
    elif audio_in is not None:
        raise UserError("--audio-in belongs to --from MODEL; a config has data.audio_in")
    elif config.suffix == ".jsonl":
        raise UserError(f"{config}: a manifest; wanted a .toml config, or --from MODEL with it")
    from asr.training.run_folder import require_run_folder

    require_run_folder(folder)
    load_config(config, overrides)  # report a mistake before the slow import of torch
    from asr.training.distributed import is_first
    from asr.training.run import run as train
    from asr.training.stopping import interrupted

    model = train(config, folder, data, overrides, continue_anyway)
    if model is None:
        return INTERRUPTED if interrupted() else 0
    if is_first():
        print(model)
    return 0
