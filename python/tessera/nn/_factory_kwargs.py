"""The keyword arguments that tensor factories share."""


def factory_kwargs(kwargs):
    """The factory keyword arguments (device, dtype, memory_format) in `kwargs`, those of its own entry "factory_kwargs"
    included.

    TypeError for any other key, and for an argument that is given in both places.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    unexpected = kwargs.keys() - simple - {"factory_kwargs"}
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}")
    given = dict(kwargs.get("factory_kwargs", {}))
    for key in simple:
        if key in kwargs:
            if key in given:
                raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
            given[key] = kwargs[key]
    return given
