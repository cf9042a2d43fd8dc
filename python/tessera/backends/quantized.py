"""The engine of quantized operators: one of `supported_engines`, of which this build has none but "none"."""

import sys

from tessera.backends import _flags

supported_engines = ["none"]

_flags.install(sys.modules[__name__], engine=_flags.Choice(*supported_engines))
