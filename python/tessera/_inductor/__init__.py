"""The default backend's settings and questions; `tessera.compile` uses it."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)


def list_mode_options(mode=None, dynamic=None):
    """{mode: {setting: value}} of torch.compile's modes, or the settings of one.

    Raises: RuntimeError for unknown modes.
    """
    options = {
        "default": {},
        "reduce-overhead": {"triton.cudagraphs": True},
        "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
        "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
    }
    del dynamic
    if mode is None:
        return options
    if mode not in options:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(options)}")
    return options[mode]


def list_options():
    """Names of the settings that torch.compile takes as options."""
    from tessera._inductor import config

    return config.names()


def cudagraph_mark_step_begin():
    """As torch.compiler.cudagraph_mark_step_begin."""
