"""The repository @python: the headers of one interpreter.

TESSERA_PYTHON (given as --repo_env=TESSERA_PYTHON=..., default python3) names the interpreter. Only targets that depend on @python are built again when it changes, and only they fail
where there is no interpreter, or none with headers: C++ programs need no Python.
"""

_INCLUDE = """
import sysconfig
print(sysconfig.get_path("include"))
print(sysconfig.get_config_var("EXT_SUFFIX"))
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(name = "headers", hdrs = glob(["python_include/**/*.h"]), includes = ["python_include"])
"""

# Says what is missing when something is built that includes Python.h.
_MISSING = """
package(default_visibility = ["//visibility:public"])

genrule(name = "python_h", outs = ["python_include/Python.h"], cmd = "echo %s >&2; exit 1", message = "Looking for Python.h: " + %r)

cc_library(name = "headers", hdrs = [":python_h"], includes = ["python_include"])
"""

def _describe(ctx):
    """(executable, include folder, suffix of extensions, "") or what is missing as the last."""
    name = ctx.os.environ.get("TESSERA_PYTHON", "python3")
    exe = name if "/" in name else ctx.which(name)
    if not exe:
        return (name, None, "", "no interpreter %s on the path" % name)
    if not ctx.path(exe).exists:
        return (exe, None, "", "no interpreter %s" % exe)
    result = ctx.execute([exe, "-c", _INCLUDE])
    if result.return_code:
        return (exe, None, "", "cannot run %s: %s" % (exe, result.stderr.strip()))
    include, suffix = result.stdout.strip().split("\n")
    if not ctx.path(include).get_child("Python.h").exists:
        return (exe, None, suffix, "%s has no Python.h in %s" % (exe, include))
    return (exe, include, suffix, "")

def _quoted(text):
    return "'%s'" % text.replace("'", "").replace("\"", "").replace("\\", "").replace("\n", " ").replace("$", "$$")

def _python_configure(ctx):
    exe, include, suffix, missing = _describe(ctx)
    ctx.file("defs.bzl", "EXT_SUFFIX = %r\nPYTHON = %r\n" % (suffix or ".so", str(exe)))
    if missing:
        why = missing + "; run tools/setup, or name another interpreter with --repo_env=TESSERA_PYTHON=..."
        ctx.file("BUILD", _MISSING % (_quoted(why), why))
    else:
        ctx.symlink(include, "python_include")
        ctx.file("BUILD", _BUILD)

python_configure = repository_rule(implementation = _python_configure, environ = ["TESSERA_PYTHON", "PATH"], local = True)
