"""Training configs, one module per task, read from TOML."""

from asr.training.config.common import LossSettings, TrainingSettings
from asr.training.config.language import LanguageConfig, LanguageDataSettings
from asr.training.config.load import TASKS, Config, config_from_table, load_config, parse_config
from asr.training.config.speech import (
    AugmentSettings,
    ManifestSettings,
    SpeechBatchSettings,
    SpeechConfig,
    SpeechDataSettings,
    SpeechLossSettings,
    TeacherSettings,
)
from asr.training.config.translation import (
    PairDataSettings,
    TranslationBatchSettings,
    TranslationConfig,
    TranslationLossSettings,
)

__all__ = [
    "TASKS",
    "AugmentSettings",
    "Config",
    "LanguageConfig",
    "LanguageDataSettings",
    "LossSettings",
    "ManifestSettings",
    "PairDataSettings",
    "SpeechBatchSettings",
    "SpeechConfig",
    "SpeechDataSettings",
    "SpeechLossSettings",
    "TeacherSettings",
    "TrainingSettings",
    "TranslationBatchSettings",
    "TranslationConfig",
    "TranslationLossSettings",
    "config_from_table",
    "load_config",
    "parse_config",
]
