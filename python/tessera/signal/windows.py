"""Window functions: the operators `windows_<name>` of the extension.

    >>> tessera.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])

Each gives M points as a 1-d tensor of dtype float32 or float64 (by default the default dtype). Raises: ValueError for a
negative number of points, other dtypes and layouts, and parameters outside of what a window is defined for.
"""

from tessera._lazy import operator_namespace

__getattr__, __dir__ = operator_namespace(__name__)
