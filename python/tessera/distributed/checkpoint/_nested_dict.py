"""State dicts without nesting."""

from collections.abc import Mapping

import tessera

__all__ = ["flatten_state_dict", "set_element", "unflatten_state_dict"]


def _comes_apart(value):
    if isinstance(value, Mapping):
        return True
    if isinstance(value, list):
        return any(map(_comes_apart, value))
    return isinstance(value, tessera.Tensor) or hasattr(value, "__create_chunk_list__")


def _leaves(value, path):
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, list) and _comes_apart(value):
        for at, inner in enumerate(value):
            yield from _leaves(inner, (*path, at))
    else:
        yield path, value


def flatten_state_dict(state_dict):
    """({name: value}, {name: path}) of a nested state dict: dicts, and lists that hold tensors or dicts, come apart,
    and names are paths joined by dots. Raises: ValueError for two values of one name.
    """
    flat, paths = {}, {}
    for path, value in _leaves(state_dict, ()):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"two values of the state dict are named '{name}': {paths[name]} and {path}")
        flat[name], paths[name] = value, path
    return flat, paths


def _inner(container, key, make):
    """The container at `key` of another one; made if it is not there."""
    if isinstance(container, list):
        container.extend([None] * (key + 1 - len(container)))
        if container[key] is None:
            container[key] = make()
        return container[key]
    own = key if key in container else next((k for k in container if str(k) == str(key)), key)
    if own not in container:
        container[own] = make()
    return container[own]


def set_element(root_dict, path, value):
    """Puts a value at a path (of keys and places in lists) of nested dicts and lists, which are made as need be."""
    at = root_dict
    for here, following in zip(path, path[1:]):
        at = _inner(at, here, list if isinstance(following, int) else dict)
    last = path[-1]
    if isinstance(at, list):
        at.extend([None] * (last + 1 - len(at)))
    elif last not in at:
        last = next((k for k in at if str(k) == str(last)), last)
    at[last] = value


def unflatten_state_dict(state_dict, mapping):
    """The nested state dict of a flat one; `mapping`: {name: path}."""
    nested = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
