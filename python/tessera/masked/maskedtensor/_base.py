"""What the reductions under a mask know of masked tensors: that they hold data and a mask."""

import tessera


class Masked(tessera.Tensor):
    """A tensor with the attributes `_masked_data` and `_masked_mask`."""

    def get_mask(self):
        """The mask: a bool tensor."""
        return self._masked_mask


def is_masked_tensor(obj, /):
    """Whether `obj` is a MaskedTensor."""
    return isinstance(obj, Masked)
