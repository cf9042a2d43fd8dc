"""Tensors as the extension sees them: addresses and bytes, in logical order, on the host."""

import tessera
from tessera import _C
from tessera.distributed._kinds import kind_of

# `Kind` in distributed/reduce.h.
KINDS = {
    dtype: number
    for number, dtype in enumerate(
        (
            tessera.float32,
            tessera.float64,
            tessera.float16,
            tessera.bfloat16,
            tessera.int8,
            tessera.uint8,
            tessera.int16,
            tessera.uint16,
            tessera.int32,
            tessera.uint32,
            tessera.int64,
            tessera.uint64,
            tessera.bool,
        )
    )
}
BYTES = 13
# `Fold`, by RedOpType: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM.
FOLDS = (0, 0, 1, 2, 3, 4, 5, 6, 0)


def is_plain(tensor):
    """Whether the extension can read and write the tensor where it is."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is tessera.strided
        and tensor.is_contiguous()
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def check(tensor):
    """Refuses what has no memory."""
    if tensor.layout is not tessera.strided:
        raise RuntimeError(f"this collective takes dense tensors, but got one of layout {tensor.layout}")
    if tensor.device.type == "meta":
        raise RuntimeError("a tensor on meta has no values that could go to another process")


def readable(tensor):
    """The tensor, or a copy of it, as contiguous host memory."""
    if is_plain(tensor):
        return tensor
    check(tensor)
    with tessera.no_grad():
        return tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()


class Outputs:
    """Tensors to write, and the memory that the extension writes for them.

    Args:
        tensors: them.
        filled: whether their values are needed, too.
        counted: whether it is a change that autograd looks for. Of what is reduced, sent or received in place it is
            none: programs do so with losses and statistics that a backward pass still needs.
    """

    def __init__(self, tensors, filled, counted=False):
        self.tensors, self.memory, self.counted = tensors, [], counted
        for tensor in tensors:
            if is_plain(tensor):
                self.memory.append(tensor)
            elif filled:
                self.memory.append(readable(tensor))
            else:
                check(tensor)
                self.memory.append(tessera.empty(tensor.shape, dtype=tensor.dtype))

    def finish(self):
        """Brings what was written to the tensors."""
        for tensor, memory in zip(self.tensors, self.memory):
            if memory is not tensor:
                with tessera.no_grad():
                    tensor.detach().copy_(memory)
            elif self.counted and not tensor.is_inference():
                _C._increment_version(tensor)


def flat(tensors):
    """[address, bytes, ...] of contiguous host tensors."""
    out = []
    for tensor in tensors:
        out.append(tensor.data_ptr())
        out.append(tensor.numel() * tensor.element_size())
    return out


def reduction(tensor, op):
    """The extension's numbers for reducing such a tensor so: element type and fold.

    Raises: RuntimeError for a reduction that is not defined for the element type."""
    kind = kind_of(op)
    dtype = tensor.dtype
    if dtype.is_complex:
        if FOLDS[kind] != 0:
            raise RuntimeError(f"complex numbers cannot be reduced by {kind.name}; SUM and AVG can")
        dtype = dtype.to_real()
    number = KINDS.get(dtype)
    if number is None:
        raise RuntimeError(f"tensors of dtype {dtype} cannot be reduced between processes; convert them first")
    if kind.name == "AVG" and not dtype.is_floating_point:
        raise RuntimeError(f"ReduceOp.AVG is for floating point and complex numbers, but the tensor has dtype {dtype}")
    if FOLDS[kind] >= 4 and dtype.is_floating_point:
        raise RuntimeError(f"ReduceOp.{kind.name} works on the bits of integers, but the tensor has dtype {dtype}")
    return number, FOLDS[kind]


def before(memories, op, scales=False):
    """What a reduction does to what is given, on the memory.

    Args:
        memories: tensors of one dtype.
        op: the reduction.
        scales: whether the extension can do it on its way.

    Returns: the factor that is left to the extension."""
    if kind_of(op) != 8:
        return 1.0
    if scales and isinstance(op.factor, (int, float)) and KINDS.get(memories[0].dtype, BYTES) < 2:
        return float(op.factor)
    with tessera.no_grad():
        for memory in memories:
            memory.mul_(op.factor)
    return 1.0


def after(tensor, op, size):
    """What a reduction does to its result."""
    if kind_of(op) == 1:
        with tessera.no_grad():
            if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
                tensor.div_(size)
            else:
                tensor.div_(size, rounding_mode="trunc")
