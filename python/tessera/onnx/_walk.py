"""Graphs of tessera.fx (exported programs, bodies of control flow, decompositions) into graphs of ONNX."""

import tessera
from tessera.export._symbols import is_symbolic
from tessera.onnx._build import Value
from tessera.onnx._control import CONTROL
from tessera.onnx._translate import CHECKS, Cell, number, read, traits
from tessera.onnx._types import BOOL, FLOAT, INT64


def number_dtype(val):
    """The dtype of a symbolic number in a graph."""
    return {"SymInt": INT64, "SymFloat": FLOAT, "SymBool": BOOL}[type(val).__name__]


class Walk:
    """Writes the nodes of a graph module.

    Args:
        translator: Translator.
        graph: Graph to write into.
        module: GraphModule.
        env: {placeholder: tree of cells and plain values}.
    """

    def __init__(self, translator, graph, module, env):
        self.translator, self.graph, self.module, self.env = translator, graph, module, env
        self.model = translator.model

    def run(self):
        """The results: a tree of cells and plain values."""
        for node in self.module.graph.nodes:
            if node.op == "output":
                return self.argument(node.args[0])
            if node.op != "placeholder":
                before, self.model.origin = self.model.origin, _origin(node) or self.model.origin
                try:
                    self.env[node] = self.node(node)
                finally:
                    self.model.origin = before
        return None

    def inline(self, module, args):
        """The results of a graph module, in the same graph."""
        inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
        return Walk(self.translator, self.graph, module, dict(zip(inputs, args))).run()

    def argument(self, a):
        if isinstance(a, tessera.fx.Node):
            return self.env[a]
        if isinstance(a, (list, tuple)):
            made = [self.argument(e) for e in a]
            return tuple(made) if isinstance(a, tuple) else made
        if isinstance(a, dict):
            return {k: self.argument(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*[self.argument(v) for v in (a.start, a.stop, a.step)])
        return a

    def node(self, node):
        if node.op == "get_attr":
            return self._attribute(node)
        if node.op == "call_module":
            inner = self.module.get_submodule(node.target)
            return self.inline(inner, self.argument(node.args))
        target, out = node.target, node.meta.get("val")
        name = getattr(target, "__name__", str(target))
        args, kwargs = self.argument(node.args), self.argument(node.kwargs)
        if name == "getitem" and getattr(target, "__module__", "") in ("_operator", "operator"):
            return self._item(args)
        if name in ("sym_size.int", "sym_size"):
            return self.size(*args)
        schema = getattr(target, "_schema", None)
        if schema is None:
            return self._function(node, name, args, kwargs, out)
        plain = schema.name.partition("::")[2]
        if plain in CHECKS or plain.startswith("_record_function"):
            return None
        if plain in ("item", "_local_scalar_dense"):
            return self._number_of(read(args[0]), out)
        if plain in ("sym_numel", "numel"):
            return Cell(self.graph.Size(read(args[0]))).read()
        named = {}
        for argument, value in zip(schema.arguments, args):
            named[argument.name] = value
        named.update(kwargs)
        mutable, view = traits(schema)
        return self._kept(node, self.translator.apply(
            self.graph, schema.name, named, out, mutable=mutable, view=view, op=target, positional=(args, kwargs)
        ))  # fmt: skip

    def _kept(self, node, made):
        """Gives a new value the name of its node."""
        if isinstance(made, Cell):
            value = made.value
            if value.node is not None and value.graph is self.graph and value.node.outputs[0] is value and (
                value.node.origin is self.model.origin
            ):  # fmt: skip
                name = self.model.unique(node.name)
                if name == node.name:
                    self.model.rename(value, name)
        return made

    def _attribute(self, node):
        value = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        if isinstance(value, tessera.Tensor):
            return Cell(self.model.initializer(node.target, value.detach(), node.meta.get("val")))
        return value

    def _item(self, args):
        container, index = args
        if isinstance(container, Cell):
            raise self.translator.unsupported("getitem", f"of a tensor with {index!r}")
        return container[index]

    def size(self, x, dim):
        found = self.graph.dim(read(x), dim)
        return found

    def _number_of(self, x, out):
        """A number that a tensor holds."""
        if x.shape != ():
            x = self.graph.reshape(x, [])
        x = self.graph.to(x, number_dtype(out) if is_symbolic(out) else x.dtype)
        made = self.graph.Identity(x)
        made.val = out
        return made

    def _function(self, node, name, args, kwargs, out):
        control = CONTROL.get(name)
        if control is not None:
            return control(self, *args, **kwargs)
        if name in CHECKS:
            return None
        values = read(args)
        if not any(isinstance(v, Value) for v in values):
            return node.target(*values, **kwargs)
        made = number(self.graph, name, values)
        if made is None:
            raise self.translator.unsupported(f"{getattr(node.target, '__module__', '')}.{name}")
        made.val = out if out is not None else made.val
        return made


def _origin(node):
    """Where in the user's program a node comes from."""
    text = node.meta.get("stack_trace")
    stack = node.meta.get("nn_module_stack")
    module = list(stack.values())[-1] if stack else None
    parts = [text.strip()] if text else []
    if module:
        parts.append(f"in module {module[0] or 'the root'} ({module[1]})")
    parts.append(f"node {node.name}: {node.target}")
    return "\n".join(parts)
