"""Places of functions from which they are captured, what was compiled for them, and the loop that runs it."""

import inspect
import threading
import types
import weakref

import tessera
from tessera.compiler import _stance

from . import (
    _breaks, _builtins, _calls, _code, _copies, _emit, _library, _logs, _registry, _resume, _transforms, config,
    exc, utils,
)  # fmt: skip
from ._frames import Frame
from ._raising import Observed
from ._sources import Source
from ._symbols import History, NeedSymbols
from ._tracer import Tracer, modes
from ._values import NULL, Context, Exit, Null
from .exc import Unsupported

_lock = threading.RLock()
_local = threading.local()
_all = weakref.WeakSet()  # every Settings
_noted = []


class Settings:
    """What one call of torch.compile asked for.

    Args:
        backend: callable of a GraphModule and example inputs that gives a callable. fullgraph, dynamic: as there.
        hooks: {"guard_filter_fn": ...}. export: capture once, for export.
    """

    def __init__(self, backend, fullgraph=False, dynamic=None, hooks=None, name="?"):
        self.backend, self.fullgraph, self.dynamic, self.name = backend, fullgraph, dynamic, name
        self.hooks = dict(hooks or {})
        self.left_out = ()  # functions whose calls are no part of what is captured
        self.points = weakref.WeakKeyDictionary()  # code -> {(index, ...): Point}
        _all.add(self)

        self._variants = {}  # backend of a stance -> Settings
        self._seen = weakref.WeakSet()  # code that ran once before it is compiled, as a stance asks

    def reset(self):
        """Forgets what was compiled."""
        self.points = weakref.WeakKeyDictionary()
        self._variants.clear()
        self._seen.clear()

    def with_backend(self, backend):
        """The same with another backend."""
        from .backends.registry import lookup_backend

        if backend not in self._variants:
            self._variants[backend] = Settings(lookup_backend(backend), self.fullgraph, self.dynamic, self.hooks)
        return self._variants[backend]

    def seen(self, function):
        """Whether a function was called before; notes the call."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None or code in self._seen:
            return True
        self._seen.add(code)
        return False

    def point(self, code, space, key=(0, (), None, (), ())):
        """The Point of a place: (index, layout of the stack, names, cells, blocks)."""
        with _lock:
            of = self.points.setdefault(code, {})
            place = (id(space), key)
            found = of.get(place)
            if found is None:
                found = of[place] = Point(self, code, space, *key)
            return found


class Piece:
    """One capture from a point to where its graph ends."""

    def __init__(self, point, tracer, emitter):
        self.point, self.tracer, self.emitter = point, tracer, emitter

    def leave(self, frame, index, native=False, indent=""):
        """Writes the end of the piece: another point goes on."""
        e = self.emitter
        stack = tuple(not isinstance(v, Null) for v in frame.stack)
        live = frame.code.live(index).union(*(frame.code.live(t) for t, _ in frame.blocks if t is not None))
        cells = tuple(
            n for n in frame.code.code.co_cellvars if n in frame.cells and (n in live or _code.VERSION < (3, 11))
        )
        names = tuple(n for n in frame.locals if n in live and n not in cells)
        blocks = tuple((frame.code.instructions[t].offset, d) for t, d in frame.blocks if t is not None)
        if any(t is None for t, _ in frame.blocks):
            raise Unsupported("a graph ends where an exception is handled")
        start = len(e.after)
        values = [frame.locals[n] for n in names] + [frame.cells[n] for n in cells]
        values += [v for v in frame.stack if not isinstance(v, Null)]
        texts = "".join(e.expression(v) + ", " for v in values)
        point = self.point.settings.point(frame.code.code, frame.space, (index, stack, names, cells, blocks))
        e.line(f"return {e.writer.bind(_emit.Next)}({e.writer.bind(point)}, ({texts}__closure,), {native})")
        e.after[start:] = [indent + line for line in e.after[start:]]


class Entry:
    """One compiled piece. Attributes: check (its guards as a function), run, texts (of the guards), graph."""

    __slots__ = ("check", "run", "texts", "graph", "guards", "reason")


class Point:
    """A place of a function. index 0 is its start, with the parameters as names."""

    def __init__(self, settings, code, space, index, stack, names, cells, blocks):
        self.settings, self.code, self.space, self.index = settings, code, space, index
        self.stack, self.cells, self.blocks = stack, cells, blocks
        self.start = names is None
        self.names = _parameters(code) if names is None else names
        self.parameters = [_identifier(n) for n in (*self.names, *cells)]
        self.parameters += [f"__stack{i}" for i, held in enumerate(stack) if held] + ["__closure"]
        self.entries = []
        self.history = History()
        self.left = False  # always left to Python
        self.function = None  # a reference to the function of a start

    def invoke(self, function, args, kwargs):
        """Calls what a graph could not hold; functions of Python are captured on their own."""
        return invoke(self.settings, function, args, kwargs)

    # --- running ---

    def find(self, args):
        """The entry whose guards hold, or None."""
        for entry in self.entries:
            if entry.check(*args) == -1:
                return entry
        return None

    def native(self, args):
        """Runs the rest of the function as it is written."""
        if self.start:
            function = types.FunctionType(self.code, self.space, self.code.co_name, None, args[-1] or None)
            return _call_flat(function, self.code, args)
        offset = _code.of(self.code).instructions[self.index].offset
        code = _resume.continuation(self.code, offset, self.stack, self.names, self.cells, self.blocks)
        count = len(self.names)
        closure, values = args[-1], args[:-1]
        if _code.VERSION < (3, 11):
            made = dict(zip(self.cells, values[count : count + len(self.cells)]))
            closure = tuple(made.get(n) or types.CellType() for n in self.code.co_cellvars) + tuple(closure or ())
            values = values[:count] + values[count + len(self.cells) :]
        return _resume.run(code, self.space, values, closure)

    # --- capturing ---

    def capture(self, args):
        """Compiles for these arguments: an Entry, or None if the function has to be left to Python."""
        breaks, symbolic = {}, False
        before = modes()
        while True:
            tracer = Tracer(self.settings, self.history, symbolic)
            try:
                return self._attempt(tracer, args, breaks)
            except NeedSymbols:
                symbolic = True
            except Unsupported as error:
                at = error.at if hasattr(error, "at") else None
                whole = self.settings.fullgraph or _registry.STATE.error_on_break
                if whole and not isinstance(error, exc.UserError):
                    raise error.add_place() from error.__cause__
                if isinstance(error, exc.UserError):
                    raise
                if at is None or at in breaks:
                    _logs.left(self, error)
                    return None
                breaks[at] = error
                _logs.graph_break(self, error)
            except exc.TorchDynamoException:
                raise
            except Exception as error:
                if self.settings.fullgraph:
                    raise exc.InternalTorchDynamoError(f"{type(error).__name__}: {error}") from error
                _logs.log.warning("%s is left to Python: its piece can't be written: %r", self.code.co_name, error)
                return None
            finally:
                tracer.close()
                _restore(before)

    def _frame(self, tracer, args):
        """The frame at this point, with what the arguments are."""
        values = dict(zip(self.parameters, args))
        roots = {name: Source("local", None, name) for name in self.parameters}
        locals_ = {n: (values[_identifier(n)], roots[_identifier(n)]) for n in self.names}
        closure = args[-1] or ()
        free = [tracer.wrap(c, roots["__closure"].item(i)) for i, c in enumerate(closure)]
        frame = Frame(tracer, self.code, self.space, locals_, free)
        if not self.start:
            for n in self.cells:
                name = _identifier(n)
                frame.cells[n] = tracer.wrap(values[name], roots[name])
            for i, held in enumerate(self.stack):
                name = f"__stack{i}"
                frame.stack.append(tracer.wrap(values[name], roots[name]) if held else NULL)
            at = frame.code.at
            frame.blocks = [(at[target], depth) for target, depth in self.blocks]
            frame.index = frame.now = self.index
        return frame

    def _attempt(self, tracer, args, breaks):
        frame = self._frame(tracer, args)
        try:
            frame.stop = breaks
            frame.run()
        except Unsupported as error:
            error.at = frame.now
            raise
        except Observed as error:
            made = Unsupported(
                "Observed exception", context=f"raised exception {error.text()}", hints=[exc.USER_ERROR],
                explanation="Dynamo found no exception handler at the top-level compiled function when encountering an "
                "exception. Exception will propagate outside the compiled region.",
            )  # fmt: skip
            made.at, made.real_stack = frame.now, [frame.summary()]
            raise made from None
        except (exc.TorchDynamoException, NeedSymbols):
            raise
        except Exception as error:  # a fault of the capture must not become one of the program
            _logs.log.warning(
                "%s can't be captured from line %s on: %r", self.code.co_name, frame.summary().lineno, error
            )
            made = Unsupported(f"the capture itself failed: {type(error).__name__}: {error}", case_name="internal")
            made.at, made.real_stack = frame.now, [frame.summary()]
            raise made from error
        emitter = _emit.Emitter(tracer, self.parameters)
        piece = Piece(self, tracer, emitter)
        try:
            return self._write(piece, frame, breaks)
        except Unsupported as error:
            error.at = None if frame.returned else frame.now
            if frame.returned and not error.real_stack:
                error.real_stack = [frame.summary()]
            raise

    def _write(self, piece, frame, breaks):
        tracer, emitter = piece.tracer, piece.emitter
        tracer.check_aliases()
        if frame.returned:
            result = emitter.expression(frame.result)
            emitter.effects()
            emitter.line(f"return {result}")
        else:
            self._write_break(piece, frame)
        return self._compile(piece, None if frame.returned else breaks[frame.now])

    def _write_break(self, piece, frame):
        """The lines of an instruction that ends the graph."""
        tracer, emitter = piece.tracer, piece.emitter
        _breaks.check_stack(frame.stack)
        ins = frame.code.instructions[frame.now]
        held = [v.context for v in frame.stack if isinstance(v, Exit) and isinstance(v.context, Context)]
        for context in reversed(held):
            context.leave(tracer)
        ins_index = frame.now
        while frame.names is not None and frame.code.instructions[ins_index].name != "KW_NAMES":
            ins_index -= 1  # it belongs to the call
        # all values are made before the lines that write to objects
        for var in [*frame.stack, *frame.locals.values(), *frame.cells.values()]:
            if not isinstance(var, Null):
                _try_expression(emitter, var, frame)
        emitter.effects()
        protected = frame.code.handler(frame.now) is not None or frame.blocks or held
        index = frame.now
        state = (list(frame.stack), frame.names, len(emitter.after))
        if not protected and index + 1 < len(frame.code.instructions):
            try:
                _breaks.write(piece, frame, ins)
                return
            except _breaks.LeftToPython:
                frame.stack[:], frame.names, size = state
                del emitter.after[size:]
        index = ins_index
        if index == self.index and not self.start and not piece.tracer.inputs:
            raise Unsupported("nothing is left for a graph")
        piece.leave(frame, index, native=True)

    def _compile(self, piece, reason):
        tracer, emitter = piece.tracer, piece.emitter
        compiled = module = None
        graph_nodes = [n for n in tracer.graph.nodes if n.op not in ("placeholder", "get_attr")]
        if graph_nodes or emitter.outputs:
            module = tracer.module(emitter.outputs)
            compiled = _compile_graph(
                self.settings,
                module,
                [v.real if v.real is not None else v.example for v in tracer.inputs],
                tracer,
                self,
            )
        entry = Entry()
        tracer.shape_guards()
        kept = _filtered(self.settings, tracer.guards)
        entry.check, entry.texts = tracer.guards.function(self.parameters, (modes, tracer.modes_before), kept)
        entry.run = emitter.function(compiled, self.code.co_name)
        entry.graph, entry.guards, entry.reason = module, tracer.guards, reason
        _logs.compiled(self, entry)
        return entry


def _try_expression(emitter, var, frame):
    if isinstance(var, tuple):
        return
    live = frame.code.live(frame.now)
    used = [*frame.stack, *(v for n, v in frame.locals.items() if n in live)]
    if any(v is var for v in used):
        emitter.expression(var)


def _filtered(settings, guards):
    choose = settings.hooks.get("guard_filter_fn")
    if choose is None:
        return None
    everything = list(guards)
    return [g for g, keep in zip(everything, choose(everything)) if keep]


def _compile_graph(settings, module, inputs, tracer, point):
    counters = utils.counters
    counters["stats"]["unique_graphs"] += 1
    counters["stats"]["calls_captured"] += sum(
        n.op in ("call_function", "call_method", "call_module") for n in module.graph.nodes
    )
    _logs.graph(point, module)
    before = getattr(_local, "busy", 0)
    _local.busy = before + 1
    _restore(tracer.modes_before)
    try:
        compiled = settings.backend(module, inputs)
    except exc.TorchDynamoException:
        raise
    except Exception as error:
        if not config.suppress_errors or settings.fullgraph:
            raise exc.BackendCompilerFailed(settings.backend, error) from error
        _logs.log.warning("A backend failed; its graph runs as it is (config.suppress_errors): %r", error)
        compiled = module.forward
    finally:
        _local.busy = before
    if not callable(compiled):
        raise exc.BackendCompilerFailed(
            settings.backend, TypeError(f"expected a backend to return a callable, but got {type(compiled).__name__}")
        )
    return compiled


def _restore(state):
    if tessera._C._is_grad_enabled() != state[0]:
        tessera._C._set_grad_enabled(state[0])


def _identifier(name):
    return name if name.isidentifier() else "__" + "".join(c if c.isalnum() else "_" for c in name)


def _parameters(code):
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _call_flat(function, code, args):
    """Calls a function with the values of its parameters in the order of its variables."""
    count, only = code.co_argcount, code.co_kwonlyargcount
    at = count + only
    positional = list(args[:count])
    words = dict(zip(code.co_varnames[count:at], args[count:at]))
    if code.co_flags & inspect.CO_VARARGS:
        positional += args[at]
        at += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        words.update(args[at])
    return function(*positional, **words)


_binders = weakref.WeakKeyDictionary()


def flat(function, args, kwargs):
    """Values of a function's parameters in the order of its variables, then its closure. Raises: TypeError."""
    code = function.__code__
    if not kwargs and len(args) == code.co_argcount and not code.co_kwonlyargcount and not code.co_flags & 0x0C:
        return (*args, function.__closure__)
    binder = _binders.get(code)
    if binder is None:
        binder = _binders[code] = _make_binder(code)
    binder = types.FunctionType(binder.__code__, binder.__globals__, function.__name__, function.__defaults__)
    binder.__kwdefaults__, binder.__qualname__ = function.__kwdefaults__, function.__qualname__
    return (*binder(*args, **kwargs), function.__closure__)


def _make_binder(code):
    names = _parameters(code)
    at = code.co_argcount
    parts = list(names[:at])
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    only = list(names[at : at + code.co_kwonlyargcount])
    rest = list(names[at + code.co_kwonlyargcount :])
    if code.co_flags & inspect.CO_VARARGS:
        parts.append("*" + rest.pop(0))
    elif only:
        parts.append("*")
    parts += only
    if rest:
        parts.append("**" + rest[0])
    clean = [p if p == "/" else p.replace(".", "__") for p in parts]
    space = {}
    values = "".join(n.replace(".", "__") + ", " for n in names)
    name = code.co_name if code.co_name.isidentifier() else "function"
    exec(f"def {name}({', '.join(clean)}): return ({values})", space)
    return space[name]


# --- the loop ---------------------------------------------------------------------------------------------------------


def captures(function):
    """Whether a function of Python is one that is captured on its own."""
    code = function.__code__
    module = _calls.home(function)
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return False
    if getattr(function, "_torchdynamo_disable", None) is not None or hasattr(function, "_torchdynamo_orig_callable"):
        return False
    if module == "tessera" or module.startswith("tessera."):
        return module.startswith("tessera.nn.modules")
    return not code.co_filename.startswith((_calls._STDLIB + "/", "<frozen")) or "site-packages" in code.co_filename


def invoke(settings, function, args, kwargs):
    """`function(*args, **kwargs)`, captured if it is a function of Python, a method or a module."""
    if isinstance(function, types.MethodType):
        args, function = (function.__self__, *args), function.__func__
    elif isinstance(function, tessera.nn.Module) and type(function).__call__ is tessera.nn.Module.__call__:
        if _calls.plain(function) and "forward" not in function.__dict__ and function._compiled_call_impl is None:
            args, function = (function, *args), type(function).forward
    if not isinstance(function, types.FunctionType) or not captures(function):
        return function(*args, **kwargs)
    return run_function(settings, function, args, kwargs)


def run_function(settings, function, args, kwargs):
    """Runs a function of Python through what is compiled for it."""
    return run(settings.point(function.__code__, function.__globals__), flat(function, args, kwargs))


def run(point, args):
    """Runs a function from a point to its end."""
    while True:
        if getattr(_local, "busy", 0):
            return point.native(args)
        entry = None if point.left else point.find(args)
        if entry is None:
            entry = _miss(point, args)
            if entry is None:
                return point.native(args)
        found = entry.run(*args)
        if type(found) is not _emit.Next:
            return found
        point, args = found.point, found.args
        if found.native:
            return point.native(args)


def _miss(point, args):
    """No entry fits: captures, unless that is not wanted any more."""
    if point.left:
        return None
    stance = _stance.current[0]
    if stance == "eager_on_recompile" or stance == "fail_on_recompile":
        if stance == "fail_on_recompile":
            raise RuntimeError(
                "Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: "
                f"'{point.code.co_filename}', function name: '{point.code.co_name}', line number: "
                f"{point.code.co_firstlineno}\n{_logs.why_again(point, args) if point.entries else ''}"
            )
        return None
    with _lock:
        if point.entries:
            _logs.recompile(point, args)
            if config.error_on_recompile:
                raise exc.RecompileError(
                    f"Recompiling function {point.code.co_name} in {point.code.co_filename}:"
                    f"{point.code.co_firstlineno}\n{_logs.why_again(point, args)}"
                )
            everywhere = sum(len(p.entries) for p in point.settings.points[point.code].values())
            if len(point.entries) >= config.recompile_limit or everywhere >= config.accumulated_recompile_limit:
                return _limit(point)
        before = getattr(_local, "busy", 0)
        _local.busy = before + 1
        try:
            entry = point.capture(args)
        finally:
            _local.busy = before
        if entry is None:
            point.left = True
            utils.counters["frames"]["total"] += 1
            return None
        utils.counters["frames"]["total"] += 1
        utils.counters["frames"]["ok"] += 1
        point.entries.insert(0, entry)
        return entry


def _limit(point):
    text = (
        f"{point.code.co_name} ({point.code.co_filename}:{point.code.co_firstlineno}) was compiled "
        f"{len(point.entries)} times (config.recompile_limit) and its arguments fit to none of them"
    )
    if point.settings.fullgraph or config.fail_on_recompile_limit_hit:
        raise exc.FailOnRecompileLimitHit(text)
    if point not in _noted:
        _noted.append(point)
        _logs.log.warning("%s. It runs as it is written from now on; TORCH_LOGS=recompiles shows the reasons.", text)
    return None


def capturing():
    """Whether this thread is capturing."""
    return getattr(_local, "busy", 0) > 0


def reset():
    """Forgets all that was compiled."""
    _noted.clear()
    for settings in list(_all):
        settings.reset()
    utils.counters.clear()


_library.install()
_copies.install()
_transforms.install()
