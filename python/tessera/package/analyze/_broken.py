from tessera.package.package_exporter import PackagingError


def find_first_use_of_broken_modules(exc):
    """For each module that a PackagingError complains of: the path of modules that first led to it, as a dict from its
    name to a list of names."""
    if not isinstance(exc, PackagingError):
        raise TypeError(f"expected a PackagingError, but got {type(exc).__name__}")
    graph = exc.dependency_graph
    return {name: graph.first_path_to(name) for name, node in graph.nodes.items() if "error" in node}
