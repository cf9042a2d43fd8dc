"""Annotations of values while a program is traced."""

from tessera.fx._compatibility import compatibility
from tessera.fx.proxy import Proxy

__all__ = ["annotate", "compatibility"]


def annotate(val, type):
    """Gives the value's node a type annotation while a program is traced; returns val.

    Args:
        val: anything; only proxies are annotated.
        type: the annotation.

    Errors: RuntimeError if the node has another annotation.
    """
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(
                f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type} and new "
                f"type is {type}. This could happen if you tried to annotate a function parameter value (in which case "
                "you should use the type slot on the function signature) or you called annotate on the same value twice"
            )
        val.node.type = type
    return val
