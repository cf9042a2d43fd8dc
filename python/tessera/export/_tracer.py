"""The trace of an export: the operators that a module's forward calls, before composite ones are decomposed and before
autograd, as nodes of a graph.

Every operator of the thread passes the key PreDispatch while a trace is on. Its fallback is ExportTracer.record, which
runs the operator on the tensors that stand for the inputs and writes a node.
"""

import builtins
import contextlib
import functools
import itertools
import keyword
import linecache
import operator
import os
import sys

import tessera
from tessera import _C
from tessera._decomp._forms import documented_form
from tessera.export._functions import CalledFunctions
from tessera.export._symbols import SymbolNodes, is_symbolic
from tessera.fx import traceback as fx_traceback
from tessera.fx.experimental import proxy_tensor
from tessera.fx.passes.shape_prop import _extract_tensor_metadata
from tessera.fx.proxy import Proxy
from tessera.utils._python_dispatch import _disable_current_modes

_BIT = _C._key_bits("PreDispatch")
_WRAPPERS = _C._key_bits("FuncTorchGradWrapper") | _C._key_bits("FuncTorchBatched")
_AUTOCAST = [
    (_C._key_bits(name), name) for name in ("AutocastCPU", "AutocastCUDA", "AutocastXPU", "AutocastPrivateUse1")
]
_ANY_AUTOCAST = functools.reduce(int.__or__, (bits for bits, _ in _AUTOCAST))
_PACKAGE = os.path.dirname(tessera.__file__) + os.sep
_LAYERS = os.path.join(_PACKAGE, "nn", "modules") + os.sep
_SHELLS = (os.path.join(_LAYERS, "module.py"), os.path.join(_LAYERS, "container.py"))

_END = sys.maxsize
# What nodes know of the function that they come from.
NOTES = ("torch_fn", "source_fn_stack")
_BUILTINS = frozenset(dir(builtins)) - frozenset(keyword.kwlist)


@contextlib.contextmanager
def _keys(included, excluded):
    before = _C._tls_keys()
    _C._set_tls_keys(before[0] & ~excluded | included, before[1] & ~included | excluded)
    try:
        yield
    finally:
        _C._set_tls_keys(*before)


def recording_off():
    """Context manager: operators run and are not recorded."""
    return _keys(0, _BIT)


@functools.cache
def _defaults(op):
    """(defaults of the positional arguments from the last one back, {name: default} of keyword-only ones)."""
    missing = object()
    of = lambda a: a.default_value if a.has_default_value() else missing  # noqa: E731
    positional = [of(a) for a in op._schema.arguments if not a.kwarg_only]
    return positional, {a.name: of(a) for a in op._schema.arguments if a.kwarg_only}


def _place(t):
    return t.untyped_storage()._cdata, t.storage_offset(), t.shape, t.stride(), t.dtype


@functools.cache
def _shares_memory(op):
    """Whether an operator writes to an argument or returns a view of one."""
    return op._schema.is_mutable or any(r.alias_info is not None for r in op._schema.returns)


def _same(value, default):
    return type(value) is type(default) and value == default


def _written_out(op, args, kwargs):
    """The arguments as a program would write them: without those at the end that have their defaults."""
    positional, keywords = _defaults(op)
    last = len(args)
    while last and last <= len(positional) and _same(args[last - 1], positional[last - 1]):
        last -= 1
    return args[:last], {n: v for n, v in kwargs.items() if not (n in keywords and _same(v, keywords[n]))}


def user_frame(depth=2):
    """The innermost frame of the program that is traced: a frame outside of this package, or of a layer."""
    frame = sys._getframe(depth)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) or (name.startswith(_LAYERS) and name not in _SHELLS):
            return frame
        frame = frame.f_back
    return None


def _trace_text(frame):
    """The lines of a frame and, if it is one of a layer, before that of the program that calls the layer."""
    texts = []
    while frame is not None:
        name, line = frame.f_code.co_filename, frame.f_lineno
        ours = name.startswith(_PACKAGE)
        if not texts or not ours:
            shown = linecache.getline(name, line).strip()
            texts.insert(0, f'File "{name}", line {line}, in {frame.f_code.co_name}\n    {shown}')
        if not ours:
            break
        frame = frame.f_back
    return "\n".join(texts)


def _tensors_in(args, kwargs, found):
    for a in (*args, *kwargs.values()):
        if isinstance(a, tessera.Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            _tensors_in(a, {}, found)
    return found


@functools.cache
def _narrow():
    """{dtype of numbers: a tensor of a narrower one}."""
    of = {tessera.float64: tessera.float32, tessera.int64: tessera.int32, tessera.complex128: tessera.complex64}
    return {wide: tessera.tensor(1, dtype=dtype) for wide, dtype in of.items()}


def as_numbers(args):
    """Arguments with the numbers of the program as such, which come as tensors that do not widen others' dtypes."""
    if not any(type(a) is tessera.Tensor and a.dim() == 0 and a.dtype in _narrow() for a in args):
        return args

    def plain(a):
        if type(a) is not tessera.Tensor or a.dim() or a.dtype not in _narrow() or not a.is_cpu:
            return a
        return a.item() if tessera.result_type(a, _narrow()[a.dtype]) is not a.dtype else a

    return tuple(map(plain, args))


def _replaced(a, table):
    """Arguments with the tensors of a table {id: tensor} in place of others."""
    if isinstance(a, tessera.Tensor):
        return table.get(id(a), a)
    if isinstance(a, (list, tuple)):
        return type(a)(_replaced(e, table) for e in a)
    return a


@functools.cache
def export_mode_class():
    """The class of export_mode(); it is made when the first program is exported."""
    from tessera._subclasses.fake_tensor import FakeTensorMode

    class ExportMode(FakeTensorMode):
        """FakeTensorMode of an export."""

        tracer = None

        @contextlib.contextmanager
        def nested(self, tracer):
            """Context manager: this mode is on, and operators are recorded by another tracer."""
            with self, self.tracer.recorded_by(tracer):
                yield

    return ExportMode


def export_mode(**settings):
    """A FakeTensorMode that knows the tracer of the export that it is used for (`tracer`), and that operators with
    functions among their arguments use to trace these (`nested`).

    Args:
        **settings: of FakeTensorMode.
    """
    return export_mode_class()(**settings)


class ExportTracer(proxy_tensor.PythonKeyTracer):
    """Writes what a module does with tensors into a graph.

    Args:
        fake_mode: export_mode() that makes what stands for tensors.
        attributes: {id: (tensor, path)} of tensors that are plain attributes of modules: constants of the program.
    """

    def __init__(self, fake_mode, attributes):
        super().__init__()
        from tessera.fx.graph import Graph

        self.graph = Graph()
        self.fake_mode = fake_mode
        self._fake_type = tessera._subclasses.fake_tensor.FakeTensor
        self._writers = [self]  # who writes the nodes: this tracer, or the one of a function inside of it
        self._attributes = attributes
        self._nodes = {}  # id -> (tensor, which stays alive, its node)
        self.constants = {}  # path -> tensor, with its placeholder: (tensor, node)
        self._standing_for = {}  # id of a real tensor -> (that, the tensor that stands for it, whether it is a copy)
        self.names_of_constants = set()  # those that the program has already
        self.first_user_input = None
        self.module_stack = {}
        self.symbols = SymbolNodes(self.graph, self._annotate)
        self._casts = None  # id of an argument -> its dtype, while it is found out what autocast does with them
        self._history = set()  # ids of tensors that have a history where the program is differentiated
        self._grad_enabled = self._grad_at_first = True
        self.called = None  # CalledFunctions, while a program runs
        self.notes_sources = False
        self.notes_annotations = fx_traceback.has_preserved_node_meta()  # before the program begins
        self.keeps_history = False  # operators make what backward() needs; slower, and few programs ask for it

    # --- values ---

    def make_placeholder(self, name, value):
        """A placeholder of an input: of a tensor, symbolic number or constant."""
        node = self.graph.placeholder(name)
        if node.name != name and name in _BUILTINS and self.graph._names.claim(name):
            node.name = name  # a program's argument may have the name of a builtin function
        node.target = node.name
        self._note(node, value)
        return node

    def _note(self, node, value):
        node.meta["val"] = value
        if isinstance(value, tessera.Tensor):
            self._nodes[id(value)] = (value, node)
            node.meta["tensor_meta"] = _extract_tensor_metadata(value)
            if value.requires_grad:
                self._history.add(id(value))
            if node.op == "placeholder":
                self.symbols.add_tensor(node, value)
            else:
                self.symbols.add_found(node, value)
        elif is_symbolic(value):
            self.symbols.add(node, value)

    def _lift(self, tensor):
        """What stands for a constant tensor; its placeholder is made before those of what the user passes."""
        known = self._standing_for.get(id(tensor))
        if known is not None:
            return known[1]
        path = self._attributes[id(tensor)][1] if id(tensor) in self._attributes else None
        if path is None:
            names = map("lifted_tensor_{}".format, itertools.count())
            path = next(name for name in names if name not in self.constants and name not in self.names_of_constants)
        with recording_off():
            stand_in = self.fake_mode.from_tensor(tensor)
        before = self.first_user_input
        with self.graph.inserting_before(before) if before is not None else contextlib.nullcontext():
            node = self.graph.placeholder("c_" + path.replace(".", "_"))
        node.target = node.name
        self._note(node, stand_in)
        self.constants[path] = (tensor, node)
        self._standing_for[id(tensor)] = (tensor, stand_in, False)
        return stand_in

    def _lift_written(self, tensor):
        """As _lift, of what an operator writes to: a copy, if the program makes the tensor at each call."""
        stand_in = self._lift(tensor)
        if id(tensor) in self._attributes or self._standing_for[id(tensor)][2]:
            return stand_in
        for path, (held, node) in self.constants.items():
            if held is tensor:  # the operator writes to that, too: the program starts from what it is now
                with recording_off(), _disable_current_modes():
                    self.constants[path] = tensor.clone(), node
        copied = stand_in.clone()
        _write(self._writers[-1], tessera.ops.aten.clone.default, (stand_in,), {}, copied)
        self._nodes[id(stand_in)] = (stand_in, self._nodes[id(copied)][1])
        self._standing_for[id(tensor)] = (tensor, stand_in, True)
        return stand_in

    def _real(self, tensor):
        """The numbers of a tensor that the program has made of numbers, or that it found elsewhere; else None."""
        return tensor if not self._is_fake(tensor) else _C._fake_constant(tensor)

    def node_of(self, tensor):
        """The node of a tensor. RuntimeError of one that the trace did not make."""
        known = self._nodes.get(id(tensor))
        if known is not None:
            return known[1]
        real = self._real(tensor)
        if real is not None:
            return self._nodes[id(self._lift(real))][1]
        known = self._same_memory(tensor)
        if known is not None:
            self._nodes[id(tensor)] = (tensor, known)
            return known
        frame = user_frame()
        place = "" if frame is None else f"\n{_trace_text(frame)}"
        raise RuntimeError(
            "export found a tensor that no traced operator made (of shape "
            f"{tuple(tensor.shape)}, dtype {tensor.dtype}): operations such as set_() are not seen; use "
            f"functions that return tensors.{place}"
        )

    def _same_memory(self, tensor):
        """The node of a tensor that shows the same memory in the same way (`.data`, what autograd saved), or None."""
        place = _place(tensor)
        found = (node for other, node in reversed(self._nodes.values()) if _place(other) == place)
        return next(found, None)

    def _is_fake(self, tensor):
        return isinstance(tensor, self._fake_type)

    def create_arg(self, a):
        """What a node holds for a value: nodes for tensors and symbolic numbers."""
        if isinstance(a, tessera.Tensor):
            return self.node_of(a)
        if isinstance(a, (list, tuple)) and not hasattr(a, "_fields"):
            return [self.create_arg(e) for e in a] if type(a) is list else tuple([self.create_arg(e) for e in a])
        if isinstance(a, dict):
            return {key: self.create_arg(value) for key, value in a.items()}
        if isinstance(a, (int, float, str)) and type(a) in (int, float, str, bool):
            return a
        if is_symbolic(a):
            return self.symbols.node_of(a)
        if isinstance(a, slice):
            return slice(*map(self.create_arg, (a.start, a.stop, a.step)))
        return super().create_arg(a)

    def track(self, value, proxy):
        """Notes the node of what an operator returned; getitem nodes for parts of a tuple or list."""
        node = proxy.node if isinstance(proxy, Proxy) else proxy
        if isinstance(value, (tuple, list)):
            node.meta["val"] = value
            for i, part in enumerate(value):
                if isinstance(part, (tessera.Tensor, tuple, list)) or is_symbolic(part):
                    item = self.graph.call_function(operator.getitem, (node, i))
                    self._annotate(item, node)
                    self.track(part, item)
        else:
            self._note(node, value)

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """As of TracerBase, with notes on the program's line and modules."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self._annotate(node)
        return node

    def _annotate(self, node, like=None):
        if like is not None:
            for key in ("nn_module_stack", "stack_trace", "custom", *NOTES):
                if key in like.meta:
                    node.meta[key] = like.meta[key]
            return
        custom = fx_traceback.get_current_meta().get("custom") if self.notes_annotations else None
        if custom:
            node.meta["custom"] = dict(custom)
        node.meta["nn_module_stack"] = dict(self.module_stack)
        frame = user_frame(3)
        if frame is not None:
            node.meta["stack_trace"] = _trace_text(frame)
        if self.called is not None and self.called.torch_fn is not None and node.op == "call_function":
            node.meta["torch_fn"] = self.called.torch_fn
            if self.notes_sources:
                node.meta["source_fn_stack"] = self.called.source(self.module_stack)

    # --- operators ---

    def record(self, op, *args, **kwargs):
        """The fallback: runs an operator and writes its node."""
        args = as_numbers(args)
        tensors = _tensors_in(args, kwargs, [])
        real = {id(t): self._real(t) for t in tensors if id(t) not in self._nodes}
        real = {key: t for key, t in real.items() if t is not None}
        if real and len(real) == len({id(t) for t in tensors}) and self._is_foldable(op, real.values()):
            return self._run_real(op, _replaced(args, real), {name: _replaced(a, real) for name, a in kwargs.items()})
        if real:
            lift = self._lift_written if _shares_memory(op) else self._lift
            table = {key: lift(t) for key, t in real.items()}
            args, kwargs = _replaced(args, table), {name: _replaced(a, table) for name, a in kwargs.items()}
        result = self.ran(lambda: op(*args, **kwargs), op, args, kwargs)
        _write(self._writers[-1], op, args, kwargs, result)
        if any(id(t) in self._history for t in tensors):
            self._follow(op, result)
        return result

    def _follow(self, op, result):
        """Notes that a result has a history; without one, where the program has switched that off (no_grad())."""
        made = [t for t in _tensors_in((result,), {}, []) if t.dtype.is_floating_point or t.dtype.is_complex]
        if self._grad_enabled or not self._grad_at_first:
            if op is not tessera.ops.aten.detach.default:
                self._history.update(map(id, made))
        elif not op._schema.is_mutable and len(self._writers) == 1:
            for t in made:
                bare = t.detach()
                _write(self, tessera.ops.aten.detach.default, (t,), {}, bare)
                self._nodes[id(t)] = (t, self._nodes[id(bare)][1])

    def ran(self, compute, op, args, kwargs):
        """The result of an operator: compute(), which runs it on what stands for tensors. Subclasses know more."""
        return compute()

    @property
    def writer(self):
        """The tracer that writes the nodes now: this one, or that of a function inside of it."""
        return self._writers[-1]

    @contextlib.contextmanager
    def recorded_by(self, tracer):
        """Context manager: another tracer writes the nodes."""
        self._writers.append(tracer)
        try:
            yield
        finally:
            self._writers.pop()

    def _is_foldable(self, op, tensors):
        """Whether all arguments are tensors that the program made without operators, so that the result is constant."""
        return (
            not _shares_memory(op)
            and not any(id(t) in self._attributes or id(t) in self._standing_for for t in tensors)
            and tessera.Tag.nondeterministic_seeded not in op.tags
        )

    def _run_real(self, op, args, kwargs):
        from tessera.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            return op(*args, **kwargs)

    # --- one trace ---

    @contextlib.contextmanager
    def on(self, call_module):
        """Context manager: the thread's operators and module calls are traced.

        Args:
            call_module: function of (forward as it is, module, args, kwargs).
        """
        from tessera.fx import _symbolic_trace

        original, read = _symbolic_trace._orig_module_call, _symbolic_trace._orig_module_getattr

        def call(module, *args, **kwargs):
            return call_module(functools.partial(original, module), module, args, kwargs)

        registration = _C._register_fallback("PreDispatch", self._fallback, True)
        plain_call, _C._call_with_symbols = _C._call_with_symbols, self._call_with_symbols
        self._plain_call = plain_call
        self.fake_mode.tracer = self
        self._grad_at_first = _C._is_grad_enabled()
        cached = tessera.is_autocast_cache_enabled()
        tessera.set_autocast_cache_enabled(False)  # casts are recorded where they are needed
        proxy_tensor._modes.append(self.fake_mode)
        _symbolic_trace._tracing += 1
        before = _C._trace_modules(call, read)
        self._fake_type.item = self._item  # which gives a symbol; the operator has to give a number
        try:
            with self.fake_mode, _keys(_BIT, 0), CalledFunctions() as self.called:
                yield
        finally:
            self.called = None
            del self._fake_type.item
            tessera.set_autocast_cache_enabled(cached)
            _C._trace_modules(*before)
            _symbolic_trace._tracing -= 1
            proxy_tensor._modes.remove(self.fake_mode)
            self.fake_mode.tracer = None
            registration.release()
            _C._call_with_symbols = plain_call

    def _fallback(self, keys, op, *args, **kwargs):
        if _C._func._levels() or keys.bits & _WRAPPERS:  # of vmap, grad ...: what their rules call comes here again
            return op._redispatch(keys.bits & ~_BIT, *args, **kwargs)
        if not self._is_on():
            with _keys(0, _BIT):
                return op(*args, **kwargs)
        if self._casts is not None:
            return self._note_cast(op, args, kwargs)
        if keys.bits & _ANY_AUTOCAST and not op._schema.is_mutable:
            args, kwargs = self._cast(keys.bits & ~_BIT, op, args, kwargs)
        with self._working():
            return self.record(op, *args, **kwargs)

    def _cast(self, bits, op, args, kwargs):
        """The arguments as autocast changes them, by recorded operators: a trial shows what it does."""
        if not any(bits & key and op.has_kernel_for_dispatch_key(name) for key, name in _AUTOCAST):
            return args, kwargs
        enabled, self._casts = _C._is_grad_enabled(), {id(t): None for t in _tensors_in(args, kwargs, [])}
        try:
            _C._set_grad_enabled(False)
            result, casts = op._redispatch(bits, *args, **kwargs), self._casts
        finally:
            self._casts = None
            _C._set_grad_enabled(enabled)
        to = tessera.ops.aten._to_copy.default
        for tensor in _tensors_in(args, kwargs, []):
            if isinstance(casts[id(tensor)], tessera.dtype):
                with self._working():
                    casts[id(tensor)] = self.record(to, tensor, dtype=casts[id(tensor)])
        changed = {key: made for key, made in casts.items() if made is not None}
        if not changed:
            return args, self._with_dtype(op, args, kwargs, result)
        return _replaced(args, changed), {name: _replaced(a, changed) for name, a in kwargs.items()}

    @staticmethod
    def _with_dtype(op, args, kwargs, result):
        """The keywords, with dtype=float32 for an operator that autocast gives it."""
        first = next((a for a in args if isinstance(a, tessera.Tensor)), None)
        narrow = first is not None and first.dtype in (tessera.float16, tessera.bfloat16)
        wide = isinstance(result, tessera.Tensor) and result.dtype is tessera.float32
        at = [a.name for a in op._schema.arguments]
        if narrow and wide and "dtype" in at and kwargs.get("dtype") is None and at.index("dtype") >= len(args):
            return {**kwargs, "dtype": tessera.float32}
        return kwargs

    def _note_cast(self, op, args, kwargs):
        """An operator that is called in a trial: a copy of an argument, made while the region is off, is a cast."""
        with _keys(0, _BIT):
            result = op(*args, **kwargs)
        if op._schema.name in ("aten::to", "aten::_to_copy") and _C._tls_keys()[1] & _ANY_AUTOCAST:
            if self._casts.get(id(args[0]), self) is None:
                self._casts[id(args[0])] = result.dtype
        return result

    @contextlib.contextmanager
    def _working(self):
        """Context manager: operators are run and not recorded, without history."""
        enabled = self._grad_enabled = _C._is_grad_enabled()
        with _keys(0, _BIT):
            _C._set_grad_enabled(enabled and self.keeps_history)
            try:
                yield
            finally:
                _C._set_grad_enabled(enabled)

    @property
    def _item(self):
        def item(tensor):
            """The number of a tensor of one element: as of Tensor, and recorded."""
            known = id(tensor) in self._nodes or self.writer is not self and self.writer.found(tensor) is not None
            if not known or not _C._tls_keys()[0] & _BIT or not self._is_on():
                with _keys(0, _BIT):
                    return tessera.Tensor.item(tensor)
            with self._working():
                read = tessera.Tensor.item
                result = self.ran(lambda: read(tensor), read, (tensor,), {})
                _write(self._writers[-1], tessera.ops.aten.item.default, (tensor,), {}, result)
            return result

        return item

    def _call_with_symbols(self, op, name, symbols, args, kwargs):
        """A call with symbolic numbers among the arguments, for which plain ones stand: {index: the argument}."""
        if not _C._tls_keys()[0] & _BIT or not self._is_on():
            return self._plain_call(op, name, symbols, args, kwargs)
        with self._working():
            shown, named = list(args), dict(kwargs)
            for i, value in symbols.items():
                if i < len(shown):
                    shown[i] = value
                else:
                    named[op._schema.arguments[i].name] = value
            result = self.ran(lambda: self._plain_call(op, name, symbols, args, kwargs), op, tuple(shown), named)
            _write(self._writers[-1], op, tuple(shown), named, result)
        return result

    def _is_on(self):
        """Whether the mode of the export is on: who takes it off runs operators that are not to be recorded."""
        mode = self.fake_mode
        return any(_C._get_dispatch_stack_at(i) is mode for i in reversed(range(_C._len_torch_dispatch_stack())))


def _write(tracer, op, args, kwargs, result):
    """Makes the node of an operator's call."""
    shown, named = _written_out(op, args, kwargs)
    target, shown, named = documented_form(op, shown, named, written=True)
    if op is tessera.ops.aten.slice.Tensor:
        shown = _open_slice(*args)
    name = target._schema.name.rpartition("::")[2]
    proxy = tracer.create_proxy("call_function", target, tuple(shown), named, name=name)
    if op._schema.is_mutable and len(op._schema.returns) == 1 and isinstance(result, tessera.Tensor):
        tracer.retrack(result, proxy) if hasattr(tracer, "retrack") else tracer.track(result, proxy)
    else:
        tracer.track(result, proxy)


def _open_slice(x, dim=0, start=None, end=None, step=1):
    """Arguments of a slice: one that ends where the tensor ends is open, so that it does not depend on the size."""
    size = x.shape[dim]
    if end is None:
        end = _END
    if end is not size and not is_symbolic(end) and not is_symbolic(size) and end >= size:
        end = _END
    if end is size or (is_symbolic(end) and is_symbolic(size) and end.node.expr == size.node.expr):
        end = _END
    found = (x, dim, start, end, step)
    return found[:4] if step == 1 else found
