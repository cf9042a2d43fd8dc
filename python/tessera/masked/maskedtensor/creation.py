"""How masked tensors are made."""

from tessera.masked.maskedtensor.core import MaskedTensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data, mask, requires_grad=False):
    """A masked tensor with copies of `data` and `mask`, a leaf of the graph.

    Args:
        data: a tensor of floating, integral or bool dtype; strided, or sparse with the mask's pattern.
        mask: a bool tensor of the same size and layout: True where the element is there.
        requires_grad: whether gradients are kept.

    Raises: TypeError for other kinds, dtypes or layouts; ValueError for other sizes.
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """A masked tensor over the memory of `data`, whose graph goes on: its gradients reach `data`.

    Raises: what `masked_tensor` does.
    """
    return MaskedTensor._from_values(data, mask)
