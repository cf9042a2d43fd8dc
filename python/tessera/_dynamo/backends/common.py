"""What backends are made of."""

__all__ = ["aot_autograd"]


def aot_autograd(**settings):
    """A backend that traces forward and backward ahead of time, and gives both graphs to compilers.

    Args:
        settings: arguments of _functorch.aot_autograd.aot_module_simplified by name; fw_compiler has to be among them.
    """
    if "fw_compiler" not in settings:
        raise TypeError("aot_autograd(): missing the argument fw_compiler, a function of a GraphModule and its inputs")

    def backend(gm, example_inputs, **options):
        from tessera._functorch.aot_autograd import aot_module_simplified

        if options:
            raise TypeError(f"a backend of aot_autograd() takes no options, but got {sorted(options)}")
        return aot_module_simplified(gm, example_inputs, **settings)

    return backend
