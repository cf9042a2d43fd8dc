"""The example inputs of an export: their names, what stands for them in the trace, and what is known of their sizes."""

import inspect

import tessera
from tessera.export import dynamic_shapes as _shapes
from tessera.utils import _pytree as pytree


def _identifier(text):
    return "".join(c if c.isalnum() or c == "_" else "_" for c in text)


def _name_of(path):
    """A placeholder's name, of the path of a leaf: parts joined by underscores."""
    return _identifier("_".join(str(_shapes._plain(key)) for key in path))


class Inputs:
    """The leaves of a call's arguments.

    Args:
        mod: Module. bound: its call, as inspect.Signature.bind gives it. args, kwargs: the same as they were given, the
            keyword arguments in the order of the parameters. dynamic_shapes: as of export(). make_mode: as of Export.
    """

    def __init__(self, mod, bound, args, kwargs, dynamic_shapes, make_mode):
        self.in_spec = pytree.tree_structure((args, kwargs))
        if hasattr(dynamic_shapes, "dynamic_shapes"):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
        combined = dict(bound.arguments)
        self._specs = _shapes._process_dynamic_shapes(combined, dynamic_shapes)
        self._check_order(args, kwargs)
        self._name(bound)
        self._make(make_mode)

    def _check_order(self, args, kwargs):
        """The leaves of arguments by name come in the order of (args, kwargs), since kwargs are in that of
        parameters."""
        flat = pytree.tree_leaves((args, kwargs))
        assert len(flat) == len(self._specs) and all(a is b for a, (_, b, _) in zip(flat, self._specs))

    def _name(self, bound):
        kinds = {p.name: p.kind for p in bound.signature.parameters.values()}
        self.names, self.forward_arg_names = [], []
        for name, value in bound.arguments.items():
            paths = [path for path, _ in pytree.tree_flatten_with_path(value)[0]]
            if kinds[name] is inspect.Parameter.VAR_KEYWORD:
                self.names += map(_name_of, paths)
                self.forward_arg_names += list(value)
            else:
                self.names += ["_".join(filter(None, (name, _name_of(path)))) for path in paths]
                variadic = kinds[name] is inspect.Parameter.VAR_POSITIONAL
                self.forward_arg_names += [f"{name}_{i}" for i in range(len(value))] if variadic else [name]

    def _make(self, make_mode):
        self.mode = make_mode(allow_non_fake_inputs=True)
        self.leaves = [
            self.mode.from_tensor(leaf, static_shapes=True) if isinstance(leaf, tessera.Tensor) else leaf
            for _, leaf, _ in self._specs
        ]

    def stand_ins(self):
        """(args, kwargs) to call the module with."""
        return pytree.tree_unflatten(self.leaves, self.in_spec)

    def ranges(self):
        """{symbol: its range}."""
        return {}

    def guards(self):
        """What the sizes of inputs have to be, beyond those of the graph: a list of Guard."""
        return []
