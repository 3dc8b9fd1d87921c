"""Names in back-quotes."""


def quoted(name: str) -> str:
    """A name, quoted for Spark, with any characters in it."""
    return "`{}`".format(name.replace("`", "``"))


def unquoted(text: str) -> str:
    """The name that such a text is; a name without quotes is itself."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text
