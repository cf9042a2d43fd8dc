"""What the capture knows of this library's modes and regions, of questions about the capture, and of what ends it."""

import functools

import tessera
from tessera.fx import traceback as fx_traceback

from . import _objects
from ._builtins import SPECIAL, _simple, _special
from ._values import NONE, Const, Context, Map, TensorV
from .exc import Unsupported, UserError, UserErrorType


def _grad_mode(make, value):
    def run(tracer, args, kwargs):
        wanted = value if value is not None else _objects.constant([*args, *kwargs.values()][0], "the mode")
        before = tessera._C._is_grad_enabled()
        state = []

        def enter(tracer):
            state.append(tessera._C._is_grad_enabled() if make is not tessera.set_grad_enabled else before)
            tracer.mode(tessera._C._set_grad_enabled, bool(wanted))

        def leave(tracer):
            tracer.mode(tessera._C._set_grad_enabled, state.pop())

        if make is tessera.set_grad_enabled:  # it works without `with`, too
            tracer.mode(tessera._C._set_grad_enabled, bool(wanted))
        if value is not None and args:  # as a decorator of a function
            raise Unsupported(f"{make.__name__} as a decorator of a function that is made here")
        return Context((make, () if value is not None else (bool(wanted),)), enter, leave)

    return run


SPECIAL[tessera.no_grad] = _grad_mode(tessera.no_grad, False)
SPECIAL[tessera.enable_grad] = _grad_mode(tessera.enable_grad, True)
SPECIAL[tessera.set_grad_enabled] = _grad_mode(tessera.set_grad_enabled, None)


@_special(tessera._C._set_grad_enabled)
@_simple
def _set_grad(tracer, value):
    tracer.mode(tessera._C._set_grad_enabled, _objects.constant(value, "the mode"))
    return NONE


@_special(tessera.autocast)
def _autocast(tracer, args, kwargs):
    values = [_objects.constant(a, "an argument of autocast") for a in args]
    named = {k: _objects.constant(v, "an argument of autocast") for k, v in kwargs.items()}
    return _region(tessera.autocast, values, named)


@_special(fx_traceback.annotate)
@_simple
def _annotate(tracer, notes):
    """A region whose nodes have notes; it is none of the graph."""
    if not isinstance(notes, Map):
        raise Unsupported("annotate with something else than a dict")
    known = {key: _objects.constant(v, "a note of annotate") for key, v in notes.items.items()}
    return quiet_region(functools.partial(fx_traceback.annotate, known))


def quiet_region(make):
    """The Context of a context manager that holds while capturing, and is no part of the graph."""

    def enter(tracer):
        tracer.regions.append(make())
        tracer.regions[-1].__enter__()

    return Context((make, ()), enter, lambda tracer: tracer.regions.pop().__exit__(None, None, None))


def _region(cls, values, named):
    nodes = []

    def enter(tracer):
        tracer.regions.append(cls(*values, **named))
        tracer.regions[-1].__enter__()
        node = tracer.node("call_function", enter_region, (cls, tuple(values), dict(named)), {})
        nodes.append(node)

    def leave(tracer):
        tracer.regions.pop().__exit__(None, None, None)
        tracer.node("call_function", leave_region, (nodes.pop(),), {})

    return Context((functools.partial(cls, **named), tuple(values)), enter, leave)


def enter_region(cls, args, kwargs):
    """Makes a context manager and enters it. In graphs; leave_region ends it."""
    made = cls(*args, **kwargs)
    made.__enter__()
    return made


def leave_region(region):
    """Leaves what enter_region gave."""
    region.__exit__(None, None, None)


def _answer(value):
    return lambda tracer, args, kwargs: Const(value)


def install():
    """Fills in what needs modules that import this one."""
    c, overrides = tessera.compiler, tessera.overrides
    SPECIAL[tessera._C._log_api_usage_once] = lambda tracer, args, kwargs: NONE
    SPECIAL[c.is_compiling] = SPECIAL[c.is_dynamo_compiling] = _answer(True)
    SPECIAL[overrides.has_torch_function] = _answer(False)
    for name in ("has_torch_function_unary", "has_torch_function_variadic"):
        if hasattr(overrides, name):
            SPECIAL[getattr(overrides, name)] = _answer(False)
    SPECIAL[tessera.jit.is_scripting] = SPECIAL[tessera.jit.is_tracing] = _answer(False)
    SPECIAL[tessera.is_tensor] = _simple(lambda t, var: Const(isinstance(var, TensorV)))


def asked_for(name):
    """A handler that ends the graph because the program says so."""

    def run(tracer, args, kwargs):
        given = [a.value if isinstance(a, Const) else a for a in (*args, *kwargs.values())]
        raise Unsupported(
            f"Call to `{name}()`", hints=[f"Remove the `{name}()` call."],
            explanation=f"User-inserted graph break. Message: {given[0] if given and given[0] else None}",
            context=f"Called `{name}()` with {given}",
        )  # fmt: skip

    return run


def refused(text):
    """A handler that ends the graph."""

    def run(tracer, args, kwargs):
        more = f": {args[0].value}" if args and isinstance(args[0], Const) and args[0].value else ""
        raise Unsupported(text + more)

    return run


def forbidden(text):
    """A handler that is an error."""

    def run(tracer, args, kwargs):
        raise UserError(UserErrorType.ANTI_PATTERN, text)

    return run
