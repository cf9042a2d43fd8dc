"""Replays the recorded results of operators with every operator decomposed that has a decomposition.

    python tests/conformance/decomposed_replay.py DATA USED [--plain | --own] [arguments of replay.py]

runs DATA/golden/replay.py and appends the operators that were decomposed to the file USED; --plain: without it; --own:
as modes of the library see operators, whose names are not always the documented ones that modes of programs see.
"""

import pathlib
import sys

import tessera
from tessera._decomp import core_aten_decompositions, decomposing
from tessera.utils._pytree import tree_leaves
from tessera.utils._python_dispatch import TorchDispatchMode


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, tessera.Tensor)]


class Decompose(TorchDispatchMode):
    """Calls the functions of a table instead of operators, in what they call, too."""

    def __init__(self, table, used):
        super().__init__()
        self.table, self.used, self.seen = table, used, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        instead = self.table.get(func)
        if instead is not None and all(t.layout is tessera.strided for t in _tensors((args, kwargs))):
            if func not in self.seen:
                self.seen.add(func)
                with open(self.used, "a") as file:
                    file.write(f"{func}\n")
            with self, tessera.no_grad():
                return instead(*args, **(kwargs or {}))
        whole = tessera._C._func._keep_whole(None)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            tessera._C._func._keep_whole(whole)


def main(data, used, *rest):
    sys.path.insert(0, str(pathlib.Path(data) / "golden"))
    import replay

    plain = "--plain" in rest
    if "--own" in rest:
        Decompose.__module__ = tessera.__name__
    sys.argv = ["replay.py", "--module", "tessera", *(a for a in rest if a not in ("--plain", "--own"))]
    if plain:
        return replay.main()
    table = core_aten_decompositions()
    with decomposing(table), Decompose(table, used):
        return replay.main()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
