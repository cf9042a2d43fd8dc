"""What the two kinds of nested tensors share: a subclass without memory of its own whose operators are served, above
autograd, by a table of functions that work on plain tensors. Gradients are those of the plain tensors.
"""

import functools
import importlib
import typing

import tessera
from tessera import _C

# Operators that work on every element for itself, besides those whose rule says so.
_ELEMENTWISE = (
    "dropout feature_dropout alpha_dropout relu relu6 selu celu elu gelu silu mish hardtanh hardsigmoid hardswish "
    "leaky_relu softplus threshold log_sigmoid logsigmoid softsign tanhshrink hardshrink softshrink clone detach to "
    "type type_as float double half bfloat16 int long short bool byte char cpu cuda contiguous zeros_like ones_like "
    "empty_like full_like rand_like randn_like randint_like bernoulli normal uniform zero fill copy nan_to_num "
    "requires_grad where masked_fill isfinite isinf isnan isreal isposinf isneginf alias _to_copy polygamma round "
    "clamp clamp_min clamp_max clip float_power sinc logit xlogy hypot ldexp frac fix deg2rad rad2deg rrelu prelu "
    "divide multiply subtract true_divide absolute negative square clip sub rsub pin_memory native_dropout data "
    "positive real conj resolve_conj resolve_neg"
)


@functools.lru_cache(None)
def elementwise_names():
    """The names of the operators and methods that work on every element for itself, without "_" of in-place forms."""
    names = set(_ELEMENTWISE.split())
    for row in _C._operator_table():
        if row[3].startswith("POINTWISE"):
            name = row[0].partition("(")[0].partition("::")[2].partition(".")[0]
            names.add(name.rstrip("_") if not name.endswith("__") else name)
    return names


def is_elementwise(name):
    """Whether the operator of this name, or the one of which it is another form, works on every element for itself."""
    plain = name.strip("_") if name.startswith("__") else name.rstrip("_")
    known = elementwise_names()
    return plain in known or name.rstrip("_") in known or (name.startswith("__") and plain[1:] in known)


def is_nested(value):
    """Whether `value` is a nested tensor of either kind."""
    return isinstance(value, Nested)


def nested_among(values):
    """The nested tensors among arguments, also in lists and tuples."""
    for value in values:
        if isinstance(value, Nested):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from nested_among(value)


def map_nested(function, value):
    """`function` of every nested tensor in an argument."""
    if isinstance(value, Nested):
        return function(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, Nested) for item in value):
        return type(value)(map_nested(function, item) for item in value)
    return value


def normalized(dim, ndim):
    """A dimension counted from the front.

    Raises: IndexError for one out of range.
    """
    if not isinstance(dim, int) or not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    return dim % ndim


def served(table, *names):
    """Puts a function into a table of operators."""

    def put(function):
        for group in names:
            for name in (group,) if group.startswith(("get ", "set ")) else group.split():
                table[name] = function
        return function

    return put


def plain_name(func):
    """The name of an operator, a method, or an attribute's getter or setter ("get shape")."""
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__"):
        return f"{name.strip('_')} {getattr(func.__self__, '__name__', '')}"
    packet = getattr(func, "overloadpacket", None)
    return packet.__name__ if packet is not None else name


class Nested(tessera.Tensor):
    """The base of nested tensors. A class brings `_table`, from names of operators to functions of (func, args,
    kwargs), and `_elementwise`.
    """

    _table: dict = {}
    _operators = ""  # the module that fills the table
    _elementwise: typing.Any  # a static method

    @classmethod
    def _served(cls):
        if not cls._table:
            importlib.import_module(cls._operators)
        return cls._table

    @classmethod
    def _make(cls, size, source):
        """An object of this class with the dtype and device of the plain tensor `source`."""
        return tessera.Tensor._make_wrapper_subclass(
            cls, size, dtype=source.dtype, device=source.device, layout=cls._layout
        )

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = plain_name(func)
        kwargs = kwargs or {}
        owner = next(nested_among((*args, *kwargs.values())), None)
        if owner is None or not all(
            issubclass(t, (Nested, tessera.nn.Parameter)) or t is tessera.Tensor for t in types
        ):
            return NotImplemented
        serve = type(owner)._served().get(name)
        if serve is not None:
            try:
                return serve(func, args, kwargs)
            except (KeyError, StopIteration) as error:
                raise TypeError(f"{name}(): an argument is missing or not of its kind ({error!r})") from error
        if name.startswith(("get ", "set ")) or name in _METADATA:
            saved = _C._set_torch_function_subclass_disabled(True)
            try:
                return func(*args, **kwargs)
            finally:
                _C._set_torch_function_subclass_disabled(saved)
        if is_elementwise(name):
            return type(owner)._elementwise(func, name, args, kwargs)
        raise NotImplementedError(f"{name}() is not supported for nested tensors of layout {cls._layout}")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        name = plain_name(func)
        owner = next(nested_among(args))
        serve = type(owner)._served().get(name)
        if serve is None and not is_elementwise(name):
            raise NotImplementedError(f"{func} is not supported for nested tensors of layout {cls._layout}")
        saved = _C._set_torch_function_subclass_disabled(False)
        try:
            if serve is not None:
                return serve(func, args, kwargs or {})
            return type(owner)._elementwise(func, name, args, kwargs or {})
        finally:
            _C._set_torch_function_subclass_disabled(saved)

    @staticmethod
    def _call_function(function, args):
        """`function.apply(*args)` of an autograd function: recorded for the plain tensors, and called with nested ones,
        forward as well as backward.
        """
        outputs: list = []

        def call(ctx, *values):
            outputs.clear()
            given = [arg._like(value) if is_nested(arg) else value for arg, value in zip(args, values)]
            if function.setup_context is tessera.autograd.function._SingleLevelFunction.setup_context:
                found = function.forward(ctx, *given)
            else:
                found = function.forward(*given)
                function.setup_context(ctx, tuple(given), found)
            outputs.append(found)
            return tuple(map(_plain, found)) if isinstance(found, tuple) else _plain(found)

        def call_back(ctx, *grads):
            kept = outputs[0] if isinstance(outputs[0], tuple) else outputs
            grads = [out._like(g) if is_nested(out) and g is not None else g for out, g in zip(kept, grads)]
            found = function.backward(ctx, *grads)
            return tuple(map(_plain, found)) if isinstance(found, tuple) else _plain(found)

        body = {"forward": staticmethod(call), "backward": staticmethod(call_back)}
        recorded = type(function.__name__, (tessera.autograd.Function,), body)
        results = recorded.apply(*map(_plain, args))
        if not isinstance(outputs[0], tuple):
            return outputs[0]._like(results) if is_nested(outputs[0]) else results
        return tuple(out._like(value) if is_nested(out) else value for out, value in zip(outputs[0], results))

    def to_padded_tensor(self, padding, output_size=None):
        """`tessera.nested.to_padded_tensor` of this."""
        return self._served()["to_padded_tensor"](type(self).to_padded_tensor, (self, padding, output_size), {})

    def __hash__(self):
        return id(self)


_METADATA = frozenset(
    "dim ndimension is_floating_point is_complex is_signed get_device element_size is_inference has_names __hash__ "
    "__dir__ _is_view is_pinned is_conj is_neg is_shared is_coalesced __setattr__".split()
)


def _plain(value):
    """The tensor that holds the elements of a nested one; anything else as it is."""
    return value.values() if is_nested(value) else value


def common(table, plain):
    """Serves what is asked of the plain tensor behind: gradients, history, hooks. `plain(nested)` gives it,
    `nested._like(values)` brings a tensor of its size back.
    """

    @served(table, "get requires_grad")
    def requires_grad(func, args, kwargs):
        return plain(args[0]).requires_grad

    @served(table, "get grad", "get _grad")
    def grad(func, args, kwargs):
        found = plain(args[0]).grad
        return None if found is None else args[0]._like(found)

    @served(table, "set grad", "set _grad")
    def set_grad(func, args, kwargs):
        plain(args[0]).grad = None if args[1] is None else plain(args[1])

    @served(table, "set requires_grad", "requires_grad_")
    def set_requires_grad(func, args, kwargs):
        plain(args[0]).requires_grad_(*args[1:], **kwargs)
        return args[0]

    for name in ("grad_fn", "is_leaf", "retains_grad", "_version", "output_nr"):
        table[f"get {name}"] = lambda func, args, kwargs, name=name: getattr(plain(args[0]), name)
    table["get is_nested"] = lambda func, args, kwargs: True
    table["get data"] = lambda func, args, kwargs: args[0]._like(plain(args[0]).data)
    table["get layout"] = lambda func, args, kwargs: args[0]._layout

    @served(table, "backward")
    def backward(func, args, kwargs):
        gradient = args[1] if len(args) > 1 else kwargs.pop("gradient", None)
        if gradient is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return plain(args[0]).backward(map_nested(plain, gradient), *args[2:], **kwargs)

    @served(table, "retain_grad")
    def retain_grad(func, args, kwargs):
        plain(args[0]).retain_grad()

    @served(table, "register_hook", "register_post_accumulate_grad_hook")
    def register_hook(func, args, kwargs):
        owner, hook = args

        def called(values):
            result = hook(owner._like(values))
            return None if result is None else map_nested(plain, result)

        return getattr(plain(owner), func.__name__)(called)

    @served(table, "grad")  # tessera.autograd.grad
    def gradients(func, args, kwargs):
        outputs, inputs = args[0], args[1]
        rest = [map_nested(plain, arg) for arg in args[2:]]
        kwargs = {key: map_nested(plain, value) for key, value in kwargs.items()}
        wanted = (inputs,) if isinstance(inputs, tessera.Tensor) else tuple(inputs)
        found = func(map_nested(plain, outputs), [map_nested(plain, i) for i in wanted], *rest, **kwargs)
        return tuple(
            given._like(value) if isinstance(given, Nested) and value is not None else value
            for given, value in zip(wanted, found)
        )

    @served(table, "is_same_size")
    def is_same_size(func, args, kwargs):
        return all(is_nested(arg) for arg in args) and args[0]._same_sizes(args[1])

    @served(table, "equal")
    def equal(func, args, kwargs):
        a, b = (arg.unbind() for arg in args)
        return len(a) == len(b) and all(map(tessera.equal, a, b))

    @served(table, "allclose")
    def allclose(func, args, kwargs):
        a, b = (arg.unbind() for arg in args[:2])
        return len(a) == len(b) and all(
            p.shape == q.shape and tessera.allclose(p, q, *args[2:], **kwargs) for p, q in zip(a, b)
        )

    @served(table, "__iter__")
    def iterate(func, args, kwargs):
        return iter(args[0].unbind())
