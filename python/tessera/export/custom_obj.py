"""Objects of registered classes that an exported program holds."""

import dataclasses

__all__ = ["ScriptObjectMeta"]


@dataclasses.dataclass
class ScriptObjectMeta:
    """An object among a graph's values: the name of the constant that it is, and of its class."""

    constant_name: str
    class_fqn: str
