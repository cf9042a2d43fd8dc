"""Scripted modules made ready for phones. Only scripted modules (`torch.jit`) can be."""

import enum

from tessera._lazy import require

__all__ = ["LintCode", "MobileOptimizerType", "generate_mobile_module_lints", "optimize_for_mobile"]


class MobileOptimizerType(enum.Enum):
    """What `optimize_for_mobile` does, to be left out by its `optimization_blocklist`."""

    CONV_BN_FUSION = 1
    INSERT_FOLD_PREPACK_OPS = 2
    REMOVE_DROPOUT = 3
    FUSE_ADD_RELU = 4
    HOIST_CONV_PACKED_PARAMS = 5
    VULKAN_AUTOMATIC_GPU_TRANSFER = 6


class LintCode(enum.Enum):
    """What `generate_mobile_module_lints` finds."""

    BUNDLED_INPUT = 1
    REQUIRES_GRAD = 2
    DROPOUT = 3
    BATCHNORM = 4


def _check_scripted(module):
    import sys

    jit = sys.modules.get("tessera.jit")  # without it nothing has been scripted
    if jit is None or not isinstance(module, jit.ScriptModule):
        raise TypeError(f"Got {type(module).__name__}, but ScriptModule is expected.")


def optimize_for_mobile(script_module, optimization_blocklist=None, preserved_methods=None, backend="CPU"):
    """A scripted module with convolutions and batch norms fused, dropout removed and parameters packed.

    Args:
        script_module: in evaluation mode.
        optimization_blocklist: a set of MobileOptimizerType, what not to do.
        preserved_methods: names of methods to keep besides forward.
        backend: "CPU", "Vulkan" or "Metal".

    Raises: TypeError for what is no scripted module or for a backend that is none of these, AttributeError for methods
    that it does not have.
    """
    _check_scripted(script_module)
    if backend.lower() not in ("cpu", "vulkan", "metal"):
        raise TypeError(f"Unknown backend {backend!r}, must be one of 'CPU', 'Vulkan' or 'Metal'")
    missing = [name for name in preserved_methods or () if not hasattr(script_module, name)]
    if missing:
        raise AttributeError(f"The following methods to preserve do not exist in script_module: {', '.join(missing)}")
    optimize = require("jit._mobile.optimize", "utils.mobile_optimizer.optimize_for_mobile()")
    return optimize(script_module, set(optimization_blocklist or ()), list(preserved_methods or ()), backend.lower())


def generate_mobile_module_lints(script_module):
    """What keeps a scripted module from being small and fast on a phone: a list of {"name": LintCode's name,
    "message": text}.

    Raises: TypeError for what is no scripted module.
    """
    _check_scripted(script_module)
    found = []
    lint = {"dropout": LintCode.DROPOUT, "batch_norm": LintCode.BATCHNORM}
    if not hasattr(script_module, "_generate_bundled_inputs_for_forward"):
        found.append((LintCode.BUNDLED_INPUT, "No bundled input for forward; add some before saving the module."))
    for name, parameter in script_module.named_parameters():
        if parameter.requires_grad:
            found.append((LintCode.REQUIRES_GRAD, f"Parameter {name} requires grad; set it to False to save memory."))
    for name, module in script_module.named_modules():
        kind = getattr(module, "original_name", type(module).__name__).lower().replace("batchnorm", "batch_norm")
        for part, code in lint.items():
            if kind.startswith(part):
                found.append((code, f"{name} is a {part}; call eval() and optimize_for_mobile() first."))
    return [{"name": code.name, "message": message} for code, message in found]
