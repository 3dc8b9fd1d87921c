"""Policy and pipeline files: models, strict loading, schema, ready-made examples."""
