"""What happens around the forward and backward of a module whose parameters are a group: hooks on its calls, and on
autograd.
"""

import dataclasses

import tessera
from tessera.autograd import Function
from tessera.autograd.variable import Variable


def mapped(function, value):
    """The value with `function` applied to all tensors in it: in lists, tuples, dicts and dataclasses."""
    if isinstance(value, tessera.Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(function, one) for one in value))
    if type(value) in (list, tuple):
        return type(value)(mapped(function, one) for one in value)
    if isinstance(value, dict):
        changed = {key: mapped(function, one) for key, one in value.items()}
        if type(value) is dict:
            return changed
        for key, one in changed.items():
            if one is not value[key]:
                value[key] = one
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: mapped(function, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **changed)
    return value


def cast(dtype, value):
    """The value with its floating tensors in `dtype`; None: as it is."""
    if dtype is None:
        return value
    return mapped(lambda x: x.to(dtype) if x.is_floating_point() else x, value)


def units_of(modules):
    """The units of modules that have one, each once."""
    found = (one.__dict__.get("_fsdp_unit") for one in modules)
    return list(dict.fromkeys(unit for unit in found if unit is not None))


class _Entry(Function):
    """The inputs of a module, as they are; when all their gradients are there, the module's backward is over."""

    @staticmethod
    def forward(ctx, unit, *inputs):
        ctx.unit = unit
        return tuple(one.detach() for one in inputs)

    @staticmethod
    def backward(ctx, *gradients):
        ctx.unit.after_backward()
        return (None, *gradients)


class Tree:
    """The units of a module that is called from outside, and what they share during an iteration."""

    def __init__(self, units, root):
        self.units, self.root = units, root
        self.order = []  # in which forwards ended
        self.expected = {}  # for each unit the one whose forward came next, last time
        self.running = False  # a backward pass
        self.is_last = True
        self.event = None


class Unit:
    """A group, and the modules that it is of.

    Args:
        modules: those that are called one after the other; the first one's inputs and the last one's outputs count.
        group: Group.
        reshard: after forward; True, False, "small", or None: unless the unit is the root.
    """

    def __init__(self, modules, group, reshard):
        self.modules, self.group, self.reshard = tuple(modules), group, reshard
        self.tree = None
        self.in_backward = self.suspended = False
        self.forward_prefetch, self.backward_prefetch = [], None
        self.prefetch_late = False
        self.prefetch_forward = 0  # how many of the units that came next
        self._to_run = set()
        self.input_dtype = self.output_dtype = None

    def units_below(self):
        """All units of the modules, this one first."""
        return units_of(one for module in self.modules for one in module.modules())

    def is_root(self):
        """True if forward began here."""
        return self.tree is not None and self.tree.root is self

    def _plant(self):
        """At the first forward: whoever is called first is the root."""
        units = self.units_below()
        tree = Tree(units, self)
        for unit in units:
            unit.tree = tree
            unit.check()

    def check(self):
        """Raises what is wrong with parameters before they are first used."""

    # ---- forward

    def enter(self, module, args, kwargs):
        """Before forward. Returns: (args, kwargs), as the module is to see them."""
        if self.suspended or self._to_run:
            return args, kwargs
        if self.tree is None:
            self._plant()
        if len(self.modules) > 1:
            self._to_run.update(self.modules)
        args, kwargs = cast(self.input_dtype, (args, kwargs))
        if self.in_backward:
            return args, kwargs
        tree = self.tree
        if self.is_root():
            tree.order = []
            if tree.event is not None:
                tree.event.wait()
                tree.event = None
        self.group.unshard()
        for unit in self._next_forward():
            with tessera.no_grad():
                unit.group.start_gather()
        if tessera.is_grad_enabled():
            args, kwargs = self._watch((args, kwargs))
        return args, kwargs

    def _next_forward(self):
        found = list(self.forward_prefetch)
        unit = self
        for _ in range(self.prefetch_forward):
            unit = self.tree.expected.get(unit)
            if unit is None:
                break
            found.append(unit)
        return found

    def _watch(self, inputs):
        tensors = {}  # one that is given twice stays one
        mapped(lambda x: tensors.setdefault(x) if x.requires_grad else None, inputs)
        if not tensors:
            return inputs
        passed = dict(zip(tensors, _Entry.apply(self, *tensors)))
        return mapped(lambda x: passed.get(x, x), inputs)

    def leave(self, module, out):
        """After forward. Returns: the output, as the caller is to see it."""
        if self.suspended:
            return out
        if len(self.modules) > 1:
            self._to_run.discard(module)
            if self._to_run:
                return out
        if self.in_backward:
            return cast(self.output_dtype, out)
        out = cast(self.output_dtype, out)
        self.after_forward()
        order = self.tree.order
        if order:
            self.tree.expected[order[-1]] = self
        order.append(self)
        if tessera.is_grad_enabled():
            mapped(lambda x: x.register_hook(self.before_backward) and x if x.requires_grad else x, out)
        return out

    def after_forward(self):
        """Lets the wholes go, or keeps them for backward."""
        how = self.reshard if self.reshard is not None else not self.is_root()
        if how:
            self.group.reshard(small=how == "small")

    # ---- backward

    def before_backward(self, gradient):
        """Before the first gradient of the modules is computed."""
        tree = self.tree
        if not tree.running:
            tree.running = True
            Variable._execution_engine.queue_callback(lambda: self._end(tree))
        if not self.in_backward:
            self.in_backward = True
            if self.group.unshard_in_backward:
                self.group.unshard()
            if not self.prefetch_late:
                self._prefetch_backward()

    def _prefetch_backward(self):
        order, wanted = self.tree.order, self.backward_prefetch
        if wanted is None:
            place = order.index(self) if self in order else 0
            wanted = order[place - 1 : place] if place else []
        with tessera.no_grad():
            for unit in wanted:
                if unit.group.unshard_in_backward and not unit.in_backward:
                    unit.group.start_gather()

    def after_backward(self):
        """After the last gradient of the modules was computed."""
        if self.suspended:
            return
        for unit in self.tree.units:
            if unit is not self:
                unit.group.finish()
        self.in_backward = False
        self.group.reduce()
        if self.group.reshard_after_backward:
            self.group.reshard()
        if self.prefetch_late and self.tree.running:
            self._prefetch_backward()

    @staticmethod
    def _end(tree):
        """At the end of the whole backward pass."""
        tree.running = False
        for unit in reversed(tree.units):
            group = unit.group
            if unit.in_backward or group.has_gradients():
                unit.after_backward()
            elif group.reshard_after_backward and (group.is_whole or group.is_small or group._coming is not None):
                group.reshard()
        for unit in tree.units:
            unit.group.finish()
        if tree.is_last:
            tree.order = []
