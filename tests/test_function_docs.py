"""The examples of docs/functions.md run."""

from idlestate.config.loading import parse
from tests.docs_pages import blocks


def test_examples_run():
    found = blocks("docs/functions.md")
    assert {language for language, _ in found} == {"python", "yaml"}
    names = {"__name__": "example"}
    for language, text in found:
        if language == "yaml":
            assert parse(text.encode(), "f.yaml").pipelines["alerts"].kind == "process"
        else:
            exec(text, names)
