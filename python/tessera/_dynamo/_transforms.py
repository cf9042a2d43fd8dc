"""Calls of transforms of functions: vmap, grad, vjp, jvp, Jacobians. The function becomes a graph of its own, and the
transform of it one node; functional_call is looked into, with other tensors in the places of the module's.
"""

import types

import tessera
from tessera import func
from tessera.fx import Graph
from tessera.func import _grad, _jacobians, _vmap
from tessera.func._forward import _check_tangents
from tessera.func._wrappers import chosen, split_aux
from tessera.nn.utils import stateless
from tessera.utils import _pytree as pytree

from . import _bodies, _builtins, _emit, _objects
from ._tracer import is_named_tuple, kind_of
from ._values import Const, Map, NumberV, Obj, Seq, TensorV, Var
from .exc import Unsupported

_Tensor = tessera.Tensor


# --- what the graph calls ---


def transformed(transform, body, outer, options, args, kwargs):
    """A transform of a graph, called.

    Args:
        transform: function of tessera.func. body: module of `outer` and of the tensors among args and kwargs.
        options: keyword arguments of the transform.
    """

    def function(*args, **kwargs):
        return body(*outer, *[t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, _Tensor)])

    if transform in _IMMEDIATE:
        return transform(function, *args, **options)
    return transform(function, **options)(*args, **kwargs)


def called(function, args):
    """A call of what a transform has given: vjp's second result."""
    return function(*args)


# --- what the capture knows ---


class Transformed(Var):
    """A function of which there is a transform. `name`: of the transform; `options`: its keyword arguments."""

    __slots__ = ("transform", "function", "options")

    def __init__(self, transform, function, options):
        self.transform, self.function, self.options, self.source = transform, function, options, None

    def call(self, tracer, args, kwargs):
        """Adds the call to the graph."""
        return _apply(tracer, self.transform, self.function, self.options, args, kwargs)


class Handle(Var):
    """A function that an operator of the graph gives. `rule`: from examples of its arguments to one of its result."""

    __slots__ = ("node", "rule")

    def __init__(self, node, rule):
        self.node, self.rule, self.source = node, rule, None

    def call(self, tracer, args, kwargs):
        """Adds the call to the graph."""
        if kwargs:
            raise Unsupported("keyword arguments of a function that a transform gives")
        given = Seq(args, tuple)
        with tracer.fake:
            example = self.rule(*tracer.argument(given, False))
        node = tracer.node("call_function", called, (self.node, tracer.argument(given, True)), {})
        node.meta["example_value"] = example
        return tracer.result(example, node)


_NODES = (tuple, list, dict)


def _mapped(var, change):
    """A tree of Vars with change(var) in place of each that is no tuple, list or dict."""
    if isinstance(var, Seq) and (var.cls in _NODES or is_named_tuple(var.cls)):
        return Seq([_mapped(v, change) for v in var.items], var.cls)
    if isinstance(var, Map):
        return Map({k: _mapped(v, change) for k, v in var.items.items()}, var.cls)
    return change(var)


def _plain(var):
    """None in place of what no graph has as an argument."""
    return var if isinstance(var, (TensorV, NumberV, Const, Seq)) else Const(None)


class _Body(_bodies.Body):
    """The function of a transform.

    Args:
        inner: function of the examples outside, in the order of the tensors, that gives those inside.
    """

    what = "a function that is transformed"

    def __init__(self, tracer, function, args, kwargs, inner):
        self.inputs, self.outside = [], {}  # id of a Var inside -> the Var outside
        given = []
        _mapped(Seq([*args, *kwargs.values()], tuple), given.append)
        with tracer.fake:
            examples = iter(inner([v.example for v in given if isinstance(v, TensorV)]))
        graph = Graph()

        def placed(var):
            if not isinstance(var, TensorV):
                return var
            node = graph.placeholder(f"arg{len(self.inputs)}")
            self.inputs.append(node)
            node.meta["example_value"] = example = next(examples)
            made = TensorV(tracer, example, node, cls=_Tensor)
            tracer._made[id(example)] = (example, made)
            self.outside[id(made)] = var
            return made

        args = [_mapped(v, placed) for v in args]
        super().__init__(tracer, function, args, {k: _mapped(v, placed) for k, v in kwargs.items()}, graph)

    @property
    def example(self):
        """What it gives, of examples."""
        return self.tracer.argument(self.result, False)


def _apply(tracer, transform, function, options, args, kwargs):
    """The Var of a transform's result, which is one node of the graph. args: those of what the transform gives, or, of
    vjp, jvp and linearize, those behind the function.
    """
    rule = _RULES[transform](options)
    shown = [_mapped(v, _plain) for v in args], {k: _mapped(v, _plain) for k, v in kwargs.items()}
    real = tuple(tracer.argument(v, False) for v in shown[0])
    with tracer.fake:
        inside = _attempt(rule.inside, real)
    body = _Body(tracer, function, args[0].items if transform is func.jvp else args, kwargs, inside)
    with tracer.fake:
        example = _attempt(rule.result, body.example)
    outer = body.outer()
    module = body.attach("transform_body", outer)
    node = tracer.node(
        "call_function", transformed,
        (transform, module, tuple(outer), options, tuple(tracer.argument(v, True) for v in shown[0]),
         {k: tracer.argument(v, True) for k, v in shown[1].items()}), {},
    )  # fmt: skip
    node.meta["example_value"] = example
    made = tracer.result(example, node)
    if transform is func.vmap and options.get("in_dims", 0) == options.get("out_dims", 0) == 0:
        return body.outside.get(id(body.result), made)  # the argument itself, as it may have been written to
    return made


def _attempt(function, *args):
    """A step of a transform on examples. What it raises, it raises when it runs, too."""
    try:
        return function(*args)
    except (ValueError, RuntimeError, TypeError) as error:
        raise Unsupported(str(error), case_name="operator") from error


# --- shapes of what transforms give ---


def _leaves(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, _Tensor)]


def _detached(tree):
    return pytree.tree_map_only(_Tensor, lambda t: t.detach(), tree)


class _Rule:
    """From examples outside of a transform to those inside, and from the function's result to the transform's."""

    def __init__(self, options):
        self.options, self.aux = options, options.get("has_aux", False)

    def inside(self, args):
        """A function of the tensors outside that gives those inside."""
        self.args = args
        return lambda tensors: [t.detach() for t in tensors]

    def split(self, result):
        """(result, rest of a tuple of results)."""
        if not self.aux:
            return result, ()
        result, aux = split_aux(result, "the transform")
        return result, (_detached(aux),)


class _VmapRule(_Rule):
    def inside(self, args):
        name, in_dims = "function", self.options.get("in_dims", 0)
        leaves, dims, _ = _vmap._flat_in_dims(name, in_dims, args)
        self.size = _vmap._batch_size(name, in_dims, leaves, dims)
        dims = [d for leaf, d in zip(leaves, dims) if isinstance(leaf, _Tensor)]
        return lambda tensors: [
            t.select(dims[i], 0) if i < len(dims) and dims[i] is not None else t for i, t in enumerate(tensors)
        ]

    def result(self, result):
        outputs, spec = pytree.tree_flatten(result)
        dims = _vmap._flat_out_dims("function", self.options.get("out_dims", 0), outputs, spec)
        return pytree.tree_unflatten([self._placed(o, d) for o, d in zip(outputs, dims)], spec)

    def _placed(self, output, dim):
        if dim is None:
            return output
        shape = list(output.shape)
        shape.insert(dim % (len(shape) + 1), self.size)
        return output.new_empty(shape)


class _GradRule(_Rule):
    def inside(self, args):
        argnums = self.options.get("argnums", 0)
        self.positions = chosen(args, argnums, "grad")
        self.wanted = args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in self.positions)
        return self._watched(args)

    def _watched(self, args):
        watched = [i in self.positions for i, arg in enumerate(args) for _ in _leaves(arg)]

        def change(tensors):
            inside = [t.detach() for t in tensors]
            return [t.requires_grad_(w) for t, w in zip(inside, [*watched, *[False] * (len(inside) - len(watched))])]

        return change

    def result(self, result):
        value, aux = self.split(result)
        _grad._check_scalar(value)
        gradients = pytree.tree_map(tessera.zeros_like, self.wanted)
        if not self.value:
            return (gradients, *aux) if aux else gradients
        return gradients, ((value.detach(), *aux) if aux else value.detach())

    value = False


class _GradAndValueRule(_GradRule):
    value = True


class _JacobianRule(_GradRule):
    def result(self, result):
        outputs, aux = self.split(result)

        def blocks(output):
            return pytree.tree_map(
                lambda x: (output if self.forward else x).new_empty((*output.shape, *x.shape)), self.wanted
            )

        jacobian = pytree.tree_map(blocks, outputs)
        return (jacobian, *aux) if aux else jacobian

    forward = False  # which of the two has the dtype


class _ForwardJacobianRule(_JacobianRule):
    forward = True


class _VjpRule(_GradRule):
    def inside(self, args):
        self.positions, self.args = range(len(args)), args
        return self._watched(args)

    def result(self, result):
        value, aux = self.split(result)
        return (_detached(value), _Rest(lambda *_: pytree.tree_map(tessera.zeros_like, self.args)), *aux)


class _JvpRule(_Rule):
    def inside(self, args):
        primals, tangents = args
        _check_tangents(primals, tangents)
        return super().inside(primals)

    def result(self, result):
        value, aux = self.split(result)
        return (_detached(value), pytree.tree_map(tessera.zeros_like, value), *aux)


class _LinearizeRule(_Rule):
    def result(self, result):
        return _detached(result), _Rest(lambda *_: pytree.tree_map(tessera.zeros_like, result))


class _FunctionalizeRule(_Rule):
    def result(self, result):
        return _detached(result)


class _Rest:
    """The example of a function among results."""

    def __init__(self, rule):
        self.rule = rule

    def var(self, node):
        """Its Var."""
        return Handle(node, self.rule)


_RULES = {
    func.vmap: _VmapRule, func.grad: _GradRule, func.grad_and_value: _GradAndValueRule, func.vjp: _VjpRule,
    func.jvp: _JvpRule, func.jacrev: _JacobianRule, func.jacfwd: _ForwardJacobianRule, func.linearize: _LinearizeRule,
    func.functionalize: _FunctionalizeRule,
}  # fmt: skip
_IMMEDIATE = {func.vjp: ("func",), func.jvp: ("func", "primals", "tangents"), func.linearize: ("func",)}
_NAMES = {
    func.vmap: ("func", "in_dims", "out_dims", "randomness", "chunk_size"), func.grad: ("func", "argnums", "has_aux"),
    func.grad_and_value: ("func", "argnums", "has_aux"), func.jacfwd: ("func", "argnums", "has_aux"),
    func.jacrev: ("func", "argnums"), func.functionalize: ("func",),
}  # fmt: skip


# --- calls of the transforms themselves ---


def _options(transform, given):
    what = f"an argument of torch.func.{transform.__name__}"
    return {name: _objects.constant(var, what) for name, var in given.items()}


def _call_transform(transform):
    def run(tracer, args, kwargs):
        given = {**dict(zip(_NAMES[transform], args)), **kwargs}
        if "func" not in given or len(args) > len(_NAMES[transform]):
            raise Unsupported(f"torch.func.{transform.__name__} without a function or with too many arguments")
        function = given.pop("func")
        return Transformed(transform, function, _options(transform, given))

    return run


def _call_immediate(transform):
    names = _IMMEDIATE[transform]

    def run(tracer, args, kwargs):
        given = {**dict(zip(names, args)), **kwargs}
        rest = args[len(names) :] if len(names) == 1 else [given.pop(n) for n in names[1:] if n in given]
        if "func" not in given or len(names) == 3 and not (len(rest) == 2 and isinstance(rest[0], Seq)):
            raise Unsupported(f"torch.func.{transform.__name__} without a function, or its arguments")
        function = given.pop("func")
        return _apply(tracer, transform, function, _options(transform, given), list(rest), {})

    return run


def _hessian(tracer, args, kwargs):
    given = {**dict(zip(("func", "argnums"), args)), **kwargs}
    function = given.pop("func")
    options = _options(func.hessian, given)
    return Transformed(func.jacfwd, Transformed(func.jacrev, function, options), options)


def _codes():
    """{code of the function that a transform gives: the transform}."""
    return {
        c: transform
        for transform in _NAMES
        for c in transform.__code__.co_consts
        if isinstance(c, types.CodeType) and c.co_name in ("mapped", "wrapper", "wrapped")
    }


_CODES = _codes()


def is_transformed(function):
    """Whether a function is what a transform has given."""
    return isinstance(function, types.FunctionType) and function.__code__ in _CODES


def from_outside(tracer, function):
    """The Transformed of a function that a transform has given before."""
    value, found = function.value, {}
    source = function.source or tracer.trusted(value).source
    for i, (name, cell) in enumerate(zip(value.__code__.co_freevars, value.__closure__)):
        if name in ("func", "in_dims", "out_dims", "randomness", "chunk_size", "argnums", "has_aux", "remove"):
            cell_source = source.attr("__closure__").item(i).attr("cell_contents")
            found[name] = tracer.wrap(cell.cell_contents, cell_source)
    transform = _CODES[value.__code__]
    inner = found.pop("func")
    return Transformed(transform, inner, _options(transform, found))


# --- modules with other tensors ---


def _merged(given):
    parts = given.items if isinstance(given, Seq) else [given]
    found = {}
    for part in parts:
        if not isinstance(part, Map) or found.keys() & part.items.keys():
            raise Unsupported("torch.func.functional_call with something else than dicts of different names")
        found.update(part.items)
    return found, parts


def _owner(tracer, module, path):
    for part in path.split(".") if path else ():
        module = _objects.attribute(tracer, module, part)
    return module


_CALL = ("module", "parameter_and_buffer_dicts", "args", "kwargs")


def _functional_call(tracer, args, kwargs):
    given = {**dict(zip(_CALL, args)), **kwargs}
    given.setdefault("parameter_and_buffer_dicts", given.pop("parameters_and_buffers", None))
    module = given.get("module")
    if not isinstance(module, Obj) or not isinstance(module.value, tessera.nn.Module):
        raise Unsupported(f"torch.func.functional_call of a {kind_of(module)}")
    tie, strict = (_objects.constant(given.get(n, Const(d)), n) for n, d in (("tie_weights", True), ("strict", False)))
    tensors, dicts = _merged(given["parameter_and_buffer_dicts"])
    tensors = _attempt(stateless._with_ties, module.value, tensors) if tie else tensors
    if strict:
        _attempt(stateless._check_keys, module.value, tensors)
    operands = given.get("args", Const(None))
    if not (isinstance(operands, Seq) and operands.cls is tuple):
        operands = Seq([] if isinstance(operands, Const) and operands.value is None else [operands], tuple)
    words = given.get("kwargs", Const(None))
    with_tensors = _Swapped(tracer, module, tensors, dicts)
    return with_tensors.run(operands.items, words.items if isinstance(words, Map) else {})


class _Swapped:
    """A module of which some tensors are others: the program seems to have set them for the time of a call."""

    def __init__(self, tracer, module, tensors, dicts):
        self.tracer, self.module, self.dicts, self.places = tracer, module, dicts, {}
        for name, var in tensors.items():
            path, _, leaf = name.rpartition(".")
            owner = _owner(tracer, module, path)
            if leaf not in owner.value._parameters and leaf not in owner.value._buffers:
                raise Unsupported(f"torch.func.functional_call with {name!r}, which is no tensor of the module")
            self.places[name] = (id(owner), leaf), (owner, leaf, var)

    def run(self, args, kwargs):
        """The call."""
        effects = self.tracer.effects
        before = {key: effects.get(key) for key, _ in self.places.values()}
        effects.update(self.places.values())
        try:
            return self.tracer.run_call(self.tracer, self.module, args, kwargs)
        finally:
            for name, (key, (_, _, var)) in self.places.items():
                now = effects.pop(key)[2]
                for part in self.dicts:
                    if now is not var and name in part.items:
                        self.tracer.change(part)
                        part.items[name] = now
            effects.update((key, held) for key, held in before.items() if held is not None)


# --- what escapes ---


def _write(emitter, var):
    bind = emitter.writer.bind
    return emitter.name(f"{bind(var.transform)}({emitter.expression(var.function)}, **{bind(var.options)})")


def install():
    """Tells the capture of the transforms."""
    for transform in _NAMES:
        _builtins.SPECIAL[transform] = _call_transform(transform)
    for transform in _IMMEDIATE:
        _builtins.SPECIAL[transform] = _call_immediate(transform)
    _builtins.SPECIAL[func.hessian] = _hessian
    for function in (func.functional_call, stateless.functional_call, stateless._functional_call):
        _builtins.SPECIAL[function] = _functional_call
    _emit._BUILDERS[Transformed] = _write
    _emit._BUILDERS[Handle] = _emit.Emitter.given
