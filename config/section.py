"""The base of all sections of a configuration file."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """No unknown fields, no coercion, immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )
