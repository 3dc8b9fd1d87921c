"""Windows too long for a log: longer than a third of it. Reports mark them with a star."""

CENSORED_SHARE = 3
"""A window longer than the log's span divided by this is censored."""
CENSORED_MARK = "*"
CENSORED_NOTE = (
    f"{CENSORED_MARK} longer than 1/{CENSORED_SHARE} of the log: many keys would have come back "
    "after its end, so fewer return here than in a job that goes on"
)


def is_censored(window_ms: int, log_ms: int) -> bool:
    """Whether a window is too long for a log to show which keys return."""
    return window_ms * CENSORED_SHARE > log_ms
