"""Points in time as files write them: `"2015-09-12"` or `"2015-09-12T06:30:00Z"`, always UTC."""

import re
from datetime import UTC, datetime, timedelta

PATTERN = "^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{3})?Z)?$"
"""The two forms as a regular expression that JSON Schema understands too."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS = re.compile(PATTERN.removesuffix("$"))


def parse_instant(text: str) -> int:
    """Read an instant as milliseconds since 1970-01-01T00:00:00Z.

    Raises:
        ValueError: the text has neither form, or names a day or an hour that does not exist.
    """
    if not _FORMS.fullmatch(text):
        raise ValueError("neither a date nor a UTC time")
    instant = datetime.fromisoformat(text)
    return (instant.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
