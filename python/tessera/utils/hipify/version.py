"""The version of the interface of `hipify`."""

__version__ = "2.0.0"
