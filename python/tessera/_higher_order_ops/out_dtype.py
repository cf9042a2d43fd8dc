"""`out_dtype`: an operator with a result of another dtype."""

import tessera
from tessera._higher_order_ops._operator import ControlFlow
from tessera._ops import OpOverload
from tessera.utils import _pytree as pytree

__all__ = ["out_dtype"]


class OutDtypeOp(ControlFlow):
    """`out_dtype(op, dtype, *args)`: what op computes in that dtype of its arguments, such as int32 sums of int8
    products.

    Args:
        op: an OpOverload with one result, which writes to nothing.
        output_dtype: dtype.
        args: of op.

    Raises: ValueError for another op.
    """

    def __init__(self):
        super().__init__("out_dtype")

    def __call__(self, op, output_dtype, *args):
        if not isinstance(op, OpOverload):
            raise ValueError("out_dtype's first argument must be an OpOverload")
        if op._schema.is_mutable:
            raise ValueError("out_dtype's first argument needs to be a functional operator")
        returns = op._schema.returns
        if len(returns) != 1 or str(returns[0].type) != "Tensor":
            raise ValueError(f"out_dtype's can only apply to ops that return a single tensor, instead got {returns}")
        return super().__call__(op, output_dtype, *args)

    def run(self, op, output_dtype, *args):
        wide = pytree.tree_map_only(tessera.Tensor, lambda t: t.to(output_dtype), args)
        return op(*wide)

    def trace(self, mode, op, output_dtype, *args):
        from tessera._higher_order_ops import _bodies

        if tessera.is_grad_enabled() and any(
            t.requires_grad for t in pytree.tree_leaves(args) if isinstance(t, tessera.Tensor)
        ):
            return self.run(op, output_dtype, *args)  # its steps have derivatives
        return _bodies.emit(
            self, mode, (), (), lambda: (op, output_dtype, *args), lambda: self.run(op, output_dtype, *args)
        )

    def _functional(self, op, output_dtype, *args):
        return self.run(op, output_dtype, *args)


out_dtype = OutDtypeOp()
