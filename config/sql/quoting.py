"""Names in back-quotes."""


def quoted(name: str) -> str:
    """A name, quoted for Spark, with any characters in it."""
    return "`{}`".format(name.replace("`", "``"))


def unquoted(text: str) -> str:
    """The name in such a text; a name without quotes is returned unchanged."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text
