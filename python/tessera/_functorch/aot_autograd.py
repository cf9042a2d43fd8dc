"""Ahead-of-time gradients: a function's forward and backward as graphs of operators, each given to a compiler."""

import contextlib
import functools

import tessera
from tessera.fx.experimental.proxy_tensor import make_fx
from tessera.utils import _pytree as pytree

from .aliases import Aliases, memory_of
from .compilers import nop
from .partitioners import default_partition

__all__ = ["aot_export_joint_simple", "aot_function", "aot_module", "aot_module_simplified",
           "compiled_function", "compiled_module", "create_joint", "make_boxed_compiler",
           "make_boxed_func", "nop"]  # fmt: skip

from .compilers import make_boxed_compiler, make_boxed_func

compiled_function = compiled_module = None  # set below: the older names


def _call(function, args):
    """Calls what a compiler gave."""
    return function(list(args)) if getattr(function, "_boxed_call", False) else function(*args)


def create_joint(fn):
    """The function (primals, tangents) -> (results, gradients of the primals) of one of flat tensors with flat
    results. Gradients are None for primals that need none.
    """

    def joint(primals, tangents):
        results = fn(*primals)
        wanted = [p for p in primals if isinstance(p, tessera.Tensor) and p.requires_grad]
        pairs = [(r, t) for r, t in zip([r for r in results if _differentiable(r)], tangents)]
        found = []
        if pairs and wanted:
            found = tessera.autograd.grad([r for r, _ in pairs], wanted, [t for _, t in pairs], allow_unused=True)
        found = iter(found)
        gradients = [next(found, None) if any(p is w for w in wanted) else None for p in primals]
        return list(results), gradients

    return joint


def _differentiable(value):
    return isinstance(value, tessera.Tensor) and value.requires_grad


class _Writes(tessera.utils._python_dispatch.TorchDispatchMode):
    """Finds out what a function writes to. any: to something; inputs: indexes of the inputs whose memory it was."""

    def __init__(self, inputs):
        super().__init__()
        self.tensors = {i: t for i, t in enumerate(inputs) if isinstance(t, tessera.Tensor)}
        self.versions = {i: t._version for i, t in self.tensors.items()}
        self.any, self.inputs = False, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.any = self.any or func._schema.is_mutable
        return func(*args, **(kwargs or {}))

    def __exit__(self, *error):
        super().__exit__(*error)
        # Versions also tell of operators whose schemas do not say what they write (batch norm's statistics).
        self.inputs = [i for i, t in self.tensors.items() if t._version != self.versions[i]]
        self.any = self.any or bool(self.inputs)


def _tensors(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, tessera.Tensor)]


def _fresh(values):
    """Copies that tracing may work on: they have the same sizes and numbers, and record gradients as these do."""
    known = {}

    def copy(value):
        if not isinstance(value, tessera.Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = (value, value.detach().clone().requires_grad_(value.requires_grad))
        return known[id(value)][1]

    return [copy(v) for v in values]


@contextlib.contextmanager
def _same_random_numbers():
    """Tracing runs the function: the generator's state is as it was afterwards."""
    state = tessera.get_rng_state()
    try:
        yield
    finally:
        tessera.set_rng_state(state)


class _Compiled:
    """A function of flat values, compiled for those of its first call.

    Args:
        fn: function of flat values with flat results. compilers: (forward, backward, inference). partition: as
            default_partition. decompositions: of make_fx. by_values: fn has numbers that depend on values, which stay
        open in the graphs; where that cannot be, fn runs as it is.
    """

    def __init__(self, fn, args, compilers, partition, decompositions, by_values=False):
        self._trace = make_fx
        if by_values:
            self._trace = functools.partial(make_fx, tracing_mode="fake", _allow_non_fake_inputs=True)
        try:
            self._compile(fn, args, compilers, partition, decompositions, by_values)
        except (RuntimeError, IndexError):
            if not by_values:
                raise
            self.run = lambda args: list(fn(*args))

    def _compile(self, fn, args, compilers, partition, decompositions, by_values):
        forward, backward, inference = compilers
        needs_grad = tessera.is_grad_enabled() and any(_differentiable(a) for a in args)
        with _same_random_numbers():
            copies = _fresh(args)
            with _Writes(copies) as writes:
                results = fn(*copies)
            written = writes.inputs
            if not _separate(args, copies, results, written):
                self.run = lambda args: list(fn(*args))
                return
            needs_grad = needs_grad and any(_differentiable(r) for r in results)
            aliases = Aliases(args, copies, results)
            if aliases and by_values and not writes.any and not needs_grad:
                aliases = None  # views of which the sizes are not known: the graph makes them of what it is given
            elif not aliases.possible or (aliases and by_values):
                self.run = lambda args: list(fn(*args))
                return
            if aliases:
                fn, results = _without_aliases(fn, aliases), aliases.of_graph(results)
            self.count = len(results)
            if writes.any:
                self._trace = functools.partial(_trace_without_writes, self._trace)
                fn = _on_copies(fn, written)
                results = [*results, *(copies[i].detach() for i in written)]
            if needs_grad:
                if by_values:
                    raise RuntimeError("gradients save numbers, not what they are made of")
                run = self._compile_joint(fn, args, results, forward, backward, partition, decompositions)
            else:
                with tessera.no_grad():
                    copies = _fresh([a.detach() if isinstance(a, tessera.Tensor) else a for a in args])
                    graph = self._trace(lambda *a: list(fn(*a)), decompositions)(*copies)
                run = functools.partial(self._infer, inference(graph, list(args)))
        if written:
            run = functools.partial(self._write_back, run, written)
        self.run = (lambda args: aliases.complete(args, run(args))) if aliases else run

    def _write_back(self, run, written, args):
        """The results; what the function writes to its arguments is written to them."""
        out = run(args)
        with tessera.no_grad():
            for i, value in zip(written, out[self.count :]):
                args[i].copy_(value)
        return out[: self.count]

    @staticmethod
    def _infer(compiled, args):
        with tessera.no_grad():
            return list(_call(compiled, args))

    def _compile_joint(self, fn, args, results, forward, backward, partition, decompositions):
        differentiable = [_differentiable(r) for r in results]
        tangents = [tessera.zeros_like(r) + 1 for r, d in zip(results, differentiable) if d]
        copies = _fresh(args)
        flat_joint, given = _flat_joint(create_joint(fn), len(args)), [*copies, *[t.detach() for t in tangents]]
        joint = self._trace(flat_joint, decompositions)(*given)
        # The backward, which runs here for the first time, may write, too.
        if self._trace is make_fx and any(_is_write(node) for node in joint.graph.nodes):
            joint = _trace_without_writes(self._trace, flat_joint, decompositions)(*given)
        _name_inputs(joint.graph, len(args))
        flat = pytree.tree_leaves(joint.graph.output_node().args[0], is_leaf=lambda n: n is None)
        joint.graph.output_node().args = (flat,)
        joint.recompile()
        front, back = partition(joint, (copies, tangents), num_fwd_outputs=len(results))
        compiled_front = forward(front, list(args))
        saved_values = [n.meta.get("val") for n in back.graph.nodes if n.op == "placeholder"]
        compiled_back = backward(back, saved_values)
        count = len(results)

        class CompiledFunction(tessera.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                out = list(_call(compiled_front, inputs))
                kept = out[count:]
                ctx.plain = [None if isinstance(v, tessera.Tensor) else v for v in kept]
                ctx.save_for_backward(*[v if isinstance(v, tessera.Tensor) else None for v in kept])
                shown = out[:count]
                ctx.mark_non_differentiable(
                    *[v for v, d in zip(shown, differentiable) if isinstance(v, tessera.Tensor) and not d]
                )
                return tuple(shown)

            @staticmethod
            def backward(ctx, *grads):
                kept = [p if t is None else t for t, p in zip(ctx.saved_tensors, ctx.plain)]
                wanted = [g for g, d in zip(grads, differentiable) if d]
                return tuple(_call(compiled_back, [*kept, *wanted]))

        return lambda args: list(CompiledFunction.apply(*args))


def _separate(args, copies, results, written):
    """Whether what a function writes to its arguments can be written to them afterwards."""
    if not written:
        return True
    places = [memory_of(a) for a in _tensors(list(args))]
    touched = {memory_of(copies[i]) for i in written}
    return (
        len(set(places)) == len(places)
        and not any(copies[i].requires_grad for i in written)
        and not any(memory_of(r) in touched for r in _tensors(list(results)))
    )


def _without_aliases(fn, aliases):
    return lambda *args: aliases.of_graph(fn(*args))


def _on_copies(fn, written):
    """The function on copies of the arguments that it writes to, whose new values are results behind the others."""

    def run(*args):
        held = [a.clone() if i in written else a for i, a in enumerate(args)]
        return [*fn(*held), *(held[i].detach() for i in written)]

    return run


def _trace_without_writes(trace, fn, decompositions):
    """As `trace`, with operators that write nothing. Below autograd: what is written under no_grad has no gradient."""
    from tessera._subclasses.functional_tensor import functionalized

    traced = trace(functionalized(fn), decompositions)

    def run(*args):
        module = traced(*args)
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    return run


def _is_write(node):
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _flat_joint(joint, count):
    def flat(*values):
        return joint(values[:count], values[count:])

    return flat


def _name_inputs(graph, count):
    for i, node in enumerate([n for n in graph.nodes if n.op == "placeholder"]):
        name = f"primals_{i + 1}" if i < count else f"tangents_{i - count + 1}"
        node.name = node.target = name


def _key(args):
    """What compiled code depends on."""
    return tuple(
        (a.dtype, a.device, tuple(a.shape), a.requires_grad, a.stride())
        if isinstance(a, tessera.Tensor)
        else (type(a), a)
        for a in args
    ) + (tessera.is_grad_enabled(),)


def _reject(name, keep_inference_input_mutations, enable_log, dynamic):
    if dynamic:
        raise NotImplementedError(f"{name}(dynamic=True) is not supported: leave it out")
    if not isinstance(keep_inference_input_mutations, bool) or not isinstance(enable_log, bool):
        raise TypeError(f"{name}: keep_inference_input_mutations and enable_log have to be bools")


def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                 num_params_buffers=0, keep_inference_input_mutations=False, inference_compiler=None, *, dynamic=False,
                 enable_log=True):  # fmt: skip
    """A function that runs `fn` through graphs of its forward and backward, which compilers get ahead of time.

    The graphs hold operators that write nothing; what `fn` writes to its arguments is written to them behind the
    forward.
    A function that writes to an argument that needs gradients, or that a result or another argument shares memory with,
    runs as it is.

    Args:
        fn: function of trees of tensors and other values.
        fw_compiler: function of a GraphModule and a list of example inputs that gives a callable; for the forward.
        bw_compiler: for the backward; default fw_compiler. inference_compiler: where no gradients are recorded.
        partition_fn: cuts the joint graph in two: _functorch.partitioners.
        decompositions: {operator: function} that replaces it.
        num_params_buffers, keep_inference_input_mutations, enable_log: say nothing that is needed here.
        dynamic: False.
    """
    _reject("aot_function", keep_inference_input_mutations, enable_log, dynamic)
    if not 0 <= num_params_buffers:
        raise ValueError(f"aot_function: expected num_params_buffers >= 0, but got {num_params_buffers}")
    compilers = (fw_compiler, bw_compiler or fw_compiler, inference_compiler or fw_compiler)
    cache, state = {}, []  # what functions in `state` give is part of what compiled code depends on

    @functools.wraps(fn, assigned=[a for a in functools.WRAPPER_ASSIGNMENTS if hasattr(fn, a)])
    def compiled(*args, **kwargs):
        flat, spec = pytree.tree_flatten((args, kwargs))
        key = (spec, _key(flat), *(ask() for ask in state))
        if key not in cache:
            shape = []

            def run_flat(*values):
                inner_args, inner_kwargs = pytree.tree_unflatten(values, spec)
                results, shape[:] = (lambda f: (f[0], [f[1]]))(pytree.tree_flatten(fn(*inner_args, **inner_kwargs)))
                return results

            made = _Compiled(run_flat, flat, compilers, partition_fn, decompositions)
            cache[key] = (made, shape)
        made, shape = cache[key]
        return pytree.tree_unflatten(made.run(flat), shape[0])

    compiled.state = state
    return compiled


def aot_module(mod, *args, **kwargs):
    """A module that runs another as aot_function does; it shares parameters and buffers with it.

    Args:
        mod: Module. The others: as of aot_function.
    """
    if not isinstance(mod, tessera.nn.Module):
        raise TypeError(f"aot_module: expected a Module, but got {type(mod).__name__}")

    def functional(params_and_buffers, *inputs, **named):
        return tessera.func.functional_call(mod, params_and_buffers, inputs, named)

    compiled = aot_function(functional, *args, **kwargs)
    compiled.state.append(lambda: tuple(m.training for m in mod.modules()))

    class AOTModule(tessera.nn.Module):
        def __init__(self):
            super().__init__()
            self.orig_module = mod

        def forward(self, *inputs, **named):
            values = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
            return compiled(values, *inputs, **named)

    return AOTModule()


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                          keep_inference_input_mutations=False, inference_compiler=None, cudagraphs=None,
                          *, boxed_forward_device_index=None, ignore_shape_env=False):  # fmt: skip
    """For backends: a callable of flat tensors that runs a module of flat tensors with a flat output.

    Args:
        mod: Module, mostly a GraphModule. args: example inputs.
        cudagraphs, boxed_forward_device_index, ignore_shape_env: not looked at.
        The others: as of aot_function.
    """
    del cudagraphs, boxed_forward_device_index, ignore_shape_env
    _reject("aot_module_simplified", keep_inference_input_mutations, True, False)
    values = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
    names = list(values)
    count = len(names)
    run = mod.forward if isinstance(mod, tessera.fx.GraphModule) else mod  # whose errors may be no errors here
    compilers = (fw_compiler, bw_compiler or fw_compiler, inference_compiler or fw_compiler)

    def run_flat(*flat):
        out = tessera.func.functional_call(mod, dict(zip(names, flat[:count])), flat[count:]) if names else run(*flat)
        return list(out) if isinstance(out, (tuple, list)) else [out]

    made, by_values = {}, _is_by_values(mod)

    def forward(*inputs):
        held = [*values.values(), *inputs]
        key = _key(held)
        if key not in made:
            made[key] = _Compiled(run_flat, held, compilers, partition_fn, decompositions, by_values)
        return made[key].run(held)

    with contextlib.suppress(AttributeError):
        forward.named_parameters, forward.named_buffers = mod.named_parameters, mod.named_buffers
    held = [*values.values(), *args]
    if all(not isinstance(a, tessera.Tensor) or a.device.type != "meta" for a in held):
        made[_key(held)] = _Compiled(run_flat, held, compilers, partition_fn, decompositions, by_values)
    return forward


def _is_by_values(mod):
    """Whether a captured graph has numbers, or sizes, that depend on values of tensors, as floats do that come in."""
    from tessera._symbolic import SymBool, SymFloat, SymInt

    def found(value):
        sizes = value.shape if isinstance(value, tessera.Tensor) else [value]
        numbers = [n.node for n in sizes if isinstance(n, (SymInt, SymFloat, SymBool))]
        return any(s.is_real or n.shape_env.is_unbacked_symint(s) for n in numbers for s in n.expr.free_symbols)

    nodes = mod.graph.nodes if isinstance(mod, tessera.fx.GraphModule) else ()
    return any(found(part) for n in nodes for part in pytree.tree_leaves(n.meta.get("example_value")))


def aot_export_joint_simple(func, args, *, trace_joint, num_params_buffers=0, decompositions=None):
    """The graph of a function of flat tensors: of the forward, or with `trace_joint` of forward and backward, whose
    inputs are the arguments and then the tangents. Returns: GraphModule.
    """
    del num_params_buffers
    with _same_random_numbers():
        if not trace_joint:
            with tessera.no_grad():
                return make_fx(func, decompositions)(*_fresh(args))
        results = func(*_fresh(args))
        tangents = [tessera.ones_like(r) for r in results if _differentiable(r)]
        joint = make_fx(_flat_joint(create_joint(func), len(args)), decompositions)(*_fresh(args), *tangents)
    _name_inputs(joint.graph, len(args))
    joint.recompile()
    return joint


compiled_function, compiled_module = aot_function, aot_module
