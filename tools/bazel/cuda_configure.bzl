"""The repository @cuda: the CUDA toolkit (CUDA_HOME, or the one of the nvcc on the path, or the usual place), or an empty one.

@cuda//:defs.bzl has HAVE_CUDA and NVCC. Where there is no toolkit the targets exist but are incompatible with the platform: `bazel build //...` skips
whatever needs them. CUDA_HOME=none leaves CUDA out.
"""

_WITH = """
load("@rules_cc//cc:defs.bzl", "cc_library")
package(default_visibility = ["//visibility:public"])

# Headers of the toolkit, and of cuDNN and NCCL where they are installed with it.
cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h", "include/**/*.hpp", "include/**/*.inl", "include/**/*.cuh", "include/cccl/**", "include/nv/**"]),
    includes = ["include", "include/cccl"],
)

# The runtime as a part of the program: it finds the driver when it runs.
cc_library(name = "cudart_static", linkopts = ["-L%s", "-lcudart_static", "-ldl", "-lrt", "-lpthread"], deps = [":headers"])

[cc_library(name = lib, linkopts = ["-L%s", "-Wl,-rpath-link,%s", "-l" + lib], deps = [":headers"]) for lib in [
    "cudart", "cublas", "cublasLt", "cudnn", "cufft", "cusolver", "cusparse", "curand", "nccl", "cupti", "nvrtc",
]]
"""

_WITHOUT = """
load("@rules_cc//cc:defs.bzl", "cc_library")
package(default_visibility = ["//visibility:public"])

constraint_setting(name = "toolkit")
constraint_value(name = "installed", constraint_setting = ":toolkit")

[cc_library(name = lib, target_compatible_with = [":installed"]) for lib in [
    "headers", "cudart_static", "cudart", "cublas", "cublasLt", "cudnn", "cufft", "cusolver", "cusparse", "curand", "nccl", "cupti", "nvrtc",
]]
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

def _cuda_configure(ctx):
    home = _find(ctx)
    if home:
        ctx.symlink(home + "/include", "include")
        lib = home + "/lib64"
        ctx.file("BUILD", _WITH % (lib, lib, lib))
        ctx.file("defs.bzl", "HAVE_CUDA = True\nNVCC = %r\nCUDA_COMPATIBLE = []\n" % (home + "/bin/nvcc"))
    else:
        ctx.file("BUILD", _WITHOUT)
        ctx.file("defs.bzl", "HAVE_CUDA = False\nNVCC = \"\"\nCUDA_COMPATIBLE = [\"@cuda//:installed\"]\n")

cuda_configure = repository_rule(implementation = _cuda_configure, environ = ["CUDA_HOME", "PATH"], local = True)
