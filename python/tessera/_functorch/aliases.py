"""Results that share memory, with an argument or with each other: they are made outside of graphs, as views.

A graph computes new tensors; a program that writes to a result afterwards expects those that share its memory, and
their gradients, to change.
"""

import tessera

__all__ = ["Aliases", "memory_of"]


def memory_of(t):
    """What tells tensors of the same memory from others while they are alive."""
    return t.untyped_storage()._cdata if t.layout is tessera.strided else id(t)


class _View:
    """A strided view, to be taken of another tensor that lies in memory as the first did."""

    def __init__(self, view, base):
        self.sizes, self.strides = view.shape, view.stride()
        self.offset = view.storage_offset() - base.storage_offset()
        self.detached = base.requires_grad and not view.requires_grad
        self.possible = (
            view.dtype == base.dtype
            and view.is_conj() == base.is_conj()
            and view.is_neg() == base.is_neg()
            and (view.requires_grad or self.detached or not base.requires_grad)
        )

    def of(self, base):
        if self.detached:
            base = base.detach()
        return base.as_strided(self.sizes, self.strides, base.storage_offset() + self.offset)


def _base(t):
    return t if t._base is None else t._base


class Aliases:
    """Which results of a function are made of what.

    Args:
        args: the arguments. copies: what the function was called with in their place. results: what it gave.

    Attributes: possible: False if as_strided does not make them: of another dtype, of a lazy conjugate, of arguments
        that lie in memory in another way than their copies.
    """

    def __init__(self, args, copies, results):
        self.kept = []  # indexes of results that the graph gives
        self.bases = []  # (index of a result, strides of its base), which it gives behind them
        self.made = {}  # index of a result -> (whether of an argument, which one or which base, view or None: itself)
        self.possible = True
        inputs = {}
        for i, c in enumerate(copies):
            if isinstance(c, tessera.Tensor):
                inputs.setdefault(memory_of(c), i)
        groups = {}
        for k, r in enumerate(results):
            if not isinstance(r, tessera.Tensor) or r.layout is not tessera.strided:
                self.kept.append(k)
            elif memory_of(r) in inputs:
                self._of_argument(k, r, inputs[memory_of(r)], args, copies)
            else:
                groups.setdefault(memory_of(r), []).append(k)
        for members in groups.values():
            if len(members) == 1:
                self.kept += members
            else:
                self._of_base(members, results)
        self.kept.sort()

    def _of_argument(self, k, result, i, args, copies):
        if result is copies[i]:
            self.made[k] = (True, i, None)
            return
        view = _View(result, copies[i])
        related = not result.requires_grad or _base(result) is _base(copies[i])
        same = args[i].stride() == copies[i].stride()
        self.possible = self.possible and view.possible and same and related
        self.made[k] = (True, i, view)

    def _of_base(self, members, results):
        chosen = next((k for k in members if results[k].requires_grad), members[0])
        base = _base(results[chosen])
        number = len(self.bases)
        self.bases.append((chosen, base.stride()))
        for k in members:
            r = results[k]
            view = None if r is base else _View(r, base)
            related = not r.requires_grad or _base(r) is base
            self.possible = self.possible and related and (view is None or view.possible)
            self.made[k] = (False, number, view)

    def __bool__(self):
        return bool(self.made)

    def of_graph(self, results):
        """What a graph has to give: results without those that are made, and bases."""
        return [*(results[k] for k in self.kept), *(_base(results[k]) for k, _ in self.bases)]

    def complete(self, args, out):
        """All results, of the arguments and what the graph gave."""
        bases = [_laid_out(b, strides) for b, (_, strides) in zip(out[len(self.kept) :], self.bases)]
        results = dict(zip(self.kept, out))
        for k, (of_argument, i, view) in self.made.items():
            source = args[i] if of_argument else bases[i]
            results[k] = source if view is None else view.of(source)
        return [results[k] for k in range(len(results))]


def _laid_out(base, strides):
    if base.stride() == tuple(strides):
        return base
    return tessera.empty_strided(base.shape, strides, dtype=base.dtype, device=base.device).copy_(base)
