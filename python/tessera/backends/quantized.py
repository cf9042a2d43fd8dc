"""The engine of quantized operators: one of `supported_engines`. They give the same numbers here: one set of kernels
serves all; the engine chooses defaults of ao.quantization.
"""

import sys

from tessera.backends import _flags

supported_engines = ["qnnpack", "onednn", "x86", "fbgemm"]

_flags.install(sys.modules[__name__], engine=_flags.Choice("x86", "qnnpack", "onednn", "fbgemm", "none"))
