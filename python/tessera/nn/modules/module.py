"""Module, the base class of all layers: parameters, buffers, child modules, hooks, state dicts."""

import copy
from collections import OrderedDict

import tessera
from tessera import Tensor
from tessera._lazy import require
from tessera.nn.parameter import Buffer, Parameter, is_lazy
from tessera.utils.hooks import RemovableHandle

from ._backward_hooks import BackwardHook
from . import _module_state
from ._module_helpers import (
    _EXTRA_STATE_KEY_SUFFIX,
    _clear_grad,
    _IncompatibleKeys,
    _parse_to,
    _register,
    _shares_type,
    _WrappedHook,
)

__all__ = [
    "register_module_forward_pre_hook",
    "register_module_forward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_backward_hook",
    "register_module_full_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
    "Module",
]


def _addindent(text, spaces):
    return text.replace("\n", "\n" + " " * spaces)


# Hooks of all modules of the process.
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()


def register_module_buffer_registration_hook(hook):
    """`hook(module, name, buffer)` runs at each register_buffer of any module; what it returns (if not None) is
    registered instead.
    """
    return _register(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """`hook(module, name, submodule)` runs at each registration of a child; what it returns (if not None) is registered
    instead.
    """
    return _register(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """`hook(module, name, param)` runs at each registration of a parameter; what it returns (if not None) is registered
    instead.
    """
    return _register(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    """`hook(module, args)` runs before the forward of every module, ahead of its own hooks."""
    return _register(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """`hook(module, args[, kwargs], output)` runs after the forward of every module, ahead of its own hooks."""
    extra = [_global_forward_hooks_with_kwargs] * bool(with_kwargs) + [_global_forward_hooks_always_called] * bool(
        always_call
    )
    return _register(_global_forward_hooks, hook, extra=extra)


def _choose_global_backward_kind(full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook):
    """Deprecated form of `register_module_full_backward_hook`; a process uses only one of the two kinds."""
    _choose_global_backward_kind(False)
    return _register(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook):
    """`hook(module, grad_output)` runs before the backward of every module."""
    return _register(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    """`hook(module, grad_input, grad_output)` runs when the gradients of any module's inputs were computed."""
    _choose_global_backward_kind(True)
    return _register(_global_backward_hooks, hook)


def _forward_unimplemented(self, *input):
    """Defines the computation; every subclass overrides it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


# The instance dictionaries of a module, by attribute. Old checkpoints of whole modules may lack some: __setstate__ adds
# them.
_HOOK_DICTS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Module:
    """Base class of all neural network modules: holds parameters, buffers and other modules as attributes and applies
    `forward` when called.

    Assigning a Parameter, Buffer or Module to an attribute registers it; `super().__init__()` has to run before the
    first such assignment.
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool = True
    call_super_init: bool = False
    T_destination = dict[str, object]  # what state_dict() fills and returns
    _compiled_call_impl = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        tessera._C._install_module_slots(cls)

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        d = self.__dict__
        d["training"] = True
        d["_parameters"] = {}
        d["_buffers"] = {}
        d["_non_persistent_buffers_set"] = set()
        d["_backward_pre_hooks"] = OrderedDict()
        d["_backward_hooks"] = OrderedDict()
        d["_is_full_backward_hook"] = None
        d["_forward_hooks"] = OrderedDict()
        d["_forward_hooks_with_kwargs"] = OrderedDict()
        d["_forward_hooks_always_called"] = OrderedDict()
        d["_forward_pre_hooks"] = OrderedDict()
        d["_forward_pre_hooks_with_kwargs"] = OrderedDict()
        d["_state_dict_hooks"] = OrderedDict()
        d["_state_dict_pre_hooks"] = OrderedDict()
        d["_load_state_dict_pre_hooks"] = OrderedDict()
        d["_load_state_dict_post_hooks"] = OrderedDict()
        d["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # ---- registration ------------------------------------------------------------------------------------------------

    def _check_new_name(self, kind, name, own):
        """TypeError or KeyError if `name` cannot be the name of a new `kind` kept in the dictionary `own`."""
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {tessera.typename(name)}")
        if tessera._C._module_has(self, name) and name not in own:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(
                f'{kind} name can\'t contain ".", got: {name}'
                if kind == "module"
                else f'{kind} name can\'t contain "."'
            )
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but no parameter. persistent=False keeps it out of the state dict. tensor may be
        None.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if persistent is False and isinstance(self, _script_module()):
            raise RuntimeError("ScriptModule does not support non-persistent buffers")
        self._check_new_name("buffer", name, self._buffers)
        if tensor is not None and not (isinstance(tensor, Tensor) or hasattr(tensor, "__torch_function__")):
            raise TypeError(
                f"cannot assign '{tessera.typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        for hook in _global_buffer_registration_hooks.values():
            out = hook(self, name, tensor)
            if out is not None:
                tensor = out
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Adds a parameter (None: the name is known but there is no parameter)."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_new_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{tessera.typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None "
                f"required)"
            )
        if param.grad_fn:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                f"express '{name}' as a "
                "function of another Tensor, compute the value in the forward() method."
            )
        for hook in _global_parameter_registration_hooks.values():
            out = hook(self, name, param)
            if out is not None:
                param = out
        self._parameters[name] = param

    def add_module(self, name, module):
        """Adds a child module (or None) under the given name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{tessera.typename(module)} is not a Module subclass")
        self._check_new_name("module", name, self._modules)
        self._modules[name] = _replaced(_global_module_registration_hooks, self, name, module)

    def register_module(self, name, module):
        """Alias of add_module."""
        self.add_module(name, module)

    def __getattr__(self, name):
        d = self.__dict__
        if "_parameters" in d:
            p = d["_parameters"]
            if name in p:
                return p[name]
        if "_buffers" in d:
            p = d["_buffers"]
            if name in p:
                return p[name]
        if "_modules" in d:
            p = d["_modules"]
            if name in p:
                return p[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        d = self.__dict__
        params = d.get("_parameters")
        if isinstance(value, Tensor) and isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            for where in (d, d["_buffers"], d["_modules"]):
                where.pop(name, None)
            d["_non_persistent_buffers_set"].discard(name)
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{tessera.typename(value)}' as parameter '{name}' (torch.nn.Parameter or None "
                    f"expected)"
                )
            self.register_parameter(name, value)
            return
        modules = d.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            for where in (d, d["_parameters"], d["_buffers"]):
                where.pop(name, None)
            d["_non_persistent_buffers_set"].discard(name)
            modules[name] = _replaced(_global_module_registration_hooks, self, name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{tessera.typename(value)}' as child module '{name}' (torch.nn.Module or None "
                    f"expected)"
                )
            modules[name] = _replaced(_global_module_registration_hooks, self, name, value)
            return
        if isinstance(value, Tensor) or value is None:
            buffers = d.get("_buffers")
            if isinstance(value, Buffer) or (buffers is not None and name in buffers):
                self._set_buffer(name, value, buffers)
                return
        elif "_buffers" in d and name in d["_buffers"]:
            raise TypeError(
                f"cannot assign '{tessera.typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None "
                f"expected)"
            )
        object.__setattr__(self, name, value)

    def _set_buffer(self, name, value, buffers):
        if buffers is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if name in buffers:
            persistent = name not in self._non_persistent_buffers_set
            if isinstance(value, Buffer) and hasattr(value, "persistent"):
                persistent = value.persistent
        else:
            persistent = getattr(value, "persistent", True)
            for where in (self.__dict__, self._parameters, self._modules):
                where.pop(name, None)
        self.register_buffer(name, value, *(() if persistent else (False,)))  # a subclass' may take two arguments

    def __delattr__(self, name):
        for place in (self._parameters, self._buffers, self._modules):
            if name in place:
                del place[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self):
        keys = (
            dir(type(self)) + list(self.__dict__) + list(self._parameters) + list(self._modules) + list(self._buffers)
        )
        return sorted({k for k in keys if not k[0].isdigit()})

    def __setstate__(self, state):
        d = self.__dict__
        d.update(state)
        for name in _HOOK_DICTS:
            if name not in d:
                d[name] = OrderedDict()
        d.setdefault("_non_persistent_buffers_set", set())
        d.setdefault("_is_full_backward_hook", None)

    def __getstate__(self):
        # a compiled forward belongs to this process
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    # ---- access by path ----------------------------------------------------------------------------------------------

    def get_submodule(self, target):
        """The module at the dotted path `target` ("" is this module itself). AttributeError if there is none."""
        module = self
        if target == "":
            return module
        for item in target.split("."):
            if not hasattr(module, item):
                raise AttributeError(module._get_name() + " has no attribute `" + item + "`")
            module = getattr(module, item)
            if not isinstance(module, Module):
                raise AttributeError("`" + item + "` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Puts `module` at the dotted path. strict=True: only in place of an existing module. ValueError for an empty
        path or a non-Module.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f'"module" is not an nn.Module, found {type(module)}')
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(parent._get_name() + " has no attribute `" + name + "`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError("`" + name + "` is not an nn.Module")
        setattr(parent, name, module)

    def _at(self, target):
        """(name, what stands there, its module) of a dotted path. AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not tessera._C._module_has(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return name, getattr(module, name), module

    def get_parameter(self, target):
        """The parameter at the dotted path. AttributeError if there is none."""
        name, found, _ = self._at(target)
        if isinstance(found, Parameter):
            return found
        raise AttributeError(f"`{name}` is not an nn.Parameter")

    def get_buffer(self, target):
        """The buffer at the dotted path. AttributeError if there is none."""
        name, found, module = self._at(target)
        if name in module._buffers:
            return found
        raise AttributeError(f"`{name}` is not a buffer")

    # ---- conversions -------------------------------------------------------------------------------------------------

    def _apply(self, fn, recurse=True):
        """Applies `fn` to all parameters, their gradients and the buffers, keeping the Parameter objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        import tessera.__future__ as future

        overwrite = future.get_overwrite_module_params_on_conversion()
        swap = future.get_swap_module_params_on_conversion()
        for key, param in self._parameters.items():
            if param is not None:
                with tessera.no_grad():
                    applied = fn(param)
                self._convert_parameter(key, param, applied, fn, overwrite, swap)
        for key, buf in self._buffers.items():
            if buf is not None:
                self._buffers[key] = fn(buf)
        return self

    def _convert_parameter(self, key, param, applied, fn, overwrite, swap):
        grad = param.grad
        if swap or hasattr(applied, "__tensor_flatten__"):  # a wrapper subclass has no data to exchange
            try:
                if grad is not None:
                    # the gradient keeps the old version alive
                    param.grad = None
                tessera.utils.swap_tensors(param, Parameter(applied, param.requires_grad))
            except Exception as e:
                if grad is not None:
                    param.grad = grad
                raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{key}") from e
            new = param
        elif not overwrite and _shares_type(param, applied):
            param.data = applied
            new = param
        else:
            new = self._parameters[key] = Parameter(applied, param.requires_grad)
        if grad is not None:
            with tessera.no_grad():
                new_grad = fn(grad)
            if new is param and not swap and _shares_type(grad, new_grad):
                # the same grad object, so that who holds it sees the new values
                grad.data = new_grad
            else:
                new.grad = new_grad.requires_grad_(grad.requires_grad)

    def apply(self, fn):
        """Calls `fn` with every submodule, children first, and with self. Returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def cuda(self, device=None):
        """Moves parameters and buffers to a GPU, in place."""
        return self._apply(lambda t: t.cuda(device))

    def ipu(self, device=None):
        """Moves parameters and buffers to an IPU, in place."""
        return self._apply(lambda t: t.ipu(device))

    def xpu(self, device=None):
        """Moves parameters and buffers to an XPU, in place."""
        return self._apply(lambda t: t.xpu(device))

    def mtia(self, device=None):
        """Moves parameters and buffers to an MTIA device, in place."""
        return self._apply(lambda t: t.mtia(device))

    def cpu(self):
        """Moves parameters and buffers to the CPU, in place."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type):
        """Casts parameters and buffers to the given type, in place."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        """Casts floating point parameters and buffers to float32, in place."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        """Casts floating point parameters and buffers to float64, in place."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        """Casts floating point parameters and buffers to float16, in place."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        """Casts floating point parameters and buffers to bfloat16, in place."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def to_empty(self, *, device, recurse=True):
        """Moves parameters and buffers to the device without copying: new, uninitialized memory (for modules built on
        the meta device).
        """
        return self._apply(lambda t: tessera.empty_like(t, device=device), recurse=recurse)

    def to(self, *args, **kwargs):
        """Moves or casts parameters and buffers in place:

        to(device=None, dtype=None, non_blocking=False)
        to(dtype, non_blocking=False)
        to(tensor, non_blocking=False)
        to(memory_format=channels_last)

        Only floating point and complex ones are cast, only 4-D and 5-D ones change their memory format. TypeError for
        other dtypes; NotImplementedError for a module on the meta device that is to go to another: see to_empty().
        """
        if "copy" in kwargs:
            raise RuntimeError(".to() of a module does not accept copy: it changes the module itself")
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                import warnings

                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, and some "
                    "modules might not work as expected "
                    "when using complex tensors as parameters or buffers.",
                    stacklevel=2,
                )

        def convert(t):
            if t.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Module.to_empty() gives a module on the meta device "
                    f"uninitialized parameters on {device}."
                )
            to = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, to, non_blocking, memory_format=memory_format)
            return t.to(device, to, non_blocking)

        return self._apply(convert)

    def share_memory(self):
        """Moves parameters and buffers to shared memory."""
        return self._apply(lambda t: t.share_memory_())

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """`hook(module, grad_output) -> None or new grad_output` runs before the gradients of this module are
        computed.
        """
        return _register(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook):
        """Deprecated: see register_full_backward_hook."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = False
        return _register(self._backward_hooks, hook)

    def register_full_backward_hook(self, hook, prepend=False):
        """`hook(module, grad_input, grad_output) -> None or new grad_input` runs when the gradients of the inputs were
        computed.

        grad_input and grad_output are tuples; grad_input has one entry for each positional argument, None for those
        that are no tensors.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = True
        return _register(self._backward_hooks, hook, prepend)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """`hook(module, args) -> None or new args` runs before forward (with_kwargs: `hook(module, args, kwargs) ->
        None or (args, kwargs)`).
        """
        return _register(
            self._forward_pre_hooks, hook, prepend, [self._forward_pre_hooks_with_kwargs] * bool(with_kwargs)
        )

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """`hook(module, args[, kwargs], output) -> None or new output` runs after forward; always_call: also after an
        exception (output None).
        """
        extra = [self._forward_hooks_with_kwargs] * bool(with_kwargs) + [self._forward_hooks_always_called] * bool(
            always_call
        )
        return _register(self._forward_hooks, hook, prepend, extra)

    def _get_backward_hooks(self):
        """(full, non-full) hooks, the global ones first."""
        full, non_full = [], []
        if _global_is_full_backward_hook is True:
            full += _global_backward_hooks.values()
        elif _global_is_full_backward_hook is False:
            non_full += _global_backward_hooks.values()
        if self._is_full_backward_hook is True:
            full += self._backward_hooks.values()
        elif self._is_full_backward_hook is False:
            non_full += self._backward_hooks.values()
        return full, non_full

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _register_non_full_hooks(self, hooks, result):
        var = result
        while not isinstance(var, Tensor):
            if isinstance(var, dict):
                var = next((v for v in var.values() if isinstance(v, Tensor)), None)
            elif isinstance(var, (list, tuple)) and var:
                var = var[0]
            else:
                var = None
            if var is None:
                return
        node = var.grad_fn
        if node is None:
            return
        import weakref

        ref = weakref.ref(self)
        for hook in hooks:

            def call(grad_input, grad_output, hook=hook):
                module = ref()
                if module is None:
                    raise RuntimeError("You are trying to call the hook of a dead Module!")
                return hook(module, grad_input, grad_output)

            node.register_hook(call)

    # ---- the call ----------------------------------------------------------------------------------------------------

    def _wrapped_call_impl(self, *args, **kwargs):
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if not (
            self._backward_hooks
            or self._backward_pre_hooks
            or self._forward_hooks
            or self._forward_pre_hooks
            or _global_backward_pre_hooks
            or _global_backward_hooks
            or _global_forward_hooks
            or _global_forward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        called = set()
        try:
            return self._call_with_hooks(args, kwargs, called)
        except Exception:
            self._call_always_hooks(args, kwargs, called)
            raise

    __call__ = _wrapped_call_impl

    def _run_forward_pre_hooks(self, args, kwargs):
        for hook_id, hook in [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]:
            if hook_id in self._forward_pre_hooks_with_kwargs:
                res = hook(self, args, kwargs)
                if res is not None:
                    if not (isinstance(res, tuple) and len(res) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {res}."
                        )
                    args, kwargs = res
            else:
                res = hook(self, args)
                if res is not None:
                    args = res if isinstance(res, tuple) else (res,)
        return args, kwargs

    def _call_with_hooks(self, args, kwargs, called):
        full, non_full = [], []
        if self._backward_hooks or _global_backward_hooks:
            full, non_full = self._get_backward_hooks()
        pre = self._get_backward_pre_hooks()
        if _global_forward_pre_hooks or self._forward_pre_hooks:
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
        backward = None
        if full or pre:
            backward = BackwardHook(self, full, pre)
            args = backward.setup_input_hook(args)
        result = self.forward(*args, **kwargs)
        for hook_id, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            if hook_id in self._forward_hooks_always_called or hook_id in _global_forward_hooks_always_called:
                called.add(hook_id)
            if hook_id in self._forward_hooks_with_kwargs or hook_id in _global_forward_hooks_with_kwargs:
                res = hook(self, args, kwargs, result)
            else:
                res = hook(self, args, result)
            if res is not None:
                result = res
        if backward is not None:
            if not isinstance(result, (Tensor, tuple)):
                import warnings

                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                    "received " + str(type(result)),
                    stacklevel=2,
                )
            else:
                result = backward.setup_output_hook(result)
        if non_full:
            self._register_non_full_hooks(non_full, result)
        return result

    def _call_always_hooks(self, args, kwargs, called):
        """After an exception: the hooks that asked to be called anyway and were not; their own exceptions become
        warnings.
        """
        for hook_id, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            if hook_id in called or not (
                hook_id in self._forward_hooks_always_called or hook_id in _global_forward_hooks_always_called
            ):
                continue
            try:
                if hook_id in self._forward_hooks_with_kwargs or hook_id in _global_forward_hooks_with_kwargs:
                    hook(self, args, kwargs, None)
                else:
                    hook(self, args, None)
            except Exception as e:
                import warnings

                warnings.warn(
                    f"module forward hook with ``always_call=True`` raised an exception that was silenced as another "
                    f"error was raised in forward: {e}",
                    stacklevel=2,
                )

    def compile(self, *args, **kwargs):
        """Compiles this module's forward in place; arguments as for `tessera.compile`."""
        compiled = require("compile", "Module.compile()", "The module computes the same without being compiled.")
        self._compiled_call_impl = compiled(self._call_impl, *args, **kwargs)

    # ---- state dict --------------------------------------------------------------------------------------------------

    # State dicts (_module_state.py).
    get_extra_state = _module_state.get_extra_state
    set_extra_state = _module_state.set_extra_state
    _register_state_dict_hook = _module_state._register_state_dict_hook
    register_state_dict_post_hook = _module_state.register_state_dict_post_hook
    register_state_dict_pre_hook = _module_state.register_state_dict_pre_hook
    _save_to_state_dict = _module_state._save_to_state_dict
    state_dict = _module_state.state_dict
    _register_load_state_dict_pre_hook = _module_state._register_load_state_dict_pre_hook
    register_load_state_dict_pre_hook = _module_state.register_load_state_dict_pre_hook
    register_load_state_dict_post_hook = _module_state.register_load_state_dict_post_hook
    _load_tensor = _module_state._load_tensor
    _load_from_state_dict = _module_state._load_from_state_dict
    load_state_dict = _module_state.load_state_dict

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        for path, module in self.named_modules(None, prefix, remove_duplicate) if recurse else ((prefix, self),):
            stem = path and path + "."
            for name, member in get_members_fn(module):
                if member is not None and member not in seen:
                    yield stem + name, member
                    if remove_duplicate:
                        seen.add(member)

    def parameters(self, recurse=True):
        """All parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, parameter) pairs."""
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """All buffers, each once."""
        for _, buf in self.named_buffers(recurse=recurse):
            yield buf

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, buffer) pairs."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self):
        """The direct child modules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """(name, direct child) pairs."""
        memo = set()
        for name, module in self._modules.items():
            if module is not None and module not in memo:
                memo.add(module)
                yield name, module

    def modules(self, remove_duplicate=True):
        """This module and all below it, depth first, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(dotted name, module) pairs, this module first with the name `prefix`."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    # ---- modes -------------------------------------------------------------------------------------------------------

    def train(self, mode=True):
        """Switches this module and its children to training mode (or evaluation, mode=False). Returns self."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """Same as train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Sets requires_grad of all parameters. Returns self."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Drops the gradients of all parameters (set_to_none=False: fills them with zeros)."""
        for p in self.parameters():
            _clear_grad(p, set_to_none)

    def _get_name(self):
        return self.__class__.__name__

    def extra_repr(self):
        """What stands in the parentheses of repr; override it."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = ["(" + key + "): " + _addindent(repr(module), 2) for key, module in self._modules.items()]
        lines = extra_lines + child_lines
        if not lines:
            return self._get_name() + "()"
        if len(extra_lines) == 1 and not child_lines:
            return self._get_name() + "(" + extra_lines[0] + ")"
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"

    def _replicate_for_data_parallel(self):
        own = {"_parameters": {}, "_buffers": dict(self._buffers), "_modules": dict(self._modules), "_is_replica": True}
        replica = object.__new__(type(self))
        vars(replica).update(vars(self) | own)
        return replica

    def __deepcopy__(self, memo):
        cls = type(self)
        if any(getattr(cls, name, None) is not getattr(object, name, None) for name in _PICKLED_BY):
            return copy._reconstruct(self, memo, *self.__reduce_ex__(4))
        twin = memo[id(self)] = cls.__new__(cls)
        twin.__setstate__({name: _deep_copied(value, memo) for name, value in self.__getstate__().items()})
        return twin


# What a class has of its own if its copies are not made from __getstate__ and __setstate__ alone.
_PICKLED_BY = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
_UNCHANGING = frozenset({bool, int, float, str, type(None)})


def _deep_copied(value, memo):
    """copy.deepcopy, without its detours for what modules consist of."""
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if (kind is dict or kind is OrderedDict) and (not value or id(value) not in memo):
        twin = kind()
        if value:  # an empty one is nobody's but the module's
            memo[id(value)] = twin
            copy._keep_alive(value, memo)  # a dict that __getstate__ has made: its id would be another's soon
            for name, item in value.items():
                twin[name if type(name) is str else copy.deepcopy(name, memo)] = _deep_copied(item, memo)
        return twin
    return copy.deepcopy(value, memo)


def _replaced(hooks, module, name, value):
    for hook in hooks.values():
        out = hook(module, name, value)
        if out is not None:
            value = out
    return value


def _script_module():
    """The class of scripted modules, or () while torch.jit was never loaded (nothing can be an instance of it then)."""
    import sys

    jit = sys.modules.get("tessera.jit")
    return getattr(jit, "ScriptModule", ())


tessera._C._install_module_slots(
    Module, (_global_backward_pre_hooks, _global_backward_hooks, _global_forward_hooks, _global_forward_pre_hooks)
)


_own_register_parameter = Module.register_parameter  # programs may put another one in its place
