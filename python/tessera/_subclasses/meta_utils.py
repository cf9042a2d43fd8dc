"""Twins of tensors on the meta device."""

import weakref

import tessera
from tessera.utils.weak import WeakIdKeyDictionary

__all__ = ["MetaConverter", "assert_eq", "assert_metadata_eq", "is_sparse_any"]


class MetaConverter:
    """Makes the twins of tensors on the meta device, each once; tensors that share memory have twins that do.

    Args:
        copy_data: False. Errors: NotImplementedError for True.

    >>> from tessera._subclasses.meta_utils import MetaConverter
    >>> MetaConverter()(tessera.ones(2))
    tensor(..., device='meta', size=(2,))
    """

    def __init__(self, *, copy_data=False):
        if copy_data:
            raise NotImplementedError("MetaConverter(copy_data=True) is not supported; leave it out")
        self.tensor_memo = WeakIdKeyDictionary()
        self._storages = {}

    def __call__(self, t):
        return self.meta_tensor(t) if isinstance(t, tessera.Tensor) else t

    def meta_tensor(self, t):
        """The twin of a tensor: same sizes, strides, offset, dtype, and requires_grad of leaves."""
        known = self.tensor_memo.get(t)
        if known is not None:
            return known
        address = t.untyped_storage()._cdata
        keeper, twin = self._storages.get(address, (None, None))
        if keeper is None or keeper() is None:
            count = t.untyped_storage().nbytes() // t.element_size()
            twin = tessera.empty(count, dtype=t.dtype, device="meta")
        same = twin if twin.dtype == t.dtype else twin.view(t.dtype)
        with tessera.no_grad():
            made = same.as_strided(t.size(), t.stride(), t.storage_offset()).detach()
        self._storages[address] = weakref.ref(t), twin
        made.requires_grad_(t.requires_grad and t.is_leaf)
        if isinstance(t, tessera.nn.Parameter):
            made = tessera.nn.Parameter(made, t.requires_grad)
        self.tensor_memo[t] = made
        return made


def is_sparse_any(t):
    """True for tensors of a sparse layout."""
    return t.layout is not tessera.strided


def assert_eq(a, b):
    """AssertionError unless a == b."""
    if a != b:
        raise AssertionError(f"{a} != {b}")


def assert_metadata_eq(assert_eq, m1, m2, *, skip_symbolic=False):
    """Compares what is known of two tensors besides their values with `assert_eq(a, b)`.

    Args:
        skip_symbolic: sizes, strides and offsets are left out.
    """
    for name in ("dtype", "layout", "requires_grad", "is_leaf"):
        assert_eq(getattr(m1, name), getattr(m2, name))
    if not skip_symbolic:
        assert_eq(m1.shape, m2.shape)
        assert_eq(m1.stride(), m2.stride())
        assert_eq(m1.storage_offset(), m2.storage_offset())
