"""torch.compile."""

import functools


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """Captures a function's or module's operators as graphs, which a backend compiles. A decorator, too.

    The function runs on its arguments as it did before; at the first call, and whenever something has changed that it
    depends on (types, shapes, dtypes, numbers, attributes), its code is captured. What a graph cannot hold ends it, is
    done by Python, and another graph begins behind it.

    Args:
        model: function or Module. A module becomes an OptimizedModule that shares everything with it.
        fullgraph: an end of the graph is an error: torch._dynamo.exc.Unsupported, with the line.
        dynamic: True: sizes are symbols where possible; False: never; None: those that have changed once.
        backend: a name of torch.compiler.list_backends(None), or a function of a GraphModule and a list of example
            inputs that gives a callable. "inductor", the default one, runs the operators of the graph one by one in
            this version.
        mode: "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs": for the default backend;
            others get it as the keyword argument `mode`.
        options: a dict of settings of torch._inductor.config; other backends get it as `options`. "guard_filter_fn":
            function of guards that says which are kept.
        disable: returns the model as it is.

    Raises: RuntimeError for mode with options, unknown modes and options; torch._dynamo.exc.InvalidBackend,
        TypeError.

    >>> f = tessera.compile(lambda x: x.sin() + 1)
    >>> f(tessera.zeros(2))
    tensor([1., 1.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    from tessera._dynamo._running import compile_with

    return compile_with(model, fullgraph, dynamic, backend, mode, options, disable)
