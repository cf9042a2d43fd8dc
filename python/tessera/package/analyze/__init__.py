"""Questions about packages and about what goes into them."""

from tessera._lazy import attach as _attach

_names = {
    "find_first_use_of_broken_modules": "_broken",
    "trace_dependencies": "_trace",
}
__all__ = list(_names)  # noqa: PLE0605
__getattr__, __dir__ = _attach(__name__, _names)
