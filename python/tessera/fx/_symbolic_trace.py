"""Tracing: a module's forward or a function, run with proxies, becomes a graph."""

import builtins
import collections
import contextlib
import functools
import inspect
import itertools
import math
from types import FunctionType

import tessera
from tessera import _C
from tessera.fx._compatibility import compatibility
from tessera.fx._code import _PyTreeCodeGen, _PyTreeInfo
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule
from tessera.fx.node import base_types
from tessera.fx.proxy import WRITTEN_AS_THEY_ARE, ParameterProxy, Proxy, Scope, TracerBase
from tessera.nn import Module
from tessera.utils import _pytree as pytree

__all__ = [
    "is_fx_tracing",
    "is_fx_symbolic_tracing",
    "ProxyableClassMeta",
    "Tracer",
    "wrap",
    "symbolic_trace",
    "PH",
    "PHBase",
]


def __getattr__(name):
    if name == "ScriptObject":  # which tracers of others look up here; the extension gives it when it is read
        return _C.ScriptObject
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_orig_module_call = Module.__call__
_orig_module_getattr = Module.__getattr__
_wrapped_fns_to_patch = {}  # (id of a module's globals, name) -> those globals, which stay alive by that
_wrapped_methods_to_patch = []
_proxyable_classes = {}
_tracing = 0  # how many traces are under way, one inside of another


def is_fx_tracing():
    """Whether a program is being traced."""
    return _tracing > 0


is_fx_symbolic_tracing = is_fx_tracing


class PHBase:
    """What stands in concrete_args for a leaf that stays an argument."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A PH whose placeholder gets its attribute `ph_key`, as it does any attribute of a subclass of PHBase."""

    def __init__(self, ph_key=None):
        self.ph_key = ph_key

    def __repr__(self):
        return f"PHWithMeta({self.ph_key!r})"


class ProxyableClassMeta(type):
    """Metaclass: making an object of the class with proxies among the arguments is a node; objects made of others may
    be arguments of nodes."""

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        tracers = []
        pytree.tree_map(lambda a: tracers.append(a.tracer) if isinstance(a, Proxy) else None, (args, kwargs))
        if not tracers:
            return super().__call__(*args, **kwargs)
        if any(t is not tracers[0] for t in tracers):
            raise RuntimeError(f"{cls.__name__}: its arguments are proxies of different traces")
        return tracers[0].create_proxy("call_function", cls, args, kwargs)


# --- functions that tracing keeps as they are ---


def wrap(fn_or_name):
    """Makes a function of this module a leaf of tracing: calls with proxies become one node each.

    At a module's top level: `wrap("name")`, `wrap(function)`, or as a decorator of one. Builtins such as "len" work.

    Returns: its argument. Errors: RuntimeError for anything else, NotImplementedError inside of a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    if not isinstance(fn_or_name, str) and not hasattr(fn_or_name, "__code__"):
        raise RuntimeError(f"wrap: {fn_or_name!r} is no Python function; give its name, as wrap({name!r})")
    caller = inspect.currentframe().f_back
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(caller.f_globals), name)] = caller.f_globals
    return fn_or_name


def _find_proxy(*values):
    """The first proxy in nested values, or None."""
    stack = list(reversed(values))
    while stack:
        a = stack.pop()
        if isinstance(a, Proxy):
            return a
        if isinstance(a, (tuple, list)):
            stack.extend(reversed(a))
        elif isinstance(a, dict):
            stack.extend(reversed(a.values()))
        elif isinstance(a, slice):
            stack.extend((a.step, a.stop, a.start))
    return None


def _leaf(original, record):
    """`original`, which record(tracer, args, kwargs) stands in for when a proxy is among the arguments."""

    @functools.wraps(original)
    def leaf(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        return original(*args, **kwargs) if proxy is None else record(proxy.tracer, args, kwargs)

    return leaf


@functools.lru_cache(maxsize=1024)
def _create_wrapped_func(orig_fn):
    def record(tracer, args, kwargs):
        made = tracer.create_proxy("call_function", orig_fn, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return _leaf(orig_fn, record)


def _create_wrapped_method(cls, name):
    return _leaf(
        getattr(cls, name), lambda tracer, args, kwargs: tracer.create_proxy("call_method", name, args, kwargs)
    )


class _Patcher:
    """Context manager that undoes at its end what was replaced in dicts and classes meanwhile."""

    _MISSING = object()

    def __init__(self):
        self._undo, self._seen = [], set()

    def _first_time(self, place, name, deduplicate):
        key = (id(place), name)
        again = key in self._seen and deduplicate
        self._seen.add(key)
        return not again

    def patch(self, frame_dict, name, new_fn, deduplicate=True):
        """frame_dict[name] = new_fn, once if deduplicate."""
        if self._first_time(frame_dict, name, deduplicate):
            self._undo.append((frame_dict, name, frame_dict.get(name, self._MISSING)))
            frame_dict[name] = new_fn
            new_fn.__fx_already_patched = deduplicate

    def patch_method(self, cls, name, new_fn, deduplicate=True):
        """cls.name = new_fn, once if deduplicate."""
        if self._first_time(cls, name, deduplicate):
            self._undo.append((cls, name, cls.__dict__.get(name, self._MISSING)))
            setattr(cls, name, new_fn)

    def visit_once(self, thing):
        """True at the first visit of an object."""
        return self._first_time(thing, None, True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        while self._undo:
            place, name, old = self._undo.pop()
            if isinstance(place, dict):
                place.pop(name, None) if old is self._MISSING else place.__setitem__(name, old)
            elif old is self._MISSING:
                delattr(place, name)
            else:
                setattr(place, name, old)
            if isinstance(place, type) and issubclass(place, Module):
                _fast_again(place)
        self._seen.clear()


def _fast_again(cls):
    """The slots of a module class and of its subclasses, which Python made general ones when a method was replaced."""
    _C._install_module_slots(cls)
    for inner in cls.__subclasses__():
        _fast_again(inner)


def _patch_wrapped_functions(patcher):
    """Replaces what wrap() registered for the time of a trace."""
    for (_, name), globals_ in list(_wrapped_fns_to_patch.items()):
        known = globals_.get(name, getattr(builtins, name, None))
        if known is not None:
            patcher.patch(globals_, name, _create_wrapped_func(known))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Replaces those of a module's globals that are to be leaves: the functions of autowrap_modules."""
    if not patcher.visit_once(frame_dict):
        return
    public = [(name, value) for name, value in frame_dict.items() if name[0] != "_" and id(value) in function_ids]
    for name, value in public:
        patcher.patch(frame_dict, name, _create_wrapped_func(value))


# --- the tracer ---


# Types of attributes that are no tensors, to save asking.
_PLAIN = frozenset((bool, int, float, str, tuple, dict, list, set, type(None), collections.OrderedDict))


def _assert_is_none(value, msg):
    if value is not None:
        raise AssertionError(msg)


class Tracer(TracerBase):
    """Runs a module's forward or a function with proxies and writes down what it does.

    Subclasses decide what is a leaf (is_leaf_module), how submodules are called (call_module), which values arguments
    may be (create_arg), and how proxies look (proxy).

    Args:
        autowrap_modules: modules whose functions are leaves, as those of `math` are, wherever they are imported to.
        autowrap_functions: functions that are leaves.
        param_shapes_constant: shapes of parameters are numbers while tracing.
    """

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        super().__init__()
        functions = [
            f
            for module in autowrap_modules
            for name, f in vars(module).items()
            if not name.startswith("_") and callable(f)
        ]
        self._autowrap_functions = [*functions, *autowrap_functions]  # alive, so that their ids stay theirs
        self._autowrap_function_ids = {id(f) for f in self._autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.root = None
        self.submodule_paths = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack, self.num_calls, self.node_name_to_scope = {}, {}, {}
        self._tensor_paths, self._constants = None, {}

    # --- what subclasses change ---

    def is_leaf_module(self, m, module_qualified_name):
        """Whether a call of m is one node: modules of torch.nn are, apart from Sequential."""
        home = type(m).__module__
        return home.startswith(("tessera.nn", "torch.nn", "tessera.ao.nn", "torch.ao.nn")) and not isinstance(
            m, tessera.nn.Sequential
        )

    def path_of_module(self, mod):
        """The path of a submodule of the root. Errors: NameError if it is none."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, m in self.root.named_modules() if m is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(self, m, forward, args, kwargs):
        """A call of a submodule: a node if it is a leaf, else forward(*args, **kwargs), which goes on tracing."""
        path, scope = self.path_of_module(m), self.scope
        before = scope.module_path, scope.module_type
        scope.module_path, scope.module_type = path, type(m)
        count = self.num_calls.get(path, 0)
        key = f"{path}@{count}" if count else path
        self.module_stack[key] = path, scope.module_type
        self.num_calls[path] = count + 1
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            del self.module_stack[key]
            scope.module_path, scope.module_type = before

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """What reading an attribute of a module gives: for parameters a proxy, made once each.

        Args:
            attr: name. attr_val: its value. parameter_proxy_cache: dict from path to proxy.
        """
        if isinstance(attr_val, tessera.nn.Parameter):
            found = self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        elif self.proxy_buffer_attributes and isinstance(attr_val, tessera.Tensor):
            found = self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        else:
            found = None
        return attr_val if found is None else found

    def _proxy_of(self, value, named, cache):
        name = next((n for n, t in named if t is value), None)
        if name is None:
            return None
        if name not in cache:
            factory = None
            if self.param_shapes_constant:
                factory = lambda node: ParameterProxy(self, node, name, value)  # noqa: E731
            cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=factory)
        return cache[name]

    def create_arg(self, a):
        """As of TracerBase; tensors and modules of the root are get_attr nodes, other tensors become attributes."""
        if type(a) is Proxy:
            return a.node
        if type(a) in WRITTEN_AS_THEY_ARE:
            return super().create_arg(a)
        if isinstance(a, tessera.nn.Parameter):
            for name, p in self.root.named_parameters():
                if a is p:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, tessera.Tensor):
            for name, b in self.root.named_buffers():
                if a is b:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self._constant_path(a), (), {})
        if isinstance(a, Module):
            for name, m in self.root.named_modules():
                if a is m:
                    return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable_classes:
            return self._constant_attribute(f"_{type(a).__name__}_constant_", a)
        return super().create_arg(a)

    def _constant_path(self, tensor):
        if self._tensor_paths is None:
            self._collect_tensors()
        path = self._tensor_paths.get(tensor)
        if path is None:
            path = self.get_fresh_qualname("_tensor_constant")
            self._tensor_paths[tensor] = path
            setattr(self.root, path, tensor)
        return path

    def _constant_attribute(self, prefix, value):
        path = self.get_fresh_qualname(prefix)
        setattr(self.root, path, value)
        return self.create_node("get_attr", path, (), {})

    def get_fresh_qualname(self, prefix):
        """An attribute name that the root does not have: prefix and a number."""
        return next(f"{prefix}{i}" for i in itertools.count() if not hasattr(self.root, f"{prefix}{i}"))

    # --- tracing ---

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """Makes the placeholders of a function.

        Args:
            root_fn: the function, of which the signature is read.
            is_module: its first argument is self.root.
            concrete_args: dict of values that take arguments' places.

        Returns: (the function to call, its arguments). Errors: RuntimeError without a signature.
        """
        return _Arguments(self, root_fn, is_module, concrete_args).make()

    def trace(self, root, concrete_args=None):
        """Traces a module or function.

        Args:
            root: Module or function.
            concrete_args: dict (or tuple, in their order) of arguments that are not to be placeholders; trees whose
                leaves PH stay open.

        Returns: Graph.
        """
        global _tracing
        _tracing += 1
        try:
            return self._trace(root, concrete_args)
        finally:
            _tracing -= 1

    def _trace(self, root, concrete_args):
        if isinstance(root, Module):
            fn = self._forward_of(root)
            self.root, self.root_module_name = root, root._get_name()
            self.submodule_paths = self._submodules = {mod: name for name, mod in root.named_modules()}
        else:
            self.root, fn, self.submodule_paths = Module(), root, None
            self._submodules = {self.root: ""}
        cls = type(self)
        self.graph = Graph(tracer_cls=None if "<locals>" in cls.__qualname__ else cls)
        self._tensor_paths = None
        with contextlib.ExitStack() as stack:
            written = inspect.unwrap(fn)
            fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
            patcher = stack.enter_context(_Patcher())
            stack.enter_context(self._modules_traced(patcher))
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, written.__globals__, self._autowrap_function_ids)
            for module in self._autowrap_search:
                _autowrap_check(patcher, module.__dict__, self._autowrap_function_ids)
            result = self.create_arg(fn(*args))
        annotation = getattr(written, "__annotations__", {}).get("return")
        self.create_node("output", "output", (result,), {}, type_expr=annotation)
        self.submodule_paths = None
        return self.graph

    def _forward_of(self, root):
        if not hasattr(type(root), self.traced_func_name):
            raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
        return getattr(type(root), self.traced_func_name)

    def _collect_tensors(self):
        """Tensors that are plain attributes somewhere in the root, by their path."""
        self._tensor_paths = {}  # of the first that a node has among its arguments
        for module, path in self._submodules.items():
            for name, value in module.__dict__.items():
                if type(value) not in _PLAIN and isinstance(value, tessera.Tensor):
                    self._tensor_paths.setdefault(value, f"{path}.{name}" if path else name)

    @contextlib.contextmanager
    def _modules_traced(self, patcher):
        """Context manager: modules are called by call_module, and their parameters read by getattr."""
        cache, tracer, seen = {}, self, set()

        def read(mod, attr):
            return tracer.getattr(attr, _orig_module_getattr(mod, attr), cache)

        def caller(original):
            def call(mod, *args, **kwargs):
                if type(mod) not in seen or "forward" in mod.__dict__:
                    seen.add(type(mod))
                    space = getattr(getattr(mod, "forward", mod), "__globals__", None)
                    _autowrap_check(patcher, {} if space is None else space, tracer._autowrap_function_ids)
                return tracer.call_module(mod, functools.partial(original, mod), args, kwargs)

            return call

        def scripted(mod, *args, **kwargs):
            return tracer.create_proxy("call_method", "forward", (mod, *args), kwargs)

        own = False
        for kind in {type(m) for m in self._submodules}:
            if kind.__call__ is _orig_module_call:
                continue
            home = getattr(kind.__call__, "__module__", None) or ""
            if not home.startswith(("tessera.", "torch.")):
                own = True  # it runs as it is, and what it calls is that of Module
                continue
            ours = scripted if home.startswith("tessera.jit.") else caller(kind.__call__)
            patcher.patch_method(kind, "__call__", ours)
        if own:
            patcher.patch_method(Module, "__call__", caller(_orig_module_call))
        before = _C._trace_modules(caller(_orig_module_call), read)
        try:
            yield
        finally:
            _C._trace_modules(*before)

    def __deepcopy__(self, memo):
        import copy

        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():
            keep = name in ("_autowrap_search", "_autowrap_functions", "_autowrap_function_ids")
            setattr(made, name, value if keep else copy.deepcopy(value, memo))
        return made


class _Arguments:
    """The placeholders of one traced function."""

    def __init__(self, tracer, fn, is_module, concrete):
        self.tracer, self.is_module, self.called = tracer, is_module, fn
        self.fn = inspect.unwrap(fn)
        if not hasattr(self.fn, "__code__"):
            raise RuntimeError(f"symbolic tracing needs a Python function, and {fn!r} has no Python code")
        self.parameters = list(inspect.signature(self.fn).parameters.values())
        first = self.parameters[0].kind if self.parameters else inspect.Parameter.VAR_POSITIONAL
        if is_module and first is inspect.Parameter.VAR_POSITIONAL:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        self.rest = self.parameters[1:] if is_module else self.parameters
        if isinstance(concrete, tuple):
            if len(concrete) != len(self.rest):
                raise RuntimeError(
                    f"Tracing expected {len(self.rest)} arguments but got {len(concrete)} concrete arguments"
                )
            concrete = {p.name: value for p, value in zip(self.rest, concrete)}
        self.concrete = concrete
        self.counter = 0

    def make(self):
        given = [self.tracer.root] if self.is_module else []
        rest = self.rest
        kinds = inspect.Parameter
        # The graph's order: arguments that have names, then *args and **kwargs.
        values = {}
        for p in rest:
            if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
                values[p.name] = self._of_one(p)
        starred = [p for p in rest if p.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
        trees = self._trees(given, rest, values)
        if trees is not None:
            if starred:
                raise RuntimeError("concrete_args that are trees do not go with *args and **kwargs")
            return trees
        for p in starred:
            stars = "*" if p.kind is kinds.VAR_POSITIONAL else "**"
            values[p.name] = self.tracer.create_proxy("placeholder", stars + p.name, (), {}, name="_" + p.name)
        return self._bound(rest, values, given), given

    def _of_one(self, p):
        if self.concrete is not None and p.name in self.concrete:
            return self._concrete(p, self.concrete[p.name])
        default = () if p.default is inspect.Parameter.empty else (self.tracer.create_arg(p.default),)
        annotation = None if p.annotation is inspect.Parameter.empty else p.annotation
        return self.tracer.create_proxy("placeholder", p.name, default, {}, type_expr=annotation)

    def _concrete(self, p, value):
        """The argument with placeholders for the leaves that stay open and checks of the others."""
        default = () if p.default is inspect.Parameter.empty else (self.tracer.create_arg(p.default),)
        self.counter = 0
        return pytree.tree_map(lambda leaf: self._leaf(p.name, leaf, default), value)

    def _leaf(self, name, leaf, default):
        self.counter += 1
        tracer = self.tracer
        if isinstance(leaf, PHBase):
            open_ = tracer.create_proxy("placeholder", f"{name}_{self.counter}", (), {})
            for attribute, value in vars(leaf).items():
                if not hasattr(open_.node, attribute):
                    setattr(open_.node, attribute, value)
            return open_
        shown = f"{name}_{self.counter}"
        out = tracer.create_proxy("placeholder", shown, default, {})
        message = f"{name} has been specialized to have value {leaf} but got another value"
        if leaf is None:
            tracer.create_proxy("call_function", _assert_is_none, (out, message), {})
        elif isinstance(leaf, base_types) and not isinstance(leaf, tessera.Tensor):
            tracer.create_proxy("call_function", tessera._assert, (out == leaf, message), {})
        else:
            import warnings

            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to "
                "the user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )
        return leaf

    def _bound(self, rest, values, given):
        return _bound(self.called, self.fn, rest, values, given)

    def _trees(self, given, rest, values):
        """For concrete arguments that are trees: a function whose graph sees the leaves; else None."""
        concrete = self.concrete or {}
        if all(pytree.tree_structure(v).is_leaf() for v in concrete.values()):
            return None
        with_spec = [concrete.get(p.name, PH) for p in rest]
        _, in_spec = pytree.tree_flatten(with_spec)
        tracer = self.tracer
        codegen = _PyTreeCodeGen(_PyTreeInfo([p.name for p in rest], in_spec, None))
        tracer.graph.set_codegen(codegen)
        inner = self._bound(rest, values, given)

        def flat(*args):
            leaves, out_spec = pytree.tree_flatten(inner(*args))
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return leaves

        return flat, given


def _bound(called, fn, parameters, values, given):
    """Fills `given` with positional values; a function of them that passes the others by name. called: fn, or what
    decorators made of it."""
    kinds = inspect.Parameter
    named, starred = {}, {}
    for p in parameters:
        if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
            given.append(values[p.name])
        elif p.kind is kinds.KEYWORD_ONLY:
            named[p.name] = values[p.name]
        else:
            starred[p.kind] = (p.name, values[p.name])
    if not starred:
        count = len(given)
        given.extend(named.values())
        return (lambda *args: called(*args[:count], **dict(zip(named, args[count:])))) if named else called
    if called is not fn:
        raise RuntimeError(
            f"{fn.__qualname__} has a decorator and takes *args or **kwargs, which are one proxy each and cannot be "
            "passed through it: trace the function without its decorator"
        )
    # *args and **kwargs are each one proxy inside of the function: a function of the same code that takes them so.
    code = fn.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    names = list(code.co_varnames)
    keyword_only = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    plain = FunctionType(
        code.replace(
            co_flags=flags,
            co_argcount=code.co_argcount + code.co_kwonlyargcount + len(starred),
            co_kwonlyargcount=0,
            co_posonlyargcount=0,
        ),
        fn.__globals__, fn.__name__, None, fn.__closure__,
    )  # fmt: skip
    plain.__annotations__ = dict(fn.__annotations__)
    given.extend(named[name] for name in keyword_only)
    given.extend(starred[kind][1] for kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD) if kind in starred)
    return plain


def symbolic_trace(root, concrete_args=None):
    """The GraphModule of a module or function, traced with proxies for its arguments. Its code is written when it is
    first called or looked at.

    Args:
        root: Module or function.
        concrete_args: dict (or tuple, in their order) of arguments that take these values instead of being open, e.g.
            to choose a branch; trees of values with PH for the leaves that stay open.

    Errors: TraceError for control flow that depends on a value.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule._of_trace(tracer.root, graph, name)
