"""Code and data of a program in one file: an archive of pickles, resources, and the sources of the modules that they
need, which runs in a world of modules of its own.

>>> with tessera.package.PackageExporter("net.pt") as exporter:
...     exporter.save_source_string("net", "def double(x): return 2 * x")
>>> tessera.package.PackageImporter("net.pt").import_module("net").double(4)
8

A pickle, and what importing a package runs, may do anything: use files that you trust.
"""

from tessera._lazy import attach as _attach

_names = {
    "Directory": "file_structure_representation",
    "EmptyMatchError": "package_exporter",
    "GlobGroup": "glob_group",
    "Importer": "importer",
    "ObjMismatchError": "importer",
    "ObjNotFoundError": "importer",
    "OrderedImporter": "importer",
    "PackageExporter": "package_exporter",
    "PackageImporter": "package_importer",
    "PackagingError": "package_exporter",
    "is_from_package": "analyze.is_from_package",
    "sys_importer": "importer",
}
__all__ = list(_names)  # noqa: PLE0605
__getattr__, __dir__ = _attach(__name__, _names)
