"""Switches for behaviour that is to become the default: how a module's parameters change when it is converted
(`Module.to`, `load_state_dict`).
"""

_overwrite_module_params_on_conversion = False
_swap_module_params_on_conversion = False


def set_overwrite_module_params_on_conversion(value):
    """True: Module.to() and the like put new Parameter objects in place of the old ones, instead of changing the old
    ones' data.
    """
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion():
    """The present setting."""
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value):
    """True: Module.to(), load_state_dict() and the like swap the old parameter with the new one (`utils.swap_tensors`);
    takes precedence over overwriting.
    """
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion():
    """The present setting."""
    return _swap_module_params_on_conversion
