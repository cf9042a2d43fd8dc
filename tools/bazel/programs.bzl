"""Programs and extensions as they are shipped: stripped, and holding only what they call."""

load("@python//:defs.bzl", "EXT_SUFFIX")
load("@rules_cc//cc:defs.bzl", "cc_binary")

# The linker makes one of functions with the same code. It may since GCC leaves what a function does when it throws in the function (.bazelrc): parts
# of different functions could have the same code and different stack frames, and a throw through the wrong one would end the process.
_JOIN_EQUAL = ["-Wl,--icf=all"]

def _finished(name, linked, output, weak_python = False, **kwargs):
    """A file OUTPUT of what was linked: with unwind tables that say what exceptions need (call_frames.cc)."""
    tools = ["//tools/bazel:call_frames"] + (["//tools/bazel:weak_python"] if weak_python else [])
    rest = "&& $(location //tools/bazel:weak_python) $@ $@" if weak_python else ""
    native.genrule(
        name = name,
        srcs = [linked],
        outs = [output],
        # The sanitizers look at frames anywhere in a function.
        cmd = select({
            "//tools/bazel:sanitizer": "cp $< $@ && chmod u+w $@ " + rest,
            "//conditions:default": "$(location //tools/bazel:call_frames) $< $@ " + rest,
        }),
        tools = tools,
        **kwargs
    )

def static_program(name, deps = [], linkopts = [], whole_c_library = False, visibility = None, **kwargs):
    """A stripped program that needs no shared library, and NAME_symbols, the same with its symbols, for a test or a person to look into.

    Parts of the C library that few programs get to are linked where they are used alone (c_library_parts.cc); iconv_open without setlocale
    is the one function that does not count as use, and needs whole_c_library.
    """
    static = select({
        "//tools/bazel:sanitizer": [],
        "//conditions:default": ["-static"],
    })
    if not whole_c_library:
        deps = deps + select({
            "//tools/bazel:sanitizer": [],
            "//conditions:default": ["//tools/bazel:c_library_parts"],
        })
    cc_binary(name = name + "_linked", deps = deps, linkopts = linkopts + _JOIN_EQUAL + ["-Wl,-s"] + static, **kwargs)
    _finished(name, name + "_linked", name, executable = True, visibility = visibility)
    cc_binary(name = name + "_symbols", deps = deps, linkopts = linkopts + _JOIN_EQUAL + static, visibility = visibility, **kwargs)

# Pointers of an extension to itself as bitmaps, which it goes through itself while it is loaded: python/bindings/extension/relocate.cc.
_PACKED_POINTERS = ["-Wl,--pack-dyn-relocs=relr", "-Wl,--use-android-relr-tags", "-Wl,-u,tessera_relocation"]

def python_extension(name, deps = [], linkopts = [], library = None, **kwargs):
    """The extension module NAME of the interpreter @python, as a file NAME.cpython-3xx-....so. NAME makes it.

    It exports PyInit_* alone. With library ("libtessera.so.1") it is a library of C++ programs, too: it exports what cpp_api.lds names, is known to the
    loader by that name, and its references to Python are weak, so that a program without Python can load it.
    """
    output = name + EXT_SUFFIX
    exports = "//tools/bazel:" + ("cpp_api.lds" if library else "python_extension.lds")
    if library:
        # Calls from one function of the library to another stay direct.
        linkopts = linkopts + ["-Wl,-Bsymbolic", "-Wl,-soname=" + library]
    cc_binary(
        name = name + "_linked.so",
        linkshared = True,
        linkopts = linkopts + _JOIN_EQUAL + _PACKED_POINTERS + ["-Wl,-O2", "-Wl,-s", "-Wl,--wrap=__gxx_personality_v0", "-Wl,--version-script=$(location %s)" % exports],
        deps = deps + ["//python/bindings:start_and_end", exports, "@python//:headers"],
        **kwargs
    )
    _finished(name, name + "_linked.so", output, weak_python = bool(library), **kwargs)

def library_stand_in(name, library, file):
    """A shared object NAME.so by the name LIBRARY under which programs ask for it, that loads FILE, a path from its folder, in its place."""
    cc_binary(
        name = name + ".so",
        linkshared = True,
        linkopts = ["-nostdlib", "-Wl,-s", "-Wl,-soname=" + library, "-Wl,--filter=$$ORIGIN/" + file],
    )

def linked_symbols_test(name, program, has = [], lacks = [], **kwargs):
    """Looks into a static_program: each regular expression in has matches the demangled name of something linked, none in lacks does."""
    args = ["$(rootpath %s_symbols)" % program]
    for word, patterns in [("has", has), ("lacks", lacks)]:
        for pattern in patterns:
            args += [word, "'%s'" % pattern.replace("$", "$$")]
    native.sh_test(name = name, size = "small", srcs = ["//tools/bazel:check_symbols.sh"], args = args, data = [program + "_symbols"], **kwargs)
