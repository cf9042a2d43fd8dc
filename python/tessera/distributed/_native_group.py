"""A member's part in a group whose collectives and messages the extension carries, over whatever transport."""

from datetime import timedelta

import tessera
from tessera._lazy import require
from tessera.distributed import _memory as memory
from tessera.distributed._errors import DistBackendError
from tessera.distributed._kinds import kind_of
from tessera.distributed._native import load
from tessera.distributed._process_group import C10dBackend, _BackendOptions, recorded
from tessera.distributed._work import DoneWork, PendingWork

# `Collective` in distributed/request.h.
ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, GATHER, SCATTER, REDUCE_SCATTER, ALL_TO_ALL, BARRIER = range(9)
_NAMES = "all_reduce broadcast reduce all_gather gather scatter reduce_scatter all_to_all barrier".split()
_OWN_TAG = 1 << 62  # of messages of this module; users' tags are below


class NativeGroup(C10dBackend):
    """Collectives and messages of tensors on the host; those of devices go through the host.

    All members of a group compute with the same bits: reductions run in the order of ranks. `_connect` of a subclass
    gives the extension's handle.

    Args:
        store: over which the members find each other, of this group alone (a PrefixStore).
        rank: of this member.
        size: number of members.
        timeout: how long collectives wait for a member (datetime.timedelta).
    """

    _joins_in_place = True  # allreduce_coalesced without memory of its own, and with the same calls as allreduce

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        if isinstance(timeout, _BackendOptions):
            timeout = timeout._timeout
        if isinstance(timeout, (int, float)):
            timeout = timedelta(seconds=timeout)
        self._timeout, self._seconds = timeout, timeout.total_seconds()
        self._pending, self._barriers = [], 0
        self._native, self._store = load(), store
        alone = self._native.group_make(0, [("", 0, 0)], b"", -1, -1) if size == 1 else None
        self._handle = alone or self._connect(store)

    def _set_default_timeout(self, timeout):
        self._timeout, self._seconds = timeout, timeout.total_seconds()

    def shutdown(self):
        self._handle, self._pending = None, []

    def abort(self):
        if self._handle is not None and self._size > 1:
            self._native.group_abort(self._handle, f"the process group was aborted by rank {self._rank}")

    def _live(self):
        if self._handle is None:
            raise RuntimeError("this process group was destroyed")
        return self._handle

    def _seconds_of(self, opts):
        timeout = opts.timeout
        return timeout.total_seconds() if timeout.days >= 0 and timeout else self._seconds

    def _run(
        self,
        what,
        outputs,
        opts,
        inputs=(),
        kind=memory.BYTES,
        fold=0,
        root=0,
        finish=None,
        outs=None,
        ins=None,
        scale=1.0,
    ):
        """Asks the extension. `outs` and `ins` are the flat lists of memory if they are not the tensors'."""
        outs = memory.flat(outputs.memory) if outs is None else outs
        ins = memory.flat(inputs) if ins is None else ins
        seconds = self._seconds_of(opts)

        def done():
            outputs.finish()
            if finish is not None:
                finish()

        call = (what, kind, fold, root, ins, outs, seconds, not opts.asyncOp, scale)
        shown = recorded(f"{self.getBackendName()}:{_NAMES[what]}")
        if shown is not None:
            with shown:
                return self._start(call, outputs, done, inputs)
        return self._start(call, outputs, done, inputs)

    def _start(self, call, outputs, done, inputs):
        native, seconds, wait = self._native, call[6], call[7]
        ticket = native.group_run(self._live(), *call)
        if wait:
            done()
            return DoneWork(outputs.tensors)
        work = PendingWork(
            lambda: native.ticket_done(ticket),
            lambda limit: native.ticket_wait(ticket, limit),
            outputs.tensors,
            done,
            # The collective's own timeout ends it, with an error that says more.
            seconds + 30,
            (outputs, inputs),
        )
        return self._keep(work)

    def _keep(self, work):
        """Memory on its way must not go away with a handle that nobody holds."""
        self._pending = [other for other in self._pending if not other.is_completed()]
        self._pending.append(work)
        return work

    # ---- collectives

    def allreduce(self, tensors, opts):
        return self._reduce(ALL_REDUCE, tensors, opts, 0)

    def reduce(self, tensors, opts):
        self._check_root(opts.rootRank)
        return self._reduce(REDUCE, tensors, opts, opts.rootRank)

    def _reduce(self, what, tensors, opts, root):
        if len(tensors) != 1:
            raise RuntimeError(f"{_NAMES[what]} takes one tensor, but got {len(tensors)}")
        tensor, op = tensors[0], opts.reduceOp
        if tensor.layout is tessera.sparse_coo:
            return self._reduce_sparse(tensor, opts)
        kind, fold = memory.reduction(tensor, op)
        outputs = memory.Outputs(tensors, True)
        scale = memory.before(outputs.memory, op, what == ALL_REDUCE)
        mine = what == ALL_REDUCE or root == self._rank
        finish = (lambda: memory.after(tensor, op, self._size)) if kind_of(op) == 1 and mine else None
        return self._run(what, outputs, opts, (), kind, fold, root, finish, scale=scale)

    def _reduce_sparse(self, tensor, opts):
        """Everyone gets the entries of all, and adds those of the same place."""
        if kind_of(opts.reduceOp) != 0:
            raise RuntimeError("sparse tensors can be reduced by ReduceOp.SUM only")
        from tessera.distributed import _kinds

        own = tensor.detach().coalesce()
        quiet = _kinds.AllgatherOptions()
        quiet.asyncOp, quiet.timeout = False, opts.timeout
        counts = [tessera.zeros(1, dtype=tessera.int64) for _ in range(self._size)]
        self.allgather([counts], [tessera.tensor([own._nnz()])], quiet)
        parts = {}
        for name, values in (("indices", own.indices()), ("values", own.values())):
            values = values.t().contiguous() if name == "indices" else values.contiguous()
            parts[name] = [values.new_empty((int(count), *values.shape[1:])) for count in counts]
            self.allgather([parts[name]], [values], quiet)
        total = require("sparse_coo_tensor", "all_reduce() of a sparse tensor")(
            tessera.cat(parts["indices"]).t(), tessera.cat(parts["values"]), tensor.shape
        ).coalesce()
        with tessera.no_grad():
            tensor.copy_(total)
        return DoneWork([tensor])

    def allreduce_coalesced(self, tensors, opts):
        if len({(tensor.dtype, tensor.device) for tensor in tensors}) != 1:
            raise RuntimeError("allreduce_coalesced takes tensors of one dtype and device")
        op = opts.reduceOp
        kind, fold = memory.reduction(tensors[0], op)
        outputs = memory.Outputs(list(tensors), True)

        def finish():
            for tensor in outputs.tensors:
                memory.after(tensor, op, self._size)

        scale = memory.before(outputs.memory, op, True)
        return self._run(ALL_REDUCE, outputs, opts, (), kind, fold, 0, finish, scale=scale)

    def broadcast(self, tensors, opts):
        if len(tensors) != 1:
            raise RuntimeError(f"broadcast takes one tensor, but got {len(tensors)}")
        self._check_root(opts.rootRank)
        outputs = memory.Outputs(tensors, self._rank == opts.rootRank)
        return self._run(BROADCAST, outputs, opts, root=opts.rootRank)

    def _check_root(self, root):
        if not 0 <= root < self._size:
            raise RuntimeError(f"the root is a rank of the group, from 0 to {self._size - 1}, but got {root}")

    def _check_count(self, name, tensors):
        if len(tensors) != self._size:
            raise RuntimeError(f"{name} takes a tensor for each of {self._size} ranks, but got {len(tensors)}")

    def _check_sizes(self, name, tensors, like):
        for tensor in tensors:
            if tensor.dtype != like.dtype or tensor.numel() != like.numel():
                raise RuntimeError(
                    f"{name}: expected tensors of {like.numel()} elements of {like.dtype}, but one has "
                    f"{tensor.numel()} of {tensor.dtype}"
                )

    def allgather(self, output_lists, input_list, opts):
        (outputs,), (tensor,) = output_lists, input_list
        self._check_count("all_gather", outputs)
        self._check_sizes("all_gather", [outputs[self._rank]], tensor)
        return self._run(ALL_GATHER, memory.Outputs(list(outputs), False, True), opts, [memory.readable(tensor)])

    def _allgather_base(self, output, tensor, opts):
        if output.dtype != tensor.dtype or output.numel() != self._size * tensor.numel():
            raise RuntimeError(
                f"all_gather_into_tensor: the output takes {self._size} times the input's {tensor.numel()} elements "
                f"of {tensor.dtype}, but has {output.numel()} of {output.dtype}"
            )
        outputs, given = memory.Outputs([output], False, True), memory.readable(tensor)
        return self._run(ALL_GATHER, outputs, opts, [given], outs=self._pieces(outputs.memory[0]))

    def _pieces(self, tensor):
        """The memory of a contiguous tensor in equal parts, one for each rank."""
        start, step = tensor.data_ptr(), tensor.numel() * tensor.element_size() // self._size
        return [number for rank in range(self._size) for number in (start + rank * step, step)]

    def allgather_coalesced(self, output_lists, input_list, opts):
        self._check_count("all_gather_coalesced", output_lists)
        works = []
        for i, tensor in enumerate(input_list):
            works.append(self.allgather([[outputs[i] for outputs in output_lists]], [tensor], opts))
        return self._together(works)

    @staticmethod
    def _together(works):
        from tessera.distributed._process_group import CoalescedWork

        return works[0] if len(works) == 1 else CoalescedWork(works)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts):
        return self._together([self._allgather_base(out, given, opts) for out, given in zip(outputs, inputs)])

    def gather(self, output_lists, input_list, opts):
        (tensor,), root = input_list, opts.rootRank
        self._check_root(root)
        outputs = list(output_lists[0]) if self._rank == root else []
        if self._rank == root:
            self._check_count("gather", outputs)
            self._check_sizes("gather", outputs, tensor)
        return self._run(GATHER, memory.Outputs(outputs, False, True), opts, [memory.readable(tensor)], root=root)

    def scatter(self, outputs, input_lists, opts):
        root = opts.rootRank
        self._check_root(root)
        inputs = list(input_lists[0]) if self._rank == root else []
        if self._rank == root:
            self._check_count("scatter", inputs)
            self._check_sizes("scatter", inputs, outputs[0])
        inputs = [memory.readable(tensor) for tensor in inputs]
        return self._run(SCATTER, memory.Outputs(list(outputs), False), opts, inputs, root=root)

    def reduce_scatter(self, outputs, input_lists, opts):
        (output,), (inputs,) = outputs, input_lists
        self._check_count("reduce_scatter", inputs)
        self._check_sizes("reduce_scatter", [inputs[self._rank]], output)
        return self._scatter_reduced(output, [memory.readable(tensor) for tensor in inputs], opts, None)

    def _reduce_scatter_base(self, output, tensor, opts):
        if output.dtype != tensor.dtype or tensor.numel() != self._size * output.numel():
            raise RuntimeError(
                f"reduce_scatter_tensor: the input has {self._size} times the output's {output.numel()} elements of "
                f"{output.dtype}, but got {tensor.numel()} of {tensor.dtype}"
            )
        given = memory.readable(tensor)
        return self._scatter_reduced(output, [given], opts, True)

    def _scatter_reduced(self, output, inputs, opts, whole):
        op = opts.reduceOp
        kind, fold = memory.reduction(output, op)
        if kind_of(op) == 8:
            inputs = [tensor * op.factor for tensor in inputs]
        finish = (lambda: memory.after(output, op, self._size)) if kind_of(op) == 1 else None
        ins = self._pieces(inputs[0]) if whole else None
        outputs = memory.Outputs([output], False, True)
        return self._run(REDUCE_SCATTER, outputs, opts, inputs, kind, fold, 0, finish, ins=ins)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts):
        return self._together([self._reduce_scatter_base(out, given, opts) for out, given in zip(outputs, inputs)])

    def alltoall_base(self, output, tensor, output_split_sizes, input_split_sizes, opts):
        outputs, given = memory.Outputs([output], False, True), memory.readable(tensor)
        outs = self._split(outputs.memory[0], output_split_sizes, "output")
        ins = self._split(given, input_split_sizes, "input")
        return self._run(ALL_TO_ALL, outputs, opts, [given], outs=outs, ins=ins)

    def _split(self, tensor, sizes, name):
        """The memory of a contiguous tensor, cut along its first dimension."""
        rows = tensor.shape[0] if tensor.dim() else 1
        sizes = list(sizes or ())
        if not sizes:
            if rows % self._size:
                raise RuntimeError(
                    f"all_to_all_single: {rows} rows of the {name} cannot be cut in {self._size} equal parts"
                )
            sizes = [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows or min(sizes) < 0:
            raise RuntimeError(
                f"all_to_all_single: the {name} has {rows} rows for {self._size} ranks, but the split sizes are {sizes}"
            )
        row = tensor.numel() // rows * tensor.element_size() if rows else 0
        out, at = [], tensor.data_ptr()
        for size in sizes:
            out += [at, size * row]
            at += size * row
        return out

    def alltoall(self, outputs, inputs, opts):
        self._check_count("all_to_all", outputs)
        self._check_count("all_to_all", inputs)
        return self._run(ALL_TO_ALL, memory.Outputs(list(outputs), False), opts, [memory.readable(t) for t in inputs])

    def barrier(self, opts):
        return self._run(BARRIER, memory.Outputs([], False), opts)

    # ---- messages

    def _transfer(self, sends, peer, tag, tensors, seconds, wait):
        if len(tensors) != 1:
            raise RuntimeError(f"send and recv take one tensor, but got {len(tensors)}")
        if not 0 <= tag < 1 << 63:
            raise ValueError(f"a tag is a number from 0 on, but got {tag}")
        outputs = memory.Outputs([] if sends else tensors, False)
        given = memory.readable(tensors[0]) if sends else outputs.memory[0]
        size, native = given.numel() * given.element_size(), self._native
        reply = native.group_transfer(self._live(), sends, peer, tag, given.data_ptr(), size, seconds, wait)
        if wait:
            outputs.finish()
            return DoneWork(tensors, source=None if sends else reply)
        return self._keep(
            PendingWork(
                lambda: native.transfer_done(reply),
                lambda limit: native.transfer_wait(reply, limit),
                tensors,
                outputs.finish,
                seconds,
                (given, outputs),
            )
        )

    def _shown_transfer(self, sends, peer, tag, tensors, wait):
        shown = recorded(f"{self.getBackendName()}:{'send' if sends else 'recv'}")
        if shown is None:
            return self._transfer(sends, peer, tag, tensors, self._seconds, wait)
        with shown:
            return self._transfer(sends, peer, tag, tensors, self._seconds, wait)

    def send(self, tensors, dstRank, tag=0, wait=False):
        return self._shown_transfer(True, dstRank, tag, tensors, wait)

    def recv(self, tensors, srcRank, tag=0, wait=False):
        return self._shown_transfer(False, srcRank, tag, tensors, wait)

    def recv_anysource(self, tensors, tag=0, wait=False):
        return self._shown_transfer(False, -1, tag, tensors, wait)

    # ---- a barrier that says who is missing

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        seconds = self._seconds if timeout is None else timeout.total_seconds()
        tag, self._barriers = _OWN_TAG | 2 * self._barriers, self._barriers + 1
        if self._size == 1:
            return
        flag = tessera.zeros(1, dtype=tessera.uint8)
        if self._rank == 0:
            return self._call_the_roll(flag, tag, seconds, wait_all_ranks)
        self._transfer(True, 0, tag, [flag], seconds, True)
        try:
            self._transfer(False, 0, tag + 1, [flag], seconds + 5, True)
        except RuntimeError as error:
            raise DistBackendError(
                f"[Rank {self._rank}] monitored_barrier: rank 0 did not confirm within {seconds:g} s: {error}"
            ) from None
        if int(flag) != 0:
            raise DistBackendError(
                f"[Rank {self._rank}] monitored_barrier: rank 0 reports that rank {int(flag) - 1} and maybe others did "
                f"not come within {seconds:g} s"
            )

    def _call_the_roll(self, flag, tag, seconds, wait_all_ranks):
        import time

        end, missing, present = time.monotonic() + seconds, [], []
        for rank in range(1, self._size):
            left = max(0.0, end - time.monotonic())
            try:
                self._transfer(False, rank, tag, [flag], left if not missing or wait_all_ranks else 0.0, True)
                present.append(rank)
            except RuntimeError:
                missing.append(rank)
                if not wait_all_ranks:
                    break
        answer = tessera.full((1,), min(missing[0] + 1, 255) if missing else 0, dtype=tessera.uint8)
        for rank in present:
            self._transfer(True, rank, tag + 1, [answer], seconds, True)
        if missing:
            who = "rank" if len(missing) == 1 else "ranks"
            raise DistBackendError(
                f"[Rank 0] monitored_barrier: {who} {', '.join(map(str, missing))} did not come within "
                f"{timedelta(seconds=seconds).total_seconds():g} s"
            )
