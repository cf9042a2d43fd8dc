"""What a Python source imports."""

import ast

__all__ = ["find_files_source_depends_on"]


def find_files_source_depends_on(src, package):
    """The pairs (module, name or None) that a source's import statements fetch, and its calls of `__import__` with a
    constant: `from a import b` gives ("a", "b"), for b may be a module. `package`: of the source, for relative imports.
    """
    found = {}
    for node in ast.walk(ast.parse(src)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.name, None] = True
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node.module, node.level, package)
            for alias in node.names:
                found[base, None if alias.name == "*" else alias.name] = True
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "__import__":
            if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                found[node.args[0].value, None] = True
    return list(found)


def _absolute(module, level, package):
    if level == 0:
        return module
    parts = package.split(".") if package else []
    if level - 1 >= len(parts) + (0 if module or parts else 1):
        raise ValueError(f"a relative import of level {level} leaves the package {package!r}")
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{module}" if module and base else module or base
