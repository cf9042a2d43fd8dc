"""Sets of dotted names, or of paths, by patterns."""

import re

__all__ = ["GlobGroup"]


class GlobGroup:
    """The names that one of the patterns `include` matches, and none of `exclude`.

    A pattern consists of segments between separators. "*" stands for any characters of a segment, a segment "**" for
    any number of whole segments: "torch.**" matches torch and all that is in it, "torch.*" what is directly in it.

    Args:
        include: a pattern or several.
        exclude: the same.
        separator: between segments.

    Raises: ValueError if "**" is only a part of a segment.

        >>> tessera.package.GlobGroup("a.**", exclude="a.b.*").matches("a.c.d")
        True
    """

    def __init__(self, include, *, exclude=(), separator="."):
        self.separator = separator
        self._given = include, exclude
        self.include, self.exclude = _listed(include), _listed(exclude)
        self._included = [self._compile(p) for p in self.include]
        self._excluded = [self._compile(p) for p in self.exclude]

    def __repr__(self):
        include, exclude = self._given
        return f"GlobGroup(include={include}, exclude={exclude})"

    def matches(self, candidate):
        """Whether a name belongs to the set."""
        # With a separator in front, "**" is any number of (separator, segment) and needs no case for the beginning.
        candidate = self.separator + candidate
        return any(p.fullmatch(candidate) for p in self._included) and not any(
            p.fullmatch(candidate) for p in self._excluded
        )

    def _compile(self, pattern):
        separator = re.escape(self.separator)
        inner = f"[^{separator}]"
        text = ""
        for segment in pattern.split(self.separator):
            if segment == "**":
                text += f"(?:{separator}{inner}+)*"
            elif "**" in segment:
                raise ValueError(f"the pattern {pattern!r} has ** in a segment with other characters")
            else:
                text += separator + f"{inner}*".join(re.escape(part) for part in segment.split("*"))
        return re.compile(text)


def _listed(patterns):
    return [patterns] if isinstance(patterns, str) else list(patterns)
