"""Names of types for annotations of scripted code."""

from typing import Any, Dict, List, Tuple  # noqa: F401

__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Tuple"]


class _BroadcastingList:
    """`BroadcastingList2[int]`: a list of two ints, or one int that stands for both."""

    def __class_getitem__(cls, types):
        return None


BroadcastingList1 = _BroadcastingList
BroadcastingList2 = _BroadcastingList
BroadcastingList3 = _BroadcastingList


def is_list(ann):
    """Whether an annotation is List[T] or list[T]."""
    return getattr(ann, "__origin__", None) is list


def is_dict(ann):
    """Whether an annotation is Dict[K, V] or dict[K, V]."""
    return getattr(ann, "__origin__", None) is dict


def is_tuple(ann):
    """Whether an annotation is Tuple[...] or tuple[...]."""
    return getattr(ann, "__origin__", None) is tuple


def is_union(ann):
    """Whether an annotation is Union[...] or A | B."""
    from typing import Union, get_origin

    return get_origin(ann) is Union or type(ann).__name__ == "UnionType"


def is_optional(ann):
    """Whether an annotation is Optional[T]."""
    return is_union(ann) and type(None) in ann.__args__
