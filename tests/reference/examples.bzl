"""The examples in headers' comments, as files that a test includes."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def header_examples(name, headers):
    """A library of files NAME/<header>.inc: the indented lines of the comment at the top of each of the headers (labels)."""
    files = []
    for label in headers:
        file = name + "/" + label.rpartition(":")[2] + ".inc"
        native.genrule(
            name = file.replace("/", "_").replace(".", "_"),
            srcs = [label],
            outs = [file],
            cmd = "sed -n '/^\\/\\//!q; s/^\\/\\/   //p' $< > $@",
        )
        files.append(file)
    cc_library(name = name, textual_hdrs = files)
