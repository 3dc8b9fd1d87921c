"""Conflicts between the places that pipelines read and write."""

import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from idlestate.config.problems import FieldPath, Finding, render_path
from idlestate.retention.shown_values import show


@dataclass(frozen=True, slots=True)
class Place:
    """A path in a file, and the field that sets it."""

    path: FieldPath
    text: str
    is_shared: bool = False
    """Whether each user creates its own folder in it, so that several may name it."""

    @property
    def whole(self) -> str:
        """The absolute place, with symbolic links resolved, and without a pattern's part from its
        first glob on or a URL's options.
        """
        scheme, separator, rest = self.text.partition("://")
        if not separator:
            rest = os.path.realpath(self.text.removeprefix("file:"))
        elif scheme == "file":
            separator, rest = "", os.path.realpath(rest)
        if self.is_shared:
            rest = rest.partition("?")[0]
        steps = rest.split("/")
        # A refused `${NAME}` is not a pattern.
        plain_steps = [step.replace("${", "") for step in steps]
        globs = [at for at, step in enumerate(plain_steps) if any(c in step for c in "*?[{")]
        plain = "/".join(steps[: globs[0]] if globs else steps)
        return (f"{scheme}://" if separator else "") + posixpath.normpath(plain or "/")

    def holds(self, other: "Place") -> bool:
        """Whether the other place is this one or lies inside it."""
        return other.whole == self.whole or other.whole.startswith(self.whole.rstrip("/") + "/")

    def overlaps(self, other: "Place") -> bool:
        """Whether one of the places contains the other."""
        return self.holds(other) or other.holds(self)


def check_places(
    sources: dict[str, list[Place]], outputs: dict[str, list[Place]]
) -> Iterator[Finding]:
    """Refuse outputs that overlap each other or a source of their own pipeline.

    Both arguments are by pipeline; a pipeline may read the output of another one.
    """
    earlier: list[Place] = []
    for uid, places in outputs.items():
        for place in places:
            for source in sources.get(uid, ()):
                if source.overlaps(place):
                    what = f"{show(place.text)} and the source {show(source.text)} overlap"
                    fix = "use a separate folder, or the query would read its own output"
                    yield Finding(place.path, what, fix)
            for other in earlier:
                if place.is_shared and other.is_shared:
                    continue
                if other.overlaps(place):
                    yield _clash(place, other)
            earlier.append(place)


def _clash(place: Place, other: Place) -> Finding:
    user = render_path(other.path)
    if place.whole == other.whole:
        return Finding(
            place.path, f"{show(place.text)} is also the path of {user}", "use a separate folder"
        )
    relation = "is inside" if other.holds(place) else "contains"
    return Finding(
        place.path,
        f"{show(place.text)} {relation} {show(other.text)}, the path of {user}",
        "use a separate folder",
    )
