"""What utils.mobile_optimizer does with compiled modules."""

import tessera


def optimize(module, left_out, kept, backend):
    """A frozen module for a phone, on the CPU; other backends have none of their operators.

    Args:
        left_out: names of steps that are not done. kept: names of methods besides forward. backend: "cpu" ...
    Errors: RuntimeError for a backend without operators, or a module in training mode.
    """
    if backend != "cpu":
        raise RuntimeError(f"optimize_for_mobile: there are no operators of the backend {backend!r} in this build")
    names = {m.name for m in module._c.class_.methods}
    exported = [n for n in kept if n in names]
    if len(exported) != len(kept):
        raise RuntimeError(f"optimize_for_mobile: the module has no method {sorted(set(kept) - names)}")
    if any(getattr(step, "name", step) == "CONV_BN_FUSION" for step in left_out):
        return module
    return tessera.jit.freeze(module.eval(), exported)
