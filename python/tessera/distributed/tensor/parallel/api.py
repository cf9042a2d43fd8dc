"""Which module is spread in which way."""

import warnings
from fnmatch import fnmatch

from tessera.distributed.device_mesh import _mesh_resources
from tessera.distributed.tensor.parallel.style import ParallelStyle

__all__ = ["parallelize_module"]


def _matching(module, pattern):
    """The submodules whose names fit, level by level, a pattern with wildcards."""
    found = [module]
    for level in pattern.split("."):
        found = [child for part in found for name, child in part.named_children() if fnmatch(name, level)]
    return found


def parallelize_module(module, device_mesh=None, parallelize_plan=None, *, src_data_rank=0):
    """Spreads a module, or parts of it, over a mesh of one dimension, in place.

    Args:
        module: Module.
        device_mesh: DeviceMesh of one dimension (cut one out of a larger one by name); None: that of the `with` block
            around.
        parallelize_plan: a ParallelStyle for the module, or {name of a submodule: style}, where names may hold `*` and
            other wildcards for a level each.
        src_data_rank: whose parameters count; None: everyone's own, and nothing is sent.

    Returns: the module. Names that no submodule has, and a missing plan, are warned of. Raises: RuntimeError without a
    mesh, TypeError for a plan that is none.
    """
    mesh = _mesh_resources.get_current_mesh() if device_mesh is None else device_mesh
    if parallelize_plan is None:
        warnings.warn("parallelize_module() got no parallelize_plan: nothing is spread", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            f"parallelize_plan is a ParallelStyle, or a dict of names and styles, but got {type(parallelize_plan)}"
        )
    for name, style in parallelize_plan.items():
        parts = [module] if name == "" else _matching(module, name)
        if not parts:
            warnings.warn(f"parallelize_plan names '{name}', which no submodule matches", stacklevel=2)
        for part in parts:
            parallelize_module(part, mesh, style, src_data_rank=src_data_rank)
    return module
