"""Secrets in URLs: where one is, and the text without it."""

import re

_USER = re.compile(r"(://)[^\s@?]*:[^\s@]*(?=@)")
_OPTION = re.compile(r"((?:secret|password|token|key|sig)\w*=)[^&\s'\"]+", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A text with URLs in it, with stars for names with passwords and for secret options."""
    return _OPTION.sub(r"\1***", _USER.sub(r"\1***", text))


def holds_secret(url: str) -> bool:
    """Whether a URL holds a password or key."""
    return without_secrets(url) != url
