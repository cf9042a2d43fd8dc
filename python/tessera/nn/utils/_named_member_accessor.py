"""Tensors and submodules of a module by their dotted names."""

import tessera
from tessera.nn.utils.stateless import _NOTHING, _swap

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]


def swap_tensor(module, name, tensor, allow_missing=False):
    """Puts a tensor where the tensor `name` of the module itself is; returns what was there.

    allow_missing: there may have been none, which is what is returned then and may be put back.

    Raises: AttributeError if there is none, KeyError for a dotted name, TypeError for anything but a tensor.
    """
    if "." in name:
        raise KeyError(f'tensor name can\'t contain ".": {name!r}')
    return NamedMemberAccessor(module).swap_tensor(name, tensor, allow_missing)


def set_tensor(module, name, tensor):
    """Makes a tensor the attribute `name` of a module, in the place of one that may be there."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_submodule(module, name, submodule):
    """Puts a module where the submodule `name` is; returns that. KeyError if there is none."""
    if name not in module._modules:
        raise KeyError(f"{module._get_name()} has no submodule {name!r}")
    before, module._modules[name] = module._modules[name], submodule
    return before


class NamedMemberAccessor:
    """Gets, sets and swaps the parameters, buffers and submodules of a module by dotted names."""

    def __init__(self, module):
        self.module = module

    def get_submodule(self, name):
        """The submodule; AttributeError if there is none."""
        return self.module.get_submodule(name)

    def swap_submodule(self, path, value):
        """Puts a module there; returns what was there."""
        owner, _, name = path.rpartition(".")
        return swap_submodule(self.get_submodule(owner), name, value)

    def get_tensor(self, name):
        """The parameter, buffer or other tensor. AttributeError if there is none, TypeError for another value."""
        owner, _, leaf = name.rpartition(".")
        value = getattr(self.get_submodule(owner), leaf)
        if not isinstance(value, tessera.Tensor):
            raise TypeError(f"{name} is no tensor, but of type {type(value).__name__}")
        return value

    def swap_tensor(self, name, value, allow_missing=False):
        """Puts a tensor there; returns what was there, which with `allow_missing` may be nothing."""
        if value is not _NOTHING and not isinstance(value, tessera.Tensor):
            raise TypeError(f"expected a tensor for {name}, but got {type(value).__name__}")
        if not allow_missing:
            self.get_tensor(name)
        return _swap(self.module, name, value)

    def set_tensor(self, name, value):
        """Puts a tensor there."""
        self.swap_tensor(name, value, allow_missing=True)

    def del_tensor(self, name):
        """Takes the tensor away. AttributeError if there is none."""
        self.get_tensor(name)
        _swap(self.module, name, _NOTHING)

    def get_tensors(self, names):
        """Tensors, in the order of the names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names, values):
        """Puts a tensor for each name. ValueError for different numbers of them."""
        self.set_tensors_dict(_paired(names, values))

    def set_tensors_dict(self, named_tensors):
        """Puts tensors {name: tensor}."""
        self.swap_tensors_dict(named_tensors, allow_missing=True)

    def swap_tensors(self, names, values, allow_missing=False):
        """Puts a tensor for each name; returns what was there, a list."""
        before, _ = self.swap_tensors_dict(_paired(names, values), allow_missing)
        return list(before.values())

    def swap_tensors_dict(self, named_tensors, allow_missing=False):
        """Puts tensors {name: tensor}, all or, after an error, none of them.

        Returns: ({name: what was there}, names of those where nothing was).
        """
        before = {}
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing)
        except BaseException:
            for name, value in before.items():
                _swap(self.module, name, value)
            raise
        return before, [name for name, value in before.items() if value is _NOTHING]

    def del_tensors(self, names):
        """Takes tensors away."""
        for name in names:
            self.del_tensor(name)

    def check_keys(self, keys):
        """(names of the module's tensors that are not among the keys, keys that are no such names), both sorted."""
        known, given = {name for name, _ in self.named_tensors(remove_duplicate=False)}, set(keys)
        return sorted(known - given), sorted(given - known)

    def named_parameters(self, remove_duplicate=True):
        """Pairs of names and parameters."""
        return self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate=True):
        """Pairs of names and buffers."""
        return self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate=True):
        """Pairs of names and parameters, then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate=True):
        """Pairs of names and submodules."""
        return self.module.named_modules(remove_duplicate=remove_duplicate)


def _paired(names, values):
    names, values = list(names), list(values)
    if len(names) != len(values):
        raise ValueError(f"{len(names)} names go with as many tensors, but got {len(values)}")
    return dict(zip(names, values))
