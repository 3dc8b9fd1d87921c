"""Policy and pipeline files: models, strict loading, schema, ready-made examples."""

from idlestate.config.loading import Config, load_config, parse
from idlestate.config.models import Pipeline
from idlestate.config.policy_selectors import unbounded_advice
from idlestate.config.problems import ConfigError, Problem

__all__ = [
    "Config",
    "ConfigError",
    "Pipeline",
    "Problem",
    "load_config",
    "parse",
    "unbounded_advice",
]
