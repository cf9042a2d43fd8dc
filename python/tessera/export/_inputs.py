"""The example inputs of an export: their names, what stands for them in the trace, and what is known of their sizes."""

import inspect

import tessera
from tessera.export import dynamic_shapes as _shapes
from tessera.export._constraints import Constraints
from tessera.export.dynamic_shapes import Dim, _DimHint, _DimHintType
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
            keyword arguments in the order of the parameters. dynamic_shapes: as of export(). make_mode, make_env: as of
        Export. defer: what sizes have to satisfy is checked by nodes.
    """

    def __init__(self, mod, bound, args, kwargs, dynamic_shapes, make_mode, make_env=None, defer=False):
        self.in_spec = pytree.tree_structure((args, kwargs))
        if hasattr(dynamic_shapes, "dynamic_shapes"):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
        combined = dict(bound.arguments)
        self._specs = _shapes._process_dynamic_shapes(combined, dynamic_shapes)
        self._check_order(args, kwargs)
        self._name(bound)
        self._make(make_mode, make_env, defer)

    def _check_order(self, args, kwargs):
        """Leaves of arguments by name come in the order of (args, kwargs), since kwargs are in that of parameters."""
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

    # --- what stands for them ---

    def _make(self, make_mode, make_env, defer):
        from tessera.fx.experimental.symbolic_shapes import ShapeEnv

        self.env = (make_env or ShapeEnv)(prefer_deferred_runtime_asserts_over_guards=defer)
        self.env.checks_assertions = True
        self.mode = make_mode(allow_non_fake_inputs=True, shape_env=self.env, static_shapes=True)
        self.constraints = Constraints(self.env)
        self._symbols_of_dims()
        self.leaves = [self._stand_in(path, leaf, spec) for path, leaf, spec in self._specs]

    def _sizes(self):
        """(text of the size, its value, spec) of each dimension that a spec says something of."""
        for path, leaf, spec in self._specs:
            for dim, what in spec.items() if isinstance(leaf, tessera.Tensor) else ():
                yield f"L{path}.size()[{dim}]", leaf.shape[dim], what

    def _symbols_of_dims(self):
        """The symbols of the roots of named dimensions, before those of others, so that they are kept of equal ones."""
        for text, size, dim in self._sizes():
            if isinstance(dim, Dim):
                self.constraints.add_dim(dim, text, size)

    def _stand_in(self, path, leaf, spec):
        if isinstance(spec, _DimHint):
            return self.constraints.number(leaf, spec, f"L{path}")
        if not isinstance(leaf, tessera.Tensor):
            return leaf
        made = self.mode.from_tensor(leaf, static_shapes=True)
        sizes = [self._size(f"L{path}.size()[{dim}]", n, spec.get(dim)) for dim, n in enumerate(leaf.shape)]
        if any(not size.is_number for size in sizes):
            self.env._attach(made, sizes, self._strides(leaf, sizes), sizes[0] * 0 + leaf.storage_offset())
        return made

    def _size(self, text, value, what):
        """The expression of a size."""
        from tessera.fx.experimental.symbolic_shapes import ConstraintViolationError, constant

        if type(what) is int and what != value:
            raise ConstraintViolationError(
                f"Static shape constraint of {what} does not match input size of {value}, for {text}"
            )
        if what is None or type(what) is int or what == Dim.STATIC or self._is_static(what):
            return constant(value)
        if isinstance(what, Dim):
            return self.constraints.of_dim(what)
        return self.constraints.of_hint(what, text, value)

    @staticmethod
    def _is_static(what):
        return isinstance(what, _DimHint) and what.type is _DimHintType.STATIC

    @staticmethod
    def _strides(tensor, sizes):
        """Strides as expressions: a stride that is the product of inner sizes is that of their expressions."""
        strides, plain = [None] * tensor.dim(), tensor.stride()
        expected, expr = 1, sizes[0] * 0 + 1
        for i in sorted(range(tensor.dim()), key=lambda i: (plain[i], -i)):
            strides[i] = expr if plain[i] == expected else sizes[0] * 0 + plain[i]
            if plain[i]:
                expected, expr = plain[i] * max(1, tensor.shape[i]), strides[i] * sizes[i]
        return strides

    def stand_ins(self):
        """(args, kwargs) to call the module with."""
        return pytree.tree_unflatten(self.leaves, self.in_spec)

    # --- after the trace ---

    def check(self):
        """UserError if the program allows less sizes than it was to."""
        self.constraints.check()

    def ranges(self):
        """{expression: its range} of the sizes of inputs, and of numbers that the program itself finds."""
        return self.constraints.ranges()

    def guards(self):
        """What the sizes of inputs have to satisfy beyond that: conditions as texts."""
        return self.constraints.guards()
