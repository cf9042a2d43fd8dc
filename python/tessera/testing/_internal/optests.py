"""`opcheck`, under the name by which tests of extensions import it."""

from tessera.library import opcheck

__all__ = ["opcheck"]
