"""The repository @cuda: the CUDA toolkit, its headers alone, or nothing.

The toolkit is CUDA_HOME's, or that of the nvcc on the path, or the one in the usual place; CUDA_HOME=none leaves it out. Where there is none, the headers of NVIDIA's pip packages in
.venv (tools/setup installs them there) are enough for the emulated device; TESSERA_CUDA_HEADERS names another folder that has cuda_runtime_api.h, or "none".

TESSERA_CUDA_ARCHITECTURES says what kernels are compiled for, as TORCH_CUDA_ARCH_LIST does: compute capabilities, of which one with +PTX brings code that newer devices
compile themselves ("8.0 9.0 12.0+PTX"). The default, 9.0+PTX alone, keeps nvcc fast.

@cuda//:defs.bzl has ARCHITECTURES (such as sm_90 and compute_90), HAVE_CUDA, NVCC, and what target_compatible_with says of targets for devices (CUDA_COMPATIBLE) and for the emulated one (EMULATION_COMPATIBLE). What lacks
something exists but is incompatible with the platform: `bazel build //...` skips it and whatever needs it.
"""

# Headers of the toolkit, and of cuDNN and NCCL where they are installed with it.
_HEADERS = """
load("@rules_cc//cc:defs.bzl", "cc_library")
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h", "include/**/*.hpp", "include/**/*.inl", "include/**/*.cuh", "include/cccl/**", "include/nv/**"]),
    includes = ["include", "include/cccl"],
)
"""

_LIBRARIES = """
# The runtime as a part of the program: it finds the driver when it runs.
cc_library(name = "cudart_static", linkopts = ["-L%s", "-lcudart_static", "-ldl", "-lrt", "-lpthread"], deps = [":headers"])
"""

_NO_LIBRARIES = """
constraint_setting(name = "toolkit")
constraint_value(name = "installed", constraint_setting = ":toolkit")

cc_library(name = "cudart_static", target_compatible_with = [":installed"])
"""

_NO_HEADERS = """
load("@rules_cc//cc:defs.bzl", "cc_library")
package(default_visibility = ["//visibility:public"])

cc_library(name = "headers", target_compatible_with = [":installed"])
"""

def _find(ctx):
    candidates = []
    if ctx.os.environ.get("CUDA_HOME") == "none":
        return None
    if ctx.os.environ.get("CUDA_HOME"):
        candidates.append(ctx.os.environ["CUDA_HOME"])
    nvcc = ctx.which("nvcc")
    if nvcc:
        candidates.append(str(nvcc.realpath.dirname.dirname))
    for home in candidates + ["/usr/local/cuda"]:
        if ctx.path(home + "/bin/nvcc").exists and ctx.path(home + "/include/cuda_runtime.h").exists:
            return home
    return None

def _find_headers(ctx):
    named = ctx.os.environ.get("TESSERA_CUDA_HEADERS")
    if named == "none":
        return None
    folders = [ctx.path(named)] if named else []
    lib = ctx.path(Label("//:WORKSPACE")).dirname.get_child(".venv").get_child("lib")
    if not named and lib.exists:
        folders = [d.get_child("site-packages").get_child("nvidia").get_child("cu13").get_child("include") for d in lib.readdir()]
    for folder in folders:
        if folder.get_child("cuda_runtime_api.h").exists:
            return folder
    if named:
        fail("TESSERA_CUDA_HEADERS: %s has no cuda_runtime_api.h" % named)
    return None

_DEFS = """ARCHITECTURES = %r
HAVE_CUDA = %r
NVCC = %r
CUDA_COMPATIBLE = %r
EMULATION_COMPATIBLE = %r
"""

def _architectures(text):
    """["sm_80", "sm_90", "compute_90"] of "8.0 9.0+PTX"."""
    binaries, intermediates = [], []
    for entry in text.replace(";", " ").replace(",", " ").split(" "):
        if not entry:
            continue
        capability = entry[:-len("+PTX")] if entry.endswith("+PTX") else entry
        number = capability.replace(".", "")
        if not number.isdigit() or len(capability.split(".")) != 2:
            fail("TESSERA_CUDA_ARCHITECTURES: %r is no compute capability such as 9.0 or 9.0+PTX" % entry)
        binaries.append("sm_" + number)
        if capability != entry:
            intermediates.append("compute_" + number)
    if not binaries:
        fail("TESSERA_CUDA_ARCHITECTURES names no compute capability")
    return binaries + intermediates

def _cuda_configure(ctx):
    home = _find(ctx)
    headers = home + "/include" if home else _find_headers(ctx)
    if headers:
        ctx.symlink(headers, "include")
    lacking = ["@cuda//:installed"]
    ctx.file("BUILD", (_HEADERS if headers else _NO_HEADERS) + (_LIBRARIES % (home + "/lib64") if home else _NO_LIBRARIES))
    architectures = _architectures(ctx.os.environ.get("TESSERA_CUDA_ARCHITECTURES") or "9.0+PTX")
    ctx.file("defs.bzl", _DEFS % (architectures, home != None, home + "/bin/nvcc" if home else "", [] if home else lacking, [] if headers else lacking))

cuda_configure = repository_rule(implementation = _cuda_configure, environ = ["CUDA_HOME", "PATH", "TESSERA_CUDA_ARCHITECTURES", "TESSERA_CUDA_HEADERS"], local = True)
