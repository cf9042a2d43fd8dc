"""The repository @python: headers and pybind11 of one interpreter.

TESSERA_PYTHON (given as --repo_env=TESSERA_PYTHON=..., default python3) names the interpreter. Only targets that depend on @python are built again when it
changes. pybind11 comes from that interpreter or, where it lacks it, from the checkout's .venv, which tools/setup makes.
"""

_INCLUDE = """
import sysconfig
print(sysconfig.get_path("include"))
print(sysconfig.get_config_var("EXT_SUFFIX"))
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(name = "headers", hdrs = glob(["python_include/**/*.h"]), includes = ["python_include"])

cc_library(name = "pybind11", hdrs = glob(["pybind11_include/**/*.h"], allow_empty = True), includes = ["pybind11_include"], deps = [":headers"])
"""

def _pybind11_include(ctx, exe):
    venv = ctx.path(Label("//:WORKSPACE")).dirname.get_child(".venv").get_child("bin").get_child("python")
    for python in [exe, venv, ctx.which("python3")]:
        if python and (python == exe or ctx.path(python).exists):
            found = ctx.execute([python, "-c", "import pybind11; print(pybind11.get_include())"])
            if found.return_code == 0:
                return found.stdout.strip()
    fail("no pybind11 for %s: run tools/setup" % exe)

def _python_configure(ctx):
    name = ctx.os.environ.get("TESSERA_PYTHON", "python3")
    exe = name if "/" in name else ctx.which(name)
    if not exe:
        fail("no interpreter %s on the path" % name)
    result = ctx.execute([exe, "-c", _INCLUDE])
    if result.return_code:
        fail("cannot run %s: %s" % (exe, result.stderr))
    include, suffix = result.stdout.strip().split("\n")
    if not ctx.path(include).get_child("Python.h").exists:
        fail("%s has no Python.h in %s: run tools/setup" % (exe, include))
    ctx.symlink(include, "python_include")
    ctx.symlink(_pybind11_include(ctx, exe), "pybind11_include")
    ctx.file("defs.bzl", "EXT_SUFFIX = %r\nPYTHON = %r\n" % (suffix, str(exe)))
    ctx.file("BUILD", _BUILD)

python_configure = repository_rule(implementation = _python_configure, environ = ["TESSERA_PYTHON", "PATH"], local = True)
