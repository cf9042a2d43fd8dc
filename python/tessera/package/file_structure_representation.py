"""The files of a package as a tree."""

from tessera.package.glob_group import GlobGroup

__all__ = ["Directory"]


class Directory:
    """A folder, with its entries in `children` (by name), or a file. `str()` draws the tree."""

    def __init__(self, name, is_dir):
        self.name, self.is_dir, self.children = name, is_dir, {}

    def has_file(self, filename):
        """Whether the tree has a file, or a folder, of that path ("a/b.py")."""
        node = self
        for part in filename.split("/"):
            node = node.children.get(part)
            if node is None:
                return False
        return True

    def __str__(self):
        lines = [f"─── {self.name}"]
        self._draw("    ", lines)
        return "\n".join(lines) + "\n"

    def _draw(self, indent, lines):
        # Folders first.
        entries = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for i, child in enumerate(entries):
            last = i == len(entries) - 1
            lines.append(f"{indent}{'└── ' if last else '├── '}{child.name}")
            child._draw(indent + ("    " if last else "│   "), lines)

    def _add(self, path):
        node = self
        *folders, name = path.split("/")
        for folder in folders:
            node = node.children.setdefault(folder, Directory(folder, True))
        node.children[name] = Directory(name, False)


def tree_of(name, paths, include="**", exclude=()):
    """The Directory of the paths that the patterns (with "/" between segments) match."""
    tree = Directory(name, True)
    for path in filter(GlobGroup(include, exclude=exclude, separator="/").matches, sorted(paths)):
        tree._add(path)
    return tree
