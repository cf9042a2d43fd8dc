"""An optimizer for parameters of several workers."""

import threading

import tessera
from tessera.distributed import autograd as dist_autograd
from tessera.distributed.rpc import api
from tessera.distributed.rpc._rref import RRef

__all__ = ["DistributedOptimizer"]


class _Local:
    """The optimizer of one worker's parameters."""

    # Steps of all optimizers of a worker come one after the other.
    lock = threading.Lock()

    def __init__(self, cls, references, args, kwargs):
        self.params = [one.local_value() for one in references]
        self.optimizer = cls(self.params, *args, **kwargs)

    def step(self, context_id):
        """Steps with the gradients of a context."""
        gradients = dist_autograd.get_gradients(context_id)
        with _Local.lock:
            kept = [param.grad for param in self.params]
            try:
                for param in self.params:
                    param.grad = gradients.get(param)
                self.optimizer.step()
            finally:
                for param, grad in zip(self.params, kept):
                    param.grad = grad


def _make(cls, references, args, kwargs):
    return RRef(_Local(cls, references, args, kwargs))


def _step(reference, context_id):
    reference.local_value().step(context_id)


class DistributedOptimizer:
    """Steps parameters where they are, each worker's by an optimizer of its own.

    Args:
        optimizer_class: of the optimizers.
        params_rref: RRefs of the parameters.
        args: the optimizers' arguments.
        kwargs: the same, by name.

    Raises: what making an optimizer raises at a worker.
    """

    def __init__(self, optimizer_class, params_rref, *args, **kwargs):
        by_owner = {}
        for one in params_rref:
            by_owner.setdefault(one.owner(), []).append(one)
        futures = [
            api.rpc_async(owner, _make, (optimizer_class, references, args, kwargs))
            for owner, references in by_owner.items()
        ]
        self.remote_optimizers = tessera.futures.wait_all(futures)

    def step(self, context_id):
        """Steps all parameters with the gradients of a distributed autograd context, and waits for it.

        Raises: RuntimeError for a context that has ended, what a step raises."""
        if not dist_autograd._is_valid_context(context_id):
            raise RuntimeError(f"there is no distributed autograd context {context_id}")
        tessera.futures.wait_all(
            [api.rpc_async(one.owner(), _step, (one, context_id)) for one in self.remote_optimizers]
        )
