"""URLs in the place of paths."""


def is_url(place: str) -> bool:
    """Whether a place is a URL, and not a path."""
    return "://" in place or place.startswith("file:")
