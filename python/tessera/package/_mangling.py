"""Names of modules of packages: "<torch_package_0>.net.layers". The number tells importers apart."""

import itertools
import re

_numbers = itertools.count()
_PREFIX = re.compile(r"<torch_package_\d+>")


def new_prefix():
    """A prefix that no importer has had."""
    return f"<torch_package_{next(_numbers)}>"


def is_mangled(name):
    return _PREFIX.match(name) is not None


def demangle(name):
    """The name without a prefix; that of the prefix's own module is empty."""
    found = _PREFIX.match(name)
    return name if found is None else name[found.end() + 1 :]


def get_mangle_prefix(name):
    found = _PREFIX.match(name)
    return name if found is None else found.group()
