"""Backends that run graphs as they are."""

import functools

from tessera._dynamo.exc import TorchDynamoException

__all__ = ["aot_eager", "eager", "eager_noexcept", "error_backend", "explain"]


def _no_options(name, options):
    if options:
        raise RuntimeError(f"the backend {name!r} has no options, but got {sorted(options)}")


def eager(gm, example_inputs, **kwargs):
    """Runs the graph operator by operator."""
    _no_options("eager", {k: v for k, v in kwargs.items() if k not in ("mode", "options")})
    return gm.forward


def eager_noexcept(gm, example_inputs, **kwargs):
    """As eager; an error in the graph is raised as TorchDynamoException."""

    @functools.wraps(gm.forward)
    def run(*args):
        try:
            return gm(*args)
        except Exception as error:
            raise TorchDynamoException("Unexpected exception when running generated GraphModule") from error

    return run


def aot_eager(gm, example_inputs, fw_compiler=None, bw_compiler=None, **kwargs):
    """Traces forward and backward ahead of time, and runs both operator by operator."""
    from tessera._functorch.aot_autograd import aot_module_simplified
    from tessera._functorch.compilers import nop

    return aot_module_simplified(gm, example_inputs, fw_compiler or nop, bw_compiler or fw_compiler or nop)


def error_backend(gm, example_inputs, **kwargs):
    """For tests: refuses graphs of anything but one operator."""
    raise RuntimeError("this backend fails, for tests")


def explain(gm, example_inputs):
    """Runs the graph operator by operator."""
    return gm.forward
