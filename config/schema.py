"""The JSON Schema of configuration files, for editors; generated from the models.

    python -m idlestate.config.schema            # writes config/idlestate.schema.json

An editor finds it by the first line of a file:

    # yaml-language-server: $schema=idlestate.schema.json

It describes fields, words and the forms of values. Only `idlestate check` finds contradictions
between values (max and min, names of policies) and ambiguous YAML.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from idlestate.config.file_model import ConfigFile

SCHEMA_FILE = Path(__file__).resolve().parent / "idlestate.schema.json"


class _ForFiles(GenerateJsonSchema):
    """Describes what a file may hold: never null, and no defaults in milliseconds."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, _schema: Any) -> bool:
        return False


def build_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a configuration file."""
    schema = ConfigFile.model_json_schema(schema_generator=_ForFiles)
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "idlestate"}


def render_schema() -> str:
    """The text of `idlestate.schema.json`."""
    return json.dumps(build_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(render_schema(), encoding="utf-8")
    sys.stdout.write(f"wrote {SCHEMA_FILE}\n")
