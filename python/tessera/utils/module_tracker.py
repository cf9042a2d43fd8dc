"""Which modules are at work: `ModuleTracker`."""

import weakref

import tessera

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Context manager that knows which modules are running, by hooks on all of them.

    `parents` is the set of their names: "Global", the class of the outermost module, and "<class>.<path>" of those
    inside of it ("Net.layer1.0"). While a graph runs backward they are the modules whose backward is at work, and
    `is_bw` is True.

        >>> net = tessera.nn.Sequential(tessera.nn.ReLU())
        >>> with tessera.utils.module_tracker.ModuleTracker() as tracker:
        ...     handle = net[0].register_forward_pre_hook(lambda *args: print(sorted(tracker.parents)))
        ...     _ = net(tessera.ones(1))
        ['Global', 'Sequential', 'Sequential.0']
    """

    def __init__(self):
        self.parents = {"Global"}
        self._names = weakref.WeakKeyDictionary()
        self._handles = []

    @property
    def is_bw(self):
        """Whether a graph runs backward on this thread."""
        return tessera._C._current_graph_task_id() != -1

    def __enter__(self):
        from tessera.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._handles = [
            register_module_forward_pre_hook(self._enter_forward),
            register_module_forward_hook(self._leave_forward, always_call=True),
        ]
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        for handle in self._handles:
            handle.remove()
        self._handles = []
        return False

    def _name_of(self, module):
        """Of a module that no other one told us of, that is its class's; its descendants' are learned with it."""
        if module not in self._names:
            name = type(module).__name__
            for path, inner in module.named_modules():
                self._names.setdefault(inner, f"{name}.{path}" if path else name)
        return self._names[module]

    def _enter_forward(self, module, args):
        name = self._name_of(module)
        self.parents.add(name)
        inputs = [x for x in _tensors(args) if x.requires_grad]
        if inputs and tessera.is_grad_enabled():
            # The gradients of a module's inputs are the last thing that its backward makes.
            tessera.autograd.graph.register_multi_grad_hook(inputs, lambda _: self.parents.discard(name))

    def _leave_forward(self, module, _, output):
        name = self._name_of(module)
        self.parents.discard(name)
        outputs = [x for x in _tensors(output) if x.requires_grad]
        if outputs and tessera.is_grad_enabled():
            tessera.autograd.graph.register_multi_grad_hook(outputs, lambda _: self.parents.add(name), mode="any")


def _tensors(tree):
    from tessera.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, tessera.Tensor)]
