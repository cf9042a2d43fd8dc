"""Linear algebra: the operators `linalg_<name>` of the extension.

    >>> tessera.linalg.vector_norm(tessera.tensor([3.0, 4.0]))
    tensor(5.)
    >>> A = tessera.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> tessera.linalg.solve(A, tessera.tensor([3.0, 5.0]))
    tensor([0.8000, 1.4000])

Matrices are the last two dimensions of tensors of float32, float64, complex64 or complex128; the others are batches,
which broadcast where there are several arguments. Raises: RuntimeError for other dtypes (nothing is converted) and for
shapes that do not fit, `LinAlgError`, which is a RuntimeError, where a matrix has no such decomposition or inverse;
functions named `<name>_ex` tell that by their result `info` (int32, one number for each matrix; 0: all is well).
"""

from tessera._C import _LinAlgError as LinAlgError
from tessera._lazy import operator_namespace

__getattr__, __dir__ = operator_namespace(__name__)
