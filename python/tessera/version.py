"""Version numbers. `__version__` is this library's; `api_version` is the level of the PyTorch API that it follows."""

__all__ = ["__version__", "api_version", "debug", "cuda", "git_version", "hip", "rocm", "xpu"]  # noqa: F822

__version__ = "0.1.0"
tessera = __version__
api_version = "2.11.0"
debug = False
git_version = "Unknown"
hip = None
rocm = None
xpu = None


def __getattr__(name):
    """`cuda`: the version of the CUDA runtime, such as "13.0"; None without a device."""
    if name != "cuda":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tessera.cuda import _library

    library = _library.load()
    number = library.runtime_version() if library is not None else 0
    globals()["cuda"] = version = f"{number // 1000}.{number % 1000 // 10}" if number else None
    return version
