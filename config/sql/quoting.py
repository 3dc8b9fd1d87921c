"""Names in back-quotes."""


def quoted(name: str) -> str:
    """A name as Spark reads it, whatever is in it."""
    return "`{}`".format(name.replace("`", "``"))
