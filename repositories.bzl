"""What Tessera's build asks for, for this workspace and for those that depend on it:

    load("@tessera//:repositories.bzl", "tessera_repositories")
    tessera_repositories()

Nothing is downloaded: what Bazel would fetch by itself are small stand-ins in third_party/, or comes from the system's packages (third_party/README.md). A repository that the
workspace has declared before keeps its meaning.
"""

load("//tools/bazel:cuda_configure.bzl", "cuda_configure")
load("//tools/bazel:python_configure.bzl", "python_configure")

def _folder(ctx):
    source = ctx.path(ctx.attr.build).dirname if ctx.attr.build else ctx.path(ctx.attr.path)
    if not source.exists:
        fail("%s is not there; install it (tools/setup does), or declare the repository @%s before tessera_repositories()" % (source, ctx.name))
    for entry in source.readdir():
        ctx.symlink(entry, entry.basename)

_folder_repository = repository_rule(
    implementation = _folder,
    doc = "A folder of this tree (that of the file `build`) or of the system (`path`) as a repository.",
    attrs = {"build": attr.label(allow_single_file = True), "path": attr.string()},
    local = True,
)

_OWN = ["rules_cc", "remote_coverage_tools", "system"]
_INSTALLED = {
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "platforms": "/usr/share/bazel/tools/platforms",
}

def tessera_repositories():
    """Declares what is not declared yet: rules, libraries of the system, the interpreter (looked for when a target needs it), the CUDA toolkit (empty where there is none)."""
    known = native.existing_rules()
    for name in _OWN:
        if name not in known:
            _folder_repository(name = name, build = Label("//third_party/%s:BUILD" % name))
    for name, path in _INSTALLED.items():
        if name not in known:
            _folder_repository(name = name, path = path)
    if "python" not in known:
        python_configure(name = "python")  # the interpreter that TESSERA_PYTHON names
    if "cuda" not in known:
        cuda_configure(name = "cuda")  # the CUDA toolkit, or its headers; empty where there is neither
