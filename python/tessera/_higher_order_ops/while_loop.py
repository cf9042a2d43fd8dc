"""`while_loop`: a function again and again, as long as another one says so."""

import tessera
from tessera import _C
from tessera._higher_order_ops._operator import ControlFlow, Flat, is_symbol, metadata_differs, without_values
from tessera._higher_order_ops.scan import scan_op
from tessera.utils import _pytree as pytree

__all__ = ["while_loop", "while_loop_op", "while_loop_stack_output_op"]


def _condition(cond_fn, carried, additional):
    found = cond_fn(*carried, *additional)
    found = found[0] if isinstance(found, (tuple, list)) and len(found) == 1 else found
    if isinstance(found, tessera.Tensor) and (found.dtype != tessera.bool or found.numel() != 1):
        raise RuntimeError(
            f"while_loop: cond_fn must return a boolean scalar tensor or a bool, but got a tensor of shape "
            f"{tuple(found.shape)} and {found.dtype}"
        )
    if not isinstance(found, (bool, tessera.Tensor)) and not is_symbol(found, "SymBool"):
        raise RuntimeError(f"while_loop: cond_fn must return a boolean scalar tensor or a bool, but got {found!r}")
    return found


def _next(body_fn, carried, additional):
    made = body_fn(*carried, *additional)
    if not isinstance(made, (tuple, list)):
        raise RuntimeError(f"while_loop: body_fn must return a tuple of the next carried_inputs, but got {type(made)}")
    different = metadata_differs(carried, tuple(made))
    if different:
        raise RuntimeError(
            "while_loop: expected body_fn to return as many tensors as it is given, with the same metadata, but "
            f"carried_inputs and its results {different}"
        )
    return tuple(made)


def _unknown(carried, others):
    """What is carried, with symbols of which nothing is known in place of numbers; None if there are none, or tensors
    have values.
    """
    if all(isinstance(v, tessera.Tensor) for v in carried):
        return None
    modes = [_C._fake_mode_of(v) for v in (*carried, *others) if isinstance(v, tessera.Tensor)]
    env = next((m.shape_env for m in modes if m is not None and m.shape_env is not None), None)
    if env is None:
        return None
    return tuple(v if isinstance(v, tessera.Tensor) else env.create_unbacked_symint() for v in carried)


def check_open(samples):
    """Raises: RuntimeError if a number that is carried, of which nothing is known, has become one number."""
    if any(is_symbol(v, "SymInt") and v.node.expr.is_number for v in samples):
        raise RuntimeError(
            "while_loop: a function works for one value of a number that is carried, as an operator needs to know it; "
            "carry a tensor, or take operators that work for all"
        )


class WhileLoopOp(ControlFlow):
    """`while_loop(cond_fn, body_fn, carried_inputs, additional_inputs)`: the last ones carried, a tuple."""

    def __init__(self):
        super().__init__("while_loop")

    def run(self, cond_fn, body_fn, carried_inputs, additional_inputs=()):
        carried, additional = tuple(carried_inputs), tuple(additional_inputs)
        unknown = _unknown(carried, additional)
        if unknown is not None:
            made = _next(body_fn, unknown, additional)
            return _unknown(made, made) or made
        go_on = _condition(cond_fn, carried, additional)
        if without_values(go_on):
            return _next(body_fn, carried, additional)
        if isinstance(go_on, tessera.Tensor) and _C._func._levels() and _C._func._is_batched(go_on):
            return _run_batched(cond_fn, body_fn, carried, additional)
        while go_on:
            carried = _next(body_fn, carried, additional)
            go_on = _condition(cond_fn, carried, additional)
        return carried

    def trace(self, mode, cond_fn, body_fn, carried_inputs, additional_inputs=()):
        from tessera._higher_order_ops import _bodies

        carried, additional = list(carried_inputs), list(additional_inputs)
        count = len(carried)
        sample = [*_bodies.samples(mode, *(_unknown(carried, (*carried, *additional)) or carried)), *additional]
        if any(isinstance(t, int) for t in sample[:count]):
            raise RuntimeError(
                f"while_loop: a loop that is traced on real tensors carries tensors, but carried_inputs are {carried}; "
                "make the numbers tensors, or trace with fake ones: tracing_mode='symbolic'"
            )

        def predicate(*values):
            return (_condition(cond_fn, values[:count], values[count:]),)

        def body(*values):
            return _next(body_fn, values[:count], values[count:])

        bodies, lifted = _bodies.trace_bodies("while_loop", mode, (predicate, body), (sample, sample))
        check_open(sample[:count])
        condition, step = (b.module for b in bodies)
        given = [*carried, *additional, *lifted]
        needs_gradient = tessera.is_grad_enabled() and any(
            isinstance(t, tessera.Tensor) and t.requires_grad for t in given
        )
        if not needs_gradient:
            return self._emit(_bodies, mode, self, condition, step, given, count)

        if without_values(*given):
            return _bodies.with_gradient(
                lambda values: self._emit(_bodies, mode, self, condition, step, values, count), _no_gradient, given
            )
        if self is while_loop_stack_output_op:
            raise RuntimeError(
                "while_loop: the gradient of a traced loop in a traced loop, or of a traced gradient, depends on how "
                "often the inner loop runs, which a trace does not know; run one of the loops outside of the trace"
            )
        aten = tessera.ops.aten

        def forward(values):
            made = self._emit(_bodies, mode, while_loop_stack_output_op, condition, step, values, count)
            before.extend(tessera.cat([v.unsqueeze(0), m]) for v, m in zip(values, made))
            return [aten.select.int(t, 0, -1) for t in before]  # numbers from the end: another run has other steps

        def backward(values, wanted, grads):
            """Steps backward over what was carried into each; the gradients of the others are added up."""
            floating = [i for i, v in enumerate(values) if isinstance(v, tessera.Tensor) and _bodies.has_gradient(v)]
            pull = _bodies.pulled_back(step, len(values), floating)
            carries = [i for i in floating if i < count]

            def back(*args):
                sums, carried_in = args[: len(floating)], args[len(floating) : len(floating) + count]
                gradients = iter(sums[: len(carries)])
                outer = [next(gradients) if i in carries else None for i in range(count)]
                found = pull(*carried_in, *args[len(floating) + count :], *outer)
                kept = found[: len(carries)]
                return (*kept, *(s + g for s, g in zip(sums[len(carries) :], found[len(carries) :])))

            start = [grads[i] for i in carries] + [tessera.zeros_like(values[i]) for i in floating[len(carries) :]]
            steps = [aten.slice.Tensor(t, 0, 0, -1).flip(0) for t in before]
            found = scan_op(back, start, steps, values[count:])[: len(floating)]
            return [found[floating.index(i)] for i in wanted]

        before = []  # of every step, what was carried into it, and in the end
        return _bodies.with_gradient(forward, backward, given)

    @staticmethod
    def _emit(_bodies, mode, op, condition, step, values, count):
        def arguments(c, b):
            return c, b, tuple(values[:count]), tuple(values[count:])

        names = "while_loop_cond_graph", "while_loop_body_graph"
        return _bodies.emit(
            op, mode, names, (condition, step), arguments,
            lambda: op.run(condition, step, values[:count], values[count:]),
        )  # fmt: skip


def _no_gradient(*_):
    raise RuntimeError(
        "while_loop: the number of steps of a loop over fake tensors is not known, so its gradient can't be traced; "
        "trace without gradients, or on real tensors"
    )


class WhileLoopStackOutputOp(WhileLoopOp):
    """As while_loop, but what every step carried on, stacked in a new dimension 0."""

    def __init__(self):
        ControlFlow.__init__(self, "while_loop_stack_output")

    def run(self, cond_fn, body_fn, carried_inputs, additional_inputs=()):
        carried, additional = tuple(carried_inputs), tuple(additional_inputs)
        made = []
        go_on = _condition(cond_fn, carried, additional)
        if without_values(go_on):
            _no_gradient()
        while go_on:
            carried = _next(body_fn, carried, additional)
            made.append(carried)
            go_on = _condition(cond_fn, carried, additional)
        if not made:
            return tuple(t.new_empty((0, *t.shape)) for t in carried)
        return tuple(tessera.stack(parts) for parts in zip(*made))


while_loop_op = WhileLoopOp()
while_loop_stack_output_op = WhileLoopStackOutputOp()


def _run_batched(cond_fn, body_fn, carried, additional):
    """Steps as long as an element of the batch goes on; the others keep what they have."""
    while True:
        go_on = _condition(cond_fn, carried, additional)
        value = go_on
        while _C._func._wrapper(value) is not None:
            value = _C._func._value(value)
        if not value.any():
            return carried
        made = _next(body_fn, carried, additional)
        carried = tuple(tessera.where(go_on.reshape(()), new, old) for new, old in zip(made, carried))


def while_loop(cond_fn, body_fn, carried_inputs):
    """`carried = body_fn(*carried)` while `cond_fn(*carried)`; returns what is carried in the end. Traced programs keep
    the loop.

    Differentiable; traced with gradients it keeps what every step carried. Inside of vmap a condition with a batch goes
    on until no element does.

    Args:
        cond_fn: function of the carried values; a bool or a boolean tensor of one element.
        body_fn: function of the carried values; a tuple of as many, of the same shapes and dtypes.
        carried_inputs: a tuple or list of tensors, ints and trees of them: what the first call gets.

    Raises: RuntimeError for other arguments, and where a function returns something else.

    >>> tessera.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (tessera.tensor(0), tessera.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    leaves, spec = pytree.tree_flatten(carried_inputs)
    if not isinstance(carried_inputs, (tuple, list)) or not all(
        isinstance(t, (tessera.Tensor, int)) or is_symbol(t, "SymInt") for t in leaves
    ):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of tensor or "
            f"int leaves, but got {carried_inputs}."
        )
    condition, body = Flat(lambda *a: cond_fn(*a), spec), Flat(lambda *a: _as_tuple(body_fn(*a)), spec)
    result = while_loop_op(condition, body, tuple(leaves), ())
    return pytree.tree_unflatten(list(result), spec)


def _as_tuple(made):
    if not isinstance(made, (tuple, list)):
        raise RuntimeError(f"while_loop: body_fn must return a tuple of the next carried_inputs, but got {type(made)}")
    return made
