"""The words of a query, each with its place; text is returned as it was written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from idlestate.config.sql.query_error import QueryError, QueryPlace

DIALECT = "spark"
MAX_WORDS = 2_000
MAX_DEPTH = 20
"""The maximum depth of nested parentheses, because the parser recurses."""

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


@dataclass(frozen=True, slots=True)
class Word:
    """A word, number, quoted text or symbol of a query.

    Attributes:
        kind: sqlglot's token type.
        name: the word without quotes.
        shown: as it is written.
        start, end: its position in the query, in characters; the end is exclusive.
    """

    kind: TokenType
    name: str
    shown: str
    start: int
    end: int

    @property
    def is_text(self) -> bool:
        """Whether this is quoted text, in which case matters."""
        return self.shown[-1:] in {"'", '"'}

    @property
    def folded(self) -> str:
        """A value that is equal for words with the same meaning."""
        return self.shown if self.is_text else self.name.lower()


class Words:
    """A part of a query."""

    def __init__(self, query: str, words: Sequence[Word], at: int) -> None:
        """Take the entire query, the words of the part, and its position if it is empty."""
        self._query = query
        self.words = tuple(words)
        self._at = words[0].start if words else at

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: slice) -> "Words":
        found = self.words[index]
        after = self.words[: index.start or 0]
        return Words(self._query, found, after[-1].end if after else self._at)

    @property
    def folded(self) -> tuple[str, ...]:
        """A value that is equal for parts that differ only in layout, and in case and quotes of
        names.
        """
        return tuple(word.folded for word in self.words)

    @property
    def text(self) -> str:
        """The words in a uniform layout: equal words give equal text, regardless of what was
        between them.
        """
        text = ""
        for before, word in zip((None, *self.words), self.words, strict=False):
            text += (" " if before and _apart(before, word) else "") + word.shown
        return text

    @property
    def start(self) -> int:
        """Where the part begins, in characters of the query."""
        return self._at

    @property
    def verbatim(self) -> str:
        """The part as written."""
        return self._query[self._at : self.words[-1].end] if self.words else ""

    @property
    def place(self) -> QueryPlace:
        """Where the part begins, and its words."""
        return place_in(self._query, self._at, self.text)

    def place_of(self, start: int, end: int) -> QueryPlace:
        """The place of some characters of the part, as written."""
        return place_in(self._query, self._at + start, self.verbatim[start:end])

    def refused(self, what: str, fix: str) -> QueryError:
        """The error for a query that is wrong here."""
        return QueryError(self.place, what, fix)

    def top_level(self) -> Iterator[tuple[int, Word]]:
        """The words outside of parentheses, with their positions."""
        depth = 0
        for at, word in enumerate(self.words):
            depth -= word.kind in _CLOSING
            if depth == 0:
                yield at, word
            depth += word.kind in _OPENING

    def split(self) -> list["Words"]:
        """The parts between commas."""
        commas = [at for at, word in self.top_level() if word.kind is TokenType.COMMA]
        starts = [0, *(at + 1 for at in commas)]
        return [self[start:end] for start, end in zip(starts, [*commas, None], strict=True)]

    def closing(self, opening: int) -> int:
        """The position of the parenthesis that closes the one at `opening`."""
        within = self[opening + 1 :]
        depth = 1
        for at, word in enumerate(within.words, opening + 1):
            depth += (word.kind in _OPENING) - (word.kind in _CLOSING)
            if depth == 0:
                return at
        raise self[opening : opening + 1].refused("the parenthesis is not closed", "add )")

    def position(self, *names: str) -> int | None:
        """The position of the first word with one of these names, regardless of case."""
        folded = {name.lower() for name in names}
        return next((at for at, word in enumerate(self.words) if word.folded in folded), None)

    def at(self, *names: str) -> "Words":
        """The first word with one of these names, or the entire part if there is none."""
        found = self.position(*names)
        return self if found is None else self[found : found + 1]

    def replaced(self, texts: Sequence[tuple[int, int, str]]) -> "Words":
        """The part with some ranges replaced by texts, passed in order: start, end, text."""
        found: list[Word] = []
        done = 0
        for start, end, text in texts:
            first, last = self.words[start], self.words[end - 1]
            word = Word(TokenType.IDENTIFIER, text, text, first.start, last.end)
            found += [*self.words[done:start], word]
            done = end
        return Words(self._query, [*found, *self.words[done:]], self._at)


def place_in(query: str, at: int, words: str) -> QueryPlace:
    """The place of a character of a query."""
    return QueryPlace(query.count("\n", 0, at) + 1, at - query.rfind("\n", 0, at), words)


def read_words(query: object) -> Words:
    """The words of one statement.

    Raises:
        QueryError: the query is empty or too long, or text or a comment is not closed.
    """
    start = QueryPlace(1, 1, "")
    if not isinstance(query, str) or not query.strip():
        raise QueryError(start, "the query is empty", "pass a string such as SELECT ... FROM ...")
    try:
        tokens = sqlglot.tokenize(query, read=DIALECT)
    except SqlglotError as error:
        end = place_in(query, len(query), "")
        what = "text in quotes or a comment is still open at the end of the query"
        raise QueryError(end, what, "close it") from error
    words = Words(query, list(_words(query, tokens)), 0)
    _check(words)
    starts = [word.start for word in words.words] + [len(query)]
    for word, following in zip(words.words, starts[1:], strict=True):
        at = query.find("/*+", word.end, following)
        if at >= 0:
            what = "a hint is allowed only directly after SELECT"
            raise QueryError(place_in(query, at, query[at:following].strip()), what, "move it")
    return words


def _words(query: str, tokens: Sequence[Token]) -> Iterator[Word]:
    end = 0
    for token in tokens:
        if token.start >= end:  # 1L is three tokens in one place
            end = token.end + 1
            yield Word(token.token_type, token.text, query[token.start : end], token.start, end)


def _check(words: Words) -> None:
    if len(words) > MAX_WORDS:
        what = f"the query has more than {MAX_WORDS:,} words"
        raise words[MAX_WORDS : MAX_WORDS + 1].refused(what, "move parts of it into views")
    depth = 0
    for at, word in enumerate(words.words):
        depth += (word.kind in _OPENING) - (word.kind in _CLOSING)
        if depth > MAX_DEPTH:
            what = f"parentheses are nested deeper than {MAX_DEPTH} levels"
            raise words[at : at + 1].refused(what, "move parts of the query into views")


def _apart(before: Word, word: Word) -> bool:
    """Whether to put a space between two words."""
    last, first = before.shown[-1:], word.shown[:1]
    if first in ")],." or last in "([.":
        return False
    if before.end == word.start and _kind(last) == _kind(first) != "bracket":
        return False  # a single word in Spark: r'...', >=
    return first not in "([" or _kind(last) == "sign" or last == ","


def _kind(character: str) -> str:
    if character.isalnum() or character in "_'\"`":
        return "word"
    return "bracket" if character in "()[]," else "sign"
