"""exported_operators: what a program of C++ links to run exported programs (export/README.md)."""

load(":op_library.bzl", "FOR_SIZE")
load("@rules_cc//cc:defs.bzl", "cc_library")

_LIBRARIES = ["//nn:nn_ops", "//tensor/ops"]

def exported_operators(name, programs = [], operators = [], libraries = _LIBRARIES, visibility = None, **kwargs):
    """A library of the operators that exported programs call, and of no others: exported::load(path) of a program that links it knows them.

    Args:
      name: of the library.
      programs: files that tessera.export.save wrote; the operators that they call are linked.
      operators: names of further ones: "aten::conv2d", "aten::add.Tensor". A program in the file need not be there when the names are.
      libraries: the op libraries that have them; each has its tables in the target "tables" of its folder.
      visibility: of the library.
      **kwargs: of the library.
    """
    names = name + "_names"
    native.genrule(
        name = names,
        srcs = programs,
        outs = [names + ".txt"],
        cmd = "(%strue; printf '%%s\\n' %s) | sort -u > $@" % (
            "$(location //export:operators_of) $(SRCS) && " if programs else "",
            " ".join(["'%s'" % op for op in operators]),
        ),
        exec_tools = ["//export:operators_of"] if programs else [],
    )
    tables = [library.split(":")[0] + ":tables" for library in libraries]
    native.genrule(
        name = name + "_opgen",
        srcs = [names] + tables,
        outs = [name + ".cc"],
        cmd = "$(execpath //tools/opgen) --operators=$@ --select=$(location %s) %s" % (names, " ".join(["$(locations %s)" % t for t in tables])),
        exec_tools = ["//tools/opgen"],
    )
    cc_library(
        name = name,
        srcs = [name + ".cc"],
        copts = FOR_SIZE,
        deps = ["//export"] + libraries,
        alwayslink = True,  # load() refers to the list weakly
        visibility = visibility,
        **kwargs
    )
