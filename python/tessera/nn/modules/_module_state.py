"""State dicts of modules: methods of Module."""

import itertools
from collections import OrderedDict

import tessera
from tessera import Tensor
from tessera.nn.parameter import Parameter, is_lazy

from ._module_helpers import _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys, _register, _WrappedHook


def get_extra_state(self):
    """Further state for the state dict (picklable); override together with set_extra_state."""
    raise RuntimeError(
        "Reached a code path in Module.get_extra_state() that should never be called. Please override it if you "
        "call it."
    )


def set_extra_state(self, state):
    """Takes back what get_extra_state gave."""
    raise RuntimeError(
        "Reached a code path in Module.set_extra_state() that should never be called. Please override it if you "
        "call it."
    )


def _register_state_dict_hook(self, hook):
    """Private form of register_state_dict_post_hook: what the hook returns replaces the state dict."""
    if getattr(hook, "_from_public_api", False):
        raise RuntimeError(
            "Cannot register the same function as the state dict post hook that was previously registered via "
            "register_state_dict_post_hook"
        )
    return _register(self._state_dict_hooks, hook)


def register_state_dict_post_hook(self, hook):
    """`hook(module, state_dict, prefix, local_metadata) -> None` runs at the end of state_dict(); it may change the
    dictionary in place.
    """
    hook._from_public_api = True
    return _register(self._state_dict_hooks, hook)


def register_state_dict_pre_hook(self, hook):
    """`hook(module, prefix, keep_vars) -> None` runs before state_dict() reads this module."""
    return _register(self._state_dict_pre_hooks, hook)


def _own_state(self):
    """(name, tensor) of the parameters and persistent buffers of this module without its children."""
    persistent = (item for item in self._buffers.items() if item[0] not in self._non_persistent_buffers_set)
    return [item for item in itertools.chain(self._parameters.items(), persistent) if item[1] is not None]


def _save_to_state_dict(self, destination, prefix, keep_vars):
    """Writes the state of this module without its children."""
    destination.update((prefix + name, t if keep_vars else t.detach()) for name, t in _own_state(self))
    if type(self).get_extra_state is not get_extra_state:
        destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()


def _by_keyword(args, **given):
    """The values of `given`, with positional arguments in place of those that still have their default. Warns."""
    import warnings

    warnings.warn(
        "Positional args are being deprecated, use kwargs instead. Refer to the documentation of "
        "Module.state_dict for details.",
        FutureWarning,
        stacklevel=3,
    )
    positions = dict(zip(given, args))
    return [positions.get(name, value) if value in (None, "", False) else value for name, value in given.items()]


def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
    """An OrderedDict with references to all parameters and persistent buffers (detached, unless keep_vars) by
    dotted name.
    """
    if args:
        destination, prefix, keep_vars = _by_keyword(args, destination=destination, prefix=prefix, keep_vars=keep_vars)
    result = OrderedDict() if destination is None else destination
    if destination is None:
        result._metadata = OrderedDict()
    about = {"version": self._version}
    if hasattr(result, "_metadata"):
        result._metadata[prefix[:-1]] = about
    for before in self._state_dict_pre_hooks.values():
        before(self, prefix, keep_vars)
    self._save_to_state_dict(result, prefix, keep_vars)
    for name, child in self._modules.items():
        if child is not None:
            child.state_dict(destination=result, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for after in self._state_dict_hooks.values():
        replaced = after(self, result, prefix, about)
        if replaced is not None:
            if getattr(after, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            result = replaced
    return result


def _register_load_state_dict_pre_hook(self, hook, with_module=False):
    """Private form: the hook gets the module only if with_module."""
    return _register(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))


def register_load_state_dict_pre_hook(self, hook):
    """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` runs
    before this module loads.
    """
    return self._register_load_state_dict_pre_hook(hook, with_module=True)


def register_load_state_dict_post_hook(self, hook):
    """`hook(module, incompatible_keys)` runs after loading; it may change the lists of keys in place."""
    return _register(self._load_state_dict_post_hooks, hook)


def _load_tensor(self, name, param, input_param, key, assign, is_param):
    """Loads one entry. Returns an error message, or None."""
    if input_param.shape != param.shape and not is_lazy(param):
        if param.dim() != 0 or input_param.shape != (1,):
            return (
                f"size mismatch for {key}: copying a param with shape {input_param.shape} from checkpoint, the "
                f"shape in current model is {param.shape}."
            )
        input_param = input_param[0]  # scalars had shape (1,) in checkpoints of version 0.3
    if param.is_meta and not input_param.is_meta and not assign:
        import warnings

        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
            f"model, which is a no-op. "
            "(Did you mean to pass `assign=True` to assign items in the state dictionary to their corresponding "
            "key in the module instead of "
            "copying them in place?)",
            stacklevel=2,
        )
    import tessera.__future__ as future

    recording = tessera.is_grad_enabled()
    tessera._C._set_grad_enabled(False)
    try:
        if future.get_swap_module_params_on_conversion() and is_param:
            new = param.module_load(input_param, assign=assign)
            if id(new) == id(input_param) or id(new) == id(param):
                raise RuntimeError(
                    "module_load returned one of self or other, please .detach() the result if returning one of "
                    "the inputs in module_load"
                )
            tessera.utils.swap_tensors(param, Parameter(new, requires_grad=param.requires_grad))
        elif assign:
            if isinstance(param, Parameter):
                if not isinstance(input_param, Parameter):
                    input_param = Parameter(input_param, requires_grad=param.requires_grad)
                else:
                    input_param.requires_grad_(param.requires_grad)
            setattr(self, name, input_param)
        else:
            param.copy_(input_param)
    except Exception as ex:
        action = "swapping" if future.get_swap_module_params_on_conversion() else "copying"
        return (
            f'While {action} the parameter named "{key}", whose dimensions in the model are {param.size()} and '
            f"whose dimensions in the checkpoint are "
            f"{input_param.size()}, an exception occurred : {ex.args}."
        )
    finally:
        tessera._C._set_grad_enabled(recording)
    return None


def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    """Loads the state of this module without its children; problems go to the three lists."""
    for hook in self._load_state_dict_pre_hooks.values():
        hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    assign = local_metadata.get("assign_to_params_buffers", False)
    entries, found = _own_state(self), 0
    for name, param in entries:
        key = prefix + name
        if key not in state_dict:
            if strict:
                missing_keys.append(key)
            continue
        found += 1
        value = state_dict[key]
        if not (isinstance(value, Tensor) or hasattr(value, "__torch_function__")):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
            continue
        error = self._load_tensor(name, param, value, key, assign, name in self._parameters)
        if error is not None:
            error_msgs.append(error)
    extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
    if type(self).set_extra_state is not set_extra_state:
        if extra_key in state_dict:
            self.set_extra_state(state_dict[extra_key])
        elif strict:
            missing_keys.append(extra_key)
    elif strict and extra_key in state_dict:
        unexpected_keys.append(extra_key)
    if strict and len(state_dict) > found:
        own, children, begin = {k for k, _ in entries}, self._modules, len(prefix)
        for key in state_dict:
            if key.startswith(prefix) and key != extra_key:
                end = key.find(".", begin)
                if key[begin:] not in own if end < 0 else key[begin:end] not in children:
                    unexpected_keys.append(key)


def load_state_dict(self, state_dict, strict=True, assign=False):
    """Copies the tensors of `state_dict` into this module's parameters and buffers (assign=True: takes the very
    tensors).

    strict: the keys have to match. Returns a named tuple (missing_keys, unexpected_keys). RuntimeError for keys
        (strict) or shapes that do not match.
    """
    from collections.abc import Mapping

    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    missing_keys, unexpected_keys, error_msgs = [], [], []
    metadata = getattr(state_dict, "_metadata", None)
    state_dict = OrderedDict(state_dict)
    if metadata is not None:
        state_dict._metadata = metadata

    def load(module, local_state_dict, prefix):
        local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local_metadata["assign_to_params_buffers"] = assign
        module._load_from_state_dict(
            local_state_dict, prefix, local_metadata, True, missing_keys, unexpected_keys, error_msgs
        )
        parts, begin = {}, len(prefix)  # the children's entries, by the child's name
        for key, value in local_state_dict.items() if module._modules else ():
            if key.startswith(prefix):
                end = key.find(".", begin)
                if end >= 0:
                    parts.setdefault(key[begin:end], {})[key] = value
        for name, child in module._modules.items():
            if child is not None:
                load(child, parts.get(name, {}), prefix + name + ".")
        keys = _IncompatibleKeys(missing_keys, unexpected_keys)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if "
                    "incompatible_keys need to be modified, it should be done inplace."
                )

    load(self, state_dict, "")
    if strict:
        if unexpected_keys:
            error_msgs.insert(
                0, "Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected_keys) + ". "
            )
        if missing_keys:
            error_msgs.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing_keys) + ". ")
    if error_msgs:
        raise RuntimeError(
            "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(error_msgs))
        )
    return _IncompatibleKeys(missing_keys, unexpected_keys)


# ---- iteration ---------------------------------------------------------------------------------------------------
