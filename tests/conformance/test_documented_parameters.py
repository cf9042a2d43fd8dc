"""Names that are there accept the parameters that the documents give them, by name, or stand here with the reason why
not.
"""

import importlib
import inspect
import json
import re

import pytest
from conformance import suites

DATA = suites.data_folder()
SURFACE = None if DATA is None else DATA.parent / "spec" / "surface.json"

OTHER_NAME = "the documents' word; the operator's schema, by which the real system parses calls, has another name"
KNOWN = {
    "source": ("masked_scatter_", "accepted; the signature shows masked_scatter's documented name, tensor"),
    "tensor2": ("index_copy", OTHER_NAME),
}
# What stands for a parameter without a name in the documents: it is given by position.
NAMELESS = re.compile(r"arg\d+")


def resolve(name):
    """The object of a dotted documented name, or None."""
    parts = name.split(".")
    value = importlib.import_module("tessera")
    for i, part in enumerate(parts[1:], 2):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(".".join(["tessera", *parts[1:i]]))
            except ImportError:
                return None
    return value


def accepted(value):
    """Parameters that an object takes by name; None: it takes any, or does not show which."""
    # What is compiled says it in its text: newer versions of Python make up a signature for it, older ones have none.
    if not inspect.isbuiltin(value):
        try:
            shown = inspect.signature(value).parameters.values()
            named = {p.name for p in shown if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
            return None if any(p.kind is p.VAR_KEYWORD for p in shown) or (shown and not named) else named
        except (TypeError, ValueError):
            pass
    names = set()
    for line in (getattr(value, "__doc__", None) or "").splitlines():
        match = re.match(rf"{re.escape(getattr(value, '__name__', '-'))}\((.*?)\)(?: -> .*)?$", line)
        if match:
            names |= {p.split("=")[0].strip(" *") for p in match.group(1).split(",")}
    return names - {""} or None


@pytest.mark.skipif(
    SURFACE is None or not SURFACE.exists(), reason="the documented names (../shared/spec) are not here"
)
def test_documented_parameters_are_accepted():
    lacking, used, seen = [], set(), 0
    for entry in json.loads(SURFACE.read_text())["entries"]:
        value = resolve(entry["name"]) if entry["documented"] and entry.get("params") else None
        names = None if value is None else accepted(value)
        if names is None:
            continue
        seen += 1
        names = {"input" if n == "self" else n for n in names} | ({"input"} if ".Tensor." in entry["name"] else set())
        overloads = [
            {
                "input" if p[0] == "self" else p[0]
                for p in o
                if p[1] in ("normal", "kw") and not NAMELESS.fullmatch(p[0])
            }
            for o in entry["params"]
        ]
        lack = min((o - names for o in overloads), key=len)
        short = entry["name"].rpartition(".")[2]
        known = {p for p in lack if short in KNOWN.get(p, ("",))[0].split()}
        lacking += [f"{entry['name']}({p})" for p in sorted(lack - known)]
        used |= {(p, short) for p in known}
    assert seen > 1000
    assert used == {(p, short) for p, (names, _) in KNOWN.items() for short in names.split()}, "KNOWN has more"
    assert not lacking, f"documented, but not accepted: {lacking}"
