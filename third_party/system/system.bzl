"""A library of the operating system as a target."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def system_library(name, static = [], linkopts = [], deps = [], **kwargs):
    """static: names of archives (without lib and .a), in link order; linkopts: what they need besides."""
    cc_library(name = name, linkopts = ["-l:lib%s.a" % s for s in static] + linkopts, deps = deps, **kwargs)
