"""The example of docs/functions.md runs."""

from tests.docs_pages import blocks


def test_examples_run():
    found = blocks("docs/functions.md")
    assert {language for language, _ in found} == {"python"}
    names = {"__name__": "example"}
    for _, program in found:
        exec(program, names)
