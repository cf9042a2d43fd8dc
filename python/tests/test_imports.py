"""How the package's modules import each other: no circles, not even of imports that wait inside of functions."""

import ast

import tessera
from package_sources import ROOT, modules


def is_package(name):
    return (ROOT.parent.joinpath(*name.split("."), "__init__.py")).exists()


def nearest(name, known):
    """The module that an import of the dotted name runs last."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def imported(name, node, known):
    """Modules that an import statement of a module names."""
    if isinstance(node, ast.Import):
        return {nearest(alias.name, known) for alias in node.names}
    base = node.module or ""
    if node.level:
        here = name.split(".") if is_package(name) else name.split(".")[:-1]
        base = ".".join(here[: len(here) - node.level + 1] + ([base] if base else []))
    return {nearest(f"{base}.{alias.name}", known) for alias in node.names}


def edges(trees, walk=ast.walk):
    """Module -> modules that it imports anywhere; all import the root, and that imports what it lists."""
    found = {}
    for name, tree in trees.items():
        nodes = [node for node in walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        found[name] = set().union(*(imported(name, node, trees) for node in nodes)) - {"", name, "tessera"}
    return found


def run_at_once(tree):
    """The nodes of a module outside of functions."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node
            waiting += ast.iter_child_nodes(node)


def packages(name):
    """The packages below the root in which a module is: to import it is to import them first."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(2, len(parts))}


def loaded(trees):
    """Module -> modules, and packages around them, that are loaded before it is complete."""
    return {
        name: found | {p for one in found for p in packages(one) & trees.keys()} - packages(name) - {name}
        for name, found in edges(trees, run_at_once).items()
    }


def circle(graph):
    """Modules in the order in which they import each other, back to the first; None if there is no circle."""
    done = set()

    def walk(name, path):
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in done:
            for other in sorted(graph[name]):
                found = walk(other, [*path, name])
                if found:
                    return found
            done.add(name)
        return None

    return next(filter(None, (walk(name, []) for name in graph)), None)


def test_the_finder_finds():
    texts = {
        "tessera": "",
        "tessera.nn": "",
        "tessera.nn.a": "def f():\n    from .b import g",
        "tessera.nn.b": "import tessera.nn.a as x",
        "tessera.nn.c": "from tessera.nn import b",
    }
    graph = edges({name: ast.parse(text) for name, text in texts.items()})
    assert graph["tessera.nn.c"] == {"tessera.nn.b"}
    assert circle(graph) in (
        ["tessera.nn.a", "tessera.nn.b", "tessera.nn.a"],
        ["tessera.nn.b", "tessera.nn.a", "tessera.nn.b"],
    )


def test_no_module_imports_one_that_imports_it():
    graph = edges(modules())
    assert len(graph) > 100 and sum(map(len, graph.values())) > 200
    assert circle(graph) is None


def test_any_module_can_be_the_first_that_is_imported():
    texts = {
        "tessera": "",
        "tessera.a": "from tessera.a import of",
        "tessera.a.of": "from tessera.b import g",
        "tessera.b": "from tessera.b import of",
        "tessera.b.of": "import tessera.a.of",
    }
    cut = circle(loaded({name: ast.parse(text) for name, text in texts.items()}))
    assert cut is not None and {"tessera.b", "tessera.a.of"} <= set(cut)
    graph = loaded(modules())
    assert sum(map(len, graph.values())) > 200
    assert circle(graph) is None


def test_names_of_the_root_resolve():
    """What functions read from the root in place of an import."""
    for path in ("save", "load", "nn.Parameter", "library.Library", "autograd.Function", "autograd.grad"):
        value = tessera
        for part in path.split("."):
            value = getattr(value, part)
    assert tessera._tensor._rebuild_from_type_v2.__name__ == "_rebuild_from_type_v2"
