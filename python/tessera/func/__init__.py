"""Transforms of functions of tensors: derivatives, vectorization, modules as functions. They compose with each other.

>>> from tessera.func import grad, vmap
>>> grad(tessera.sin)(tessera.tensor(0.0))
tensor(1.)
"""

from tessera._lazy import attach as _attach

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

__getattr__, __dir__ = _attach(
    __name__,
    {
        "debug_unwrap": "_wrappers",
        "functional_call": "_modules",
        "functionalize": "_functionalize",
        "grad": "_grad",
        "grad_and_value": "_grad",
        "hessian": "_jacobians",
        "jacfwd": "_jacobians",
        "jacrev": "_jacobians",
        "jvp": "_forward",
        "linearize": "_forward",
        "replace_all_batch_norm_modules_": "_modules",
        "stack_module_state": "_modules",
        "vjp": "_grad",
        "vmap": "_vmap",
    },
)
