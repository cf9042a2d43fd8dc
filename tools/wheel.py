"""Writes the wheel: the package tree, the extension and the generated stubs, and the dist-info. Needs the standard
library alone.

Run by tools/build_wheel with the interpreter that the wheel is for.
"""

import argparse
import base64
import hashlib
import pathlib
import re
import sys
import sysconfig
import zipfile

import cpp_files
import tabbed

NAME = "tessera"
SIZE_LIMIT = 20 * 2**20  # bytes installed, without the CUDA library
CUDA_SIZE_LIMIT = 16 * 2**20  # of that library
SUMMARY = "Tensors, autograd and neural networks: PyTorch's documented API, written from scratch in C++"
# Generated for the package; a wheel without them is no wheel.
GENERATED = ("_operators.pyi",)
# What tools/cpp_files.py writes, also into a checkout.
CPP_FOLDERS = ("include", "lib", "share")
# One date for all members, so that the same tree gives the same bytes.
DATE = (2020, 1, 1, 0, 0, 0)


def read_version(root):
    text = (root / "python" / NAME / "version.py").read_text()
    return re.search(r"""^__version__\s*(?::\s*str\s*)?=\s*["']([^"']+)["']""", text, re.M).group(1)


def package_files(root):
    """(name in the wheel, path) of everything in python/tessera, less what Python leaves behind."""
    package = root / "python" / NAME
    for path in sorted(package.rglob("*")):
        if (
            path.is_file()
            and "__pycache__" not in path.parts
            and path.suffix not in (".so", ".pyc")
            and path.name not in ("BUILD", "README.md")
            and path.relative_to(package).parts[0] not in CPP_FOLDERS
        ):
            yield path.relative_to(root / "python").as_posix(), path


def packaged(path):
    """What the wheel holds of a file of the package."""
    return tabbed.tabbed(path.read_text()).encode() if path.suffix == ".py" else path.read_bytes()


def built_files(bazel_bin, with_cuda):
    """(name in the wheel, path) of the extensions of this interpreter and of what was generated for the package.
    Everything named here has to be there.
    """
    for name in ["_C", "_distributed", *(["_cuda"] if with_cuda else [])]:
        extension = name + sysconfig.get_config_var("EXT_SUFFIX")
        yield "%s/%s" % (NAME, extension), bazel_bin / "python" / extension
    for name in GENERATED:
        yield "%s/%s" % (NAME, name), bazel_bin / "python" / NAME / name


def shortened_stub(data):
    """The text of a generated stub file without the blanks that only its readers need: a sixth of it."""
    blanks = re.compile(rb"""("[^"\n]*"|'[^'\n]*')|(?m:^(?:    )+)|(?<=[,:=>]) | (?=[=-])|#[^\n]*""")

    def keep(match):
        return match[1] or (b" " * (len(match[0]) // 4) if match[0].startswith(b"    ") else b"")

    return blanks.sub(keep, data)


def tag():
    python = "cp%d%d" % sys.version_info[:2]
    return "%s-%s-%s" % (python, python, sysconfig.get_platform().replace("-", "_").replace(".", "_"))


def dist_info(root, version):
    """(name, bytes) of the dist-info files, without RECORD."""
    folder = "%s-%s.dist-info" % (NAME, version)
    metadata = [
        "Metadata-Version: 2.1",
        "Name: " + NAME,
        "Version: " + version,
        "Summary: " + SUMMARY,
        "License: Apache-2.0",
        "Requires-Python: >=3.10",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: C++",
        "Description-Content-Type: text/markdown",
        "",
        (root / "README.md").read_text(),
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: tessera tools/wheel.py", "Root-Is-Purelib: false", "Tag: " + tag(), ""]
    yield folder + "/METADATA", "\n".join(metadata).encode()
    yield folder + "/WHEEL", "\n".join(wheel).encode()
    yield folder + "/LICENSE", (root / "LICENSE").read_bytes()
    yield folder + "/top_level.txt", (NAME + "\n").encode()


def write_wheel(path, members, record_name):
    """members: name -> bytes. Returns the installed size in bytes."""
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append("%s,sha256=%s,%d" % (name, digest, len(data)))
            write_member(archive, name, data)
        write_member(archive, record_name, "\n".join(record + [record_name + ",,", ""]).encode())
    return sum(len(data) for data in members.values())


def write_member(archive, name, data):
    info = zipfile.ZipInfo(name, DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (0o755 if ".so" in name else 0o644) << 16
    archive.writestr(info, data)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--root", type=pathlib.Path, required=True, help="the checkout")
    ap.add_argument("--bazel-bin", type=pathlib.Path, required=True, help="where Bazel put what it built")
    ap.add_argument("--out", type=pathlib.Path, required=True, help="the folder for the wheel")
    ap.add_argument("--cuda", action="store_true", help="the CUDA library goes into the wheel, too")
    opts = ap.parse_args()
    version = read_version(opts.root)
    missing = [str(path) for _, path in built_files(opts.bazel_bin, opts.cuda) if not path.is_file()]
    missing += map(str, cpp_files.not_built(opts.root, opts.bazel_bin))
    if missing:
        sys.exit("[build_wheel] error: not built: " + ", ".join(missing))
    members = {name: packaged(path) for name, path in package_files(opts.root)}
    members.update((name, path.read_bytes()) for name, path in built_files(opts.bazel_bin, opts.cuda))
    for name in GENERATED:
        members[f"{NAME}/{name}"] = shortened_stub(members[f"{NAME}/{name}"])
    cpp = cpp_files.all_files(opts.root, opts.bazel_bin)
    members.update(("%s/%s" % (NAME, name), data) for name, data in cpp.items())
    members.update(dist_info(opts.root, version))
    path = opts.out / ("%s-%s-%s.whl" % (NAME, version, tag()))
    size = write_wheel(path, members, "%s-%s.dist-info/RECORD" % (NAME, version))
    print(
        "[build_wheel] %d files, %.2f MB installed, %.2f MB to download"
        % (len(members), size / 2**20, path.stat().st_size / 2**20)
    )
    cuda = sum(len(data) for name, data in members.items() if name.startswith(NAME + "/_cuda."))
    for part, installed, limit in [
        ("wheel without the CUDA library", size - cuda, SIZE_LIMIT),
        ("CUDA library", cuda, CUDA_SIZE_LIMIT),
    ]:
        if installed > limit:
            path.unlink()
            sys.exit("[build_wheel] error: the %s installs more than %d MB" % (part, limit / 2**20))
    print(path)


if __name__ == "__main__":
    main()
