"""Libraries whose implementation needs more than their headers show.

What a cc_library depends on is an input of every compilation above it. library_with_implementation() keeps what sources alone include (the
engines below an operator) out of that: an edit there compiles nothing above again, whoever's cache it is, and nobody above can include it.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")

def _linked(ctx):
    merged = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps])
    return [CcInfo(linking_context = merged.linking_context)]

linked = rule(
    implementation = _linked,
    doc = "Libraries as programs link them, without their headers.",
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    provides = [CcInfo],
)

def library_with_implementation(name, srcs, hdrs, deps, implementation_deps, copts = [], slow_srcs = [], slow_copts = [], public = False, **kwargs):
    """A cc_library.

    Args:
      name: of the library; NAME_implementation is the one that compiles srcs.
      srcs: as for cc_library.
      hdrs: as for cc_library.
      deps: what hdrs include.
      implementation_deps: what srcs include besides.
      copts: for srcs.
      slow_srcs: more srcs, with options of their own.
      slow_copts: those.
      public: other workspaces may depend on it.
      **kwargs: for all rules.
    """
    parts = []
    if slow_srcs:
        cc_library(name = name + "_slow", srcs = slow_srcs, hdrs = hdrs, copts = slow_copts, deps = deps + implementation_deps, **kwargs)
        parts = [":%s_slow" % name]
    cc_library(name = name + "_implementation", srcs = srcs, hdrs = hdrs, copts = copts, deps = deps + implementation_deps + parts, **kwargs)
    linked(name = name + "_linked", deps = [":%s_implementation" % name], **kwargs)
    if public:
        kwargs = dict(kwargs, visibility = ["//visibility:public"])
    cc_library(name = name, hdrs = hdrs, deps = deps + [":%s_linked" % name], **kwargs)
