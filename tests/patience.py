"""How long a test waits for what comes at once on an idle machine."""

from typing import Final

PATIENCE_S: Final = 60.0
"""It bounds only how long a failure takes; tests run beside others, on machines that are busy."""
