"""Replicas of one module in several processes, whose gradients are averaged."""

import contextlib
import copy
import inspect
import logging
from dataclasses import dataclass

import tessera
from tessera.distributed import _groups as groups
from tessera.distributed import _kinds as kinds
from tessera.distributed._reducer import Logger, Reducer
from tessera.distributed.algorithms.join import Join, Joinable, JoinHook
from tessera.distributed.utils import (
    _sync_module_states,
    _sync_params_and_buffers,
    _verify_param_shape_across_processes,
)
from tessera.futures import Future
from tessera.nn.modules.module import Module
from tessera.nn.modules.sparse import Embedding, EmbeddingBag
from tessera.nn.parallel.scatter_gather import gather, scatter_kwargs
from tessera.utils import _pytree

__all__ = ["DistributedDataParallel"]

logger = logging.getLogger(__name__)

_BROADCAST_BYTES = 250 * 1024 * 1024


@dataclass
class _MixedPrecision:
    """Dtypes of DistributedDataParallel's own mixed precision: of parameters in forward and backward, of the gradients
    on their way, and of buffers; None: as they are."""

    param_dtype: tessera.dtype | None = None
    reduce_dtype: tessera.dtype | None = None
    buffer_dtype: tessera.dtype | None = None


class _Follow(JoinHook):
    """What a replica without inputs does while others have some."""

    def __init__(self, ddp, divide_by_initial_world_size):
        self.ddp = ddp
        ddp._divide_by_initial_world_size = divide_by_initial_world_size

    def main_hook(self):
        """Takes part in the collectives of an iteration, with zeros."""
        ddp = self.ddp
        ddp._joined = True
        synced = ddp._tell_whether_synced(False)
        if synced:
            ddp.reducer.prepare_for_forward()
        if ddp._syncs_buffers():
            ddp._sync_buffers()
        if synced:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner):
        """Everyone gets the parameters and buffers of one of those who had inputs the longest."""
        ddp = self.ddp
        ddp._sync_final(is_last_joiner)


class DistributedDataParallel(Module, Joinable):
    """A module of which every process of a group has a replica. Each sees its own inputs; backward averages the
    gradients over all, so that replicas that begin alike stay alike.

    Parameters and buffers of the group's rank 0 are copied to all when it is made. Gradients are reduced in buckets
    while others are still computed.

    Args:
        module: the replica of this process.
        device_ids: for a module on one device a list of it; None otherwise, and for modules on the CPU.
        output_device: where outputs go, for a module on one device.
        dim: along which inputs are spread over devices; only 0 has a meaning for one device.
        broadcast_buffers: whether rank 0's buffers are copied to all at every forward.
        init_sync: whether parameters and buffers are copied, and compared, when it is made.
        process_group: of the replicas; None: the default group.
        bucket_cap_mb: size of a bucket in MiB; None: 25.
        find_unused_parameters: whether outputs may depend on a part of the parameters only.
        check_reduction: without effect (deprecated).
        gradient_as_bucket_view: whether gradients are views of the buckets, which saves memory.
        static_graph: whether all iterations use the same parameters in the same way.
        delay_all_reduce_named_params: pairs of a name and a parameter that are reduced at the end, with
        param_to_hook_all_reduce: the parameter after whose gradient that happens.
        mixed_precision: dtypes of parameters, reductions and buffers.
        device_mesh: of one dimension, in place of `process_group`.
        skip_all_reduce_unused_params: with `find_unused_parameters`, leaves out buckets whose parameters are all
            unused. These must be the same on all ranks in every iteration.
        bucket_cap_mb_list: MiB of the first, second ... bucket, the last one for all that follow; goes before
            `bucket_cap_mb`.

    Raises: ValueError without a group, for sizes of buckets of 0 or less, and for `device_ids` of a module on the
        CPU; RuntimeError for a module without parameters that require gradients, for a group and a mesh at once, and
        for replicas that are not alike.
    """

    def __init__(
        self,
        module,
        device_ids=None,
        output_device=None,
        dim=0,
        broadcast_buffers=True,
        init_sync=True,
        process_group=None,
        bucket_cap_mb=None,
        find_unused_parameters=False,
        check_reduction=False,
        gradient_as_bucket_view=False,
        static_graph=False,
        delay_all_reduce_named_params=None,
        param_to_hook_all_reduce=None,
        mixed_precision=None,
        device_mesh=None,
        skip_all_reduce_unused_params=False,
        bucket_cap_mb_list=None,
    ):
        super().__init__()
        Joinable.__init__(self)
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            raise ValueError("delay_all_reduce_named_params and param_to_hook_all_reduce go together")
        self.process_group = self._choose_group(process_group, device_mesh)
        self.device_mesh = device_mesh
        ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
        delayed = dict(delay_all_reduce_named_params or ())
        self.parameters_to_ignore = set(ignored) | set(delayed)
        named = self._own_parameters(module)
        if not named and not delayed:
            raise RuntimeError("DistributedDataParallel needs a module with parameters that require gradients")
        self.device, self.device_ids, self.output_device = self._choose_devices(named, device_ids, output_device)
        self.device_type, self.is_multi_device_module = self.device.type, False
        self.dim, self.broadcast_buffers, self.module = dim, broadcast_buffers, module
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view, self.mixed_precision = gradient_as_bucket_view, mixed_precision
        self.bucket_cap_mb = 25 if bucket_cap_mb is None else bucket_cap_mb
        if self.bucket_cap_mb <= 0:
            raise ValueError(f"bucket_cap_mb is a size above 0, but got {bucket_cap_mb}")
        self.bucket_bytes_cap = int(self.bucket_cap_mb * 1024 * 1024)
        self.bucket_cap_mb_list = None if bucket_cap_mb_list is None else list(bucket_cap_mb_list)
        if self.bucket_cap_mb_list is not None and not all(size > 0 for size in self.bucket_cap_mb_list or [0]):
            raise ValueError(f"bucket_cap_mb_list holds sizes above 0, but got {bucket_cap_mb_list}")
        self.skip_all_reduce_unused_params = skip_all_reduce_unused_params
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._delayed, self._delay_after = list(delayed.values()), param_to_hook_all_reduce
        self._divide_by_initial_world_size, self._comm_hooks = True, []
        self._was_synced, self._joined = True, False
        if check_reduction:
            logger.warning("check_reduction of DistributedDataParallel is deprecated and has no effect")
        if init_sync:
            _verify_param_shape_across_processes(self.process_group, [param for _, param in named])
            _sync_module_states(module, self.process_group, _BROADCAST_BYTES, 0, self.parameters_to_ignore)
        self._make_reducer(named)

    # ---- making it

    @staticmethod
    def _choose_group(process_group, device_mesh):
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("DistributedDataParallel takes a process_group or a device_mesh, not both")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"DistributedDataParallel takes a mesh of one dimension, but got {device_mesh.ndim}")
            return device_mesh.get_group()
        return groups._get_default_group() if process_group is None else process_group

    def _own_parameters(self, module):
        return [
            (name, param)
            for name, param in module.named_parameters()
            if param.requires_grad and name not in self.parameters_to_ignore
        ]

    @staticmethod
    def _choose_devices(named, device_ids, output_device):
        devices = {param.device for _, param in named} or {tessera.device("cpu")}
        device = next(iter(devices))
        if not device_ids:
            if output_device is not None:
                raise ValueError("output_device goes with device_ids, for a module on one device")
            return device, None, None
        if len(device_ids) != 1:
            raise ValueError(f"device_ids holds the one device of the module, or is None; got {device_ids}")
        if len(devices) > 1 or device.type == "cpu":
            raise ValueError(
                f"device_ids is for modules on one device; the parameters are on {sorted(map(str, devices))}"
            )
        index = lambda one: one if isinstance(one, int) else tessera.device(one).index
        chosen = index(device_ids[0])
        return device, [chosen], index(output_device) if output_device is not None else chosen

    def _make_reducer(self, named):
        names, params = [name for name, _ in named], [param for _, param in named]
        tables = [one for one in self.module.modules() if isinstance(one, (Embedding, EmbeddingBag)) and one.sparse]
        sparse = {id(one.weight) for one in tables}
        self.reducer = Reducer(
            params,
            self.process_group,
            names,
            self.bucket_bytes_cap,
            find_unused=self.find_unused_parameters,
            static_graph=self.static_graph,
            as_view=self.gradient_as_bucket_view,
            reduced_dtype=self.mixed_precision.reduce_dtype if self.mixed_precision is not None else None,
            bucket_limits=[int(size * 1024 * 1024) for size in self.bucket_cap_mb_list or ()],
            skip_unused=self.skip_all_reduce_unused_params,
            sparse=[number for number, param in enumerate(params) if id(param) in sparse],
        )
        self.logger = Logger(self.reducer)
        sync_bn = any("SyncBatchNorm" in type(one).__name__ for one in self.module.modules())
        self.logger.set_construction_data_and_log(
            type(self.module).__name__,
            self.device_ids or [],
            -1 if self.output_device is None else self.output_device,
            self.broadcast_buffers,
            sync_bn,
            self.static_graph,
        )
        if kinds.get_debug_level() != kinds.DebugLevel.OFF:
            logger.info("DistributedDataParallel of %s: %s", type(self.module).__name__, self._get_ddp_logging_data())
        if self.mixed_precision is not None:
            self._lower_precision()
        if self._delay_after is not None:
            self._delay_after.register_post_accumulate_grad_hook(self._reduce_delayed)

    def _reduce_delayed(self, param):
        """After the gradient of the parameter that was named for it."""
        from tessera.distributed import _collectives as collectives

        for one in self._delayed:
            if one.grad is not None and self._was_synced:
                with tessera.no_grad():
                    one.grad.div_(self.process_group.size())
                collectives.all_reduce(one.grad, group=self.process_group)

    def __getstate__(self):
        state = copy.copy(self.__dict__)
        for name in ("reducer", "logger", "process_group"):
            state.pop(name, None)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self.process_group = groups._get_default_group()
        self._make_reducer(self._own_parameters(self.module))

    # ---- an iteration

    def forward(self, *inputs, **kwargs):
        """The module's outputs for this process's inputs."""
        inputs, kwargs = self._before(inputs, kwargs)
        outputs = self.module(*inputs, **kwargs)
        return self._after(outputs)

    def _before(self, inputs, kwargs):
        training = tessera.is_grad_enabled() and self.require_backward_grad_sync
        if training:
            self.reducer.check_finished()
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
            if not self._divide_by_initial_world_size:
                self.reducer.divisor = int(work.result()[0].item())
        if self._join_config.enable:
            self._tell_whether_synced(training)
        if training:
            self.reducer.prepare_for_forward()
        if self._syncs_buffers():
            self._sync_buffers()
        if self.device_ids:
            moved = scatter_kwargs(inputs, kwargs, self.device_ids, dim=self.dim)
            inputs, kwargs = moved[0][0], moved[1][0]
        if self.mixed_precision is not None and self.mixed_precision.param_dtype is not None:
            inputs, kwargs = self._cast_inputs((inputs, kwargs))
            self._use_low()
        return inputs, kwargs

    def _after(self, outputs):
        if not tessera.is_grad_enabled():
            if self.mixed_precision is not None:
                self._use_full()
            return outputs
        self._was_synced = self.require_backward_grad_sync
        if self.require_backward_grad_sync:
            tensors = [leaf for leaf in _pytree.tree_leaves(outputs) if isinstance(leaf, tessera.Tensor)]
            self.reducer.prepare_for_backward(tensors)
        else:
            self.reducer.disarm()
        return outputs

    @contextlib.contextmanager
    def no_sync(self):
        """A context whose forwards lead to gradients that stay local, and add up until the next one outside of it."""
        kept = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = kept

    def scatter(self, inputs, kwargs, device_ids):
        """Inputs, moved to devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def to_kwargs(self, inputs, kwargs, device_id):
        """The arguments of one device, with their tensors on it, in the form of `scatter`.

        Args:
            inputs, kwargs: what `forward` is given.
            device_id: number of a device of the module's type; None: the current one.
        """
        kind = tessera.device(self.device).type
        device = tessera.device(kind) if device_id is None else tessera.device(kind, device_id)
        move = lambda tree: _pytree.tree_map_only(tessera.Tensor, lambda tensor: tensor.to(device), tree)
        return (move(inputs),), (move(kwargs),)

    def gather(self, outputs, output_device):
        """Outputs of devices, at one of them."""
        return gather(outputs, output_device, dim=self.dim)

    def train(self, mode=True):
        super().train(mode)
        return self

    # ---- buffers

    def _buffers_to_sync(self):
        return [b for name, b in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def _syncs_buffers(self):
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self._buffers_to_sync())

    def will_sync_module_buffers(self):
        """Whether the next forward copies buffers."""
        return self._syncs_buffers()

    def _sync_buffers(self):
        source = self._common_rank() if self._join_config.enable else 0
        _sync_params_and_buffers(self.process_group, self._buffers_to_sync(), _BROADCAST_BYTES, source)

    def _common_rank(self, is_candidate=True):
        """The highest rank that has inputs, in a Join."""
        from tessera.distributed import _collectives as collectives

        own = self.process_group.rank() if is_candidate and not self._joined else -1
        rank = tessera.tensor([own], device=self.device)
        collectives.all_reduce(rank, kinds.ReduceOp.MAX, self.process_group)
        return int(rank.item())

    # ---- Join

    def _tell_whether_synced(self, synced):
        """Those who only follow have to know whether this iteration's gradients are reduced."""
        from tessera.distributed import _collectives as collectives

        flag = tessera.tensor([int(synced)], device=self.device)
        collectives.all_reduce(flag, kinds.ReduceOp.MAX, self.process_group)
        return bool(flag.item())

    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """A context in which processes may have different numbers of inputs (see distributed.algorithms.join.Join).

        Args:
            divide_by_initial_world_size: whether gradients are divided by the number of all replicas, or by the number
                of those that still have inputs.
            enable: whether it does anything.
            throw_on_early_termination: whether all raise RuntimeError as soon as one has no more inputs.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs):
        """What a Join does for a replica without inputs; takes `divide_by_initial_world_size` (default True)."""
        return _Follow(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self):
        """The device on which Join counts."""
        return self.device

    @property
    def join_process_group(self):
        """The group of the replicas."""
        return self.process_group

    def _sync_final(self, is_last_joiner):
        self._joined = False
        source = self._common_rank(is_last_joiner)
        _sync_module_states(self.module, self.process_group, _BROADCAST_BYTES, source, self.parameters_to_ignore)

    # ---- communication hooks

    def register_comm_hook(self, state, hook):
        """Puts a function in the place of the reduction of a bucket.

        Args:
            state: given to it at each call.
            hook: `hook(state, bucket)`, with a GradBucket; returns a Future of the tensor that takes the buffer's
                place. What it gives is not divided by the number of replicas.

        Raises: TypeError for what cannot be called, ValueError for other parameters or another annotated result;
            RuntimeError for a second one, and after training has begun.
        """
        if not callable(hook):
            raise TypeError(f"Communication hook must be callable, but got {type(hook).__name__}")
        self._check_hook(hook)
        self._set_hook(lambda bucket: hook(state, bucket))
        self._comm_hooks.append((hook, state))

    @staticmethod
    def _check_hook(hook):
        try:
            signature = inspect.signature(hook)
        except ValueError:
            return
        bucket = signature.parameters.get("bucket")
        if bucket is None:
            raise ValueError("a communication hook has the parameters (state, bucket); none is named 'bucket'")
        result = signature.return_annotation
        good = (inspect.Signature.empty, Future[tessera.Tensor], Future[list], Future)
        if result not in good and not str(result).startswith(("Future", "torch.futures", "tessera.futures")):
            raise ValueError(f"Communication hook: return annotation should be torch.futures.Future, but is {result}")

    def _set_hook(self, call):
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once: there is a hook"
            )
        if self.reducer._iterations:
            raise RuntimeError("register_comm_hook comes before training, and backward has run already")
        self.reducer.hook = call

    def _register_builtin_comm_hook(self, comm_hook_type):
        from tessera.distributed.algorithms.ddp_comm_hooks import default_hooks

        compressed = comm_hook_type == kinds.BuiltinCommHookType.FP16_COMPRESS
        hook = default_hooks.fp16_compress_hook if compressed else default_hooks.allreduce_hook
        self._set_hook(lambda bucket: hook(self.process_group, bucket))

    def _register_fused_optim(self, optim, *args, optim_params=None, **kwargs):
        """Steps an optimizer for each bucket as soon as it has been reduced."""
        from tessera.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks import fused_optimizer_hook

        params = list(optim_params) if optim_params is not None else [p for _, p in self._own_parameters(self.module)]
        state = {"class": optim, "args": args, "kwargs": kwargs, "params": {id(p) for p in params}, "optimizers": {}}
        self._set_hook(lambda bucket: fused_optimizer_hook(self.process_group, state, bucket))

    # ---- mixed precision

    def _cast_inputs(self, values):
        dtype = self.mixed_precision.param_dtype
        return _pytree.tree_map_only(tessera.Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, values)

    def _lower_precision(self):
        """Low precision copies of the parameters take their place from forward to the end of backward."""
        if self.mixed_precision.buffer_dtype is not None:
            for buffer in self.module.buffers():
                if buffer.is_floating_point():
                    buffer.data = buffer.to(self.mixed_precision.buffer_dtype)
        self._full = []
        self.reducer.restore = self._use_full

    def _use_low(self):
        self._use_full()
        for param in self.reducer.params:
            if param.is_floating_point():
                self._full.append((param, param.data, param.grad))
                param.grad = None
                param.data = param.data.to(self.mixed_precision.param_dtype)

    def _use_full(self):
        """Takes the copies away; gradients are then those from before this iteration, in full precision."""
        while self._full:
            param, data, grad = self._full.pop()
            param.grad = None
            param.data = data
            param.grad = grad

    # ---- what programs ask

    def _set_static_graph(self):
        if self.static_graph:
            return
        self.static_graph = True
        self.reducer._set_static_graph()

    def _get_ddp_logging_data(self):
        return self.logger._get_ddp_logging_data()

    @classmethod
    def _set_params_and_buffers_to_ignore_for_model(cls, module, params_and_buffers_to_ignore):
        """Names of parameters and buffers that replicas made of this module do not keep alike."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore
