"""Functions of sparse tensors, and what is checked when such tensors are made."""

import functools
import threading

import tessera
from tessera import _C
from tessera._C import _handle_torch_function, _has_torch_function
from tessera._lazy import attach as _attach

__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
    "to_sparse_semi_structured",
]

__getattr__, __dir__ = _attach(
    __name__,
    {
        "SparseSemiStructuredTensor": "semi_structured",
        "SparseSemiStructuredTensorCUSPARSELT": "semi_structured",
        "SparseSemiStructuredTensorCUTLASS": "semi_structured",
        "to_sparse_semi_structured": "semi_structured",
        "as_sparse_gradcheck": "_gradcheck",
        "_sparse_tensor": ":tessera._root.tensor_types sparse_tensor",
        **{
            f"{kind}Tensor": f":tessera._root.tensor_types sparse_{kind}Tensor"
            for kind in "BFloat16 Byte Char Double Float Half Int Long Short".split()
        },
    },
)


def _overridable(count):
    """Decorator: the first `count` arguments may override the call."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            relevant = args[:count] + tuple(v for v in kwargs.values() if isinstance(v, tessera.Tensor))
            if _has_torch_function(relevant):
                return _handle_torch_function(wrapper, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapper

    return decorate


@_overridable(2)
def mm(mat1, mat2, reduce=None):
    """The product of two matrices, of which one at least is sparse.

    Sparse times sparse is sparse, other products are strided. The gradient of a sparse matrix has its elements.

    Args:
        reduce: "sum", "mean", "amax" or "amin" in place of the sum; CSR times strided alone.
    """
    if reduce is None:
        return _C._sparse_mm(mat1, mat2)
    return _C._sparse_mm(mat1, mat2, reduce)


@_overridable(3)
def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """`beta * mat + alpha * (mat1 @ mat2)` for sparse mat1; its gradient has its elements."""
    return _C._sparse_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


@_overridable(3)
def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """`beta * input + alpha * (mat1 @ mat2)` at the elements of `input`, a CSR tensor; mat1 and mat2 are strided."""
    extra = {} if out is None else {"out": out}
    return _C._sparse.sparse_sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha, **extra)


@_overridable(1)
def sum(input, dim=None, dtype=None):
    """Sums over dimensions of a sparse tensor (all, if none is named): sparse while a sparse dimension is left."""
    if dim is None:
        return _C._sparse_sum(input) if dtype is None else _C._sparse_sum(input, dtype=dtype)
    return _C._sparse_sum(input, dim) if dtype is None else _C._sparse_sum(input, dim, dtype=dtype)


@_overridable(1)
def softmax(input, dim, *, dtype=None):
    """softmax over a dimension of a COO tensor, in which unspecified elements count as -inf."""
    return _C._sparse_softmax(input, dim, dtype=dtype)


@_overridable(1)
def log_softmax(input, dim, *, dtype=None):
    """log_softmax over a dimension of a COO tensor, in which unspecified elements count as -inf."""
    return _C._sparse_log_softmax(input, dim, dtype=dtype)


@_overridable(2)
def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix of `shape` with the rows of `diagonals` on the diagonals that `offsets` name.

    Element k of a row stands in column k. Positive offsets are above the main diagonal.

    Args:
        layout: sparse_coo (default), sparse_csr or sparse_csc.

        >>> tessera.sparse.spdiags(tessera.ones(2, 3), tessera.tensor([0, 1]), (3, 3)).to_dense()
        tensor([[1., 1., 0.],
                [0., 1., 1.],
                [0., 0., 1.]])
    """
    return _C._spdiags(diagonals, offsets, shape, layout)


@_overridable(2)
def spsolve(input, other, *, left=True):
    """The solution X of `input @ X = other` for a square CSR matrix; there is no sparse solver for the CPU."""
    return _C._spsolve(input, other, left=left)


class check_sparse_tensor_invariants:
    """Whether constructors of sparse tensors look at every index: off at first.

    `enable()` and `disable()` switch it; an instance is a context manager and a decorator.

        >>> with tessera.sparse.check_sparse_tensor_invariants():
        ...     tessera.sparse.check_sparse_tensor_invariants.is_enabled()
        True
    """

    def __init__(self, enable=True):
        self._wanted = bool(enable)
        self._entered = threading.local()

    @staticmethod
    def is_enabled():
        """Whether constructors check."""
        return _C._sparse_invariants()

    @staticmethod
    def enable():
        """Constructors check from now on."""
        _C._sparse_invariants(True)

    @staticmethod
    def disable():
        """Constructors do not check from now on."""
        _C._sparse_invariants(False)

    def __enter__(self):
        states = self._entered.__dict__.setdefault("states", [])
        if states:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for "
                "context nesting."
            )
        states.append(self.is_enabled())
        _C._sparse_invariants(self._wanted)

    def __exit__(self, *exc_info):
        _C._sparse_invariants(self._entered.states.pop())

    def __call__(self, function):
        @functools.wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return checked
