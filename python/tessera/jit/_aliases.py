"""AliasDb: which values of a graph may share memory, and which orders of its nodes compute the same.

Every value has a set of places: memory of its own (named after it) or, for what comes from outside and for what lies in
containers from outside, one place for all values of a kind. Containers and tuples hold the places of their elements.
The sets grow, node by node, until no rule adds to them.
"""

from tessera._ops import FunctionSchema

_OF_OUTSIDE = "WILDCARD for type "
_SAME = frozenset(("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional", "prim::data"))
_MAKERS = frozenset(("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct"))
_TAKERS = frozenset(("prim::ListUnpack", "prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice"))
_EFFECTS = frozenset(("prim::Print", "prim::RaiseException", "prim::SetAttr", "aten::warn", "aten::wait"))
_NUMBERS = frozenset(
    "IntType FloatType ComplexType NumberType BoolType StringType NoneType DeviceObjType GeneratorType EnumType "
    "StreamObjType FunctionType".split()
)
_NESTED = frozenset("OptionalType FutureType RRefType AwaitType".split())


def _has_memory(kind):
    """Whether values of a type can share memory with others."""
    name = kind.kind()
    if name in _NESTED:
        return _has_memory(kind.getElementType())
    if name == "TupleType":
        return any(map(_has_memory, kind.elements()))
    return name not in _NUMBERS


def _kind_text(kind):
    while kind.kind() in _NESTED:
        kind = kind.getElementType()
    return "Tensor" if kind.kind() == "TensorType" else str(kind)


def _nodes(block):
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


class AliasDb:
    """Which values of `graph` may share memory.

    Args:
        graph: a graph; it is read once, here.
        isFrozen: attributes of modules are constants: each has memory of its own.
        descend_function_calls: False; a graph whose calls are inlined shows what its functions do.
    """

    def __init__(self, graph, isFrozen=False, descend_function_calls=False):
        if descend_function_calls:
            raise RuntimeError("AliasDb: expected descend_function_calls=False; inline the calls of the graph first")
        self._graph, self._frozen = graph, bool(isFrozen)
        self._places, self._held, self._schemas = {}, {}, {}
        for value in graph.inputs():
            self._from_outside(value)
        while self._grow():
            pass
        self._written = set()
        for node in _nodes(graph):
            self._written |= self._writes(node)

    # --- the sets ---

    def _of(self, value):
        return self._places.setdefault(value.unique(), set())

    def _add(self, value, places):
        if not _has_memory(value.type()):
            return False
        mine = self._of(value)
        before = len(mine)
        mine |= places
        return len(mine) > before

    def _hold(self, value, places):
        grown = False
        for place in self._of(value):
            held = self._held.setdefault(place, set())
            before = len(held)
            held |= places - {place}
            grown = grown or len(held) > before
        return grown

    def _from_outside(self, value):
        return self._add(value, {_OF_OUTSIDE + _kind_text(value.type())})

    def _elements(self, values, result):
        """The places of what lies in containers."""
        places = {held for v in values for place in self._of(v) for held in self._held.get(place, ())}
        if any(place.startswith(_OF_OUTSIDE) for v in values for place in self._of(v)):
            places.add(_OF_OUTSIDE + _kind_text(result.type()))
        return places

    def _own(self, value):
        return {f"%{value.debugName()}"}

    def _schema(self, node):
        text = node.schema()
        if text not in self._schemas:
            self._schemas[text] = None if text.startswith("(") else FunctionSchema(text)
        return self._schemas[text]

    def _grow(self):
        """One pass over the nodes. Returns whether a set has grown."""
        grown = False
        for node in _nodes(self._graph):
            grown = self._rule(node) or grown
        return grown

    def _rule(self, node):
        kind, inputs, outputs = node.kind(), list(node.inputs()), list(node.outputs())
        if kind in ("prim::If", "prim::Loop"):
            return self._branches(kind, node, inputs, outputs)
        if kind in _MAKERS:
            grown = self._add(outputs[0], self._own(outputs[0]))
            return self._hold(outputs[0], set().union(*map(self._of, inputs))) or grown
        if kind in _TAKERS:
            return any([self._add(o, self._elements(inputs, o)) for o in outputs])
        if kind in _SAME:
            return self._add(outputs[0], set(self._of(inputs[0])))
        if kind == "prim::Constant" or (kind == "prim::GetAttr" and self._frozen):
            return self._add(outputs[0], self._own(outputs[0]))
        schema = self._schema(node)
        if schema is not None:
            return self._by_schema(schema, inputs, outputs)
        given = set().union(*map(self._of, inputs))
        grown = any([self._from_outside(o) for o in outputs])
        for output in outputs:  # what was given may have been kept, and come back
            grown = self._add(output, given) or grown
        return grown

    def _branches(self, kind, node, inputs, outputs):
        grown = False
        results = [list(block.outputs()) for block in node.blocks()]
        if kind == "prim::Loop":
            results[0] = results[0][1:]
            body = list(next(iter(node.blocks())).inputs())[1:]
            for parameter, first, later in zip(body, inputs[2:], results[0]):
                grown = self._add(parameter, self._of(first) | self._of(later)) or grown
            results.append(inputs[2:])
        for of_block in results:
            for output, result in zip(outputs, of_block):
                grown = self._add(output, set(self._of(result))) or grown
        return grown

    def _by_schema(self, schema, inputs, outputs):
        grown = False
        named = {}
        for argument, value in zip(schema.arguments, inputs):
            info = argument.alias_info
            for name in info.before_set if info else ():
                named.setdefault(name, []).append(value)
        for argument, value in zip(schema.arguments, inputs):
            if argument.alias_info and "*" in argument.alias_info.after_set:  # becomes an element of what is written
                for other, container in zip(schema.arguments, inputs):
                    if other.is_write:
                        grown = self._hold(container, set(self._of(value))) or grown
        for result, value in zip(schema.returns, outputs):
            names = result.alias_info.before_set if result.alias_info else ()
            if not names:
                grown = self._add(value, self._own(value)) or grown
            for name in names:
                source = named.get(name, ())
                places = set().union(*map(self._of, source)) if source else self._elements(inputs, value)
                grown = self._add(value, places) or grown
        return grown

    # --- reads and writes ---

    def _reach(self, values):
        """The places of values and of all that lies in them."""
        found, left = set(), [place for v in values for place in self._of(v)]
        while left:
            place = left.pop()
            if place not in found:
                found.add(place)
                left.extend(self._held.get(place, ()))
        return found

    def _writes(self, node):
        kind, inputs = node.kind(), list(node.inputs())
        if kind == "prim::SetAttr":
            return set(self._of(inputs[0]))
        if kind.startswith("prim::") and not kind.startswith("prim::Call"):
            return set()
        schema = self._schema(node)
        if schema is None:
            return self._reach(inputs)
        written = [v for a, v in zip(schema.arguments, inputs) if a.is_write]
        return set().union(*map(self._of, written)) if written else set()

    def _whole(self, node):
        """(places read, places written, whether it acts on the world) of a node with all inside of it."""
        reads, writes, acts = set(), set(), False
        for inner in (node, *(n for block in node.blocks() for n in _nodes(block))):
            reads |= self._reach(inner.inputs())
            writes |= self._writes(inner)
            acts = acts or inner.kind() in _EFFECTS or inner.isNondeterministic() or "Call" in inner.kind()
        return reads, writes, acts

    def _depends(self, later, earlier):
        """Whether `later` can't come before `earlier`, both of one block."""
        made = {o.unique() for o in earlier.outputs()}
        inside = (later, *(n for block in later.blocks() for n in _nodes(block)))
        results = [o for block in later.blocks() for o in block.outputs()]
        if any(v.unique() in made for v in (*(i for n in inside for i in n.inputs()), *results)):
            return True
        (read, written, acts), (other_read, other_written, other_acts) = self._whole(later), self._whole(earlier)
        return bool(written & (other_read | other_written) or read & other_written or (acts and other_acts))

    # --- questions ---

    def may_contain_alias(self, a, b):
        """Whether two values, or values of two lists, may share memory, what lies in them included."""
        first, second = (list(x) if isinstance(x, (list, tuple)) else [x] for x in (a, b))
        return bool(self._reach(first) & self._reach(second))

    def has_writers(self, value):
        """Whether a node of the graph writes to the memory of a value."""
        return bool(self._of(value) & self._written)

    def move_after_topologically_valid(self, n, move_point):
        """Moves `n` behind `move_point`, with the nodes between that it takes along, where the graph computes the
        same after it. Returns whether it did."""
        return self._move(n, move_point, after=True)

    def move_before_topologically_valid(self, n, move_point):
        """Moves `n` before `move_point`, as move_after_topologically_valid."""
        return self._move(n, move_point, after=False)

    def _move(self, node, point, after):
        block = list(node.owningBlock().nodes())
        if point not in block:
            raise RuntimeError(f"{node.kind()} and {point.kind()} are not in the same block")
        at, to = block.index(node), block.index(point)
        if at == to:
            return True
        forward = to > at
        between = block[at + 1 : to] if forward else block[to + 1 : at][::-1]
        taken = [node]
        for other in between:
            if any(self._depends(other, t) if forward else self._depends(t, other) for t in taken):
                taken.append(other)
        if after == forward and any(self._depends(point, t) if forward else self._depends(t, point) for t in taken):
            return False
        if forward and after:
            for t in reversed(taken):
                t.moveAfter(point)
        elif not forward and not after:
            for t in reversed(taken):
                t.moveBefore(point)
        else:  # to the near side of the point: past it nothing has to go
            for t in reversed(taken):
                t.moveBefore(point) if forward else t.moveAfter(point)
        return True

    # --- as text ---

    def __str__(self):
        names = {v.unique(): v.debugName() for v in self._graph.inputs()}
        names.update((o.unique(), o.debugName()) for n in _nodes(self._graph) for o in n.outputs())
        lines = ["", "===1. GRAPH===", str(self._graph), "===2. ALIAS DB==="]
        for unique, places in self._places.items():
            for verb, shown in (("points to", places - {f"%{names.get(unique)}"}), ("contains", self._inside(places))):
                if shown:
                    lines.append(f"%{names.get(unique, unique)} {verb}: {', '.join(sorted(shown))}")
        lines += ["", "===3. Writes==="]
        for node in _nodes(self._graph):
            written = self._writes(node)
            if written:
                lines += [str(node).rstrip("\n"), "  " + ", ".join(sorted(written))]
        return "\n".join([*lines, ""])

    def _inside(self, places):
        return set().union(*(self._held.get(place, set()) for place in places)) if places else set()

    def dump(self):
        """Prints what is known."""
        print(self)

    def to_graphviz_str(self):
        """What is known as a graph in the language of Graphviz: arrows from values to places and to what they hold."""
        lines = ["digraph alias_db {", "  rankdir=LR"]
        names = {o.unique(): o.debugName() for n in _nodes(self._graph) for o in n.outputs()}
        names.update((v.unique(), v.debugName()) for v in self._graph.inputs())
        for unique, places in self._places.items():
            lines += [f'  "{names.get(unique, unique)}" -> "{place}"' for place in sorted(places)]
        for place, held in self._held.items():
            lines += [f'  "{place}" -> "{other}" [style=dashed]' for other in sorted(held)]
        return "\n".join([*lines, "}", ""])


def dump_aliases(graph):
    """Prints which values of a graph share memory."""
    AliasDb(graph).dump()
