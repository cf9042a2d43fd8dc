"""Parameters that are gathered, and whose gradients are reduced, together. Both wrappers of this namespace stand on it.

A Group has pieces: things that are cut over processes, with a part in each and a whole while it is in use. What a piece
is differs (one parameter that is a DTensor, or many of a module one after the other); what happens to it does not.
"""

import math

import tessera
from tessera.distributed import _functional_collectives as collectives
from tessera.distributed import _kinds as kinds


class Line:
    """The processes over which something is cut: (group, how many they are, the place of this one).

    A group of None stands for this process alone.
    """

    def __init__(self, group):
        self.group = group
        self.size = 1 if group is None else group.size()
        self.index = 0 if group is None else group.rank()


class Piece:
    """What is cut as one.

    Subclasses have: `length(line)`, numbers in a part of the largest size; `write_part(out, line)`, puts this process's
    part there; `dtype`, of the part; `fill(rows, dtype, line)`, makes the whole of everyone's parts, one per row;
    `free()`; `gradient()`, that of the whole, or None; `clear()`, forgets it; `pack(gradient, rows, line)`, cuts one;
    `hold(gradient)`, keeps one that is not reduced, `held()`, gives it back, or None; `give(part)`, adds a reduced part
    to the gradient that the user sees; `show(what)`, registers "part", "small" or "whole" at the modules;
    `refresh()`, looks for what the user has put in the part's place; `make_small(line)`, a part for fewer processes.
    """


class Group:
    """Pieces, and where their parts and gradients go.

    Args:
        pieces: list of Piece.
        shard: Line over which they are cut.
        replicate: group of those that have the same part, or None.
        device: where wholes are.
        param_dtype: of wholes; None: that of the parts.
        reduce_dtype: in which gradients are reduced; None: their own.
    """

    def __init__(self, pieces, shard, replicate, device, param_dtype=None, reduce_dtype=None):
        self.pieces, self.shard, self.replicate, self.device = pieces, shard, replicate, device
        self.param_dtype, self.reduce_dtype = param_dtype, reduce_dtype
        self.small = None  # the Line over which parts lie after forward, if not `shard`
        self.is_small = self.is_whole = False
        self.reshard_after_backward = self.sync = self.all_reduce = self.unshard_in_backward = True
        self.factor, self.force_sum, self.from_backend, self.hook, self.comm_hook = None, False, False, None, None
        self.custom_gather = self.custom_scatter = None
        self._coming = self._going = self._partial = None

    # ---- parameters

    def _line(self):
        return self.small if self.is_small else self.shard

    def start_gather(self):
        """Sends for the parts of others."""
        if self.is_whole or self._coming is not None:
            return
        line = self._line()
        if not self.is_small:
            for piece in self.pieces:
                piece.refresh()
        dtypes = [self.param_dtype if self.param_dtype and p.dtype.is_floating_point else p.dtype for p in self.pieces]
        self._coming = []
        for dtype in dict.fromkeys(dtypes):
            pieces = [piece for piece, own in zip(self.pieces, dtypes) if own == dtype]
            lengths = [piece.length(line) for piece in pieces]
            own = self._buffer(sum(lengths), dtype)
            for piece, place in zip(pieces, own.split(lengths)):
                piece.write_part(place, line)
            self._coming.append((pieces, lengths, self._gather(own, line)))

    def _buffer(self, length, dtype):
        allocate = getattr(self.shard.group, "allocate_tensor", None) if self.from_backend else None
        if allocate is not None:
            return allocate(length, dtype=dtype, device=self.device).zero_()
        return tessera.zeros(length, dtype=dtype, device=self.device)

    def _gather(self, own, line):
        if line.size == 1:
            return own
        if self.custom_gather is None:
            return collectives.all_gather_tensor(own, 0, line.group)
        out = self.custom_gather.allocate([own.numel() * line.size], dtype=own.dtype, device=own.device)
        work = self.custom_gather(out, own, line.group, async_op=False)
        if work is not None:
            work.wait()
        return out

    def unshard(self):
        """Brings the wholes together, and shows them to the modules."""
        with tessera.no_grad():
            self.start_gather()
            line = self._line()
            for pieces, lengths, coming in self._coming or ():
                rows = collectives.wait_tensor(coming).view(line.size, -1)
                for piece, place in zip(pieces, rows.split(lengths, 1)):
                    piece.fill(place, rows.dtype, line)
        self._coming, self.is_whole = None, True
        for piece in self.pieces:
            piece.show("whole")

    def reshard(self, small=False):
        """Lets the wholes go, and shows parts: of `small`, those for fewer processes."""
        with tessera.no_grad():
            if self._coming is not None:
                for _, _, coming in self._coming:
                    collectives.wait_tensor(coming)
                self._coming = None
            if small and self.is_whole:
                for piece in self.pieces:
                    piece.make_small(self.small)
                self.is_small = True
            elif not small:
                self.is_small = False
            for piece in self.pieces:
                piece.show("small" if self.is_small else "part")
                piece.free()
        self.is_whole = False

    # ---- gradients

    def has_gradients(self):
        """True if backward has left gradients of wholes."""
        return any(piece.gradient() is not None for piece in self.pieces)

    def reduce(self):
        """Sends the gradients of the wholes on their way, or keeps them where nothing is to be sent."""
        with tessera.no_grad():
            found = [(piece, piece.gradient()) for piece in self.pieces]
            found = [(piece, gradient) for piece, gradient in found if gradient is not None]
            for piece, _ in found:
                piece.clear()
            if not found:
                return
            if not self.sync:
                for piece, gradient in found:
                    piece.hold(gradient, self.reduce_dtype)
                return
            self.finish()
            self._going = []
            kind = lambda gradient: self.reduce_dtype or gradient.dtype
            for dtype in dict.fromkeys(kind(gradient) for _, gradient in found):
                self._send([(piece, gradient) for piece, gradient in found if kind(gradient) == dtype], dtype)

    def _send(self, found, dtype):
        line = self.shard
        lengths = [piece.length(line) for piece, _ in found]
        packed = self._buffer(line.size * sum(lengths), dtype).view(line.size, -1)
        for (piece, gradient), rows in zip(found, packed.split(lengths, 1)):
            piece.pack(gradient, rows, line)
            held = piece.held()
            if held is not None:
                extra = tessera.zeros_like(rows)
                piece.pack(held, extra, line)
                rows.add_(extra)
        pieces = [piece for piece, _ in found]
        packed = packed.view(-1)
        if self.comm_hook is not None:
            self._going.append((pieces, lengths, self._by_hook(packed), 1.0))
            return
        total = self.factor or line.size * (1 if self.replicate is None else self.replicate.size())
        before = 1.0
        if dtype == tessera.float16:  # sums of many leave its range
            before = 2.0 ** int(math.log2(max(total, 1.0)) / 2)
            packed.div_(before)
        self._going.append((pieces, lengths, self._scatter(packed, line), total / before))

    def _by_hook(self, packed):
        hook, state = self.comm_hook
        if self.shard.size == 1 and self.shard.group is None:
            hook(state, packed)
            return packed
        out = tessera.zeros(packed.numel() // self.shard.size, dtype=packed.dtype, device=packed.device)
        hook(state, packed, out)
        return out

    def _scatter(self, packed, line):
        if line.size == 1:
            return packed
        if self.custom_scatter is None:
            return collectives.reduce_scatter_tensor(packed, "sum", 0, line.group)
        out = self.custom_scatter.allocate([packed.numel() // line.size], dtype=packed.dtype, device=packed.device)
        work = self.custom_scatter(out, packed, line.group, kinds.ReduceOp.SUM, async_op=False)
        if work is not None:
            work.wait()
        return out

    def finish(self):
        """Waits for reductions, and brings the results to the parts' gradients."""
        going, self._going = self._going, None
        if not going:
            return
        with tessera.no_grad():
            results = [self._reduced(coming, divisor) for _, _, coming, divisor in going]
            if self.replicate is not None and self.comm_hook is None:
                if self._partial is not None:
                    results = [result.add_(partial) for result, partial in zip(results, self._partial)]
                    self._partial = None
                if not self.all_reduce:
                    self._partial = results
                    return
                if self.replicate.size() > 1:
                    results = [collectives.all_reduce(result, "sum", self.replicate) for result in results]
                    results = [collectives.wait_tensor(result) for result in results]
            for (pieces, lengths, _, _), result in zip(going, results):
                if self.hook is not None:
                    self.hook(result)
                for piece, part in zip(pieces, result.split(lengths)):
                    piece.give(part)

    @staticmethod
    def _reduced(coming, divisor):
        result = collectives.wait_tensor(coming)
        return result if divisor == 1.0 else result.div_(divisor)
