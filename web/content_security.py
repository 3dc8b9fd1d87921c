"""The Content-Security-Policy of pages: if markup is ever injected into one, browsers ignore it.

It forbids scripts, styles other than the page's own, frames, and other hosts.
"""

from base64 import b64encode
from hashlib import sha256


def content_security(style: str) -> str:
    """The value of the header `Content-Security-Policy` of a page with this style sheet."""
    style_hash = b64encode(sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
