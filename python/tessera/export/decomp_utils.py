"""Tables of decompositions."""

import tessera

__all__ = ["CustomDecompTable"]


class CustomDecompTable(dict):
    """{operator: function that computes the same with others}, for ExportedProgram.run_decompositions().

    A new one has the decompositions to the core operators. Deleting an operator keeps it in programs, assigning
    replaces its decomposition. Those of composite operators of other libraries, which may be loaded later, are looked
    up when the table is read (materialize()).
    """

    def __init__(self):
        from tessera._decomp import core_aten_decompositions

        super().__init__(core_aten_decompositions())
        self._kept, self._added = set(), set()
        self._has_materialized = False

    def __getitem__(self, key):
        self._materialize_if_needed()
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        self._kept.discard(key)
        self._added.add(key)
        super().__setitem__(key, value)

    def __contains__(self, key):
        self._materialize_if_needed()
        return super().__contains__(key)

    def __len__(self):
        self._materialize_if_needed()
        return super().__len__()

    def __iter__(self):
        self._materialize_if_needed()
        return super().__iter__()

    def __delitem__(self, key):
        self.pop(key)

    def keys(self):
        """The operators."""
        self._materialize_if_needed()
        return super().keys()

    def values(self):
        """The functions."""
        self._materialize_if_needed()
        return super().values()

    def items(self):
        """Pairs of operator and function."""
        self._materialize_if_needed()
        return super().items()

    def get(self, key, default=None):
        """The function of an operator, or a default."""
        self._materialize_if_needed()
        return super().get(key, default)

    def pop(self, *args):
        """Takes an operator out; KeyError if it is not there and no default is given. Returns its function."""
        if not 1 <= len(args) <= 2:
            raise TypeError(f"pop expected 1 or 2 arguments, got {len(args)}")
        self._materialize_if_needed()
        self._kept.add(args[0])
        return super().pop(*args)

    def update(self, other_dict):
        """Takes over the entries of another table."""
        for key, value in other_dict.items():
            self[key] = value

    def copy(self):
        """A table of the same entries."""
        made = CustomDecompTable.__new__(CustomDecompTable)
        dict.__init__(made, {key: dict.__getitem__(self, key) for key in dict.keys(self)})
        made._kept, made._added, made._has_materialized = set(self._kept), set(self._added), self._has_materialized
        return made

    __copy__ = copy

    def materialize(self):
        """The table as a dict, with the composite operators of all libraries that are loaded."""
        self._materialize_if_needed()
        return {key: dict.__getitem__(self, key) for key in dict.keys(self)}

    def _materialize_if_needed(self):
        if self._has_materialized:
            return
        self._has_materialized = True
        for op, function in _composites_of_libraries().items():
            if op not in self._kept:
                dict.setdefault(self, op, function)


def _composites_of_libraries():
    """{operator: its own composition} of composite operators that libraries have defined."""
    found = {}
    for name in tessera._C._op_names():
        if name.startswith(("aten::", "prim")):
            continue
        namespace, _, packet = name.partition("::")
        for overload in tessera._C._op_overloads(name):
            full = f"{name}.{overload}" if overload else name
            if tessera._C._has_op_kernel(full, "CompositeImplicitAutograd"):
                op = getattr(getattr(getattr(tessera.ops, namespace), packet), overload or "default")
                found[op] = op.decompose
    return found
