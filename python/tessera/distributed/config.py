"""Settings of tessera.distributed. Names that are none raise AttributeError; `patch` sets some for a while."""

from tessera.utils._config_module import install_config_module

# Groups over the package torchcomms: there is none for this library, so that groups keep their backends, with a
# warning, as they do where the package is not installed.
use_torchcomms = False

# One rank compiles for all. Here each compiles for itself, and ranks are guarded like other numbers, either way.
compile_on_one_rank = False

install_config_module(__name__)
