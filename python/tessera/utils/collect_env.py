"""What a report of a problem should say about the machine: `python -m tessera.utils.collect_env`.

Functions named get_* find out one thing each. Those that ask another program take the function that runs it
(`run_lambda`: command -> (status, output, errors), such as `run`), so that programs can bring their own. What cannot be
found out is None.
"""

import json
import locale
import os
import platform
import re
import shlex
import subprocess
import sys
from collections import namedtuple

try:
    import tessera

    TORCH_AVAILABLE = True
except (ImportError, OSError):  # a report about an installation that does not work
    TORCH_AVAILABLE = False

SystemEnv = namedtuple(
    "SystemEnv",
    "torch_version is_debug_build cuda_compiled_version gcc_version clang_version cmake_version os libc_version "
    "python_version python_platform is_cuda_available cuda_runtime_version cuda_module_loading nvidia_driver_version "
    "nvidia_gpu_models cudnn_version is_xpu_available pip_version pip_packages conda_packages hip_compiled_version "
    "hip_runtime_version miopen_runtime_version caching_allocator_config is_xnnpack_available cpu_info",
)

# Packages that matter: a part of their name.
DEFAULT_PIP_PATTERNS = (
    "tessera torch numpy scipy mypy flake8 triton optree onnx intel nccl nvidia cuda cudnn jax tensorboard"
).split()
DEFAULT_CONDA_PATTERNS = (*DEFAULT_PIP_PATTERNS, "cudatoolkit", "mkl", "magma", "blas", "openmp")


def run(command):
    """Runs a program: a command line, or a list of words. Returns: (status, output, errors); 127 where there is no such
    program.
    """
    words = shlex.split(command) if isinstance(command, str) else command
    try:
        result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    encoding = "oem" if get_platform() == "win32" else locale.getpreferredencoding(False)
    return (
        result.returncode,
        result.stdout.decode(encoding, "replace").strip(),
        result.stderr.decode(encoding, "replace").strip(),
    )


def run_and_read_all(run_lambda, command):
    """A command's output; None if it fails."""
    status, output, _ = run_lambda(command)
    return output if status == 0 else None


def run_and_parse_first_match(run_lambda, command, regex):
    """The first group of a regular expression in a command's output; None if it fails or nothing matches."""
    output = run_and_read_all(run_lambda, command)
    found = re.search(regex, output) if output is not None else None
    return found.group(1) if found else None


def run_and_return_first_line(run_lambda, command):
    """The first line of a command's output; None if it fails."""
    output = run_and_read_all(run_lambda, command)
    return output.split("\n")[0] if output is not None else None


def get_platform():
    """'linux', 'win32', 'cygwin', 'darwin' or what else sys.platform says."""
    for name in ("linux", "win32", "cygwin", "darwin"):
        if sys.platform.startswith(name):
            return name
    return sys.platform


def get_python_platform():
    """What the module platform says about the machine."""
    return platform.platform()


def get_gcc_version(run_lambda):
    """The version of gcc."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda):
    """The version of clang."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda):
    """The version of CMake."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_libc_version():
    """The C library that Python uses and its version; 'N/A' outside of Linux."""
    return "-".join(platform.libc_ver()) if get_platform() == "linux" else "N/A"


def check_release_file(run_lambda):
    """The system's name out of /etc/*-release."""
    return run_and_parse_first_match(run_lambda, ["sh", "-c", "cat /etc/*-release"], r'PRETTY_NAME="(.*)"')


def get_lsb_version(run_lambda):
    """The system's name according to lsb_release."""
    return run_and_parse_first_match(run_lambda, "lsb_release -a", r"Description:\t(.*)")


def get_mac_version(run_lambda):
    """The version of macOS."""
    return run_and_parse_first_match(run_lambda, "sw_vers -productVersion", r"(.*)")


def get_windows_version(run_lambda):
    """The name and version of Windows."""
    command = ["powershell", "-NoProfile", "-Command", "(Get-CimInstance Win32_OperatingSystem).Caption"]
    return run_and_read_all(run_lambda, command)


def get_linux_pkg_version(run_lambda, pkg_name):
    """The version of a package of a Debian, Red Hat or SUSE system; 'N/A' if it is not installed."""
    commands = (
        ["dpkg-query", "-W", "-f=${Version}", pkg_name],
        ["rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}", pkg_name],
    )
    return next(filter(None, (run_and_read_all(run_lambda, command) for command in commands)), "N/A")


def get_os(run_lambda):
    """The system with its machine type."""
    kind, machine = get_platform(), platform.machine()
    if kind in ("win32", "cygwin"):
        return get_windows_version(run_lambda)
    if kind == "darwin":
        version = get_mac_version(run_lambda)
        return None if version is None else f"macOS {version} ({machine})"
    if kind == "linux":
        name = get_lsb_version(run_lambda) or check_release_file(run_lambda) or kind
        return f"{name} ({machine})"
    return kind


def get_nvidia_smi():
    """The name of the program that tells about NVIDIA's devices."""
    if get_platform() == "win32":
        path = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "nvidia-smi.exe")
        return path if os.path.exists(path) else "nvidia-smi"
    return "nvidia-smi"


def get_nvidia_driver_version(run_lambda):
    """The version of NVIDIA's driver."""
    command = [get_nvidia_smi(), "--query-gpu=driver_version", "--format=csv,noheader"]
    return run_and_return_first_line(run_lambda, command)


def get_gpu_info(run_lambda):
    """The names of the devices, one a line."""
    listed = run_and_read_all(run_lambda, [get_nvidia_smi(), "-L"])
    return None if listed is None else re.sub(r"\s*\(UUID: [^)]*\)", "", listed)


def get_running_cuda_version(run_lambda):
    """The version of the installed CUDA compiler."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cudnn_version(run_lambda):
    """The files of cuDNN that the dynamic linker finds, or the version that is in use."""
    listed = run_and_read_all(run_lambda, "ldconfig -p") if get_platform() == "linux" else None
    files = sorted({os.path.realpath(path) for path in re.findall(r"=> (\S*libcudnn\S*)", listed or "")})
    if files:
        return files[0] if len(files) == 1 else "Probably one of the following:\n" + "\n".join(files)
    version = tessera.backends.cudnn.version() if TORCH_AVAILABLE else None
    return None if version is None else str(version)


def get_cuda_module_loading_config():
    """When kernels are loaded: the variable CUDA_MODULE_LOADING; 'N/A' without a device."""
    if not TORCH_AVAILABLE or not tessera.cuda.is_available():
        return "N/A"
    return os.environ.get("CUDA_MODULE_LOADING", "LAZY")


def get_cachingallocator_config():
    """The settings of the allocators of devices that are in the environment."""
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    found = {name: os.environ[name] for name in names if name in os.environ}
    return "\n".join(f"{name}: {value}" for name, value in found.items()) if found else "N/A"


def is_xnnpack_available():
    """Whether XNNPACK is in use: 'True', 'False' or 'N/A'."""
    return str(bool(tessera.backends.xnnpack.enabled)) if TORCH_AVAILABLE else "N/A"


def get_intel_gpu_onboard(run_lambda):
    """Intel's devices on the bus, one a line."""
    listed = run_and_read_all(run_lambda, "lspci") if get_platform() == "linux" else None
    found = [line for line in (listed or "").split("\n") if re.search(r"(VGA|Display|3D).*Intel", line)]
    return "\n".join(found) or "N/A"


def get_intel_gpu_driver_version(run_lambda):
    """The versions of the packages of Intel's driver, as JSON."""
    names = ("intel-opencl-icd", "libze1", "level-zero", "intel-level-zero-gpu")
    versions = {name: get_linux_pkg_version(run_lambda, name) for name in names}
    return json.dumps({name: version for name, version in versions.items() if version != "N/A"}, indent=2)


def get_intel_gpu_detected(run_lambda):
    """Intel's devices that can be used; 'N/A' without one."""
    if not TORCH_AVAILABLE or not tessera.xpu.is_available():
        return "N/A"
    return get_intel_gpu_onboard(run_lambda)


def get_cpu_info(run_lambda):
    """What the system tells about the processor."""
    kind = get_platform()
    if kind == "linux":
        return run_and_read_all(run_lambda, "lscpu")
    if kind == "darwin":
        return run_and_read_all(run_lambda, "sysctl -n machdep.cpu.brand_string")
    if kind == "win32":
        query = "Get-CimInstance Win32_Processor | Format-List Name,NumberOfCores"
        return run_and_read_all(run_lambda, ["powershell", "-NoProfile", "-Command", query])
    return None


def _matching(output, patterns):
    lines = (line for line in output.splitlines() if not line.startswith("#"))
    return "\n".join(line for line in lines if any(pattern in line for pattern in patterns))


def get_pip_packages(run_lambda, patterns=None):
    """(which pip, its packages whose lines hold one of `patterns`)."""
    listed = run_and_read_all(run_lambda, [sys.executable, "-m", "pip", "list", "--format=freeze"])
    found = None if listed is None else _matching(listed, DEFAULT_PIP_PATTERNS if patterns is None else patterns)
    return f"pip{sys.version_info[0]}", found


def get_conda_packages(run_lambda, patterns=None):
    """The packages of conda whose lines hold one of `patterns`; None without conda."""
    listed = run_and_read_all(run_lambda, [os.environ.get("CONDA_EXE", "conda"), "list"])
    return None if listed is None else _matching(listed, DEFAULT_CONDA_PATTERNS if patterns is None else patterns)


def get_env_info():
    """All of it: a SystemEnv."""
    there = TORCH_AVAILABLE
    pip_version, pip_packages = get_pip_packages(run)
    python = sys.version.replace("\n", " ")
    return SystemEnv(
        torch_version=str(tessera.__version__) if there else "N/A",
        is_debug_build="False" if there else "N/A",
        cuda_compiled_version=str(tessera.version.cuda) if there else "N/A",
        gcc_version=get_gcc_version(run),
        clang_version=get_clang_version(run),
        cmake_version=get_cmake_version(run),
        os=get_os(run),
        libc_version=get_libc_version(),
        python_version=f"{python} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=get_python_platform(),
        is_cuda_available=str(tessera.cuda.is_available()) if there else "N/A",
        cuda_runtime_version=get_running_cuda_version(run),
        cuda_module_loading=get_cuda_module_loading_config(),
        nvidia_driver_version=get_nvidia_driver_version(run),
        nvidia_gpu_models=get_gpu_info(run),
        cudnn_version=get_cudnn_version(run),
        is_xpu_available=str(tessera.xpu.is_available()) if there else "N/A",
        pip_version=pip_version,
        pip_packages=pip_packages,
        conda_packages=get_conda_packages(run),
        hip_compiled_version="N/A",
        hip_runtime_version="N/A",
        miopen_runtime_version="N/A",
        caching_allocator_config=get_cachingallocator_config(),
        is_xnnpack_available=is_xnnpack_available(),
        cpu_info=get_cpu_info(run),
    )


_REPORT = """
{name} version: {torch_version}
Is debug build: {is_debug_build}
CUDA used to build {name}: {cuda_compiled_version}
ROCM used to build {name}: {hip_compiled_version}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is CUDA available: {is_cuda_available}
CUDA runtime version: {cuda_runtime_version}
CUDA_MODULE_LOADING set to: {cuda_module_loading}
GPU models and configuration: {nvidia_gpu_models}
Nvidia driver version: {nvidia_driver_version}
cuDNN version: {cudnn_version}
Is XPU available: {is_xpu_available}
HIP runtime version: {hip_runtime_version}
MIOpen runtime version: {miopen_runtime_version}
Is XNNPACK available: {is_xnnpack_available}
Caching allocator config: {caching_allocator_config}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
{conda_packages}
""".strip()


def _cell(key, value):
    """One value as text; those of several lines begin on a line of their own."""
    if value is None:
        return f"[{key.partition('_')[0]}] Could not collect" if key.endswith("_packages") else "Could not collect"
    text = {True: "Yes", False: "No"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    if key.endswith("_packages"):
        return "\n".join(f"[{key.partition('_')[0]}] {line}" for line in text.splitlines()) or f"[{key[:3]}] none"
    return "\n" + text if "\n" in text and key != "cpu_info" else text


def pretty_str(envinfo):
    """A SystemEnv as a report."""
    cells = {key: _cell(key, value) for key, value in envinfo._asdict().items()}
    name = "PyTorch" if not TORCH_AVAILABLE or tessera._display_name == "torch" else "Tessera"
    return _REPORT.format(name=name, **cells)


def get_pretty_env_info():
    """The report about this machine."""
    return pretty_str(get_env_info())


def main():
    """Prints the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
