"""op_library: op tables (*.textproto) to C++ libraries, by tools/opgen. How tables look: tools/opgen/README.md."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tools/bazel:implementation.bzl", "library_with_implementation")

_OPGEN = "//tools/opgen"

# Code that is there for every operator and costs little beside what it calls: half as large, and hardly slower. What GCC joins across blocks stays in
# registers that have to be saved, and with a frame pointer each function needs half of the unwind table: 0.2 MB of the wheel.
FOR_SIZE = ["-Os", "-fno-gcse", "-fno-omit-frame-pointer"]

# For code without loops over elements: it is not stretched to begin functions and jumps' targets at round addresses, 5 % of it, which nothing measured
# gains from. What is inline without being small is called: 0.2 MB of the wheel, for 0.3 % of a small call's time.
PACKED = ["-fno-align-functions", "-fno-align-loops", "-fno-align-jumps", "-fno-align-labels", "--param=max-inline-insns-single=20", "--param=max-inline-insns-auto=8"]

# Boxed calls are on the way of every call from Python: small, but without the string instructions that -Os clears memory with.
_BOXED = PACKED + ["--param=max-inline-insns-single=4"]

def _families(tables):
    return [t.split("/")[-1].split(":")[-1].split(".")[0] for t in tables]

def op_library(
        name,
        tables,
        srcs = [],
        slow_srcs = [],
        hdrs = [],
        header = None,
        shards = 1,
        autograd_shards = 1,
        deps = [],
        implementation_deps = [],
        autograd_deps = [],
        autograd_srcs = [],
        for_size = [],
        public = False,
        visibility = None,
        testonly = False):
    """Makes of a folder's op tables:

      <name>            op objects, C++ functions and Tensor methods, with the hand-written kernels in srcs and deps
      <name>_headers    the generated headers alone: for hand-written files that call other operators of the same library
      <name>_autograd   derivative nodes: link it, and the operators are differentiable
      <name>_forward    forward mode: link it, and the operators take tensors with tangents
      <name>_registry   schemas, boxed calls, documentation: registry_<name>() lists all ops
      <name>.pyi, <name>.md   stubs and reference page

    Args:
      name: of the library.
      tables: the *.textproto files; each is a family with headers <family>_ops.h and <family>_kernels.h.
      srcs: hand-written kernels (files with SIMD code: a simd_library in deps).
      slow_srcs: more of them, whose calls cost so much more than a call that they are compiled for size.
      hdrs: headers of this library that tables include.
      header: the header with every op of the library; default <name>.h.
      shards: number of files that each family's op objects are spread over (about 60 ops a file).
      autograd_shards: the same for the nodes (about 40 ops a file).
      deps: what hdrs need.
      implementation_deps: what srcs need besides: engines.
      autograd_deps: what the derivative formulas need besides.
      autograd_srcs: hand-written files of the autograd library.
      for_size: parts whose calls cost so much more than a call that they are compiled for size: "ops" (with srcs), "autograd". Forward mode always is.
      public: other workspaces may depend on it; what they name is <name>, :autograd and :registry.
      visibility: of all targets.
      testonly: as for any rule.
    """
    families = _families(tables)
    header = header or "%s.h" % name
    headers = [header]
    ops, autograd, forward, registry = [], [], [], ["%s_registry.cc" % name]
    for f in families:
        headers += ["%s_ops.h" % f, "%s_kernels.h" % f]
        ops += ["%s_ops_%d.cc" % (f, i) for i in range(shards)]
        registry += ["%s_registry_%d.cc" % (f, i) for i in range(shards)]
        autograd += ["%s_autograd_%d.cc" % (f, i) for i in range(autograd_shards)]
        forward += ["%s_forward_%d.cc" % (f, i) for i in range(autograd_shards)]
    registry_header = "%s_registry.h" % name
    package = native.package_name()
    native.genrule(
        name = name + "_opgen",
        srcs = tables,
        outs = headers + ops + autograd + forward + registry + [registry_header, "%s.pyi" % name, "%s.md" % name],
        cmd = "$(execpath %s) --library=%s --package=%s --header=%s --shards=%d --autograd_shards=%d --out=$(RULEDIR) $(SRCS)" % (_OPGEN, name, package, header, shards, autograd_shards),
        exec_tools = [_OPGEN],
        message = "Compiling op tables of",
        testonly = testonly,
        visibility = visibility,
    )
    core = ["//tensor/core:tensor", "//tensor/dispatch"]
    cc_library(
        name = name + "_headers",
        hdrs = headers + hdrs,
        deps = core,
        testonly = testonly,
        visibility = visibility,
    )
    library_with_implementation(
        name = name,
        srcs = ops + srcs,
        slow_srcs = slow_srcs,
        slow_copts = FOR_SIZE,
        hdrs = headers + hdrs,
        copts = FOR_SIZE if "ops" in for_size else PACKED,
        deps = deps + core + ["//tensor/ops:pointwise"] + ([] if package == "tensor/ops" else ["//tensor/ops"]),  # structured.h is in tensor/ops
        implementation_deps = implementation_deps,
        public = public,
        testonly = testonly,
        visibility = visibility,
    )
    for part in ["autograd", "registry"] if public else []:
        native.alias(name = part, actual = "%s_%s" % (name, part), visibility = ["//visibility:public"])

    # alwayslink: the op objects refer to these symbols weakly, which pulls nothing from an archive. --gc-sections drops what no op object needs.
    cc_library(
        name = name + "_autograd",
        srcs = autograd + autograd_srcs,
        copts = FOR_SIZE if "autograd" in for_size else PACKED,
        deps = [":" + name, "//autograd", "//autograd:formulas"] + autograd_deps,
        alwayslink = True,
        testonly = testonly,
        visibility = visibility,
    )
    cc_library(
        name = name + "_forward",
        srcs = forward + [s for s in autograd_srcs if s.endswith(".h")],
        copts = FOR_SIZE,
        deps = [":" + name, ":" + name + "_autograd", "//autograd:forward", "//autograd:formulas"] + autograd_deps,
        alwayslink = True,
        testonly = testonly,
        visibility = visibility,
    )
    cc_library(
        name = name + "_registry",
        srcs = registry,
        hdrs = [registry_header],
        copts = _BOXED if package in ("tensor/ops", "nn") else FOR_SIZE,
        deps = [":" + name, "//tensor/dispatch:argument_names"] + core,
        alwayslink = True,
        testonly = testonly,
        visibility = visibility,
    )

def tensor_methods(name, tables, out):
    """The operators among the methods of class Tensor, from the tables of every library (declared inside the class)."""
    native.genrule(
        name = name,
        srcs = tables,
        outs = [out],
        cmd = "$(execpath %s) --methods=$@ $(SRCS)" % _OPGEN,
        exec_tools = [_OPGEN],
        visibility = ["//:__subpackages__"],
    )

def op_names(name, module, tables, out):
    """A header with the functions of a module by their names there (linalg::solve), from the tables of several libraries."""
    native.genrule(
        name = name,
        srcs = tables,
        outs = [out],
        cmd = "$(execpath %s) --names=$@ --module=%s $(SRCS)" % (_OPGEN, module),
        exec_tools = [_OPGEN],
    )

def autocast_table(name, tables, out):
    """What autocast does with operators (amp/cast_kernels.h), from the tables of every library."""
    native.genrule(
        name = name,
        srcs = tables,
        outs = [out],
        cmd = "$(execpath %s) --autocast=$@ $(SRCS)" % _OPGEN,
        exec_tools = [_OPGEN],
    )

def op_reference(name, tables, stubs, reference, visibility = None):
    """One stub file and one reference page for the tables of all libraries."""
    native.genrule(
        name = name,
        srcs = tables,
        outs = [stubs, reference],
        cmd = "$(execpath %s) --stubs=$(RULEDIR)/%s --reference=$(RULEDIR)/%s $(SRCS)" % (_OPGEN, stubs, reference),
        exec_tools = [_OPGEN],
        visibility = visibility,
    )
