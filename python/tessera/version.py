"""Version numbers. `__version__` is this library's; `api_version` is the level of the PyTorch API that it follows."""

__all__ = ["__version__", "api_version", "debug", "cuda", "git_version", "hip", "rocm", "xpu"]

__version__ = "0.1.0"
tessera = __version__
api_version = "2.11.0"
debug = False
cuda = None
git_version = "Unknown"
hip = None
rocm = None
xpu = None
