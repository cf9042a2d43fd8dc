"""Gradients of each sample of a batch, by one call of a module."""

import tessera
from tessera.utils import _pytree as pytree

__all__ = []


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """A function that calls the module so that backward leaves each sample's gradient of a parameter in its
    `grad_sample` (batch, *shape), and leaves `grad` alone.

    Args:
        module: what it computes of a sample must not depend on the others.
        batch_size: the number of samples; default: that of the tensors among the arguments.
        loss_reduction: how the loss is made of the samples' losses, "sum" or "mean".
        batch_first: whether samples are along the first dimension of the arguments and results; else the second.

    Raises: RuntimeError for other arguments, without a tensor that tells the batch size, for tensors that differ in
        it, and for a parameter that has a `grad_sample` already.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"expected loss_reduction to be 'sum' or 'mean', got {loss_reduction!r}")
    if not isinstance(module, tessera.nn.Module):
        raise RuntimeError(f"expected a Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"expected batch_size to be None or an integer, got {type(batch_size).__name__}")
    dim = 0 if batch_first else 1

    def call(*args, **kwargs):
        if not tessera.is_grad_enabled():
            return module(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        size = _samples(leaves, dim) if batch_size is None else batch_size
        parameters = {name: _of_samples(p, size, loss_reduction) for name, p in module.named_parameters()}
        batched = [isinstance(leaf, tessera.Tensor) and leaf.dim() > dim for leaf in leaves]

        def one(parameters, *tensors):
            tensors = iter(t.unsqueeze(dim) for t in tensors)
            args, kwargs = pytree.tree_unflatten([next(tensors) if b else v for b, v in zip(batched, leaves)], spec)
            found = tessera.func.functional_call(module, parameters, args, kwargs)
            return pytree.tree_map_only(tessera.Tensor, lambda t: t.squeeze(dim), found)

        tensors = [leaf for b, leaf in zip(batched, leaves) if b]
        if any(t.shape[dim] != size for t in tensors):
            raise RuntimeError(f"expected tensors of {size} samples, got {[tuple(t.shape) for t in tensors]}")
        along = ({name: 0 for name in parameters}, *(dim for _ in tensors))
        return tessera.func.vmap(one, in_dims=along, out_dims=dim, randomness="different")(parameters, *tensors)

    return call


def _samples(leaves, dim):
    """The batch size of the tensors among the leaves."""
    sizes = {leaf.shape[dim] for leaf in leaves if isinstance(leaf, tessera.Tensor) and leaf.dim() > dim}
    if len(sizes) != 1:
        what = f"the tensors have {sorted(sizes)} samples" if sizes else "there is no tensor among the arguments"
        raise RuntimeError(f"the batch size is not known: {what}. Give batch_size to call_for_per_sample_grads().")
    return sizes.pop()


def _of_samples(parameter, size, reduction):
    """A parameter as `size` equal ones, whose gradient goes into its `grad_sample`."""
    if not parameter.requires_grad:
        return parameter.expand(size, *parameter.shape)
    if getattr(parameter, "grad_sample", None) is not None:
        raise RuntimeError(f"a parameter of {tuple(parameter.shape)} has a grad_sample already: set it to None first")

    def keep(grad):
        grad = grad * size if reduction == "mean" else grad
        known = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = grad if known is None else known + grad

    copies = parameter.detach().expand(size, *parameter.shape).requires_grad_()
    copies.register_hook(keep)
    return copies
