"""`auto_functionalized_v2`: an operator that writes to its arguments, as one that returns what it wrote."""

import tessera
from tessera import _C
from tessera._higher_order_ops import _bodies
from tessera._higher_order_ops._operator import ControlFlow
from tessera._ops import OpOverload

__all__ = ["auto_functionalized_v2", "can_auto_functionalize", "functional_call"]


def _written(op):
    """The names of the arguments that an operator writes to, with whether they are lists."""
    found = [a for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return {a.name: "[]" in str(a.type) for a in found}


def can_auto_functionalize(op):
    """Whether an operator writes to arguments and returns nothing that shares memory with them."""
    if not isinstance(op, OpOverload) or op.namespace == "aten" or not op._schema.is_mutable:
        return False
    return all(r.alias_info is None for r in op._schema.returns)


class AutoFunctionalizedV2(ControlFlow):
    """`auto_functionalized_v2(op, *, _all_bases, **arguments)`: calls op on copies of the tensors that it writes to.

    Args:
        op: OpOverload (ValueError for one that writes to nothing, or returns views).
        _all_bases: list of the tensors that it writes to.
        **arguments: its other arguments by their names, and for each argument `x` that it writes to `_x_base_index`,
            its place in `_all_bases` or None; for a list `_x_length`, `_x_0_base_index` ...

    Returns: tuple of what op returns (None if nothing), and of the copies as op left them.
    """

    def __init__(self):
        super().__init__("auto_functionalized_v2")

    def __call__(self, op, /, **kwargs):
        if not can_auto_functionalize(op):
            raise ValueError(f"auto_functionalized_v2: {op} does not write to arguments, or returns views")
        return super().__call__(op, **kwargs)

    def run(self, op, *, _all_bases, **kwargs):
        copies = [None if base is None else base.clone() for base in _all_bases]
        at = lambda name: None if (i := kwargs.pop(f"_{name}_base_index")) is None else copies[i]  # noqa: E731
        for name, is_list in _written(op).items():
            if is_list and f"_{name}_length" in kwargs:
                kwargs[name] = [at(f"{name}_{i}") for i in range(kwargs.pop(f"_{name}_length"))]
            else:
                kwargs[name] = at(name)
        result = op(**kwargs)
        return (*result, *copies) if isinstance(result, tuple) else (result, *copies)

    def trace(self, mode, op, **kwargs):
        with tessera.no_grad():
            return _bodies.emit(self, mode, (), (), lambda: (op,), lambda: self.run(op, **kwargs), kwargs)


auto_functionalized_v2 = AutoFunctionalizedV2()


def functional_call(op, args, kwargs):
    """A call of an operator that writes to functional tensors, as one of auto_functionalized_v2 on what they hold.

    Raises: NotImplementedError if an argument that it writes to shares memory with another one.
    """
    functional = _C._func
    is_functional, held_by = functional._is_functional_tensor, functional._from_functional_tensor
    outside = lambda x: held_by(x) if is_functional(x) else x  # noqa: E731
    names = [a.name for a in op._schema.arguments]
    given = {**dict(zip(names, args)), **kwargs}
    bases, call = [], {}

    def place(name, value):
        known = next((i for i, other in enumerate(bases) if other is value), None)
        if value is not None and known is None:
            known = len(bases)
            bases.append(value)
        call[f"_{name}_base_index"] = known

    for name, is_list in _written(op).items():
        value = given.pop(name, None)
        if is_list and value is not None:
            call[f"_{name}_length"] = len(value)
            for i, element in enumerate(value):
                place(f"{name}_{i}", element)
        else:
            place(name, value)
    others = {name: [*map(outside, v)] if isinstance(v, (list, tuple)) else outside(v) for name, v in given.items()}
    held = [outside(base) for base in bases]
    _check_apart(op, held, [v for v in others.values() if isinstance(v, tessera.Tensor)])
    result = auto_functionalized_v2(op, **others, **call, _all_bases=held)
    for base, value in zip(bases, result[len(result) - len(bases) :]):
        functional._replace_functional(base, value)
    found = tuple(functional._to_functional_tensor(r) if isinstance(r, tessera.Tensor) else r
                  for r in result[: len(result) - len(bases)])  # fmt: skip
    return found if len(op._schema.returns) > 1 else found[0]


def _check_apart(op, written, others):
    places = [t.untyped_storage()._cdata for t in written]
    if len(set(places)) < len(places) or any(t.untyped_storage()._cdata in places for t in others):
        raise NotImplementedError(
            f"{op} writes to an argument that shares memory with another one, which cannot be made functional: pass it "
            "tensors of their own (clone())"
        )
