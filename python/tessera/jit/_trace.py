"""trace: records what operators a function or a module calls, as a compiled function or module."""

import contextlib
import functools
import threading
import warnings

import tessera
from tessera._root import held_classes
from tessera._C import _jit
from tessera.nn import Module

from ._frontend import ScriptFunction, class_type, qualified_name
from ._marks import TracerWarning
from ._modules import ConcreteType, RecursiveScriptModule, ScriptModule, _instance
from ._types import type_of_value

TracerWarning.ignore_lib_warnings()
_scopes = threading.local()  # names: of the recording that is under way


class TracingCheckError(Exception):
    """Two traces of a program differ, or it computes other numbers than the trace."""

    def __init__(self, graph_diff_error, tensor_compare_error, extra_msg=None):
        self.message = "Tracing failed sanity checks!\n"
        for text in (
            extra_msg,
            graph_diff_error and f"ERROR: Graphs differed across invocations!\n{_indent(graph_diff_error)}",
            tensor_compare_error,
        ):
            if text:
                self.message += text + "\n"
        super().__init__(self.message)


def _indent(text):
    return "".join(f"\t{line}\n" for line in str(text).splitlines())


def _inputs(values):
    """Tensors of their own for the inputs, so that each stands for one parameter of the graph."""
    if isinstance(values, tessera.Tensor):
        fresh = values.detach()
        return fresh.requires_grad_() if values.requires_grad else fresh
    if isinstance(values, tuple) and hasattr(values, "_fields"):
        return type(values)(*map(_inputs, values))
    if isinstance(values, (list, tuple)):
        return type(values)(map(_inputs, values))
    if isinstance(values, dict):
        return {k: _inputs(v) for k, v in values.items()}
    return values


def _type(value, what):
    kind = type_of_value(value, class_type)
    if kind is None:
        raise RuntimeError(
            f"Type '{type(value)}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and "
            "Tuples of Tensors "
            f"can be traced: {what}"
        )
    return kind


def _shown(value):
    """The type of an input as scripts write it."""
    if isinstance(value, tuple):
        return f"Tuple[{', '.join(map(_shown, value))}]"
    if isinstance(value, list) and value:
        return f"List[{_shown(value[0])}]"
    if isinstance(value, dict) and value:
        key, first = next(iter(value.items()))
        return f"Dict[{type(key).__name__}, {_shown(first)}]"
    return {"NoneType": "NoneType", "device": "Device"}.get(type(value).__name__, type(value).__name__)


def _only_tensors(value, whole):
    """RuntimeError if an example input is, or holds, anything else than tensors."""
    if isinstance(value, (list, dict)) and not value:
        raise RuntimeError(
            f"Tracer cannot infer type of {whole}\n:{'List' if isinstance(value, list) else 'Dictionary'} inputs of "
            "traces must have elements"
        )
    if isinstance(value, (list, tuple, dict)):
        for element in value.values() if isinstance(value, dict) else value:
            _only_tensors(element, whole)
    elif not isinstance(value, tessera.Tensor):
        raise RuntimeError(
            f"Type '{_shown(whole)}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of "
            "Tensors can be traced"
        )


def _check_inputs(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            _check_inputs(value)
        elif isinstance(value, dict):
            _check_inputs(value.values())
        elif not isinstance(value, (tessera.Tensor, int, float, bool, str, type(None))):
            raise RuntimeError(
                f"Type '{type(value)}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, "
                "and Tuples of Tensors can be traced"
            )


def _names(fn, n):
    import inspect

    try:
        names = [
            p.name
            for p in inspect.signature(fn).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (ValueError, TypeError):
        names = []
    return (names + [f"input_{i}" for i in range(len(names), n)])[:n]


def _paths(module, prefix=""):
    """Where tensors and children of a module are, for the trace."""
    found = []
    for name, value in [*module._parameters.items(), *module._buffers.items()]:
        if value is not None:
            found.append((value, prefix + name))
    for name, child in module._modules.items():
        if child is None:
            continue
        if isinstance(child, ScriptModule):
            found.append((child._c, prefix + name))
        found += _paths(child, f"{prefix}{name}.")
    for name, value in vars(module).items():
        held = held_classes.instance_of(value)
        if held is not None:
            held_classes.TRACE.instances[id(value)] = value, held
            found.append((held, prefix + name))
    return found


@contextlib.contextmanager
def _watched(module):
    """While it lasts, the recording is told of the calls of submodules."""
    watched = []
    for path, child in module.named_modules():
        if not path or isinstance(child, ScriptModule) or "forward" in vars(child):
            continue
        if type(child).forward is not Module.forward:
            vars(child)["forward"] = _told(child.forward, path)
            watched.append(child)
    try:
        yield
    finally:
        for child in watched:
            del vars(child)["forward"]


def _told(forward, path):
    @functools.wraps(forward)
    def call(*args, **kwargs):
        if not _jit.is_tracing():
            return forward(*args, **kwargs)
        tensors = []
        for name, value in [*zip(_names(forward, len(args)), args), *kwargs.items()]:
            if isinstance(value, tessera.Tensor):
                tensors.append((name, value))
            else:
                tensors += [(f"{name}_{i}", t) for i, t in enumerate(_leaves(value))]
        _jit.trace_enter(path, tensors)
        told = None
        try:
            result = forward(*args, **kwargs)
            if isinstance(result, tuple) and all(isinstance(t, tessera.Tensor) for t in result):
                told = tuple(result)
            elif isinstance(result, tessera.Tensor):
                told = result
        finally:
            _jit.trace_leave(told)
        return result

    return call


def _record(fn, args, kwargs, name, qualified, owner=None, module=None, strict=True, nested=False):
    """One trace: (compiled function, result of the call). Nested: calls of submodules are calls of methods, and the
    first is that function with the same where they are inlined.
    """
    _check_inputs([*args, *kwargs.values()])
    args, kwargs = _inputs(tuple(args)), _inputs(dict(kwargs))
    paths = _paths(module[1]) if module else []
    _scopes.names = []
    _jit.trace_begin(module[0] if module else None, paths)
    try:
        target = fn.forward if isinstance(fn, Module) else fn
        for given, value in zip(_names(target, len(args)), args):
            _jit.trace_input(given, value, _type(value, given))
        for given, value in kwargs.items():
            _jit.trace_input(given, value, _type(value, given))
        _jit.trace_start()
        try:
            with _watched(module[1]) if nested else contextlib.nullcontext():
                result = fn(*args, **kwargs)
        finally:
            _jit.trace_stop()
        returned = _result(result, strict)
        made = _jit.trace_end(name, qualified, returned, _type(returned, "the result"), owner, nested)
    except BaseException:
        _jit.trace_drop()
        raise
    finally:
        held_classes.TRACE.instances.clear()
    return made, result


def _is_output(value):
    if isinstance(value, tuple):
        return all(map(_is_output, value))
    if isinstance(value, (list, dict)):
        if isinstance(value, dict):
            return all(isinstance(v, tessera.Tensor) or isinstance(v, tuple) and _is_output(v) for v in value.values())
        return all(isinstance(v, tessera.Tensor) for v in value)
    return isinstance(value, (tessera.Tensor, ScriptModule)) or type(value).__module__.endswith("_C._jit")


def _result(value, strict):
    if value is None:
        raise RuntimeError(
            "The traced function didn't return any values! Side-effects are not captured in traces, so it would be a "
            "no-op."
        )
    if not _is_output(value):
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions"
        )
    if isinstance(value, (list, dict)) and strict:
        text = (
            f"Encountering a {type(value).__name__} at the output of the tracer might cause the trace to be incorrect, "
            "this is only valid if the container structure does not change based on the module's inputs. Consider "
            "using a constant container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a "
            "`NamedTuple` instead). If you absolutely need this and know the side effects, pass strict=False to "
            "trace() to allow this behavior."
        )
        if isinstance(value, dict):
            raise RuntimeError(text)
        warnings.warn(text, TracerWarning, stacklevel=4)
    return value


@contextlib.contextmanager
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        yield


def _leaves(value):
    if isinstance(value, tessera.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _leaves(v)] if isinstance(value, (list, tuple)) else []


def _random(graph):
    words = ("rand", "dropout", "bernoulli", "normal", "multinomial", "rrelu", "exponential")
    return [n.kind() for n in graph.nodes() if any(w in n.kind() for w in words)]


def _without_sizes(graph):
    """The text of a graph; other inputs may have other sizes."""
    import re

    return re.sub(r"\w+\([^()]*requires_grad=[^()]*\)", "Tensor", str(graph))


def _compare(made, other, tolerance):
    """Compares the graphs and the constants of two traces. Errors: TracingCheckError."""
    first, second = _without_sizes(made.graph), _without_sizes(other.graph)
    if first != second:
        import difflib

        diff = "\n".join(difflib.ndiff(first.splitlines(), second.splitlines()))
        raise TracingCheckError(f"Graph diff:\n{_indent(diff)}", None)
    one, two = _constants(made.graph), _constants(other.graph)
    for a, b in zip(one, two):
        if a.shape != b.shape or not tessera.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
            raise TracingCheckError(
                None,
                "ERROR: Tensor-valued Constant nodes differed in value across invocations. This often "
                "indicates that the tracer has encountered untraceable code.",
            )


def _check(fn, args, kwargs, made, again, tolerance, seed):
    """Compares a trace with a second one, and with the program. Errors: TracingCheckError."""
    kinds = _random(made.inlined_graph)
    if kinds:
        warnings.warn(
            f"Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n\t{kinds}",
            TracerWarning,
            stacklevel=4,
        )
    with _quiet():
        if not kinds:
            _compare(made, again(), tolerance)
        with tessera.no_grad():
            expected = _leaves(fn(*_inputs(tuple(args)), **_inputs(dict(kwargs))))
            got = _leaves(seed(*_inputs(tuple(args)), *_inputs(dict(kwargs)).values()))
    for i, (a, b) in enumerate(zip(expected, got)):
        if a.shape != b.shape or not tessera.allclose(a.to(b.dtype), b, rtol=tolerance, atol=tolerance, equal_nan=True):
            warnings.warn(
                f"Output nr {i + 1}. of the traced function does not match the corresponding output of the "
                "Python function.",
                TracerWarning,
                stacklevel=4,
            )


def _constants(graph):
    values = [n.ival("value") for n in graph.findAllNodes("prim::Constant") if n.hasAttribute("value")]
    return [v for v in values if isinstance(v, tessera.Tensor)]


def trace(
    func,
    example_inputs=None,
    optimize=None,
    check_trace=True,
    check_inputs=None,
    check_tolerance=1e-5,
    strict=True,
    _force_outplace=False,
    _module_class=None,
    _compilation_unit=None,
    example_kwarg_inputs=None,
    _store_inputs=True,
):
    """Runs a function or a module on example inputs and records the operators that it calls.

    Only what depends on tensors is kept: conditions and loops of Python take the way that the example takes.

    Args:
        func: function or Module. example_inputs: a tensor, or a tuple of tensors and containers of such.
        check_trace: traces twice and compares. check_inputs: list of further inputs to compare with.
        check_tolerance: relative and absolute. strict: refuses dicts as results, and warns of lists.
        example_kwarg_inputs: dict, in the place of example_inputs.

    Returns: ScriptFunction, or a ScriptModule.
    Errors: TracingCheckError where traces differ; RuntimeError for inputs and results that cannot be traced.
    """
    if isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.",
            stacklevel=2,
        )
        return func
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if example_kwarg_inputs is not None and not isinstance(example_kwarg_inputs, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    kwargs = dict(example_kwarg_inputs or {})
    args = _as_tuple(example_inputs)
    _only_tensors(args, args)
    _only_tensors(tuple(kwargs.values()), tuple(kwargs.values()))
    return _traced(func, args, kwargs, check_trace, check_inputs, check_tolerance, strict)


def _traced(func, args, kwargs=None, check_trace=False, check_inputs=None, check_tolerance=1e-5, strict=True):
    """trace(), whose inputs may be other things than tensors, too."""
    kwargs, args = kwargs or {}, _as_tuple(args)
    if isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    if isinstance(func, Module):
        return trace_module(
            func,
            {"forward": kwargs or args},
            None,
            check_trace,
            _wrapped(check_inputs),
            check_tolerance,
            strict,
            example_inputs_is_kwarg=bool(kwargs),
        )
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module):
        name = func.__name__
        if name != "forward":
            raise AttributeError(
                f"trace doesn't support compiling individual module's functions.\nPlease use trace_module: here "
                f"torch.jit.trace_module(module, {{{name!r}: example_inputs}})"
            )
        made = trace_module(
            owner,
            {name: kwargs or args},
            None,
            check_trace,
            None,
            check_tolerance,
            strict,
            example_inputs_is_kwarg=bool(kwargs),
        )
        return made
    name = getattr(func, "__name__", type(func).__name__)
    name = "lambda_" if name == "<lambda>" else name
    qualified = qualified_name(func) if hasattr(func, "__qualname__") else f"__torch__.{name}"
    record = lambda a, k: _record(func, a, k, name, qualified, strict=strict)[0]
    made = record(args, kwargs)
    if check_trace:
        for a, k in [(args, kwargs), *((_as_tuple(c), {}) for c in check_inputs or ())]:
            _check(func, a, k, made, lambda a=a, k=k: record(a, k), check_tolerance, made)
    return ScriptFunction(func if hasattr(func, "__name__") else None, made)


def _as_tuple(inputs):
    if inputs is None:
        return ()
    if isinstance(inputs, (tessera.Tensor, dict)):
        return (inputs,)
    if not isinstance(inputs, (list, tuple)):
        raise RuntimeError(f"Type '{type(inputs).__name__}' cannot be traced. Only Tensors and containers of them can")
    return tuple(inputs)


def _wrapped(check_inputs):
    return None if check_inputs is None else [{"forward": c} for c in check_inputs]


def trace_module(
    mod,
    inputs,
    optimize=None,
    check_trace=True,
    check_inputs=None,
    check_tolerance=1e-5,
    strict=True,
    _force_outplace=False,
    _module_class=None,
    _compilation_unit=None,
    example_inputs_is_kwarg=False,
    _store_inputs=True,
):
    """Records several methods of a module, each on its example inputs.

    Args:
        mod: Module. inputs: dict from names of methods to a tensor, a tuple of inputs, or (example_inputs_is_kwarg) a
            dict of them by name. The rest as in trace().

    Returns: ScriptModule with the same parameters and buffers.
    Errors: AttributeError for a module or inputs of other types, and as trace().
    """
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    hooked = next((m for m in mod.modules() if getattr(m, "_backward_hooks", None)), None)
    if hooked is not None:
        raise ValueError(f"Modules that have backward hooks assigned can't be compiled: {hooked}")
    concrete = _traced_type(mod)
    made = _instance(mod, concrete)
    cls = concrete.made
    for name, given in inputs.items():
        method = mod if name == "forward" else getattr(mod, name)
        args, kwargs = ((), dict(given)) if example_inputs_is_kwarg else (_as_tuple(given), {})

        def record(a, k, nested=False):
            return _record(method, a, k, name, f"{cls.name}.{name}", cls, (made._c, mod), strict, nested)[0]

        handle, flat = record(args, kwargs, True)
        cls.add_method(handle, "method")
        if check_trace:
            more = [c[name] for c in check_inputs or () if name in c]
            for a, k in [(args, kwargs), *((_as_tuple(c), {}) for c in more)]:
                _check(method, a, k, flat, lambda a=a, k=k: record(a, k), check_tolerance, handle.bind(made._c))
    traced = TopLevelTracedModule(made._c, mod)
    traced.__dict__["_children"] = made.__dict__["_children"]
    _name_children(traced, mod)
    return traced


def _name_children(made, module):
    for name, child in made.__dict__["_children"].items():
        original = module._modules.get(name)
        if type(child) is RecursiveScriptModule and not isinstance(original, (ScriptModule, type(None))):
            object.__setattr__(child, "__class__", TracedModule)
            _name_children(child, original)


def _traced_type(module):
    """A class of its own for a module that is traced, without methods."""
    concrete = ConcreteType(module, traced=True)
    for name, child in list(concrete.children.items()):
        if not isinstance(child, ScriptModule) and isinstance(concrete.attributes[name][0], ConcreteType):
            concrete.children[name] = _traced_type(module._modules[name])
            concrete.attributes[name] = (concrete.children[name], False, False)
    concrete.hooks = concrete.pre_hooks = ()
    concrete.type  # noqa: B018  made when it is first asked for
    return concrete


class TracedModule(RecursiveScriptModule):
    """A module that was recorded."""

    def _get_name(self):
        return self.original_name


class TopLevelTracedModule(TracedModule):
    """What trace() gives for a module."""


def is_tracing():
    """Whether operators are recorded at the moment."""
    return _jit.is_tracing()


class TracingState:
    """The recording that is under way on this thread; nodes carry the scopes that they were recorded in."""

    def push_scope(self, name):
        """Opens a scope inside of the present one."""
        self._set([*_scopes.names, name])

    def pop_scope(self):
        """Leaves the innermost scope. Errors: RuntimeError where none is open."""
        if not _scopes.names:
            raise RuntimeError("pop_scope(): no scope is open")
        self._set(_scopes.names[:-1])

    def current_scope(self):
        """Names of the open scopes from the outermost, with slashes between."""
        return "/".join(_scopes.names)

    def _set(self, names):
        _scopes.names = names
        _jit.trace_scope("/".join(names))


def _parameters_as_inputs(graph, module):
    """What the graph reads from its module becomes an input of its own, one for each tensor of the state."""
    owner = next(iter(graph.inputs()))
    objects, made, read = {owner.debugName(): module}, {}, []
    for value in module.state_dict(keep_vars=True).values():
        if isinstance(value, tessera.Tensor) and id(value) not in made:
            made[id(value)] = graph.addInput()
            made[id(value)].inferTypeFrom(value)
    for node in list(graph.nodes()):
        if node.kind() != "prim::GetAttr":
            continue
        value = getattr(objects.get(node.input().debugName()), node.s("name"), None)
        if isinstance(value, tessera.Tensor):
            if id(value) not in made:  # a buffer that is not saved
                made[id(value)] = graph.addInput()
                made[id(value)].inferTypeFrom(value)
            node.output().replaceAllUsesWith(made[id(value)])
        elif value is not None:
            objects[node.output().debugName()] = value
        read.append(node)
    for node in reversed(read):
        if not node.hasUses():
            node.destroy()
    if not owner.uses():
        graph.eraseInput(0)


def _general_convolutions(graph):
    """Convolutions of every kind become calls of the operator below them, which has the arguments of all."""
    from tessera.backends import cudnn

    flags = [cudnn.benchmark, cudnn.deterministic, cudnn.enabled, cudnn._uses_tf32()]
    for node in list(graph.nodes()):
        kind = node.kind().removeprefix("aten::").rstrip("123d")
        given = list(node.inputs())
        if kind not in ("conv", "conv_transpose") or str(given[4].type()) == "str":
            continue
        with graph.insert_point_guard(node):
            if kind == "conv":
                x, w, b, stride, padding, dilation, groups = given
                zeros = [graph.insertConstant(0) for _ in stride.node().inputs()]
                more = graph.insertNode(graph.create("prim::ListConstruct", zeros, 1)).output()
                more.setType(padding.type())
            else:
                x, w, b, stride, padding, more, groups, dilation = given
            transposed = graph.insertConstant(kind != "conv")
            last = [graph.insertConstant(bool(f)) for f in flags]
            args = [x, w, b, stride, padding, dilation, transposed, more, groups, *last]
            made = graph.insertNode(graph.create("aten::_convolution", args, 1))
        made.copyMetadata(node)
        made.output().setTypeAs(node.output())
        node.output().replaceAllUsesWith(made.output())
        node.destroy()


def _get_trace_graph(
    f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False, _return_inputs_states=False
):
    """(graph, result) of one recording; parameters of a module are inputs behind the others."""
    kwargs = kwargs or {}
    args = args if isinstance(args, tuple) else (args,)
    if not isinstance(f, Module):
        made, result = _record(f, args, kwargs, "forward", "__torch__.forward", strict=strict)
        graph = made.graph
        _general_convolutions(graph)
        return (graph, result, args) if return_inputs else (graph, result)
    concrete = _traced_type(f)
    instance = _instance(f, concrete)
    made, result = _record(
        f, args, kwargs, "forward", f"{concrete.made.name}.forward", concrete.made, (instance._c, f), strict
    )
    graph = made.graph  # a new object each time
    _parameters_as_inputs(graph, f)
    _general_convolutions(graph)
    return (graph, result, args) if return_inputs else (graph, result)


class ONNXTracedModule(Module):
    """A module whose call gives the graph of its inner module."""

    def __init__(self, inner, strict=True, force_outplace=False, return_inputs=False, return_inputs_states=False):
        super().__init__()
        self.inner = inner
        self._options = (strict, force_outplace, return_inputs, return_inputs_states)

    def forward(self, *args):
        return _get_trace_graph(self.inner, args, None, *self._options)
