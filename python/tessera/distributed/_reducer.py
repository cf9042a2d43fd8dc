"""Gradients of replicas: collected in buckets as they come, reduced while others are still computed."""

import weakref

import tessera
from tessera.autograd.variable import Variable
from tessera.distributed import _collectives as collectives
from tessera.distributed._kinds import AllreduceOptions, DebugLevel, ReduceOp, _make_nccl_premul_sum, get_debug_level
from tessera.distributed._memory import is_plain
from tessera.distributed._process_group import ProcessGroup
from tessera.futures import Future

_DEFAULT_FIRST_BUCKET_BYTES = 1024 * 1024
_NO_CAP = 1 << 62


class GradBucket:
    """What a communication hook is given: the gradients of some parameters, one after the other in one tensor.

    Args:
        index: of the bucket; they are reduced in that order.
        buffer: the tensor, of one dimension.
        params: the parameters.
        is_last: whether it is the last one of a backward pass.
    """

    def __init__(self, index, buffer, params, is_last):
        self._index, self._buffer, self._params, self._last = index, buffer, params, is_last

    def index(self):
        """Its number."""
        return self._index

    def buffer(self):
        """All gradients as one tensor of one dimension."""
        return self._buffer

    def gradients(self):
        """The gradients, views of the buffer with the parameters' shapes."""
        if self._buffer.layout is not tessera.strided:
            return [self._buffer]
        return _views(self._buffer, self._params)

    def parameters(self):
        """The parameters."""
        return list(self._params)

    def is_last(self):
        """Whether no other bucket of this backward pass comes after it."""
        return self._last

    def set_buffer(self, buffer):
        """Puts another tensor of the same size in the buffer's place."""
        self._buffer = buffer


def _views(buffer, params):
    views, at = [], 0
    for param in params:
        views.append(buffer[at : at + param.numel()].view(param.shape))
        at += param.numel()
    return views


def _no_rows(param):
    """A sparse gradient without values."""
    rows = tessera.zeros(1, 0, dtype=tessera.int64, device=param.device)
    return tessera.sparse_coo_tensor(rows, param.new_zeros(0, *param.shape[1:]), param.shape).detach()


class _Bucket:
    """Parameters whose gradients are reduced together. One with sparse gradients has a bucket of its own, whose buffer
    is the gradient.
    """

    def __init__(self, index, numbers, params, dtype, sparse):
        self.index, self.numbers, self.params = index, numbers, params
        first, self.sparse = params[0], sparse
        if sparse:
            self.buffer, self.views = _no_rows(first), [None]
        else:
            total = sum(param.numel() for param in params)
            self.buffer = tessera.zeros(total, dtype=dtype or first.dtype, device=first.device)
            self.views = _views(self.buffer, params)
        self.waiting = len(params)
        self.handle = None  # what the reduction goes on in
        self.grads = None  # in place of the buffer: the gradients themselves, as far as they came


def _compute_bucket_assignment_by_size(tensors, bucket_size_limits, expect_sparse_gradient=None, tensor_indices=None):
    """Lists of indices of tensors that go together: of one dtype and device, and each at most as large as its limit.

    Args:
        tensors: in the order in which they are expected.
        bucket_size_limits: bytes of the first, second ... bucket of a kind; the last one holds for all that follow.
        expect_sparse_gradient: for each tensor whether it has a bucket for itself.
        tensor_indices: what to call the tensors; their places if empty.

    Returns: the lists, in the order of their first tensor, and the limit of each.
    """
    sparse = list(expect_sparse_gradient or [False] * len(tensors))
    names = list(tensor_indices or range(len(tensors)))
    open_buckets, counts, done = {}, {}, []

    def close(kind):
        done.append(open_buckets.pop(kind)[0])

    for place, tensor in enumerate(tensors):
        if sparse[place]:
            done.append(([names[place]], place, bucket_size_limits[0]))
            continue
        kind = (tensor.dtype, tensor.device)
        number = counts.get(kind, 0)
        limit = bucket_size_limits[min(number, len(bucket_size_limits) - 1)]
        if kind not in open_buckets:
            open_buckets[kind] = [([], place, limit), 0]
        entry = open_buckets[kind]
        entry[0][0].append(names[place])
        entry[1] += tensor.numel() * tensor.element_size()
        if entry[1] >= limit:
            counts[kind] = number + 1
            close(kind)
    for kind in list(open_buckets):
        close(kind)
    done.sort(key=lambda bucket: bucket[1])
    return [bucket[0] for bucket in done], [bucket[2] for bucket in done]


class Reducer:
    """Brings the gradients of a module's replicas to their average, bucket by bucket.

    Args:
        params: the parameters, all of which require gradients.
        process_group: of the replicas.
        names: of the parameters, for errors.
        bucket_bytes: size of a bucket, and
        first_bucket_bytes: of the first one.
        find_unused: whether to look, at every forward, for parameters that the outputs do not depend on.
        static_graph: whether the first iteration shows what all later ones do.
        as_view: whether gradients are views of the buckets.
        reduced_dtype: in which gradients are reduced; None: their own.
        bucket_limits: bytes of the first, second ... bucket, the last one for all that follow; None: by the two sizes.
        skip_unused: whether buckets whose parameters are all unused, on every rank, are left out.
        sparse: the parameters that get sparse gradients, by their places.
    """

    def __init__(
        self,
        params,
        process_group,
        names,
        bucket_bytes,
        first_bucket_bytes=_DEFAULT_FIRST_BUCKET_BYTES,
        find_unused=False,
        static_graph=False,
        as_view=False,
        reduced_dtype=None,
        bucket_limits=None,
        skip_unused=False,
        sparse=(),
    ):
        self.sparse = frozenset(sparse)
        self.params, self.group, self.names = list(params), process_group, list(names)
        self.limits = list(bucket_limits or [first_bucket_bytes, bucket_bytes])
        self.skip_unused = skip_unused
        self.find_unused, self.static, self.as_view = find_unused, static_graph, as_view
        self.divisor, self.hook = process_group.size(), None
        self.buckets, self.bucket_of = [], {}
        self._iterations, self._rebuilt, self._logger = 0, False, None
        self._armed = self._started = self._unfinished = False
        self._unused, self._arrived, self._fired, self._order = set(), set(), {}, []
        self._expected_fires = {}
        self.reduced_dtype = reduced_dtype
        # Called at the end of backward before results come to the gradients, which then add to what is there.
        self.restore, self._restores = None, False
        backwards = list(range(len(self.params)))[::-1]
        limits = self.limits if static_graph or find_unused else [_NO_CAP]
        self._build(self._cut(backwards, limits))
        self._handles = self._listen()

    def _listen(self):
        """Hooks on all parameters, which do not keep this object alive."""
        weak = weakref.ref(self)

        def listener(number):
            def arrived(param):
                reducer = weak()
                if reducer is not None:
                    reducer._arrive(number)

            return arrived

        return [p.register_post_accumulate_grad_hook(listener(i)) for i, p in enumerate(self.params)]

    def detach(self):
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()

    def _cut(self, numbers, limits):
        """Parameters in their order, as lists for buckets."""
        sparse = [number in self.sparse for number in numbers]
        return _compute_bucket_assignment_by_size([self.params[i] for i in numbers], limits, sparse, numbers)[0]

    def _build(self, lists):
        self.buckets = [
            _Bucket(index, numbers, [self.params[i] for i in numbers], self.reduced_dtype, numbers[0] in self.sparse)
            for index, numbers in enumerate(lists)
        ]
        self.bucket_of = {
            number: (bucket, place) for bucket in self.buckets for place, number in enumerate(bucket.numbers)
        }

    # ---- before backward

    def prepare_for_forward(self):
        """Makes the buckets anew after the first iteration, in the order in which gradients came."""
        if self._rebuilt or self.static or self.find_unused or len(self._order) != len(self.params):
            return
        order = tessera.tensor(self._order, dtype=tessera.int64)
        collectives.broadcast(order, group=self.group, group_src=0)
        numbers = order.tolist()
        old = {i: view for bucket in self.buckets for i, view in zip(bucket.numbers, bucket.views)}
        self._build(self._cut(numbers, self.limits))
        self._rebuilt = True
        if self.as_view:
            self._move_views(old)

    def _move_views(self, old):
        """Gradients that are views of the old buckets become views of the new ones."""
        for number, (bucket, place) in self.bucket_of.items():
            param = self.params[number]
            if param.grad is not None and not bucket.sparse and param.grad.data_ptr() == old[number].data_ptr():
                with tessera.no_grad():
                    bucket.views[place].copy_(param.grad)
                param.grad = bucket.views[place]

    def check_finished(self):
        """Raises: RuntimeError if parameters of the iteration before got no gradient."""
        if not self._unfinished:
            return
        missing = [i for i in range(len(self.params)) if i not in self._arrived]
        text = (
            "Expected to have finished reduction in the prior iteration before starting a new one: parameters were not "
            "used by the outputs that the loss depends on. find_unused_parameters=True of DistributedDataParallel "
            "allows that. Parameters without a gradient have the indices "
            f"{missing} on rank {self.group.rank()}"
        )
        if get_debug_level() != DebugLevel.OFF:
            text += f"; their names are {', '.join(self.names[i] for i in missing)}"
        else:
            text += "; TORCH_DISTRIBUTED_DEBUG=INFO or DETAIL gives their names"
        raise RuntimeError(text)

    def prepare_for_backward(self, *args, **kwargs):
        """Expects a backward pass: (outputs), the tensors that it may begin at."""
        outputs = args[0] if args else kwargs.get("outputs", [])
        self.check_finished()
        self._armed, self._started = True, False
        self._arrived, self._fired = set(), {}
        self._unused = self._without_path(outputs) if self.find_unused and not self.static else set()
        for bucket in self.buckets:
            bucket.waiting, bucket.handle = len(bucket.params), None
            bucket.grads = {} if self._is_direct() else None

    def _is_direct(self):
        """Whether gradients are reduced where they are: everyone has all of them, and nobody is shown a buffer."""
        if self.hook or self.find_unused or self.static or self.as_view or self.reduced_dtype or self.restore:
            return False
        if self.sparse:
            return False
        own = type(self.group) is ProcessGroup  # a subclass may want to see what is reduced
        return own and getattr(self.group._backends.get("cpu"), "_joins_in_place", False)

    def disarm(self):
        """Expects a backward pass whose gradients stay local."""
        self._armed = False

    def _without_path(self, outputs):
        """The parameters from which no path leads to the outputs."""
        known = {id(param): number for number, param in enumerate(self.params)}
        unused, seen = set(range(len(self.params))), set()
        nodes = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
        for tensor in outputs:
            unused.discard(known.get(id(tensor)))
        keep = list(nodes)
        while nodes:
            node = nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None:
                unused.discard(known.get(id(variable)))
            nodes += [following for following, _ in node.next_functions if following is not None]
        del keep
        return unused

    # ---- in backward

    def _arrive(self, number):
        if not self._armed:
            if self.restore is not None and not self._restores:
                self._restores = True
                Variable._execution_engine.queue_callback(self._end_locally)
            return
        if not self._started:
            self._start()
        self._fired[number] = self._fired.get(number, 0) + 1
        if self.static:
            if self._iterations == 0 or self._fired[number] < self._expected_fires.get(number, 1):
                return
        self._mark(number)

    def _start(self):
        self._started = self._unfinished = True
        Variable._execution_engine.queue_callback(self._end)
        if self._iterations == 0:
            self._order = []
        for number in sorted(self._unused):
            self._mark(number, False)

    def _mark(self, number, used=True):
        if number in self._arrived:
            raise RuntimeError(
                f"Expected to mark a variable ready only once, but the gradient of {self.names[number]} came twice in "
                "one backward pass: the parameter is used in several reentrant passes (checkpoints); "
                "static_graph=True of DistributedDataParallel allows that"
            )
        self._arrived.add(number)
        if self._iterations == 0:
            self._order.append(number)
        bucket, place = self.bucket_of[number]
        grad = self.params[number].grad if used else None
        if bucket.grads is None:
            self._fill(bucket, place, grad)
        else:
            bucket.grads[place] = grad
        bucket.waiting -= 1
        self._launch_ready()

    def _fill(self, bucket, place, grad):
        view = bucket.views[place]
        if bucket.sparse:
            grad = _no_rows(bucket.params[0]) if grad is None else grad
            grad = (grad if grad.is_sparse else grad.to_sparse(1)).detach()
            bucket.buffer = (grad if self.hook is not None else grad * (1.0 / self.divisor)).coalesce()
            return
        with tessera.no_grad():
            if grad is None:
                view.zero_()
            elif grad.layout is not tessera.strided:
                view.copy_(grad.to_dense())
            elif grad.data_ptr() != view.data_ptr():
                if self.hook is None and grad.dtype == view.dtype:
                    tessera.mul(grad, 1.0 / self.divisor, out=view)
                    return
                view.copy_(grad)
            if self.hook is None and grad is not None:
                view.mul_(1.0 / self.divisor)

    def _launch_ready(self):
        """Buckets go in their order."""
        for bucket in self.buckets:
            if bucket.handle is None:
                if bucket.waiting:
                    return
                self._launch(bucket)

    def _launch(self, bucket):
        if self.skip_unused and self._unused.issuperset(bucket.numbers):
            bucket.handle = Future()
            bucket.handle.set_result(bucket.buffer)
            return
        last = bucket.index == len(self.buckets) - 1
        opts = AllreduceOptions()
        opts.reduceOp = ReduceOp.SUM
        opts.asyncOp = not last  # nothing is left to be computed meanwhile
        if bucket.grads is not None:
            grads = [bucket.grads[place] for place in range(len(bucket.params))]
            kind = (bucket.buffer.dtype, bucket.buffer.device)
            if all(grad is not None and is_plain(grad) and (grad.dtype, grad.device) == kind for grad in grads):
                opts.reduceOp = _make_nccl_premul_sum(1.0 / self.divisor)
                bucket.handle = self.group.allreduce_coalesced(grads, opts)
                return
            for place, grad in enumerate(grads):
                self._fill(bucket, place, grad)
            bucket.grads = None
        if self.hook is not None:
            # it may put its result in the buffer's place
            shown = GradBucket(bucket.index, bucket.buffer, bucket.params, last)
            bucket.handle = self.hook(shown)
            if not isinstance(bucket.handle, Future):
                raise RuntimeError(
                    f"a communication hook returns a Future of a tensor, but got {type(bucket.handle).__name__}"
                )
            return
        bucket.handle = self.group.allreduce([bucket.buffer], opts)

    def _end_locally(self):
        """At the end of a backward pass whose gradients stay local, but change their dtype."""
        self._restores = False
        local = [(param, param.grad) for param in self.params if param.grad is not None]
        self.restore()
        for param, grad in local:
            self._add(param, grad)

    @staticmethod
    def _add(param, value):
        with tessera.no_grad():
            value = value.to(param.dtype)
            param.grad = value if param.grad is None else param.grad + value

    def _end(self):
        """At the end of the backward pass."""
        if self.static and self._iterations == 0:
            self._expected_fires = dict(self._fired)
            for number in range(len(self.params)):
                self._mark(number, number in self._fired)
            self._unused = set(range(len(self.params))) - set(self._fired)
        if any(bucket.handle is None for bucket in self.buckets):
            return
        somewhere = self._used_somewhere()
        if self.restore is not None:
            self.restore()
        for bucket in self.buckets:
            self._take(bucket, somewhere)
        self._iterations += 1
        self._armed = self._unfinished = False

    def _used_somewhere(self):
        """The parameters that some rank has a gradient of."""
        if not self.find_unused and not (self.static and self._unused):
            return None
        used = tessera.ones(len(self.params), dtype=tessera.int32)
        for number in self._unused:
            used[number] = 0
        if self.find_unused or self._iterations == 0:
            collectives.all_reduce(used, group=self.group)
        return used.tolist()

    def _take_sparse(self, bucket, somewhere):
        result = bucket.handle.wait()
        if isinstance(bucket.handle, Future):
            bucket.buffer = result[0] if isinstance(result, (list, tuple)) else result
        if somewhere is not None and not somewhere[bucket.numbers[0]]:
            return
        if self.restore is not None:
            self._add(bucket.params[0], bucket.buffer)
        else:
            bucket.params[0].grad = bucket.buffer

    def _take(self, bucket, somewhere):
        """Brings the result to the gradients."""
        if bucket.sparse:
            return self._take_sparse(bucket, somewhere)
        if isinstance(bucket.handle, Future):
            result = bucket.handle.wait()
            result = result[0] if isinstance(result, (list, tuple)) else result
            views = bucket.views
            if result.data_ptr() != bucket.buffer.data_ptr() or result.dtype != bucket.buffer.dtype:
                if self.as_view:
                    with tessera.no_grad():
                        bucket.buffer.copy_(result)
                else:
                    views = _views(result.to(bucket.buffer.dtype), bucket.params)
        else:
            bucket.handle.wait()
            views = bucket.views
        if bucket.grads is not None:
            for place, param in enumerate(bucket.params):
                if param.grad is not bucket.grads[place]:
                    param.grad = bucket.grads[place]
            bucket.grads = None
            return None
        grads, values = [], []
        for number, param, view in zip(bucket.numbers, bucket.params, views):
            if somewhere is not None and not somewhere[number]:
                continue
            if self.restore is not None:
                self._add(param, view)
            elif self.as_view and view.dtype == param.dtype:
                if param.grad is not view:
                    param.grad = view
            elif param.grad is None or param.grad.layout is not tessera.strided:
                param.grad = view.to(param.dtype, copy=True)
            else:
                grads.append(param.grad)
                values.append(view)
        if grads:
            with tessera.no_grad():
                tessera._foreach_copy_(grads, values)
        return None

    def shadow(self):
        """What a rank that has no more inputs does for one backward pass of the others."""
        for bucket in self.buckets:
            if bucket.sparse:
                bucket.buffer = _no_rows(bucket.params[0])
            else:
                bucket.buffer.zero_()
            bucket.handle = bucket.grads = None
            self._launch(bucket)
            bucket.handle.wait()
        if self.find_unused:
            collectives.all_reduce(tessera.zeros(len(self.params), dtype=tessera.int32), group=self.group)
        if self._iterations == 0:
            self._order = [number for bucket in self.buckets for number in bucket.numbers]
        self._iterations += 1

    # ---- what programs ask

    def get_backward_stats(self):
        """For each parameter whether its gradient came in the last backward pass."""
        return [int(number in self._arrived) for number in range(len(self.params))]

    def set_logger(self, arg0):
        """Sets the Logger that is told of errors."""
        self._logger = arg0

    def _rebuild_buckets(self):
        before = self._rebuilt
        self.prepare_for_forward()
        return self._rebuilt and not before

    def _set_static_graph(self):
        self.static = True


class Logger:
    """Facts about a DistributedDataParallel, for who debugs one.

    Args:
        reducer: of the module.
    """

    def __init__(self, reducer):
        self._reducer, self._facts, self._error = reducer, {}, ""
        reducer.set_logger(self)

    def set_construction_data_and_log(
        self, module_name, device_ids, output_device, broadcast_buffers, has_sync_bn, static_graph
    ):
        """Notes how the module was made."""
        self._facts.update(
            module_name=module_name,
            device_ids=list(device_ids),
            output_device=output_device,
            broadcast_buffers=broadcast_buffers,
            has_sync_bn=has_sync_bn,
            static_graph=static_graph,
        )

    def set_runtime_stats_and_log(self):
        """Notes how far training has come."""
        self._facts["num_iterations"] = self._reducer._iterations

    def set_error_and_log(self, arg0):
        """Notes an error."""
        self._error = str(arg0)

    def _get_ddp_logging_data(self):
        params = self._reducer.params
        sizes = [bucket.buffer.numel() * bucket.buffer.element_size() for bucket in self._reducer.buckets]
        return {
            **self._facts,
            "world_size": self._reducer.group.size(),
            "rank": self._reducer.group.rank(),
            "total_parameter_size_bytes": sum(p.numel() * p.element_size() for p in params),
            "num_parameter_tensors": len(params),
            "bucket_sizes": ", ".join(map(str, sizes)),
            "bucket_cap_bytes": self._reducer.limits[-1],
            "find_unused_parameters": self._reducer.find_unused,
            "gradient_as_bucket_view": self._reducer.as_view,
            "backend_name": self._reducer.group.name(),
            "iteration": self._reducer._iterations,
            "error": self._error,
        }
