"""CUDA graphs: work that is recorded once and then given to a device as a whole."""

import gc

import tessera
from tessera.cuda import _lazy_init, current_stream, is_initialized, stream, synchronize
from tessera.utils import _pytree

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def is_current_stream_capturing():
    """True while the selected stream records a graph."""
    return is_initialized() and current_stream().is_capturing()


def graph_pool_handle():
    """The number of a new memory pool, which several graphs may share if they are replayed in the order of their
    capture.
    """
    return _lazy_init().new_pool_id(False)


class CUDAGraph:
    """Recorded work of a stream. Its inputs and outputs are the tensors of the recording: fill and read them around
    `replay`.

    Args:
        keep_graph: the runtime's graph stays (`raw_cuda_graph`), and `instantiate` or the first replay prepares it.

    Raises: RuntimeError without a device.
    """

    def __init__(self, keep_graph=False):
        self._library = _lazy_init()
        self._graph = self._library.new_graph(bool(keep_graph))
        self._generators = []

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Begins to record the selected stream, which must not be the default one.

        Args:
            pool: what `graph_pool_handle` or another graph's `pool` gave: memory to share.
            capture_error_mode: which calls are errors meanwhile: 'global' those of all threads that may disturb it,
                'thread_local' those of this thread, 'relaxed' none.
        """
        self._library.graph_begin(self._graph, (0, 0) if pool is None else tuple(pool), capture_error_mode)

    def capture_end(self):
        """Ends it. The graph can be replayed then."""
        if self._library.graph_end(self._graph) == 0:
            import warnings

            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=2,
            )

    def instantiate(self):
        """Prepares a graph with `keep_graph=True` for its first replay."""
        self._library.graph_instantiate(self._graph)

    def replay(self):
        """Gives the recorded work to the selected stream."""
        self._library.graph_replay(self._graph)

    def reset(self):
        """Drops what was recorded, and the memory."""
        self._library.graph_reset(self._graph)

    def pool(self):
        """The number of the memory pool, for `capture_begin` of another graph."""
        return self._library.graph_pool(self._graph)

    def register_generator_state(self, generator):
        """Keeps a generator that the recorded work draws from alive with the graph. Each replay goes on in the streams
        of all generators that it draws from.
        """
        self._generators.append(generator)

    def raw_cuda_graph(self):
        """The address of the runtime's graph; only with `keep_graph=True`."""
        return self._library.graph_raw(self._graph)

    def enable_debug_mode(self):
        """Keeps what `debug_dump` needs; before the capture."""
        self._library.graph_keep_for_debugging(self._graph)

    def debug_dump(self, debug_path):
        """Writes the recorded work to a DOT file."""
        self._library.graph_debug_dump(self._graph, debug_path)


class graph:
    """Context manager: records a block's work into a CUDAGraph.

    Args:
        cuda_graph: the graph.
        pool: memory to share: see `CUDAGraph.capture_begin`.
        stream: where to record; by default one that all such blocks use.
        capture_error_mode: see `CUDAGraph.capture_begin`.
    """

    default_capture_stream = None

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = tessera.cuda.Stream()
            stream = graph.default_capture_stream
        self.pool = pool
        self.capture_stream = stream
        self.stream_ctx = tessera.cuda.stream(stream)
        self.cuda_graph = cuda_graph
        self.capture_error_mode = capture_error_mode

    def __enter__(self):
        synchronize()
        gc.collect()  # memory that is freed during the recording can't be used again then
        tessera.cuda.empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, exc_type, exc_value, traceback):
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(exc_type, exc_value, traceback)


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Functions or modules whose forward and backward are replayed graphs.

    Args:
        callables: one, or a tuple of them in the order in which they will run.
        sample_args: for each a tuple of tensors (in nested containers) with the shapes and `requires_grad` of all later
            calls.
        num_warmup_iters: calls before the recording.
        allow_unused_input: inputs without influence on the result are fine; they get no gradient.
        pool: memory to share with other graphs.

    Returns: the same, graphed. Modules keep their object: in the mode (training or not) of the recording, `forward`
        replays.
    Raises: RuntimeError without a device, or for modules with hooks; for module buffers that require grad.
    """
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = [tuple(s) for s in ((sample_args,) if single else sample_args)]
    for f in functions:
        if isinstance(f, tessera.nn.Module):
            _check_module(f)
    pool = graph_pool_handle() if pool is None else pool
    _warm_up(functions, samples, num_warmup_iters, allow_unused_input)
    recorded = [_Recorded(f, s, allow_unused_input) for f, s in zip(functions, samples)]
    for r in recorded:
        r.record_forward(pool)
    for r in reversed(recorded):  # memory of the forward graphs is used in this order
        r.record_backward(pool)
    results = tuple(_graphed(f, r) for f, r in zip(functions, recorded))
    return results[0] if single else results


def _check_module(module):
    if module._backward_hooks or module._forward_hooks or module._forward_pre_hooks:
        raise RuntimeError(
            "Modules must not have hooks registered at the time they are passed. However, registering hooks on modules "
            "after passing them through "
            "make_graphed_callables is allowed."
        )
    if any(b.requires_grad for b in module.buffers()):
        raise RuntimeError(
            "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be "
            "trainable. All buffers must have "
            "``requires_grad=False``."
        )


def _parameters(function):
    return tuple(function.parameters()) if isinstance(function, tessera.nn.Module) else ()


def _gradients(outputs, inputs, grad_outputs, allow_unused):
    return tessera.autograd.grad(outputs, inputs, grad_outputs, only_inputs=True, allow_unused=allow_unused)


def _warm_up(functions, samples, iterations, allow_unused):
    synchronize()
    with stream(tessera.cuda.Stream()):
        for f, sample in zip(functions, samples):
            wanted = [t for t in (*_pytree.tree_leaves(sample), *_parameters(f)) if t.requires_grad]
            for _ in range(iterations):
                outputs = [
                    o for o in _pytree.tree_leaves(f(*sample)) if isinstance(o, tessera.Tensor) and o.requires_grad
                ]
                if outputs and wanted:
                    _gradients(outputs, wanted, [tessera.empty_like(o) for o in outputs], allow_unused)
                del outputs
    synchronize()


class _Recorded:
    """The graphs of one function, and the tensors that they read and write."""

    def __init__(self, function, sample, allow_unused):
        self.function, self.sample, self.allow_unused = function, sample, allow_unused
        self.arguments = _pytree.tree_leaves(sample)
        self.parameters = _parameters(function)
        self.inputs = (*self.arguments, *self.parameters)
        self.forward_graph, self.backward_graph = CUDAGraph(), None

    def record_forward(self, pool):
        with graph(self.forward_graph, pool=pool):
            outputs = self.function(*self.sample)
        self.outputs, self.structure = _pytree.tree_flatten(outputs)

    def record_backward(self, pool):
        wanted = [t for t in self.inputs if t.requires_grad]
        differentiable = [o for o in self.outputs if o.requires_grad]
        self.grad_outputs = [tessera.empty_like(o) if o.requires_grad else None for o in self.outputs]
        self.grad_inputs = [None] * len(self.inputs)
        if not wanted or not differentiable:
            return
        self.backward_graph = CUDAGraph()
        with graph(self.backward_graph, pool=pool):
            found = iter(
                _gradients(differentiable, wanted, [g for g in self.grad_outputs if g is not None], self.allow_unused)
            )
        self.grad_inputs = [next(found) if t.requires_grad else None for t in self.inputs]
        self.outputs = [o.detach() for o in self.outputs]

    def replay_forward(self, arguments):
        for static, given in zip(self.arguments, arguments):
            if static.data_ptr() != given.data_ptr():
                static.copy_(given)
        self.forward_graph.replay()
        return tuple(o.detach() for o in self.outputs)

    def replay_backward(self, grads):
        for static, given in zip(self.grad_outputs, grads):
            if static is not None and static.data_ptr() != given.data_ptr():
                static.copy_(given)
        if self.backward_graph is not None:
            self.backward_graph.replay()
        return tuple(None if g is None else g.detach() for g in self.grad_inputs)


def _graphed(function, recorded):
    class Graphed(tessera.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            return recorded.replay_forward(inputs[: len(recorded.arguments)])

        @staticmethod
        @tessera.autograd.function.once_differentiable
        def backward(ctx, *grads):
            return recorded.replay_backward(grads)

    def call(*arguments):
        outputs = Graphed.apply(*_pytree.tree_leaves(arguments), *recorded.parameters)
        return _pytree.tree_unflatten(list(outputs), recorded.structure)

    if not isinstance(function, tessera.nn.Module):
        return call
    training, forward = function.training, function.forward
    function.forward = lambda *arguments: call(*arguments) if function.training == training else forward(*arguments)
    return function
