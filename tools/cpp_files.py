"""What the wheel carries for programs and extensions in C++: headers, libraries' names, CMake and pkg-config files.

Needs the standard library alone. As a program it writes them beside a package that is used from its checkout:

    python tools/cpp_files.py --root . --bazel-bin "$(bazel info bazel-bin)" --out python/tessera
"""

import argparse
import pathlib
import re
import sys
import sysconfig

import packed_text

INCLUDE = re.compile(rb'^([ \t]*#[ \t]*include[ \t]*)"([^"]+)"', re.M)
# What compilers do not read: lines of comments, indentation, and blanks before the end of a macro's line. It would be
# 0.2 MB of an installed wheel; who wants to read headers finds them in the repository.
UNREAD = re.compile(rb"^[ \t]*//[^\n]*[^\\\n]\n|^[ \t]*//\n|^\n|^[ \t]+|[ \t]+(?=[ \t]\\\n)", re.M)
# In lines that are not the preprocessor's: comments at their ends, and blanks beside brackets, commas and operators,
# where no two tokens become another one (a number's e and a sign are one). Literals are matched to be left as they are.
UNREAD_IN_LINES = re.compile(
    rb"""^\#[^\n]* | "(?:\\.|[^"\\\n])*" | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'
    | (?P<unread> [ \t]*//[^\n]*[^\\\n](?=\n) | [ ]+(?=[(){},;\[\]]) | (?<=[(){},;\[\]])[ ]+(?!\\)
    | (?<=[=?>])[ ]+(?=[\w"]) | (?<=[\w)\]])[ ]+(?=[=!<>]?=[ ]|&&[ ]|\|\|[ ]|[?:*/<>|][ ]|<<[ ])
    | (?<=\|\|)[ ]+(?=\w) | (?<=[:&*/<+|-])[ ]+(?=\w) | (?<=[\w)\]])(?<![eEpP])[ ]+(?=[+-][ ])
    | (?<=template)[ ]+(?=<) )""",
    re.M | re.X,
)
# The methods of the core's own tensors need headers of operators that are not here; those of at::Tensor are its own.
LEFT_OUT = {"tensor/ops/tensor_methods.inc"}
OBJECTS = re.compile(rb"(?:^extern constinit Op<[^;\n]*;\n)+", re.M)
OBJECT = re.compile(rb"^extern constinit (Op<.*>) ?(\w+);\n", re.M)
# What makes of it an object of a shared library. A program must not hold a copy, which linkers make of data that code
# refers to directly: a kernel that is registered later would not be seen. To what is weak, code refers by its address.
SHARED = b"extern __attribute__((weak)) constinit "
DATA = re.compile(rb"^extern constinit (?!Op<)", re.M)  # the same goes for what switches modes
# Where headers that are no part of the front end lie in include/: users never name them.
INTERNAL = "tessera/internal/"
# The names under which the library is linked: its own, and those that build files for PyTorch's have.
LIBRARIES = ("tessera", "torch", "torch_cpu", "torch_python", "c10")


def front_end(root, bazel_bin):
    """name in include/ -> path of every header that users include: written, and generated."""
    found = {}
    for tree in (root, bazel_bin):
        folder = tree / "frontend" / "include"
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".hpp", ".inc") and path.is_file():
                found.setdefault(path.relative_to(folder).as_posix(), path)
    return found


# Generated headers, which repeat themselves.
PACKED = ("ATen/ops.h", "ATen/ops_methods.inc", "ATen/ops_objects.h")


def shared_objects(text):
    """Declarations of operators' objects, and of other data, for programs that link with a shared library. Operators
    of one type stand together, which is shorter, too.
    """

    def together(match):
        names = {}
        for kind, name in OBJECT.findall(match[0]):
            names.setdefault(kind, []).append(name)
        return b"".join(b"%s %s %s;\n" % (SHARED.rstrip(), kind, b", ".join(all_of)) for kind, all_of in names.items())

    return DATA.sub(SHARED, OBJECTS.sub(together, text))


CALLED = {b"_unique2", b"_convolution", b"_cdist_forward"}


def without_private(functions, others):
    """The header of operators as functions, without those whose name begins with _ and that no other header calls:
    they are no part of the documented API. What other people's programs call all the same is kept.
    """
    called = CALLED | set(re.findall(rb"\bat::(_\w+)", b"".join(others)))

    def keep(match):
        return match[0] if match[1] in called else b""

    return re.sub(rb"^inline [^\n(]*\b(_\w+)\([^\n]*\n", keep, functions, flags=re.M)


def shortened(path):
    """A header's text without what compilers do not read."""
    text = UNREAD.sub(b"", path.read_bytes())
    return UNREAD_IN_LINES.sub(lambda m: b"" if m["unread"] else m[0], text)


def joined(text, width=120):
    """Lines that end with a bracket, a comma or a semicolon take the next ones up, as far as those fit. Lines of the
    preprocessor, and all of a macro's definition, stay alone.
    """
    lines, in_macro, takes = [], False, False
    for line in text.splitlines():
        alone = in_macro or line[:1] == b"#" or b"//" in line
        in_macro = line[-1:] == b"\\"
        if takes and not alone and not in_macro and len(lines[-1]) + len(line) < width:
            lines[-1] += line
        else:
            lines.append(line)
        takes = not alone and not in_macro and line[-1:] in (b"{", b"}", b";", b",", b"(")
    return b"\n".join(lines) + b"\n"


def headers(root, bazel_bin):
    """(name in include/ -> bytes, paths of generated headers that are not built): the front end's headers, and all that
    they include. The latter go to a folder of their own, so that `-I include` brings no names such as nn/ into a
    user's program.
    """
    public = front_end(root, bazel_bin)
    result, internal, missing = {}, {}, []

    def place(match):
        name = match[2].decode()
        if name in public:
            return match[0]
        path = next((tree / name for tree in (root, bazel_bin) if (tree / name).is_file()), None)
        if path is None:
            if b'__has_include("%s")' % match[2] not in match.string:
                missing.append(bazel_bin / name)
            return match[0]
        if name in LEFT_OUT:
            return b""
        internal[name] = path
        return match[1] + b'"' + (INTERNAL + name).encode() + b'"'

    for name, path in public.items():
        result[name] = INCLUDE.sub(place, shared_objects(shortened(path)))
    if (functions := result.get("ATen/ops.h")) is not None:
        result["ATen/ops.h"] = without_private(functions, [v for k, v in result.items() if k != "ATen/ops.h"])
    while left := [name for name in internal if INTERNAL + name not in result]:
        for name in left:
            result[INTERNAL + name] = INCLUDE.sub(place, shared_objects(shortened(internal[name])))
    for name, text in result.items():
        result[name] = packed_text.packed(text) if name in PACKED else joined(text)
    return result, missing


def not_built(root, bazel_bin):
    """Paths of what Bazel makes for these files and has not made."""
    made = [bazel_bin / "python" / "library.so"]
    return [path for path in made if not path.is_file()] + headers(root, bazel_bin)[1]


def libraries(bazel_bin):
    """name in lib/ -> bytes: what linkers and loaders find there stands for the extension, a folder above."""
    extension = "_C" + sysconfig.get_config_var("EXT_SUFFIX")
    script = ("/* The library is the extension module. */\nINPUT(../%s)\n" % extension).encode()
    result = {"lib%s.so" % name: script for name in LIBRARIES}
    result["libtessera.so.1"] = (bazel_bin / "python" / "library.so").read_bytes()
    return result


def build_files(root):
    """name in the package -> bytes: for CMake and pkg-config."""
    folder = root / "frontend" / "build_files"
    text = (root / "python" / "tessera" / "version.py").read_text()
    versions = {
        b"@VERSION@": re.search(r'^__version__ = "(.+)"', text, re.M)[1].encode(),
        b"@API_VERSION@": re.search(r'^api_version = "(.+)"', text, re.M)[1].encode(),
    }
    result = {}
    for path in sorted(folder.rglob("*.in")):
        data = path.read_bytes()
        for word, version in versions.items():
            data = data.replace(word, version)
        result[path.relative_to(folder).as_posix().removesuffix(".in")] = data
    return result


def all_files(root, bazel_bin):
    """name in the package's folder -> bytes."""
    result = {"include/" + name: data for name, data in headers(root, bazel_bin)[0].items()}
    result.update({"lib/" + name: data for name, data in libraries(bazel_bin).items()})
    result.update(build_files(root))
    return result


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--root", type=pathlib.Path, required=True, help="the checkout")
    ap.add_argument("--bazel-bin", type=pathlib.Path, required=True, help="where Bazel put what it built")
    ap.add_argument("--out", type=pathlib.Path, required=True, help="the package's folder")
    opts = ap.parse_args()
    if missing := not_built(opts.root, opts.bazel_bin):
        sys.exit("[cpp_files] error: not built: " + ", ".join(map(str, missing)))
    files = all_files(opts.root, opts.bazel_bin)
    for name, data in files.items():
        path = opts.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)
    size = sum(len(data) for name, data in files.items() if name.startswith("include/"))
    print("[cpp_files] %d files, %.0f KB of headers" % (len(files), size / 1000))


if __name__ == "__main__":
    main()
