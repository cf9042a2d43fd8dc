"""Linear algebra: the operators `linalg_<name>` of the extension, norms, and products with a variable number of
arguments.

>>> tessera.linalg.vector_norm(tessera.tensor([3.0, 4.0]))
tensor(5.)
"""

from tessera._C import _LinAlgError as LinAlgError
from tessera._lazy import operator_namespace

__getattr__, __dir__ = operator_namespace(__name__, defined={"matrix_norm": "_norms", "norm": "_norms"})
