"""Operators and kernels of one's own: `custom_op` for the common case, `Library`, `define` and `impl` below it."""

import contextlib
import functools
import re
import warnings

from tessera import _C
from tessera._library import registration
from tessera._library.custom_ops import CustomOpDef, custom_op, triton_op, wrap_triton
from tessera._library.opcheck import opcheck
from tessera._library.registration import get_ctx
from tessera._library.infer_schema import infer_schema
from tessera._library.kernels import get_kernel

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

_RESERVED = ("prim",)
_definers = set()  # namespaces that a Library of kind DEF owns
_registered = {}  # (qualified name, key) -> {registration: (Python kernel, whether it takes a keyset)}, the newest last
_permanent = {}  # namespace -> Library of what was registered without one
_waiting = {}  # qualified name of an operator that does not exist -> registrations for it
_vmap_rules = {}  # qualified name -> rule; vmap looks here


def fallthrough_kernel():
    """Stands for "skip this key" in `Library.impl` and `Library.fallback`. Raises: NotImplementedError when called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Definitions and kernels that live as long as this object.

    Args:
        ns: the namespace; "_" for fallbacks of whole keys.
        kind: "DEF" (a new namespace, once), "FRAGMENT" (more operators in any namespace), "IMPL" (kernels alone).
        dispatch_key: key of `impl` where none is given.

    Raises: ValueError for another kind or a reserved namespace, RuntimeError for a second DEF of a namespace.
    """

    def __init__(self, ns, kind, dispatch_key=""):
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._registrations = []
        self._kernels = []
        self._defined = []
        self._owner = False
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if dispatch_key:
            _C._key_bits(dispatch_key)
        if kind == "DEF":
            if ns in _definers or ns == "aten":
                raise RuntimeError(
                    f"Only a single library of kind DEF can be used to register the namespace {ns}; please put all of "
                    f"your definitions "
                    f"in it, or use kind FRAGMENT."
                )
            _definers.add(ns)
            self._owner = True

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema, alias_analysis="", *, tags=()):
        """Makes an operator of the schema "name.overload(Tensor x) -> Tensor"; returns its name without the overload.

        Raises: RuntimeError for a malformed schema, one that exists, another `alias_analysis` than "" and
            "CONSERVATIVE", and for a library of kind IMPL.
        """
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError(
                f"a library of kind IMPL can't define operators (namespace {self.ns}); use DEF or FRAGMENT"
            )
        tags = (tags,) if not isinstance(tags, (list, tuple, set, frozenset)) else tags
        names = []
        for tag in tags:
            if not hasattr(tag, "name"):
                raise TypeError(f"tags must be Tags, got {type(tag).__name__}")
            names.append(tag.name)
        text = schema if "::" in schema.split("(")[0] else f"{self.ns}::{schema}"
        if not text.startswith(f"{self.ns}::"):
            raise RuntimeError(f"the schema {schema} is of another namespace than the library, {self.ns}")
        qualified = _C._define_op(text, " ".join(names))
        self._defined.append(qualified)
        for register in _waiting.pop(qualified, ()):
            register()
        return qualified.partition("::")[2].partition(".")[0]

    def _qualified(self, op_name):
        from tessera._ops import OpOverload

        if isinstance(op_name, OpOverload):
            name = op_name._name
        elif isinstance(op_name, str):
            name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        else:
            raise RuntimeError(
                f"impl should be passed either a name or an OpOverload object as the first argument, got "
                f"{type(op_name).__name__}"
            )
        if not name.startswith(f"{self.ns}::"):
            raise RuntimeError(f"{name} is of another namespace than the library, {self.ns}")
        return name[: -len(".default")] if name.endswith(".default") else name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """A kernel of an operator for a dispatch key ("CPU", "Autograd" ...; the library's, or else
        CompositeImplicitAutograd).

        `with_keyset`: the function gets a DispatchKeySet first. Raises: TypeError if `fn` can't be called, RuntimeError
        for an unknown key or operator, and
        where a Python kernel stands already unless `allow_override`.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        name = self._qualified(op_name)
        if _registered.get((name, key)) and not allow_override:
            raise RuntimeError(
                f"This is not allowed since there's already a kernel registered from python overriding {name}'s "
                f"behavior for {key} "
                f"dispatch key and {self.ns} namespace."
            )
        function = None if fn is fallthrough_kernel else fn
        made = _C._register_op_kernel(name, key, function, with_keyset)
        self._registrations.append(made)
        _registered.setdefault((name, key), {})[made] = (fn, with_keyset)
        self._kernels.append(((name, key), made))

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        """The kernel of every operator that has none for a key: `fn(op, *args, **kwargs)`. For `Library("_", "IMPL")`.
        Raises: RuntimeError for other namespaces.
        """
        if self.ns != "_":
            raise RuntimeError(f'We can only register global fallbacks with the namespace "_", got {self.ns}')
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = dispatch_key or self.dispatch_key
        if not key:
            raise RuntimeError("fallback needs a dispatch_key")
        self._registrations.append(_C._register_fallback(key, None if fn is fallthrough_kernel else fn, with_keyset))

    def _destroy(self):
        """Takes back all that was registered."""
        for registration_ in self._registrations:
            registration_.release()
        self._registrations.clear()
        for place, made in self._kernels:
            del _registered[place][made]
            if not _registered[place]:
                del _registered[place]
        self._kernels.clear()
        if self._defined:
            from tessera._ops import _forget

            for name in self._defined:
                _C._undefine_op(name)
                _forget(name)
            self._defined.clear()
        if self._owner:
            _definers.discard(self.ns)
            self._owner = False

    def __del__(self):
        try:
            self._destroy()
        except Exception:  # the interpreter may be going down
            pass


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    """A Library for a with statement, at whose end all that was registered is taken back."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


class _Entry:
    """An entry of a table of rules, which `release` takes out again."""

    def __init__(self, table, key, rule):
        self.table, self.key, self.rule = table, key, rule
        table[key] = rule

    def release(self):
        if self.table.get(self.key) is self.rule:
            del self.table[self.key]


def _keep(table, key, rule, library):
    """Enters a rule, for as long as the library lives."""
    library._registrations.append(_Entry(table, key, rule))


def _is_unloaded(name):
    """True if nothing of an operator's namespace exists: the library that defines it is not loaded (yet)."""
    prefix = name.partition("::")[0] + "::"
    return not any(known.startswith(prefix) for known in _C._op_names())


def _wait_for(name, register):
    """Keeps a registration for the operator until `Library.define` makes it. Says so once for a namespace."""
    namespace = name.partition("::")[0]
    if not any(waiting.partition("::")[0] == namespace for waiting in _waiting):
        warnings.warn(
            f"there is no operator of the namespace {namespace}: its library is not loaded. What is registered for "
            f"{name} is kept until the operator is defined.",
            stacklevel=4,
        )
    _waiting.setdefault(name, []).append(register)


def _library_of(qualified_name):
    """Keeps registrations that were made without a Library."""
    namespace = qualified_name.partition("::")[0]
    if namespace not in _permanent:
        _permanent[namespace] = Library(namespace, "FRAGMENT")
    return _permanent[namespace]


def _name_of(op):
    """The qualified name of a string, an OpOverload or a CustomOpDef. Raises: ValueError."""
    from tessera._ops import OpOverload

    if isinstance(op, CustomOpDef):
        return op._qualname
    if isinstance(op, OpOverload):
        return op._name
    if isinstance(op, str) and "::" in op:
        return op[: -len(".default")] if op.endswith(".default") else op
    raise ValueError(
        f'expected the qualified name of an operator ("ns::name"), an OpOverload or a CustomOpDef, got {op!r}'
    )


def _definition_of(op):
    from tessera._library.custom_ops import _definitions

    return op if isinstance(op, CustomOpDef) else _definitions.get(_name_of(op))


@functools.singledispatch
def define(qualname, schema, *, lib=None, tags=()):
    """Makes the operator "ns::name" with a schema "(Tensor x) -> Tensor".

    Also `define(lib, schema, alias_analysis="")`: a decorator for the function that implements it. Raises: ValueError
    for a name without a namespace or a
    schema with a name, RuntimeError if the operator exists.
    """
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    if qualname.count("::") != 1:
        raise ValueError(f"expected the name of an operator to be of the form 'namespace::name', got {qualname!r}")
    if not re.fullmatch(r"\(.*\)\s*->\s*.+", schema, re.DOTALL):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got '
            f'"{schema}"'
        )
    name = qualname.partition("::")[2]
    (_library_of(qualname) if lib is None else lib).define(name + schema, alias_analysis="", tags=tags)


@define.register
def _(lib: Library, schema, alias_analysis=""):
    def wrap(function):
        lib.impl(lib.define(schema, alias_analysis), function)
        return function

    return wrap


@functools.singledispatch
def impl(qualname, types, func=None, *, lib=None):
    """Registers a function for device types ("cpu", ("cpu", "cuda"), or "default" for all) or dispatch keys ("CPU",
    "CompositeImplicitAutograd" ...). A decorator without `func`.

    Also `impl(lib, name, dispatch_key="")`. Raises: RuntimeError for an unknown device type, key or operator.
    """
    if not isinstance(qualname, str) or "::" not in qualname:
        raise ValueError(f"expected the name of an operator to be of the form 'namespace::name', got {qualname!r}")
    types = (types,) if isinstance(types, str) else tuple(types)
    of_key = lambda t: t if isinstance(t, str) and t[:1].isupper() else registration.device_key(t)  # noqa: E731
    keys = ["CompositeExplicitAutograd" if t == "default" else of_key(t) for t in dict.fromkeys(types)]

    def register(function):
        library = _library_of(qualname) if lib is None else lib
        for key in keys:
            library.impl(qualname, function, key)
        return function

    return register if func is None else register(func)


@impl.register
def _(lib: Library, name, dispatch_key=""):
    def wrap(function):
        lib.impl(name, function, dispatch_key)
        return function

    return wrap


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Registers a function of an operator for device types; None: for all. A decorator without `func`."""
    name = _name_of(op)

    def register(function):
        definition = _definition_of(op)
        if definition is not None:
            return definition.register_kernel(device_types)(function)
        library = _library_of(name) if lib is None else lib
        types = (
            ("default",)
            if device_types is None
            else (device_types,)
            if isinstance(device_types, str)
            else tuple(device_types)
        )
        for key in ["CompositeExplicitAutograd" if t == "default" else registration.device_key(t) for t in types]:
            library.impl(name, function, key)
        return function

    return register if func is None else register(func)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """What an operator does to tensors without data (meta tensors): the shape and dtype of its outputs. A decorator
    without `func`.

    Where no operator of the namespace exists (the library that has them is not loaded), it is kept until the operator
    is defined, and a warning says so. Raises: RuntimeError if a `define`d operator has one already, unless
    `allow_override`, and for an operator that its namespace lacks.
    """
    name = _name_of(op)

    def register(function):
        definition = _definition_of(op)
        if definition is not None:
            return definition.register_fake(function)
        library = _library_of(name) if lib is None else lib
        kernel = registration.make_fake_kernel(name, function)
        enter = functools.partial(library.impl, name, kernel, "Meta", allow_override=allow_override)
        if _is_unloaded(name):
            _wait_for(name, enter)
        else:
            enter()
        return function

    return register if func is None else register(func)


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """Deprecated name of `register_fake`."""
    warnings.warn(
        "torch.library.impl_abstract was renamed to torch.library.register_fake. Please use that instead; we will "
        "remove "
        "torch.library.impl_abstract in a future version.",
        FutureWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """The derivative of an operator.

    Args:
        backward: `backward(ctx, *grads)`, one gradient for each output; returns one for each positional input, None
            where there is none, a list for a list.
        setup_context: `setup_context(ctx, inputs, output)`, or `(ctx, inputs, keyword_only_inputs, output)` for
            operators with keyword-only arguments; fills
            `ctx`, which has what a Function's context has.

    Raises: RuntimeError for operators that write to their arguments.
    """
    definition = _definition_of(op)
    if definition is not None:
        definition.register_autograd(backward, setup_context=setup_context)
        return
    from tessera._ops import _resolve

    name = _name_of(op)
    overload = _resolve(name)
    if overload._schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {overload} with schema {overload._schema}. "
            f"Please create a "
            f"functional operator and register an autograd "
            "formula for that."
        )
    kernel = registration.make_autograd_kernel(overload, lambda: (backward, setup_context))
    (_library_of(name) if lib is None else lib).impl(name, kernel, "Autograd", with_keyset=True)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Where autocast is on for `device_type` ("cpu" or "cuda"), floating inputs are cast to `cast_inputs` first and the
    operator runs without autocast. Raises: ValueError.
    """
    from tessera._ops import _resolve

    if device_type not in ("cpu", "cuda"):
        raise ValueError(f'Unknown device type: {device_type!r}, expected "cpu" or "cuda"')
    name = _name_of(op)
    definition = _definition_of(op)
    library = definition._lib if definition is not None else _library_of(name) if lib is None else lib
    key = "AutocastCPU" if device_type == "cpu" else "AutocastCUDA"
    library.impl(
        name, registration.make_autocast_kernel(_resolve(name), device_type, cast_inputs), key, allow_override=True
    )


def register_vmap(op, func=None, /, *, lib=None):
    """The rule of an operator under `vmap`: `func(info, in_dims, *args, **kwargs)` returns (outputs, out_dims). A
    decorator without `func`.

    The rule is used as long as `lib` lives, if that is given. Raises: RuntimeError for operators of the library itself,
    which have rules.
    """
    name = _name_of(op)
    if name.startswith("aten::"):
        raise RuntimeError(
            f"register_vmap: {name} is the library's own operator and has a rule; define one of your own"
        )

    def register(function):
        _keep(_vmap_rules, name, function, _library_of(name) if lib is None else lib)
        return function

    return register if func is None else register(func)


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """What an operator does under a mode or for a subclass, instead of the class's `__torch_dispatch__`.

    `func(mode, func, types, args, kwargs)` for a TorchDispatchMode, `func(cls, func, types, args, kwargs)` for a
    subclass of Tensor. A decorator without `func`.
    The rule is used as long as `lib` lives, if that is given.
    """
    from tessera._ops import _rules
    from tessera.utils._python_dispatch import TorchDispatchMode

    if not (
        isinstance(torch_dispatch_class, type) and issubclass(torch_dispatch_class, (_C.TensorBase, TorchDispatchMode))
    ):
        raise ValueError(f"expected a subclass of Tensor or of TorchDispatchMode, got {torch_dispatch_class!r}")
    name = _name_of(op)

    def register(function):
        _keep(_rules, (name, torch_dispatch_class), function, _library_of(name) if lib is None else lib)
        return function

    return register if func is None else register(func)
