"""Small helpers of `utils`."""

import tessera


def set_module(obj, mod):
    """Sets the module name that `obj` shows. Raises: TypeError if `mod` is no str."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1, t2):
    """Exchanges the contents of two tensor objects: data, type, attributes; other references see the exchange.

    Raises: RuntimeError if either has weak references or other views of its C++ object that can't be exchanged.
    """
    import weakref

    if weakref.getweakrefs(t1) or weakref.getweakrefs(t2):
        raise RuntimeError("Cannot swap t1 and t2 because one of them has weakref associated with it")
    attributes1, attributes2 = dict(t1.__dict__), dict(t2.__dict__)
    class1, class2 = t1.__class__, t2.__class__
    tessera._C._swap_tensor_impl(t1, t2)
    t1.__class__, t2.__class__ = class2, class1
    for tensor, attributes in ((t1, attributes2), (t2, attributes1)):
        tensor.__dict__.clear()
        tensor.__dict__.update(attributes)
