"""The version of idlestate that its metrics name."""

from typing import Final

VERSION: Final = "0.1.0"
