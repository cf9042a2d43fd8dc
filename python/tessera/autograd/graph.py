"""The graph of recorded operations: nodes, edges and hooks on saved tensors."""

import contextlib
import functools
import threading
from collections import namedtuple

import tessera
from tessera import _C

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


class _NodeMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, _C._FunctionBase) or (
            _C._NodeBase is not None and isinstance(instance, _C._NodeBase)
        )

    def __subclasscheck__(cls, other):
        return (
            other is cls
            or issubclass(other, _C._FunctionBase)
            or (_C._NodeBase is not None and issubclass(other, _C._NodeBase))
        )


class Node(metaclass=_NodeMeta):
    """Every `tensor.grad_fn` is an instance. What is here are the members of the nodes of operators; those of custom
    functions have the same.
    """

    name = _C._NodeBase.name
    next_functions = _C._NodeBase.next_functions
    register_hook = _C._NodeBase.register_hook
    register_prehook = _C._NodeBase.register_prehook

    def metadata(self):
        """The dict that programs keep with the node; nodes themselves have it as an attribute."""
        return self.metadata  # theirs: no node is made by this class


class GradientEdge(namedtuple("GradientEdge", ["node", "output_nr", "ownership_token"], defaults=[None])):
    """Where a gradient flows: output `output_nr` of `node`. Usable as output or input of `autograd.grad` and
    `backward`.
    """

    __slots__ = ()


def get_gradient_edge(tensor):
    """The edge that carries the gradient of `tensor`. Raises: RuntimeError if it requires none."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*_C._get_gradient_edge(tensor))


def increment_version(tensor):
    """Tells autograd that a tensor, or each of several, was changed by other means."""
    tensors = (tensor,) if isinstance(tensor, tessera.Tensor) else tuple(tensor)
    for t in tensors:
        if not isinstance(t, tessera.Tensor):
            raise RuntimeError(
                f"increment_version expects each element of the iterable to be a tensor, got {type(t).__name__}"
            )
    for t in tensors:
        _C._increment_version(t)


class saved_tensors_hooks:
    """Inside the block: `pack_hook(tensor)` gives what is kept of each tensor saved for backward, `unpack_hook(packed)`
    the tensor back.

    Raises: RuntimeError while `disable_saved_tensors_hooks` is active.
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self):
        _C._push_saved_tensors_default_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *args):
        _C._pop_saved_tensors_default_hooks()


def _to_host(tensor, page_locked=None):
    """(where a tensor was, its copy in host memory); `page_locked` says at each copy whether pages can be locked."""
    if page_locked is None:
        return tensor.device, tensor.cpu()
    host = tessera.empty(tensor.shape, dtype=tensor.dtype, layout=tensor.layout, pin_memory=page_locked())
    return tensor.device, host.copy_(tensor)


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in the memory of the CPU; page-locked with `pin_memory`, if there is a device of
    `device_type`. Raises: RuntimeError for an unknown device type.
    """

    def __init__(self, pin_memory=False, device_type="cuda"):
        has_device = tessera.get_device_module(device_type).is_available
        super().__init__(
            functools.partial(_to_host, page_locked=has_device if pin_memory else None),
            lambda kept: kept[1].to(kept[0], non_blocking=pin_memory),
        )


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Inside the block entering `saved_tensors_hooks` raises RuntimeError(error_message)."""
    previous = _C._saved_tensors_hooks_get_disabled_error_message()
    _C._saved_tensors_hooks_disable(error_message)
    try:
        yield
    finally:
        if previous is None:
            _C._saved_tensors_hooks_enable()
        else:
            _C._saved_tensors_hooks_disable(previous)


class _MultiGradHandle:
    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls `fn` in each backward pass when the gradients of all `tensors` that take part are there, or of the first
    one.

    Args:
        fn: for mode "all" gets the list of gradients, None for tensors that take no part; for "any" one gradient.
        mode: "all" or "any".

    Returns: a handle with `remove()`. Raises: ValueError for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    hook = _all_hook(tensors, fn) if mode == "all" else _any_hook(fn)
    return _MultiGradHandle([tensor.register_hook(functools.partial(hook, i)) for i, tensor in enumerate(tensors)])


def _all_hook(tensors, fn):
    nodes = [get_gradient_edge(tensor).node for tensor in tensors]
    lock = threading.Lock()
    passes = {}  # number of the backward pass -> [gradients so far, how many are still to come]

    def hook(index, grad):
        number = _C._current_graph_task_id()
        if number == -1:
            raise RuntimeError("expected this hook to be called inside a backward call")
        with lock:
            if number not in passes:
                passes.clear()
                passes[number] = [[None] * len(tensors), sum(map(_C._will_engine_execute_node, nodes))]
            state = passes[number]
            state[0][index] = grad
            state[1] -= 1
            ready = state[1] == 0
            if ready:
                del passes[number]
        if ready:
            fn(state[0])

    return hook


def _any_hook(fn):
    lock = threading.Lock()
    called = set()

    def hook(index, grad):
        number = _C._current_graph_task_id()
        with lock:
            if number in called:
                return
            called.clear()
            called.add(number)
        fn(grad)

    return hook


class _SavedCopies:
    """What `allow_mutation_on_saved_tensors` knows: for each storage the versions that were saved, and copies made
    before a write.
    """

    def __init__(self):
        self.clear()

    def clear(self):
        self.saved = {}  # identity of a storage -> weak set of _Saved, each of which keeps the storage alive
        self.inside = True


_mutation = threading.local()


class _Saved:
    """A saved tensor; `copy` replaces it when its storage is about to change."""

    __slots__ = ("tensor", "copy", "__weakref__")

    def __init__(self, tensor):
        self.tensor = tensor
        self.copy = None


def _storage_key(tensor):
    return tensor.untyped_storage()._cdata


def _copy_before_write(state, tensor):
    for saved in state.saved.pop(_storage_key(tensor), ()):
        if saved.copy is None:
            saved.copy = saved.tensor.clone()
            saved.tensor = None


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Inside the block, a tensor that is saved for backward is copied when it is changed in place, so that both work.

    Backward must run inside the block too. Raises: RuntimeError when nested or when backward runs outside.
    """
    import weakref

    from tessera.utils._python_dispatch import TorchDispatchMode

    if getattr(_mutation, "state", None) is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    state = _SavedCopies()

    class CopyOnWrite(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            for position, argument in enumerate(func._schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    value = args[position] if position < len(args) else kwargs.get(argument.name)
                    for tensor in value if isinstance(value, (list, tuple)) else (value,):
                        if isinstance(tensor, tessera.Tensor):
                            _copy_before_write(state, tensor)
            return func(*args, **kwargs)

    def pack(tensor):
        saved = _Saved(tensor.detach())
        state.saved.setdefault(_storage_key(tensor), weakref.WeakSet()).add(saved)
        return saved

    def unpack(saved):
        if not state.inside:
            raise RuntimeError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally "
                "recorded."
            )
        return saved.tensor if saved.copy is None else saved.copy

    with CopyOnWrite(), saved_tensors_hooks(pack, unpack):
        _mutation.state = state
        try:
            yield state
        finally:
            state.clear()
            state.inside = False
            _mutation.state = None


def set_warn_on_accumulate_grad_stream_mismatch(enabled):
    """Whether gradients that arrive on another CUDA stream than the leaf's give a warning."""
    _C._set_warn_on_accumulate_grad_stream_mismatch(enabled)
