"""A configuration file as a whole."""

from typing import Annotated

from pydantic import Field

from idlestate.config import text_kinds as text
from idlestate.config.number_kinds import whole
from idlestate.config.pipeline_settings import Pipeline, PolicyBody, Selector
from idlestate.config.section import Section
from idlestate.config.sidecar_settings import Sidecar


class ConfigFile(Section):
    """Policies and pipelines of idlestate."""

    version: Annotated[int, whole(1, 1)] = Field(examples=["1"])
    """Version of this format: 1."""
    defaults: PolicyBody = PolicyBody()
    """Settings that every policy inherits unless it sets its own."""
    policies: dict[text.Name, PolicyBody] = Field(default_factory=dict)
    """Retention policies by name."""
    selectors: Annotated[tuple[Selector, ...], Field(strict=False)] = ()
    """The policy of operators whose pipeline sets none."""
    pipelines: dict[text.Name, Pipeline] = Field(default_factory=dict)
    """Pipelines by name, which is the operator's uid."""
    sidecar: Sidecar | None = None
    """The settings of `idlestate serve`."""
