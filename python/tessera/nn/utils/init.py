"""Construction of modules without initial values."""

import tessera

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    """An instance of module_cls with uninitialized parameters. RuntimeError if it is no Module class or its constructor
    has no `device`.
    """
    import inspect

    if not issubclass(module_cls, tessera.nn.Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=kwargs.get("device", "cpu"))
