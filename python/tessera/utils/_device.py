"""`with torch.device(...)` and `set_default_device`: a mode that adds `device=` to factory functions."""

import functools
import threading

import tessera
from tessera.overrides import TorchFunctionMode, _len_torch_function_stack, _pop_mode, _push_mode

_FACTORIES = """
    empty empty_permuted empty_strided empty_quantized ones zeros full eye arange range linspace logspace
    bartlett_window blackman_window
    hamming_window hann_window kaiser_window rand randn randint randperm sparse_coo_tensor sparse_compressed_tensor
    sparse_csr_tensor
    sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor tril_indices triu_indices tensor as_tensor scalar_tensor
    asarray normal
""".split()


@functools.lru_cache(None)
def _device_constructors():
    """The functions that the mode acts on."""
    found = {getattr(tessera, name) for name in _FACTORIES if hasattr(tessera, name)}
    windows = "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser nuttall"
    found |= {getattr(tessera.signal.windows, name) for name in windows.split()}
    for module, names in (("fft", ("fftfreq", "rfftfreq")), ("nested", ("nested_tensor",))):
        try:
            namespace = getattr(tessera, module)
        except (AttributeError, ImportError):
            continue
        found |= {getattr(namespace, name) for name in names if hasattr(namespace, name)}
    return found


class DeviceContext(TorchFunctionMode):
    """Inside the block factory functions without `device=` use this one."""

    def __init__(self, device):
        super().__init__()
        self.device = tessera.device(device)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if (
            kwargs.get("device") is None
            and func in _device_constructors()
            and not (func is tessera.normal and any(isinstance(a, tessera.Tensor) for a in args))
        ):
            kwargs = {**kwargs, "device": self.device}
        return func(*args, **kwargs)


class _ThreadState(threading.local):
    default = None  # the DeviceContext of set_default_device

    def __init__(self):
        self.entered = []


_state = _ThreadState()


def enter_device(device):
    """`device.__enter__`."""
    mode = DeviceContext(device)
    _state.entered.append(mode)
    mode.__enter__()
    return device


def exit_device(device, exc_info=None):
    """`device.__exit__`."""
    _state.entered.pop().__exit__(None, None, None)


def decorate_device(device, func):
    """`@torch.device(...)`: the function runs inside the context."""

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        with DeviceContext(device):
            return func(*args, **kwargs)

    return wrapped


def _replace_bottom(mode):
    """Puts `mode` below all other modes, in place of the default device that was there."""
    modes = [_pop_mode() for _ in range(_len_torch_function_stack())]
    modes = [m for m in modes if m is not _state.default]
    if mode is not None:
        _push_mode(mode)
    for m in reversed(modes):
        _push_mode(m)
    _state.default = mode


def set_default_device(device):
    """Sets the device on which factory functions of this thread allocate; None resets it.

    Explicit `device=` arguments and blocks `with torch.device(...)` win.
    """
    _replace_bottom(None if device is None else DeviceContext(device))


def get_default_device():
    """The device on which factory functions allocate now."""
    if _state.entered:
        mode = _state.entered[-1]
    elif _state.default is not None:
        mode = _state.default
    else:
        return tessera.device("cpu")
    return (
        tessera.empty(0, device=mode.device).device
        if mode.device.index is None and mode.device.type == "cuda"
        else mode.device
    )
