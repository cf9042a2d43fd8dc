"""`library.custom_op`: operators made of one Python function."""

import contextlib
import warnings

import tessera
from tessera import _C
from tessera._library import effects, registration
from tessera._library.infer_schema import infer_schema

__all__ = ["CustomOpDef", "custom_op", "triton_op", "wrap_triton"]

_definitions = {}  # qualified name -> CustomOpDef


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes an operator of a Python function; a decorator, or called with the function.

    Args:
        name: "namespace::name".
        mutates_args: names of the parameters that are written to, or "unknown" for all tensors.
        device_types: device type or types that the function is for; None: for all.
        schema: instead of annotations.

    Returns: a CustomOpDef. Raises: ValueError for a bad name, annotations or a schema that contradicts `mutates_args`.
    """

    def inner(function):
        namespace, op_name = split_name(name)
        text = schema
        if text is None:
            text = infer_schema(function, mutates_args=mutates_args)
        elif mutates_args != "unknown":
            check_mutated(op_name, text, mutates_args)
        result = CustomOpDef(namespace, op_name, text, function, tags)
        if device_types is None:
            return result
        arguments = result._opoverload._schema.arguments
        if not any("Tensor" in a.type for a in arguments) and not any(
            a.name == "device" and a.type.startswith("Device") for a in arguments
        ):
            result._destroy()
            raise ValueError(
                f"{name}: a function without Tensor arguments that is for certain devices must have an argument "
                f"`device: torch.device`"
            )
        result._default = None
        result.register_kernel(device_types)(function)
        return result

    return inner if fn is None else inner(fn)


def split_name(name):
    """("namespace", "name"). Raises: ValueError."""
    if not isinstance(name, str) or name.count("::") != 1 or "." in name or not all(name.split("::")):
        raise ValueError(f"Expected the name of an operator to be of the form 'namespace::name', got {name!r}")
    return tuple(name.split("::"))


def check_mutated(op_name, text, mutates_args):
    """Raises ValueError unless the schema writes to exactly the arguments named."""
    from tessera._ops import FunctionSchema

    written = {a.name for a in FunctionSchema(f"ns::{op_name}{text}").arguments if a.is_write}
    named = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    if written != named:
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={text}`. The schema "
            f"writes to "
            f"{sorted(written)}: please make these consistent."
        )


def _storages(tensor):
    return tensor.untyped_storage()._cdata if tensor.layout is tessera.strided and not tensor.is_meta else id(tensor)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """`custom_op` for a function made of built-in operators and kernels under `wrap_triton`, for all devices.

    Its fake implementation is the function itself, unless another one is registered.
    """

    def inner(function):
        made = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        return made._made_of_operators()

    return inner if fn is None else inner(fn)


def wrap_triton(triton_kernel, /):
    """A Triton kernel as `triton_op` calls it. Raises: RuntimeError for anything but a function of triton.jit or
    triton.autotune.
    """
    module = type(triton_kernel).__module__
    if not module.startswith("triton.") or not hasattr(triton_kernel, "run"):
        raise RuntimeError(
            f"wrap_triton only works on functions annotated with triton.jit or triton.autotune, got "
            f"{type(triton_kernel).__name__}"
        )
    return triton_kernel


class CustomOpDef:
    """An operator of a Python function, and what has been registered for it. Calls go through dispatch."""

    def __init__(self, namespace, name, schema, fn, tags=None):
        self._namespace, self._name = namespace, name
        self._qualname = f"{namespace}::{name}"
        self._schema = schema
        self._default, self._is_triton_op = fn, False
        self._fake = None
        self._formula = (None, None)
        self._kernels = {}
        self._disabled = set()
        self.__name__ = name
        self.__module__ = getattr(fn, "__module__", __name__)
        self.__doc__ = getattr(fn, "__doc__", None)
        if self._qualname in _definitions:
            _definitions.pop(self._qualname)._destroy()
        self._lib = tessera.library.Library(namespace, "FRAGMENT")
        tags = () if tags is None else tags if isinstance(tags, (tuple, list, set, frozenset)) else (tags,)
        self._lib.define(f"{name}{schema}", tags=(tessera.Tag.pt2_compliant_tag, *tags))
        self._opoverload = tessera._ops._overload_of(self._qualname, "")
        self._written = [(i, a.name) for i, a in enumerate(self._opoverload._schema.arguments) if a.is_write]
        self._lib.impl(name, self._kernel_for(None), "CompositeExplicitAutograd")
        self._lib.impl(name, registration.make_fake_kernel(self._qualname, self._run_fake), "Meta")
        self._lib.impl(
            name,
            registration.make_autograd_kernel(self._opoverload, lambda: self._formula),
            "Autograd",
            with_keyset=True,
        )
        _definitions[self._qualname] = self

    def _made_of_operators(self):
        self._fake, self._is_triton_op = self._default, True
        return self

    def _destroy(self):
        self._lib._destroy()
        _definitions.pop(self._qualname, None)

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args, **kwargs):
        return self._opoverload(*args, **kwargs)

    # --- kernels ---

    def _kernel_for(self, device_type):
        """The function registered for a device (None: all others), with the checks around it."""

        def kernel(*args, **kwargs):
            wanted = device_type or self._device_argument(args, kwargs)
            function = self._kernels.get(wanted)
            if function is None or wanted in self._disabled:
                function = self._default
            if function is None:
                raise NotImplementedError(
                    f"Could not run '{self._qualname}': no kernel is registered for {wanted or 'this device'}; it has "
                    f"kernels for {sorted(self._kernels)}"
                )
            before = [t._version for t in self._mutated(args, kwargs)]
            result = function(*args, **kwargs)
            self._check_result(result, args, kwargs)
            for tensor, version in zip(self._mutated(args, kwargs), before):
                if tensor._version == version:  # written to by what does not count: NumPy, a kernel of one's own
                    _C._increment_version(tensor)
            return result

        return kernel

    def _device_argument(self, args, kwargs):
        """For an operator without tensors: the type of the device that it is told, or None."""
        for position, argument in enumerate(self._opoverload._schema.arguments):
            if argument.name == "device" and argument.type.startswith("Device"):
                value = args[position] if position < len(args) else kwargs.get("device")
                return None if value is None else tessera.device(value).type
        return None

    def _check_result(self, result, args, kwargs):
        seen = {_storages(t) for t in registration.tensors_in((*args, *kwargs.values())) if t.numel()}
        for tensor in registration.tensors_in(result if isinstance(result, tuple) else (result,)):
            if tensor.numel() and _storages(tensor) in seen:
                raise RuntimeError(
                    f"{self._qualname} (with implementation in {self.__module__}): The output of this custom operator "
                    f"(1) must not "
                    f"also be an input to this custom operator "
                    "and (2) may not alias any inputs to this custom operator or other returns. The most common way to "
                    "trigger this "
                    "error is if we have y = custom_op(x) and y and x "
                    "are the same Tensor. Please instead return a clone of the offending output tensor(s) (e.g. return "
                    "x.clone()) or "
                    "refactor the custom operator to not return y."
                )
            seen.add(_storages(tensor))

    def _mutated(self, args, kwargs):
        """The tensors that the schema says are written to, where they have versions."""
        values = (args[i] if i < len(args) else kwargs.get(name) for i, name in self._written)
        return [t for t in registration.tensors_in(values) if not t.is_inference()] if self._written else ()

    def _run_fake(self, *args, **kwargs):
        if self._fake is None and not self._opoverload._schema.returns:
            return None  # what it writes to keeps its shape
        if self._fake is None:
            raise RuntimeError(
                f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/fx tracing "
                f"to work, and for meta tensors. Please use `{self.__name__}.register_fake` to add an fake impl."
            )
        return self._fake(*args, **kwargs)

    def register_kernel(self, device_types, fn=None, /):
        """Another function for a device type or types; None: for all that have none. A decorator without `fn`."""

        def inner(function):
            types = [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)
            keys = [None if t is None else registration.device_key(t) for t in types]
            for device_type, key in zip(types, keys):
                if device_type is None:
                    self._default = function
                elif self._kernels.get(device_type) is None:
                    self._lib.impl(self._name, self._kernel_for(device_type), key, allow_override=True)
                if device_type is not None:
                    self._kernels[device_type] = function
            return function

        return inner if fn is None else inner(fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        """Inside the block the kernel of a device is on or off; off, the function for all devices runs."""
        action = "enable" if enabled else "disable"
        was_disabled = device_type in self._disabled
        if device_type not in self._kernels:
            warnings.warn(
                f"Attempted to {action} kernel for {device_type} but no kernel was registered for this device type.",
                stacklevel=3,
            )
        elif enabled != was_disabled:
            warnings.warn(f"Attempted to {action} kernel for {device_type} but it is already {action}d.", stacklevel=3)
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            (self._disabled.add if was_disabled else self._disabled.discard)(device_type)

    # --- everything else ---

    def register_fake(self, fn, /):
        """What the operator does to meta tensors: returns outputs without data. A decorator."""
        self._fake = fn
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """The derivative: see `library.register_autograd`. Raises: RuntimeError for an operator that writes to its
        arguments.
        """
        if self._opoverload._schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._opoverload._schema}. Please "
                f"create a functional operator and register an autograd "
                "formula for that."
            )
        self._formula = (backward, setup_context)

    def register_vmap(self, func=None, /):
        """The rule for `vmap`: `func(info, in_dims, *args, **kwargs)` returns (outputs, out_dims). A decorator without
        `func`.
        """
        return tessera.library.register_vmap(self, func)

    def register_autocast(self, device_type, cast_inputs):
        """Casts floating inputs to `cast_inputs` where autocast is on for the device type."""
        tessera.library.register_autocast(self, device_type, cast_inputs)

    def register_effect(self, effect):
        """Calls of the operator stay in captured graphs, in order, although nothing uses their results.

        Args:
            effect: EffectType.ORDERED of `_library.effects`, or None for an operator without effects.

        Raises: TypeError for others.
        """
        effects.register(self._opoverload, effect)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        """What the operator does under a TorchDispatchMode or for a tensor subclass."""
        return tessera.library.register_torch_dispatch(self, torch_dispatch_class, fn)
