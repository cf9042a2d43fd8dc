"""The version string of the API level, which compares as a version."""

from tessera import version as _version

__all__ = ["TorchVersion"]


def _key(value):
    """Sort key: numbers of the release, then whether it is final; local parts ('+cpu') don't count."""
    if isinstance(value, (tuple, list)):
        value = ".".join(str(part) for part in value)
    text = str(value).partition("+")[0].strip().lstrip("v")
    numbers, rest = [], ""
    for part in text.split("."):
        digits = ""
        for char in part:
            if not char.isdigit():
                break
            digits += char
        if digits:
            numbers.append(int(digits))
        if len(digits) != len(part):
            rest = part[len(digits) :]
            break
    if not numbers:
        raise ValueError(f"Invalid version: {value!r}")
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    is_pre = bool(rest) and not rest.startswith("post")
    return numbers, not is_pre, rest


class TorchVersion(str):
    """A str; `<`, `==` and so on with strings, tuples of numbers and version objects compare versions, `"2.10" >
    "2.9"`.
    """

    def _compare(self, other, operation):
        try:
            return operation(_key(self), _key(other))
        except ValueError:  # no version: compare as strings
            return operation(str(self), str(other))

    def __lt__(self, other):
        return self._compare(other, lambda a, b: a < b)

    def __le__(self, other):
        return self._compare(other, lambda a, b: a <= b)

    def __gt__(self, other):
        return self._compare(other, lambda a, b: a > b)

    def __ge__(self, other):
        return self._compare(other, lambda a, b: a >= b)

    def __eq__(self, other):
        return self._compare(other, lambda a, b: a == b)

    def __ne__(self, other):
        return self._compare(other, lambda a, b: a != b)

    __hash__ = str.__hash__


__version__ = TorchVersion(_version.api_version)
