"""Gradients through remote calls: a context collects them, instead of the tensors' `.grad`.

with dist_autograd.context() as context_id:
    loss = rpc.rpc_sync("worker1", f, args=(x,)).sum()
    dist_autograd.backward(context_id, [loss])
    gradients = dist_autograd.get_gradients(context_id)
"""

import itertools
import threading

import tessera
from tessera.autograd import Function

__all__ = ["DistAutogradContext", "backward", "context", "get_gradients", "is_available"]


def is_available():
    """Whether remote calls are there."""
    from tessera.distributed import is_available as found

    return found()


class DistAutogradContext:
    """What a worker knows of one backward pass: gradients, and tensors that it sent.

    Args:
        number: of the context.
    """

    def __init__(self, number):
        self._number, self._lock = number, threading.Lock()
        self._gradients, self._sent, self._peers = {}, {}, set()
        self._messages = itertools.count(1)

    def _context_id(self):
        return self._number

    def _known_worker_ids(self):
        return set(self._peers)

    def _send_functions(self):
        return dict(self._sent)

    def _add(self, tensor, gradient):
        with self._lock:
            known = self._gradients.get(tensor)
            self._gradients[tensor] = gradient if known is None else known + gradient


_contexts: dict = {}
_lock = threading.Lock()
_current = threading.local()
_numbers = itertools.count(1)
# How gradients get to other workers; rpc.api sets it: (rank, function, args) -> Future.
_call = None
_rank = 0


def _init(worker_id):
    """Begins anew, for this worker."""
    global _rank
    _rank = worker_id
    with _lock:
        _contexts.clear()


def _retrieve_context(context_id):
    with _lock:
        found = _contexts.get(context_id)
    if found is None:
        raise RuntimeError(f"Could not find autograd context with id: {context_id}; it may have ended")
    return found


def _is_valid_context(context_id):
    with _lock:
        return context_id in _contexts


def _made(context_id):
    with _lock:
        return _contexts.setdefault(context_id, DistAutogradContext(context_id))


def _new_context():
    if getattr(_current, "context", None) is not None:
        raise RuntimeError("Already have an autograd context id for this thread: contexts do not nest")
    made = _current.context = _made((_rank << 48) | next(_numbers))
    return made


def _release_context(context_id):
    """Forgets a context, here and at the workers that it reached."""
    with _lock:
        found = _contexts.pop(context_id, None)
    if found is not None and _call is not None:
        for peer in found._peers:
            _call(peer, _released, (context_id,))


def _released(context_id):
    _release_context(context_id)


_released._runs_at_once = True  # type: ignore[attr-defined]


def _current_context():
    found = getattr(_current, "context", None)
    if found is None:
        raise RuntimeError("there is no active distributed autograd context")
    return found


class context:
    """A context of a backward pass; `with context() as context_id`. Gradients are there until it ends."""

    def __enter__(self):
        if _call is None:
            raise RuntimeError("a distributed autograd context needs rpc.init_rpc() first")
        self._made = _new_context()
        return self._made._number

    def __exit__(self, type, value, traceback):
        _current.context = None
        _release_context(self._made._number)


# ---- messages


def _again(tensor):
    """Another tensor of the same values."""
    return tensor.view_as(tensor) if tensor.layout is tessera.strided else tensor.clone()


class _Out(Function):
    """What goes to another worker."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(map(_again, tensors))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class _In(Function):
    """What came from another worker, and asks it on in backward."""

    @staticmethod
    def forward(ctx, history, peer, message, begin, *tensors):
        ctx.where = history._number, peer, message
        return tuple(map(_again, tensors))

    @staticmethod
    def backward(ctx, *gradients):
        number, peer, message = ctx.where
        _call(peer, _backward_from, (number, message, [gradient.detach() for gradient in gradients])).wait()
        return (None,) * (4 + len(gradients))


class History:
    """The gradients' way through the messages of one call.

    Args:
        found: the context.
        peer: the other worker's rank.
    """

    def __init__(self, found, peer):
        self.context, self.peer = found, peer

    def sent(self, tensors, to):
        """(tensors, what says where they came from) of a message to the worker `to`."""
        carried = [i for i, tensor in enumerate(tensors) if tensor.requires_grad]
        self.context._peers.add(to)
        if not carried:
            return tensors, (self.context._number, _rank, 0, [])
        outputs = _Out.apply(*[tensors[i] for i in carried])
        message = (_rank << 48) | next(self.context._messages)
        self.context._sent[message] = outputs
        return tensors, (self.context._number, _rank, message, carried)

    def received(self, tensors, trail):
        """Tensors of a message, with a history that leads to their origin."""
        if trail is None:
            return tensors
        _, peer, message, carried = trail
        self.context._peers.add(peer)
        if not carried:
            return tensors
        begin = tessera.zeros(1, requires_grad=True)
        outputs = _In.apply(self.context, peer, message, begin, *[tensors[i].detach() for i in carried])
        tensors = list(tensors)
        for i, output in zip(carried, outputs):
            tensors[i] = output
        return tensors


def outgoing(peer):
    """The History of a call to a worker, if a context is active; else None."""
    found = getattr(_current, "context", None)
    return None if found is None else History(found, peer)


def arriving(trail):
    """The History of a call that came."""
    return None if trail is None else History(_made(trail[0]), trail[1])


class within:
    """A context in which this thread is part of a History (None: of none)."""

    def __init__(self, history):
        self._history = history

    def __enter__(self):
        self._kept = getattr(_current, "context", None)
        _current.context = None if self._history is None else self._history.context

    def __exit__(self, *exception):
        _current.context = self._kept


# ---- backward


def _leaves(roots):
    """The leaves that a graph leads to."""
    nodes, seen, found = [root.grad_fn for root in roots if root.grad_fn is not None], set(), []
    found += [root for root in roots if root.grad_fn is None and root.requires_grad]
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.append(variable)
        nodes += [following for following, _ in node.next_functions if following is not None]
    return found


def _accumulated(roots, leaves, gradients):
    """As autograd.grad, for leaves whose gradients hooks wait for: those of replicas, which reduce them."""
    kept = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        tessera.autograd.backward(roots, gradients, retain_graph=True, inputs=leaves)
        return [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves]  # it may lie in a bucket
    finally:
        for leaf, grad in zip(leaves, kept):
            leaf.grad = grad


def _run(found, roots, gradients):
    """Backward through this worker's part of the graph; what is of others goes on there meanwhile."""
    leaves = _leaves(roots)
    if not leaves:
        return
    if any(leaf._post_accumulate_grad_hooks for leaf in leaves):
        values = _accumulated(roots, leaves, gradients)
    else:
        values = tessera.autograd.grad(roots, leaves, gradients, retain_graph=True, allow_unused=True)
    for leaf, value in zip(leaves, values):
        if value is not None:
            found._add(leaf, value)


def _backward_from(context_id, message, gradients):
    """What another worker asks: backward from what was sent to it."""
    found = _retrieve_context(context_id)
    with within(History(found, _rank)):
        try:
            _run(found, list(found._sent[message]), gradients)
        except Exception as error:
            raise RuntimeError(f"Error on Node {_rank}: {error}") from error


_backward_from._runs_at_once = True  # type: ignore[attr-defined]  # it waits for others, who may wait for this worker


def backward(context_id, roots, retain_graph=False):
    """Backward from `roots`, through all workers that they depend on, and waits for it.

    Args:
        context_id: of the context, which collects the gradients.
        roots: tensors of one element.
        retain_graph: whether it may be called again; graphs live as long as the context.

    Raises: TypeError for what is no list of roots.
    Raises: RuntimeError for roots that are no scalars, leaves, or do not require gradients.
    Raises: RuntimeError for a context that has ended.
    """
    if not isinstance(roots, (list, tuple)) or not isinstance(context_id, int):
        raise TypeError(
            f"incompatible function arguments: a context's number and tensors, got {context_id!r}, {roots!r}"
        )
    found = _retrieve_context(context_id)
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation: backward needs at least one root")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on a root of a distributed backward")
        if root.numel() != 1:
            raise RuntimeError(f"a root of shape {tuple(root.shape)} is not a scalar, all roots need to be scalar")
        if root.grad_fn is None:
            raise RuntimeError("a root that nothing computed, a leaf, does not have a valid gradient function")
    if getattr(found, "_done", False):
        raise RuntimeError("backward was called in this context before; retain_graph=True would have allowed that")
    _run(found, list(roots), [tessera.ones_like(root) for root in roots])
    found._done = not retain_graph


def get_gradients(context_id):
    """A dictionary from the leaves of this worker to their gradients in a context."""
    found = _retrieve_context(context_id)
    with found._lock:
        return dict(found._gradients)


def _get_debug_info():
    with _lock:
        return {"num_autograd_contexts": str(len(_contexts)), "num_current_backward_passes": "0"}


def _get_max_id():
    return (_rank << 48) | ((1 << 48) - 1)
