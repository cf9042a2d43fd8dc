"""Custom functions (`autograd.Function`) inside of transforms: each level handles the call, the outer ones see what it
makes of it.
"""

from collections import namedtuple

import tessera
from tessera import _C
from tessera.autograd.function import Function, _SingleLevelFunction
from tessera.utils import _pytree

_levels = _C._func

# What the static method vmap(info, in_dims, *args) is told.
VmapInfo = namedtuple("VmapInfo", ["batch_size", "randomness"])


def apply(cls, args):
    """cls.apply(*args) for the innermost level."""
    kind, level, batch_size, randomness = _levels._levels()[-1]
    args = _pytree.tree_map_only(tessera.Tensor, _without_dead, args)
    if kind == "vmap":
        return _apply_vmap(cls, args, level, batch_size, randomness)
    if kind == "functionalize":
        return _apply_functional(cls, args, level)
    if kind == "tape":  # what forward does to a tangent is noted down
        return cls._apply_recorded(*args)
    if cls.setup_context is _SingleLevelFunction.setup_context:
        raise RuntimeError(
            f"In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod and have a forward without ctx; {cls.__name__} does not."
        )
    return _apply_derivative(cls, args, level, kind)


def _without_dead(tensor):
    wrapper = _levels._wrapper(tensor)
    while wrapper is not None and not _levels._is_alive(wrapper[0]):
        tensor = _levels._value(tensor)
        wrapper = _levels._wrapper(tensor)
    return tensor


# --- grad and jvp: a function whose forward is the function itself, one level further out ---


def _apply_derivative(cls, args, level, kind):
    recording = tessera.is_grad_enabled()

    def outside(tensor):
        return _levels._outside(tensor, level)

    class Recorded(Function):
        @staticmethod
        def forward(*inner):
            values = _pytree.tree_map_only(tessera.Tensor, outside, inner)
            with tessera.set_grad_enabled(recording):
                result = _levels._call_outside(cls.apply, *values)
            same = {id(v): i for i, v in zip(inner, values) if isinstance(v, tessera.Tensor)}
            wrap = lambda t: same[id(t)] if id(t) in same else _levels._track(t, level)
            return _pytree.tree_map_only(tessera.Tensor, wrap, result)

        @staticmethod
        def setup_context(ctx, inputs, output):
            cls.setup_context(ctx, inputs, output)

        @staticmethod
        def backward(ctx, *grads):
            return ctx_backward(cls)(ctx, *grads)

        @staticmethod
        def jvp(ctx, *tangents):
            return cls.jvp(ctx, *tangents)

    Recorded.__name__ = cls.__name__
    Recorded._backward_cls.__name__ = cls._backward_cls.__name__
    args = tuple(
        _levels._track(arg, level) if isinstance(arg, tessera.Tensor) and _foreign(arg, level, kind) else arg
        for arg in args
    )
    return Recorded._apply_recorded(*args)


def _foreign(tensor, level, kind):
    """Its history or its tangent is one of an outer level, where this one has a constant."""
    wrapper = _levels._wrapper(tensor)
    return tensor.requires_grad or kind == "jvp" if wrapper is None else wrapper[0] != level


def ctx_backward(cls):
    return cls.backward if cls.vjp is Function.vjp else cls.vjp


def _apply_functional(cls, args, level):
    """A call outside of the level, with copies: what a function writes to them can't be taken over, and is refused."""
    values = _pytree.tree_map_only(tessera.Tensor, lambda t: _levels._functional_value(t, level), args)
    values = _levels._call_outside(lambda: _pytree.tree_map_only(tessera.Tensor, tessera.clone, values))
    versions = [v._version for v in values if isinstance(v, tessera.Tensor)]
    result = _levels._call_outside(cls.apply, *values)
    if versions != [v._version for v in values if isinstance(v, tessera.Tensor)]:
        raise RuntimeError(f"{cls.__name__} writes to its inputs, which functionalize does not support")
    leaves, spec = _pytree.tree_flatten(result)
    made = iter(_levels._functional_arguments([t for t in leaves if isinstance(t, tessera.Tensor)], level))
    return _pytree.tree_unflatten([next(made) if isinstance(t, tessera.Tensor) else t for t in leaves], spec)


# --- vmap ---


def _split(args, level):
    """(values, batch dims) of flat arguments."""
    values, dims = [], []
    for arg in args:
        wrapper = _levels._wrapper(arg) if isinstance(arg, tessera.Tensor) else None
        batched = wrapper is not None and wrapper[0] == level
        values.append(_levels._value(arg) if batched else arg)
        dims.append(wrapper[1] if batched else None)
    return values, dims


def _apply_vmap(cls, args, level, batch_size, randomness):
    own_rule = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and own_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod."
        )
    if not cls.generate_vmap_rule and not own_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            "the vmap staticmethod or set generate_vmap_rule=True."
        )
    leaves, spec = _pytree.tree_flatten(tuple(args))
    values, dims = _split(leaves, level)
    if all(dim is None for dim in dims):
        return _levels._call_outside(cls.apply, *args)
    if own_rule:
        info = VmapInfo(batch_size, randomness)
        inputs = _pytree.tree_unflatten(values, spec)
        in_dims = _pytree.tree_unflatten(dims, spec)
        outputs, out_dims = _levels._call_outside(lambda: _checked(cls.vmap(info, in_dims, *inputs), cls))
    else:
        outputs, out_dims = _levels._call_outside(lambda: _generated(cls, values, dims, spec, batch_size, randomness))
    return _wrapped(outputs, out_dims, level, cls)


def _checked(result, cls):
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"Expected the vmap staticmethod of {cls.__name__} to return (outputs, out_dims), got {type(result)}"
        )
    return result


def _wrapped(outputs, out_dims, level, cls):
    leaves, spec = _pytree.tree_flatten(outputs)
    dims = _pytree._broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"The vmap staticmethod of {cls.__name__} returned out_dims {out_dims} that don't fit the structure of its "
            f"outputs, {spec}"
        )
    wrapped = [
        o if d is None or not isinstance(o, tessera.Tensor) else _levels._add_batch_dim(o, d, level)
        for o, d in zip(leaves, dims)
    ]
    return _pytree.tree_unflatten(wrapped, spec)


class _OneElement:
    """The context that setup_context and backward see: what is saved is that of one element of the batch."""

    def __init__(self):
        self.saved_tensors = ()
        self.needs_input_grad = ()
        self._materialize = True
        self._constant = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors):
        self._saved_for_forward = tensors

    def mark_dirty(self, *tensors):
        raise RuntimeError("generate_vmap_rule=True does not support functions that change their inputs in place")

    def mark_non_differentiable(self, *tensors):
        self._constant = tensors

    def set_materialize_grads(self, value):
        self._materialize = value


class _Batch:
    """One level of vmap for a part of a generated rule."""

    def __init__(self, batch_size, randomness):
        self.batch_size, self.randomness = batch_size, randomness

    def __enter__(self):
        self.level = _levels._push_vmap(self.batch_size, self.randomness)
        return self

    def __exit__(self, *error):
        _levels._pop(self.level)

    def inside(self, values, dims):
        return [v if d is None else _levels._add_batch_dim(v, d, self.level) for v, d in zip(values, dims)]

    def outside(self, leaves):
        return _split(leaves, self.level)

    def in_front(self, tensor):
        return _levels._remove_batch_dim(tensor, self.level, self.batch_size, 0)


def _generated(cls, values, dims, spec, batch_size, randomness):
    """The function over a whole batch, as a custom function of its own: forward and backward each under a vmap."""
    saved = {}

    class Batched(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*flat):
            with _Batch(batch_size, randomness) as batch:
                inputs = _pytree.tree_unflatten(batch.inside(flat, dims), spec)
                result = cls.forward(*inputs)
                one = _OneElement()
                cls.setup_context(one, inputs, result)
                leaves, saved["spec"] = _pytree.tree_flatten(result)
                saved["constant"] = [any(o is c for c in one._constant) for o in leaves]
                tensors, saved["saved_dims"] = batch.outside(list(one.saved_tensors))
                attributes, saved["one"] = vars(one), one
                saved["attributes"] = _held(attributes, batch)
                outputs, saved["out_dims"] = batch.outside(leaves)
            saved["tensors"] = tensors
            return tuple(outputs)

        @staticmethod
        def setup_context(ctx, _, output):
            ctx.save_for_backward(*saved["tensors"])
            ctx.set_materialize_grads(saved["one"]._materialize)
            constant = [o for o, c in zip(output, saved["constant"]) if c]
            if constant:
                ctx.mark_non_differentiable(*constant)

        @staticmethod
        def backward(ctx, *grads):
            with _Batch(batch_size, randomness) as batch:
                one = _OneElement()
                vars(one).update(_released(saved["attributes"], batch))
                one.saved_tensors = tuple(batch.inside(ctx.saved_tensors, saved["saved_dims"]))
                one.needs_input_grad = tuple(_pytree.tree_unflatten(list(ctx.needs_input_grad), spec))
                inner = [
                    g if g is None or d is None else _levels._add_batch_dim(g, d, batch.level)
                    for g, d in zip(grads, saved["out_dims"])
                ]
                found = ctx_backward(cls)(one, *inner)
                found = found if isinstance(found, tuple) else (found,)
                return tuple(None if g is None else _for_input(batch, g, dim) for g, dim in zip(found, dims))

        @staticmethod
        def jvp(ctx, *tangents):
            with _Batch(batch_size, randomness) as batch:
                one = _OneElement()
                vars(one).update(_released(saved["attributes"], batch))
                one.saved_tensors = vars(one).get("_saved_for_forward", ())
                known = [None if t is None else dim for t, dim in zip(tangents, dims)]
                inputs = _pytree.tree_unflatten(batch.inside(tangents, known), spec)
                found = cls.jvp(one, *inputs)
                found = found if isinstance(found, tuple) else (found,)
                return tuple(
                    t if t is None or dim is None else _levels._remove_batch_dim(t, batch.level, batch_size, dim)
                    for t, dim in zip(found, saved["out_dims"])
                )

    Batched.__name__ = f"Batched{cls.__name__}"
    outputs = Batched.apply(*values)
    return (
        _pytree.tree_unflatten(list(outputs), saved["spec"]),
        _pytree.tree_unflatten(list(saved["out_dims"]), saved["spec"]),
    )


def _for_input(batch, grad, dim):
    front = batch.in_front(grad)
    if dim is None:
        return front.sum(0)
    return front.movedim(0, dim) if dim else front


def _held(attributes, batch):
    """Attributes that setup_context gave the context, with the tensors of the level as (value, dimension)."""
    kept = {}
    for name, value in attributes.items():
        if name == "saved_tensors":
            continue
        leaves, spec = _pytree.tree_flatten(value)
        kept[name] = (*batch.outside(leaves), spec)
    return kept


def _released(kept, batch):
    return {
        name: _pytree.tree_unflatten(batch.inside(values, dims), spec) for name, (values, dims, spec) in kept.items()
    }
