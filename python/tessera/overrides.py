"""`__torch_function__`: overriding the library's functions for other types and inside modes.

A call of a public function with an argument whose type defines `__torch_function__(func, types, args, kwargs)` is
handed to it; an
active TorchFunctionMode comes before all types. Functions of this package that are written in Python join in with
`has_torch_function` and `handle_torch_function`.
"""

import contextlib
import functools

import tessera
from tessera import _C

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

has_torch_function = _C._has_torch_function
has_torch_function_unary = _C._has_torch_function_unary
has_torch_function_variadic = _C._has_torch_function_variadic
_disabled_torch_function_impl = _C._disabled_torch_function_impl


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Lets the overriding types (or the active mode) among `relevant_args` do the call.

    Args:
        public_api: the function that users called.
        relevant_args: the arguments that may override.
        args, kwargs: the call's arguments.

    Raises: TypeError if all of them return NotImplemented.
    """
    return _C._handle_torch_function(public_api, tuple(relevant_args), *args, **kwargs)


class _Switch:
    """Context manager around a thread-local switch of the extension that gives back its old value."""

    _setter = None

    def __enter__(self):
        self._saved = type(self)._setter(True)

    def __exit__(self, exc_type, exc_value, traceback):
        type(self)._setter(self._saved)


class DisableTorchFunctionSubclass(_Switch):
    """Inside the block types don't override; modes still do."""

    _setter = staticmethod(_C._set_torch_function_subclass_disabled)


class DisableTorchFunction(_Switch):
    """Inside the block nothing overrides, neither types nor modes."""

    _setter = staticmethod(_C._set_torch_function_all_disabled)


def wrap_torch_function(dispatcher):
    """Decorator that makes a function overridable; `dispatcher(*args, **kwargs)` gives the arguments that may
    override.
    """
    return functools.partial(_wrapped, dispatcher)


def _wrapped(dispatcher, func):
    @functools.wraps(func)
    def public(*args, **kwargs):
        relevant = dispatcher(*args, **kwargs)
        overridden = has_torch_function(relevant)
        call = functools.partial(handle_torch_function, public, relevant) if overridden else func
        return call(*args, **kwargs)

    return public


def is_tensor_like(inp):
    """True for tensors and for what has a `__torch_function__`."""
    return type(inp) is tessera.Tensor or hasattr(inp, "__torch_function__")


class TorchFunctionMode:
    """Inside `with mode:` every public call goes to `mode.__torch_function__(func, types, args, kwargs)`, innermost
    mode first.

    Within that method the mode itself is off, so that it can call `func`.
    """

    inner = None

    def __init__(self):
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _push_mode(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _pop_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """The old spelling of `Mode(...)`."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _push_mode(mode):
    _C._push_on_torch_function_stack(mode)


def _pop_mode():
    return _C._pop_torch_function_stack()


def _get_current_function_mode():
    count = _C._len_torch_function_stack()
    return _C._get_function_stack_at(count - 1) if count else None


def _get_current_function_mode_stack():
    return [_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack())]


def _len_torch_function_stack():
    return _C._len_torch_function_stack()


@contextlib.contextmanager
def _pop_mode_temporarily():
    """Takes the innermost mode off for a block."""
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def redispatch_function():
    """Old name of `_pop_mode_temporarily`."""
    with _pop_mode_temporarily() as mode:
        yield mode


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """Inside a dispatch handler: calls dispatch again from the top."""
    restore = getattr(_C, "_RestorePythonTLSSnapshot", None)
    if restore is None:
        yield
        return
    with restore():
        yield


# ---- inspection
# -------------------------------------------------------------------------------------------------------------

# What is no operator; the operators that take no tensor are found in their registry.
_IGNORED = """
    typename is_tensor is_storage set_default_tensor_type set_default_dtype get_default_dtype set_default_device
    get_default_device get_rng_state set_rng_state manual_seed initial_seed seed save load set_printoptions fork_rng
    no_grad enable_grad set_grad_enabled inference_mode is_grad_enabled is_inference_mode_enabled
    tensor as_tensor asarray from_numpy frombuffer from_file from_dlpack scalar_tensor sparse_coo_tensor
    sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor normal linspace
    logspace vitals_enabled result_type promote_types can_cast get_num_threads set_num_threads get_num_interop_threads
    set_num_interop_threads set_flush_denormal compiled_with_cxx11_abi use_deterministic_algorithms
    are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode
    get_deterministic_debug_mode set_float32_matmul_precision get_float32_matmul_precision set_warn_always
    is_warn_always_enabled compile vmap cond finfo iinfo device dtype layout Size Generator is_autocast_enabled
    is_autocast_cache_enabled set_autocast_enabled clear_autocast_cache autocast broadcast_shapes unify_type_list
    parse_type_comment set_autocast_dtype get_autocast_dtype sym_int sym_float sym_max sym_min sym_not
""".split()

_IGNORED_METHODS = """
    __new__ __init__ __class__ __subclasshook__ __init_subclass__ __getattribute__ __setattr__ __delattr__ __dir__
    __sizeof__
    __torch_function__ __torch_dispatch__ __getnewargs__ __reduce__ __weakref__ __dict__ __doc__ __module__ __hash__
    __slots__
    as_subclass _make_subclass _make_wrapper_subclass new new_tensor new_empty new_empty_strided new_full new_ones
    new_zeros
    _typed_storage untyped_storage storage_type
""".split()


@functools.lru_cache(None)
def get_ignored_functions():
    """Public functions that can't be overridden with `__torch_function__`: factories, settings, tests of types."""
    found = {getattr(tessera, name) for name in _IGNORED if hasattr(tessera, name)}
    found |= {f for f in (getattr(tessera, name, None) for name in tessera._core_names) if _is_factory(f)}
    found |= {
        getattr(tessera.Tensor, name)
        for name in _IGNORED_METHODS
        if hasattr(tessera.Tensor, name) and _hashable(getattr(tessera.Tensor, name))
    }
    return found


def _schemas(func):
    """The schemas of the overloads of an operator; none for other functions."""
    schemas = [_C._get_schema(overload) for overload in getattr(func, "_overloads", None) or ()]
    return [schema for schema in schemas if schema is not None]


def _is_factory(func):
    """Whether all overloads of an operator make their result out of no tensor."""
    schemas = _schemas(func)
    return bool(schemas) and not any(
        "Tensor" in str(argument.type) for schema in schemas for argument in schema.arguments if argument.name != "out"
    )


def get_default_nowrap_functions():
    """Getters whose results a subclass gets as they are: those that give back a tensor that is there already."""
    names = ("_base", "grad", "_grad")
    return {getattr(tessera.Tensor, name).__get__ for name in names if hasattr(tessera.Tensor, name)}


def _hashable(value):
    try:  # a view of a namespace looks hashable and is not
        hash(value)
    except TypeError:
        return False
    return True


def _namespaces():
    yield tessera, [name for name in dir(tessera) if name in tessera._core_names or name in tessera._lazy_names]
    for path in ("nn.functional", "linalg", "fft", "special", "Tensor"):
        obj = tessera
        try:
            for part in path.split("."):
                obj = getattr(obj, part)
        except (AttributeError, ImportError):
            continue
        names = getattr(obj, "__all__", None) if path != "Tensor" else None
        yield obj, list(names or dir(obj))


@functools.lru_cache(None)
def _overridable():
    functions, index = {}, {}
    ignored = get_ignored_functions()
    for namespace, names in _namespaces():
        is_tensor = namespace is tessera.Tensor
        for name in names:
            if name.startswith("_") and not (is_tensor and name.startswith("__")):
                continue
            value = getattr(namespace, name, None)
            label = f"torch{'.Tensor' if is_tensor else _path(namespace)}.{name}"
            if is_tensor and hasattr(type(value), "__get__") and not callable(value):
                functions.setdefault(namespace, []).append(value.__get__)
                index.setdefault(value.__get__, label + ".__get__")
                continue
            if not callable(value) or isinstance(value, type) or not _hashable(value) or value in ignored:
                continue
            functions.setdefault(namespace, []).append(value)
            index.setdefault(value, label)
    return functions, index


def _path(module):
    return module.__name__[len("tessera") :]


def get_overridable_functions():
    """dict: namespace -> list of the functions in it that can be overridden."""
    return {namespace: list(functions) for namespace, functions in _overridable()[0].items()}


def resolve_name(f):
    """A readable name such as 'torch.Tensor.add' for a function that can be overridden."""
    if isinstance(f, (getattr(_C, "OpOverload", ()), getattr(_C, "OpOverloadPacket", ()))):
        return str(f)
    name = _overridable()[1].get(f)
    if name is not None:
        return name
    for namespace, names in _namespaces():  # factories too
        for candidate in names:
            if getattr(namespace, candidate, None) is f:
                return f"torch{'.Tensor' if namespace is tessera.Tensor else _path(namespace)}.{candidate}"
    return None


@functools.lru_cache(None)
def _tensor_methods():
    methods = set()
    for name in dir(tessera.Tensor):
        value = getattr(tessera.Tensor, name, None)
        if hasattr(type(value), "__get__") and not callable(value):
            methods.add(value.__get__)
        if callable(value) and _hashable(value):
            methods.add(value)
    return methods


def is_tensor_method_or_property(func):
    """True for methods of Tensor and for the `__get__` of its properties."""
    return func in _tensor_methods() or getattr(func, "__name__", None) == "__get__"


def _signature_of(func):
    """A lambda with the parameters of `func` that returns -1, from the schema of its first overload."""
    for overload in getattr(func, "_overloads", None) or ():
        schema = _C._get_schema(overload) if hasattr(_C, "_get_schema") else None
        arguments = getattr(schema, "arguments", None)
        if arguments:
            names = [
                "input" if a.name == "self" and not is_tensor_method_or_property(func) else a.name for a in arguments
            ]
            names = [
                name + "_" if name in ("from", "lambda", "in", "is") else name for name in names
            ]  # no parameter can have Python's words
            required = [name for name, a in zip(names, arguments) if not a.kwarg_only]
            keyword = [f"{name}=None" for name, a in zip(names, arguments) if a.kwarg_only]
            keyword += ["out=None"] if "out" not in names else []
            return eval(f"lambda {', '.join(required + ['*'] + keyword)}: -1")  # names come from the schema table
    return lambda *args, **kwargs: -1


@functools.lru_cache(None)
def get_testing_overrides():
    """dict: function that can be overridden -> a dummy with the same signature, which returns -1."""
    return {func: _signature_of(func) for functions in _overridable()[0].values() for func in functions}
