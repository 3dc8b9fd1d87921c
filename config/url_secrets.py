"""Secrets in URLs: finding them, and hiding them in text."""

import re

_USER = re.compile(r"(://)[^\s@?]*:[^\s@]*(?=@)")
_OPTION = re.compile(r"((?:secret|password|token|key|sig)\w*=)[^&\s'\"]+", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A text with stars in place of the user names, passwords and secret options of its URLs."""
    return _OPTION.sub(r"\1***", _USER.sub(r"\1***", text))


def holds_secret(url: str) -> bool:
    """Whether a URL holds a password or key."""
    return without_secrets(url) != url
