"""Collectives through which gradients flow: each says how the values go, and how the gradients come back.

>>> import tessera.distributed as dist
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> x = tessera.ones(2, requires_grad=True)
>>> (dist.nn.functional.all_reduce(x) * 3).sum().backward()
>>> x.grad
tensor([3., 3.])
>>> dist.destroy_process_group()
"""

import tessera
from tessera.autograd import Function
from tessera.distributed import _collectives as collectives
from tessera.distributed._groups import _group_or_default_group
from tessera.distributed._kinds import ReduceOp


class _Carried(Function):
    """Tensors that `there` sends to others; `back` is given the gradients of what came."""

    @staticmethod
    def forward(ctx, there, back, *tensors):
        ctx.back = back
        ctx.like = [tensor.detach() for tensor in tensors]
        return there(*ctx.like)

    @staticmethod
    def backward(ctx, *gradients):
        found = ctx.back(ctx.like, [gradient.contiguous() for gradient in gradients])
        return None, None, *found


def _copied(tensor):
    return tensor.clone(memory_format=tessera.contiguous_format)


def broadcast(tensor, src, group=None):
    """The tensor of the global rank `src`; the gradients of all are summed there."""
    group = _group_or_default_group(group)

    def there(x):
        x = _copied(x)
        collectives.broadcast(x, src, group)
        return x

    def back(like, gradients):
        collectives.reduce(gradients[0], src, ReduceOp.SUM, group)
        here = collectives.chosen_rank(group, src, None, "src") == group.rank()
        return [gradients[0] if here else tessera.zeros_like(like[0])]

    return _Carried.apply(there, back, tensor)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """The reduction of a tensor of all, at the global rank `dst`; its gradient goes to all."""
    group = _group_or_default_group(group)

    def there(x):
        x = _copied(x)
        collectives.reduce(x, dst, op, group)
        return x

    def back(like, gradients):
        collectives.broadcast(gradients[0], dst, group)
        return gradients

    return _Carried.apply(there, back, tensor)


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """The reduction of a tensor of all, at all; gradients are reduced in the same way."""

    def reduced(x):
        x = _copied(x)
        collectives.all_reduce(x, op, group)
        return x

    return _Carried.apply(reduced, lambda like, gradients: [reduced(gradients[0])], tensor)


def _all_gathered(tensor, group):
    places = [tessera.empty_like(tensor, memory_format=tessera.contiguous_format) for _ in range(group.size())]
    collectives.all_gather(places, tensor.contiguous(), group)
    return tuple(places)


def _reduce_scattered(tensors, op, group):
    out = tessera.empty_like(tensors[group.rank()], memory_format=tessera.contiguous_format)
    collectives.reduce_scatter(out, [tensor.contiguous() for tensor in tensors], op, group)
    return out


def all_gather(tensor, group=None):
    """A tuple of the tensors of all; gradients are summed where the values came from."""
    group = _group_or_default_group(group)
    back = lambda like, gradients: [_reduce_scattered(gradients, ReduceOp.SUM, group)]
    return _Carried.apply(lambda x: _all_gathered(x, group), back, tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """The reduction of what all have at this rank's place of their lists; gradients go to all.

    Args:
        output: not written; its shape is the result's.
        input_list: a tensor for each rank.
        op: how.
        group: None: the default group.
    """
    group = _group_or_default_group(group)
    if output.shape != input_list[group.rank()].shape:
        raise ValueError(f"reduce_scatter: output is {tuple(output.shape)}, but its input {tuple(input_list[0].shape)}")
    there = lambda *inputs: _reduce_scattered(inputs, op, group)
    return _Carried.apply(there, lambda like, gradients: list(_all_gathered(gradients[0], group)), *input_list)


def _gathered(tensor, root, group):
    here = group.rank() == root
    places = [tessera.zeros_like(tensor, memory_format=tessera.contiguous_format) for _ in range(group.size())]
    collectives.gather(tensor.contiguous(), places if here else None, group=group, group_dst=root)
    return tuple(places)


def _scattered(tensors, root, group):
    out = tessera.empty_like(tensors[0], memory_format=tessera.contiguous_format)
    parts = [tensor.contiguous() for tensor in tensors] if group.rank() == root else None
    collectives.scatter(out, parts, group=group, group_src=root)
    return out


def gather(tensor, dst=0, group=None):
    """A tuple of the tensors of all, at the global rank `dst` (zeros elsewhere); gradients go back to each."""
    group = _group_or_default_group(group)
    root = collectives.chosen_rank(group, dst, None, "dst")
    back = lambda like, gradients: [_scattered(gradients, root, group)]
    return _Carried.apply(lambda x: _gathered(x, root, group), back, tensor)


def scatter(tensors, src=0, group=None):
    """This rank's tensor of the list of the global rank `src`, where gradients are gathered."""
    group = _group_or_default_group(group)
    root = collectives.chosen_rank(group, src, None, "src")
    there = lambda *parts: _scattered(parts, root, group)
    return _Carried.apply(there, lambda like, gradients: list(_gathered(gradients[0], root, group)), *tensors)


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    """What all have for this rank, as a tuple; gradients go back in the same way.

    Args:
        output_tensor_list: not written; their shapes are those of the results.
        input_tensor_list: a tensor for each rank.
        group: None: the default group.
    """
    shapes = [tensor.shape for tensor in output_tensor_list]

    def exchange(tensors, shapes):
        outputs = [tensors[0].new_empty(shape) for shape in shapes]
        collectives.all_to_all(outputs, [tensor.contiguous() for tensor in tensors], group)
        return tuple(outputs)

    back = lambda like, gradients: list(exchange(gradients, [tensor.shape for tensor in like]))
    return _Carried.apply(lambda *inputs: exchange(inputs, shapes), back, *input_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """Parts of the tensors of all, as distributed.all_to_all_single; gradients go back in the same way.

    Args:
        output: not written; its shape is the result's.
        input: what this rank gives.
        output_split_sizes: rows that come from each rank; None: equal parts.
        input_split_sizes: rows that go to each rank; None: equal parts.
        group: None: the default group.
    """
    shape = output.shape

    def exchange(x, shape, outs, ins):
        result = x.new_empty(shape)
        collectives.all_to_all_single(result, x.contiguous(), outs, ins, group)
        return result

    there = lambda x: exchange(x, shape, output_split_sizes, input_split_sizes)
    back = lambda like, grads: [exchange(grads[0], like[0].shape, input_split_sizes, output_split_sizes)]
    return _Carried.apply(there, back, input)
