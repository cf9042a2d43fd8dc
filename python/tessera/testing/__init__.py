"""Helpers for tests: `assert_close`, `make_tensor` and `FileCheck`."""

from tessera.testing._comparison import assert_allclose, assert_close
from tessera.testing._creation import make_tensor
from tessera.testing._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
