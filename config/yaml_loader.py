"""A strict reader of YAML files: plain data, the line of every value, and all problems.

It uses only the scanner and parser of PyYAML's `SafeLoader`, so that no tag ever creates an object
and no alias is ever expanded. It refuses duplicate keys, keys other than text, anchors, aliases,
merge keys, tags, null, scalars that YAML readers disagree about (`plain_scalars`), several
documents, empty files, encodings other than UTF-8, and anything beyond the limits below. It reads
JSON too.

A refused value is replaced by `REFUSED`, so that one reading finds every problem.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import yaml

from idlestate.config.plain_scalars import ScalarError, read_plain
from idlestate.config.problems import ConfigError, FieldPath, Finding, Problem, locate
from idlestate.retention.shown_values import show

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_NODES = 20_000  # some 600 pipelines, read in under a second


_BADLY_INDENTED = re.compile("expected <block end>, but found '(<block .* start>|-)'")

_PLAIN_TERMS = {
    "expected <block end>, but found": "unexpected",
    "'<stream end>'": "the end of the file",
    "end of stream": "end of the file",
    "'<scalar>'": "text",
}
"""Terms of PyYAML's parser, and their common names."""


class _Refused:
    def __repr__(self) -> str:
        return "REFUSED"


REFUSED: Final = _Refused()
"""Replaces a refused value, whose problem has been reported."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file.

    Attributes:
        value: dicts with text keys, lists, text, bools, ints, floats, and `REFUSED`.
        lines: the line (from 1) of every key and list item, by path; of the top at `()`. Lines of
            a text in block style (`|`) count as its items.
        problems: everything that was refused, in the order of the file.
    """

    value: object
    lines: Mapping[FieldPath, int]
    problems: tuple[Problem, ...]


def read_yaml(data: bytes, file: str) -> Document:
    """Read one YAML document; `file` is its name in problems.

    Raises:
        ConfigError: it cannot be read to its end: encoding, size, syntax or depth; or it is empty.
    """
    if len(data) > MAX_BYTES:
        raise _unreadable(file, 0, "the file is larger than 1 MiB", "split it into several files")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _unreadable(file, line, "the file is not UTF-8", "save it as UTF-8") from error
    reader = _Reader(file)
    try:
        return reader.read(yaml.SafeLoader(text))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise reader.stop(line, "unprintable character", "remove it") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise reader.stop(mark.line + 1 if mark else 0, *_explain(error)) from error
    except (ValueError, OverflowError) as error:  # of PyYAML itself, on escapes like \UFFFFFFFF
        raise reader.stop(
            reader.line, "escaped character out of range", "use \\u and four digits"
        ) from error


class _Reader:
    """Builds a document from parser events; recursion is bounded by `MAX_DEPTH`."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lines: dict[FieldPath, int] = {}
        self._problems: list[Problem] = []
        self._nodes = 0

    def read(self, events: yaml.SafeLoader) -> Document:
        """Take the one document of a stream."""
        self._events = events
        events.get_event()  # StreamStart
        if events.check_event(yaml.StreamEndEvent):
            raise self.stop(0, "the file is empty", "add at least version: 1")
        events.get_event()  # DocumentStart
        start = events.peek_event()
        self._lines[()] = _line(start)
        if isinstance(start, yaml.ScalarEvent) and not start.value and start.style is None:
            raise self.stop(0, "the file is empty", "add at least version: 1")
        value = self._value((), depth=1)
        events.get_event()  # DocumentEnd
        if not events.check_event(yaml.StreamEndEvent):
            line = _line(events.peek_event())
            raise self.stop(
                line, "a second YAML document begins here", "keep one document per file"
            )
        return Document(value, self._lines, tuple(self._problems))

    @property
    def line(self) -> int:
        """The line that was read last."""
        mark: yaml.Mark = self._events.get_mark()
        return mark.line + 1

    def stop(self, line: int, what: str, fix: str) -> ConfigError:
        """The error that ends the reading, with all problems found before it."""
        return ConfigError([*self._problems, Problem(self._file, line, "", what, fix)])

    def _refuse(self, event: yaml.Event, path: FieldPath, what: str, fix: str) -> _Refused:
        place = {path: _line(event)}
        self._problems.append(locate(Finding(path, what, fix), self._file, place))
        return REFUSED

    def _value(self, path: FieldPath, depth: int) -> object:
        event = self._next()
        if depth > MAX_DEPTH:
            raise self.stop(
                _line(event),
                f"values are nested deeper than {MAX_DEPTH} levels",
                "use fewer levels",
            )
        match event:
            case yaml.MappingStartEvent():
                self._check_node(event, path)
                return self._mapping(path, depth)
            case yaml.SequenceStartEvent():
                self._check_node(event, path)
                return self._sequence(path, depth)
            case yaml.ScalarEvent():
                self._check_node(event, path)
                return self._scalar(event, path)
            case _:
                return self._refuse_alias(event, path)

    def _mapping(self, path: FieldPath, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while not self._events.check_event(yaml.MappingEndEvent):
            event = self._events.peek_event()
            key = self._key(path)
            if key is None:
                self._skip()
            elif key in found:
                first = self._lines[(*path, key)]
                what = f"duplicate key {show(key)[1:-1]}, first used on line {first}"
                self._refuse(event, (*path, key), what, "remove one of them")
                self._skip()
            else:
                self._lines[(*path, key)] = _line(event)
                found[key] = self._value((*path, key), depth + 1)
        self._events.get_event()
        return found

    def _sequence(self, path: FieldPath, depth: int) -> list[object]:
        found: list[object] = []
        while not self._events.check_event(yaml.SequenceEndEvent):
            item = (*path, len(found))
            self._lines[item] = _line(self._events.peek_event())
            found.append(self._value(item, depth + 1))
        self._events.get_event()
        return found

    def _key(self, path: FieldPath) -> str | None:
        """The next key; None when it was refused."""
        event = self._events.peek_event()
        if isinstance(event, yaml.AliasEvent):
            self._refuse_alias(self._next(), path)
            return None
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(event, path, "a key is a list or a mapping", "use text as the key")
            self._skip()
            return None
        self._next()
        self._check_node(event, path)
        if event.style is None and event.value == "<<":
            what = "YAML merge keys (<<) are not supported"
            self._refuse(event, path, what, "put shared settings under defaults")
            return None
        if event.style is None and event.value == "":
            self._refuse(event, path, "there is no key before the colon", "add one")
            return None
        key = self._scalar(event, path)
        if isinstance(key, str | _Refused):
            return key if isinstance(key, str) else None
        shown = show(event.value)
        self._refuse(event, path, f"key {shown[1:-1]} is not text", f"put it in quotes: {shown}")
        return None

    def _scalar(self, event: yaml.ScalarEvent, path: FieldPath) -> object:
        text: str = event.value
        if not all(each.isprintable() or each in "\n\t" for each in text):
            what = f"{show(text)} contains invisible characters"
            return self._refuse(event, path, what, "type it again without them")
        if event.style == "|":
            first = _line(event) + 1
            self._lines.update({(*path, at): first + at for at in range(text.count("\n") + 1)})
        if event.style is not None or event.tag is not None:
            return text
        try:
            return read_plain(text)
        except ScalarError as error:
            return self._refuse(event, path, error.what, error.fix)

    def _check_node(
        self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, path: FieldPath
    ) -> None:
        """Report an anchor or a tag; reading continues with the value itself."""
        if event.anchor is not None:
            name = show(event.anchor)[1:-1]
            self._refuse(
                event,
                path,
                f"YAML anchors (&{name}) are not supported",
                f"remove &{name} and its uses",
            )
        if event.tag is not None:
            name = show(event.tag)[1:-1].replace("tag:yaml.org,2002:", "!!")
            self._refuse(event, path, f"YAML tags ({name}) are not supported", "remove it")

    def _refuse_alias(self, event: yaml.Event, path: FieldPath) -> _Refused:
        name = show(getattr(event, "anchor", ""))[1:-1]
        fix = "repeat the value, or put shared settings under defaults"
        return self._refuse(event, path, f"YAML aliases (*{name}) are not supported", fix)

    def _next(self) -> yaml.Event:
        self._nodes += 1
        event: yaml.Event = self._events.get_event()
        if self._nodes > MAX_NODES:
            what = f"the file has more than {MAX_NODES:,} values"
            raise self.stop(_line(event), what, "split it into several files")
        return event

    def _skip(self) -> None:
        """Skip one value."""
        open_ = 0
        while True:
            event = self._next()
            if isinstance(event, yaml.CollectionStartEvent):
                open_ += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                open_ -= 1
            if open_ == 0:
                return


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _unreadable(file: str, line: int, what: str, fix: str) -> ConfigError:
    return ConfigError([Problem(file, line, "", what, fix)])


def _explain(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """What is wrong with the syntax, and the usual fix."""
    told = error.problem or error.context or "it cannot be read"
    if "'\\t'" in told:
        return "invalid YAML: indented with a tab", "indent with spaces"
    if "mapping values are not allowed" in told:
        return "invalid YAML: a second colon on the line", (
            "put text that contains a colon in quotes, or check the indentation"
        )
    fix = "check the indentation, quotes and brackets on and above this line"
    if _BADLY_INDENTED.search(told) and error.problem_mark and error.context_mark:
        here, block = error.problem_mark.line + 1, error.context_mark.line + 1
        return (
            f"invalid YAML: the indentation of line {here} does not fit the block of line {block}",
            "indent what belongs together by the same number of spaces",
        )
    for term, plain in _PLAIN_TERMS.items():
        told = told.replace(term, plain)
    return f"invalid YAML: {show(told)[1:-1]}", fix
