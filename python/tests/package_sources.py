"""The package's Python sources as syntax trees, for tests of the whole package."""

import ast
import functools
import pathlib

import tessera

ROOT = pathlib.Path(tessera.__file__).parent


@functools.lru_cache(None)
def modules():
    """{module name: its tree}; what other programs get to see as `torch` is left out."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[:2] == ("_alias", "site"):
            continue
        name = ".".join(("tessera", *(parts[:-1] if parts[-1] == "__init__" else parts)))
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def functions():
    """(qualified name, node, node of the class around it or None) of every function and method."""

    def walk(node, name, owner):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, f"{name}.{child.name}", child)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{name}.{child.name}", child, owner
                yield from walk(child, f"{name}.{child.name}", None)
            else:
                yield from walk(child, name, owner)

    for name, tree in modules().items():
        yield from walk(tree, name, None)


def parameters(function, owner):
    """Names of a function's parameters, without self and cls of methods."""
    a = function.args
    named = [p.arg for p in a.posonlyargs + a.args]
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
    if owner is not None and not static:
        named = named[1:]
    return named + [p.arg for p in a.kwonlyargs] + [p.arg for p in (a.vararg, a.kwarg) if p is not None]


def body(function):
    """A function's statements without its docstring."""
    first = function.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return function.body[1:] if documented else function.body


def only_raises(function):
    """True for a function that can only fail."""
    return all(isinstance(s, (ast.Raise, ast.Import, ast.ImportFrom)) for s in body(function)) and any(
        isinstance(s, ast.Raise) for s in body(function)
    )


def dotted(node):
    """["tessera", "a", "b"] of the expression tessera.a.b; None of other expressions."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else None
