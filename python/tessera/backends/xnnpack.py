"""XNNPACK, which this build does not use: `enabled` is False and cannot be set."""

import sys

from tessera.backends import _flags


_flags.install(sys.modules[__name__], enabled=_flags.Choice(False))
