"""Which module needs which."""


class Graph:
    """A directed graph. `nodes`: name -> dict of what is known about it; edges in the order in which they came."""

    def __init__(self):
        self.nodes = {}
        self._to, self._from = {}, {}

    def add_node(self, name, **known):
        self.nodes.setdefault(name, {}).update(known)
        self._to.setdefault(name, {})
        self._from.setdefault(name, {})

    def add_edge(self, source, target):
        self.add_node(source)
        self.add_node(target)
        self._to[source][target] = self._from[target][source] = True

    @property
    def edges(self):
        return [(source, target) for source, targets in self._to.items() for target in targets]

    def sources_of(self, name):
        return list(self._from.get(name, ()))

    def first_path_to(self, name):
        """A shortest path from a node that nobody needs to this one."""
        path_of, frontier = {name: [name]}, [name]
        while frontier:
            following = []
            for node in frontier:
                sources = self.sources_of(node)
                if not sources:
                    return path_of[node]
                for source in sources:
                    if source not in path_of:
                        path_of[source] = [source, *path_of[node]]
                        following.append(source)
            frontier = following
        return [name]  # in circles alone

    def between(self, source, target):
        """The graph of all paths from one node to another."""
        down, up = self._reach(source, self._to), self._reach(target, self._from)
        found = Graph()
        for a, b in self.edges:
            if a in down and b in up:
                found.add_edge(a, b)
        return found

    def _reach(self, start, edges):
        seen, left = {start}, [start]
        while left:
            for name in edges.get(left.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    left.append(name)
        return seen

    def to_dot(self):
        """In the language of Graphviz."""
        lines = [f'"{source}" -> "{target}";' for source, target in self.edges]
        return "\n".join(["digraph G {", "rankdir = LR;", "node [shape=box];", *lines, "}", ""])
