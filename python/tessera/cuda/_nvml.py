"""What NVIDIA's management library says about a device, through the package nvidia-ml-py."""

from tessera.cuda import _device_index, get_device_properties


def _handle(device):
    """(the package, its handle of the device). Raises: ModuleNotFoundError without the package."""
    try:
        import pynvml
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.") from e
    index = _device_index(device)
    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{get_device_properties(index).uuid}")


def memory_usage(device=None):
    """Percent of the last moments in which the device's memory was read or written."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetUtilizationRates(handle).memory


def utilization(device=None):
    """Percent of the last moments in which kernels ran."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetUtilizationRates(handle).gpu


def temperature(device=None):
    """Degrees Celsius."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)


def power_draw(device=None):
    """Milliwatts."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device=None):
    """Megahertz of the multiprocessors."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)


def device_memory_used(device=None):
    """Bytes that all processes use on the device."""
    nvml, handle = _handle(device)
    return nvml.nvmlDeviceGetMemoryInfo(handle).used


def gpu_processes(device):
    """[(process id, bytes)] on the device."""
    nvml, handle = _handle(device)
    return [(p.pid, p.usedGpuMemory) for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
