"""Functions of the CUDA runtime, as `cudart()` offers them."""

import enum
import types

from tessera.cuda import _device_index, _lazy_init


class cudaStatus:
    """Numbers that functions of the runtime return."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


class CudaError(RuntimeError):
    """A function of the runtime returned an error. `code` is its number."""

    def __init__(self, code):
        super().__init__(f"{_lazy_init().error_string(int(code))} ({int(code)})")
        self.code = int(code)


def check_error(res):
    """Raises: CudaError if `res` is not success."""
    if int(res) != cudaStatus.SUCCESS:
        raise CudaError(res)


class cudaError(enum.IntEnum):
    """What functions of the runtime return."""

    success = 0


def _status(code):
    return cudaError.success if code == 0 else code


def _profiler(name):
    """cudaProfilerStart or cudaProfilerStop, of the driver, which profilers listen to."""
    import ctypes

    try:
        return getattr(ctypes.CDLL("libcuda.so.1"), name)()
    except OSError:
        return 0  # without a driver there is no profiler


def cudart():
    """The runtime's functions: a namespace. Raises: RuntimeError without a device."""
    library = _lazy_init()
    return types.SimpleNamespace(
        cudaError=cudaError,
        cudaGetErrorString=lambda code: library.error_string(int(code)),
        cudaProfilerStart=lambda: _status(_profiler("cuProfilerStart")),
        cudaProfilerStop=lambda: _status(_profiler("cuProfilerStop")),
        cudaHostRegister=lambda pointer, size, flags: _status(library.host_register(pointer, size, flags)),
        cudaHostUnregister=lambda pointer: _status(library.host_unregister(pointer)),
        cudaStreamCreate=lambda: library.stream_create(),
        cudaStreamDestroy=lambda handle: _status(library.stream_destroy(handle)),
        cudaMemGetInfo=lambda device=None: library.memory_info(_device_index(device)),
    )
