"""Modules that run at the same time, each in a thread."""

import threading

import tessera
from tessera._utils import ExceptionWrapper
from tessera.amp.autocast_mode import _Conditions
from tessera.nn.parallel._devices import as_device

__all__ = ["parallel_apply"]


def _device_of(obj):
    """The device of the first tensor in arguments; None where there is none."""
    if isinstance(obj, tessera.Tensor):
        return obj.device
    items = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (tuple, list)) else ()
    return next(filter(None, map(_device_of, items)), None)


def _call(module, args, kwargs, device):
    device = _device_of((args, kwargs)) if device is None else as_device(device)
    if device is None or device.type != "cuda":
        return module(*args, **kwargs)
    with tessera.cuda.device(device), tessera.cuda.stream(tessera.cuda.current_stream(device)):
        return module(*args, **kwargs)


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Calls each module with its arguments, all at the same time, in the caller's grad mode and with its autocast.

    Args:
        modules: the modules.
        inputs: for each a tuple of arguments, or its only argument.
        kwargs_tup: for each a dict of keyword arguments.
        devices: for each the device that is selected meanwhile; by default that of the first tensor among its
            arguments.

    Returns: a list of the results.

    Raises: AssertionError for lists of different lengths; the error of the first module that fails.
    """
    count = len(modules)
    options = [{}] * count if kwargs_tup is None else kwargs_tup
    places = [None] * count if devices is None else devices
    if not count == len(inputs) == len(options) == len(places):
        raise AssertionError(
            f"expected inputs, keyword arguments and devices for each of {count} modules, but got {len(inputs)}, "
            f"{len(options)} and {len(places)}"
        )
    results = [None] * count
    grad, inference = tessera.is_grad_enabled(), tessera.is_inference_mode_enabled()

    autocasts = [_Conditions() for _ in range(count)]

    def run(i):
        try:
            args = inputs[i] if isinstance(inputs[i], (tuple, list)) else (inputs[i],)
            with tessera.inference_mode(inference), tessera.set_grad_enabled(grad), autocasts[i]:
                results[i] = _call(modules[i], args, options[i], places[i])
        except Exception:
            results[i] = ExceptionWrapper(where=f"in replica {i} on device {places[i]}")

    threads = [threading.Thread(target=run, args=(i,)) for i in range(1, count)]
    for thread in threads:
        thread.start()
    if count:
        run(0)
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results
