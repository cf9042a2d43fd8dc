"""Where an object comes from."""

from types import ModuleType

from tessera.package._mangling import is_mangled

__all__ = ["is_from_package"]


def is_from_package(obj):
    """Whether a module, or the type of any other object, was loaded from a package."""
    return is_mangled(obj.__name__ if isinstance(obj, ModuleType) else type(obj).__module__)
