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
                raise ValueError(f"functional_call got multiple values for keys {sorted([name, other])}, which are tied. Consider using tie_weights=False")
            out.setdefault(other, value)
    return out


def _check_keys(module, tensors):
    known = {n for n, _ in module.named_parameters(remove_duplicate=False)} | {n for n, _ in module.named_buffers(remove_duplicate=False)}
    missing, unexpected = known - tensors.keys(), tensors.keys() - known
    parts = []
    if unexpected:
        parts.append("Unexpected key(s): " + ", ".join(sorted(unexpected)) + ".")
    if missing:
        parts.append("Missing key(s): " + ", ".join(sorted(missing)) + ".")
    if parts:
        raise RuntimeError("Error(s) in reparametrizing for " + module._get_name() + ":\n\t" + "\n".join(parts))


def _swap(module, name, value):
    """Puts `value` where the module's tensor of this dotted name is. Returns what was there."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    for table in (owner._parameters, owner._buffers):
        if leaf in table:
            old = table[leaf]
            table[leaf] = value
            return old
    if leaf in owner.__dict__:
        old = owner.__dict__[leaf]
        owner.__dict__[leaf] = value
        return old
    raise AttributeError(f"{owner._get_name()} has no attribute `{leaf}`")


@contextmanager
def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False):
    tensors = _with_ties(module, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    if strict:
        _check_keys(module, tensors)
    old = {}
    try:
        for name, value in tensors.items():
            old[name] = _swap(module, name, value)
        yield
    finally:
        for name, value in old.items():
            now = _swap(module, name, value)
            if now is not tensors[name] and isinstance(parameters_and_buffers, dict) and name in parameters_and_buffers:
                parameters_and_buffers[name] = now  # an in-place assignment inside forward is handed back


def _functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with its parameters and buffers replaced by those of a dictionary {dotted name: tensor}. Deprecated: use tessera.func.functional_call.

    strict: the dictionary has to hold all of them. The module's own tensors are back afterwards, also after an exception.
    """
    warnings.warn("This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use torch.func.functional_call instead which is a "
                  "drop-in replacement for this API.", FutureWarning, stacklevel=2)
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
