"""Calls of a module with other tensors in place of its parameters and buffers."""

import warnings
from contextlib import contextmanager

__all__ = ["functional_call"]


def _tied_names(module):
    """For each tensor of the module all its names."""
    names = {}
    for pairs in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in pairs:
            names.setdefault(id(tensor), set()).add(name)
    return {name: group for group in names.values() for name in group}


def _with_ties(module, tensors):
    """The dictionary with every tied name; ValueError if two names of one tensor are given different values."""
    groups = _tied_names(module)
    out = dict(tensors)
    for name, value in tensors.items():
        for other in groups.get(name, ()):
            if other in tensors and tensors[other] is not value:
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted([name, other])}, which are tied. Consider "
                    f"using tie_weights=False"
                )
            out.setdefault(other, value)
    return out


def _check_keys(module, tensors):
    """RuntimeError unless the names are those of the module's tensors."""
    known = {
        name for table in (module.named_parameters, module.named_buffers) for name, _ in table(remove_duplicate=False)
    }
    wrong = {"Unexpected": tensors.keys() - known, "Missing": known - tensors.keys()}
    parts = [f"\n\t{what} key(s): {', '.join(map(repr, sorted(names)))}." for what, names in wrong.items() if names]
    if parts:
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:{''.join(parts)}")


_NOTHING = object()


def _swap(module, name, value):
    """Puts `value` where the module's tensor of this dotted name is, or makes an attribute of that name.

    Returns what was there.
    """
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    table = next((table for table in (owner._parameters, owner._buffers) if leaf in table), vars(owner))
    if leaf not in table and hasattr(owner, leaf):
        raise AttributeError(f"`{leaf}` of {owner._get_name()} is no tensor that can be replaced")
    before = table.get(leaf, _NOTHING)
    if value is _NOTHING:
        del table[leaf]
    else:
        table[leaf] = value
    return before


@contextmanager
def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False):
    tensors = _with_ties(module, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    if strict:
        _check_keys(module, tensors)
    before = {}
    try:
        for name, value in tensors.items():
            before[name] = _swap(module, name, value)
        yield
    finally:
        for name, value in before.items():
            now = _swap(module, name, value)
            if now is not tensors[name] and isinstance(parameters_and_buffers, dict) and name in parameters_and_buffers:
                parameters_and_buffers[name] = now  # an in-place assignment inside forward is handed back


def _functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    arguments = args if isinstance(args, tuple) else () if args is None else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with its parameters and buffers replaced by those of a dictionary {dotted name: tensor}.
    Deprecated: use tessera.func.functional_call.

    strict: the dictionary has to hold all of them. The module's own tensors are back afterwards, also after an
        exception.
    """
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use "
        "torch.func.functional_call instead which is a "
        "drop-in replacement for this API.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
