"""The wrapper whose parameters are flat."""

import contextlib
import os
import warnings

import tessera
from tessera.distributed import _groups as groups
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.device_mesh import DeviceMesh
from tessera.distributed.fsdp import _optim_states as states
from tessera.distributed.fsdp import _policies as policies
from tessera.distributed.fsdp._flat import FLAT, FlatParameters
from tessera.distributed.fsdp._group import Group, Line
from tessera.distributed.fsdp._policies import *  # noqa: F403
from tessera.distributed.fsdp._policies import BackwardPrefetch, OptimStateKeyType, ShardingStrategy, StateDictType
from tessera.distributed.fsdp._policies import __all__ as _values
from tessera.distributed.fsdp._unit import Unit, cast, mapped
from tessera.distributed.fsdp.wrap import CustomPolicy, wrap_below
from tessera.distributed.tensor import DTensor, Replicate, Shard
from tessera.distributed.tensor._api import _wrap
from tessera.distributed.tensor._redistribute import redistribute_local
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import default_strides
from tessera.nn import Module

__all__ = [*_values, "FullyShardedDataParallel"]

FSDP_WRAPPED_MODULE, FLAT_PARAM = "_fsdp_wrapped_module", FLAT
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (policies.FullStateDictConfig, policies.FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (policies.LocalStateDictConfig, policies.LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (policies.ShardedStateDictConfig, policies.ShardedOptimStateDictConfig),
}


def _settings(kind, config=None, optim_config=None):
    wanted = _CONFIGS[kind]
    config = wanted[0]() if config is None else config
    optim_config = wanted[1]() if optim_config is None else optim_config
    for given, cls in zip((config, optim_config), wanted):
        if type(given) is not cls:
            raise RuntimeError(f"{kind} goes with a {cls.__name__}, but got a {type(given).__name__}")
    return policies.StateDictSettings(kind, config, optim_config)


class _Unit(Unit):
    """A wrapper's parameters, and its precision."""

    def __init__(self, wrapper, group, reshard, mixed):
        super().__init__([wrapper], group, reshard)
        self.mixed = mixed
        self.buffer_dtypes = None

    def enter(self, module, args, kwargs):
        if self.tree is None:
            self._plant()
        if self.buffer_dtypes is None:
            self._cast_buffers()
        mixed = self.mixed
        if mixed is not None:
            casts = mixed.cast_root_forward_inputs if self.is_root() else mixed.cast_forward_inputs
            self.input_dtype = mixed.param_dtype if casts else None
        return super().enter(module, args, kwargs)

    def _cast_buffers(self):
        """Once: floating buffers get the dtype for them."""
        self.buffer_dtypes = {}
        wanted = self.mixed.buffer_dtype if self.mixed is not None else None
        if wanted is None:
            return
        for module in self.own_modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and buffer.is_floating_point() and buffer not in self.ignored_buffers:
                    self.buffer_dtypes[module, name] = buffer.dtype
                    module._buffers[name] = buffer.to(wanted)

    ignored_buffers = frozenset()

    def own_modules(self):
        """The modules that are in no unit below this one."""
        found, waiting = [], [self.modules[0].module]
        while waiting:
            one = waiting.pop()
            found.append(one)
            waiting += [child for child in one.children() if not isinstance(child, FullyShardedDataParallel)]
        return found

    def after_forward(self):
        if tessera.is_grad_enabled():
            super().after_forward()
        else:
            self.group.reshard()
        for piece in self.group.pieces:
            piece.show("part")


class FullyShardedDataParallel(Module):
    """A module whose parameters are cut over processes. They lie one after the other in a flat parameter, of which each
    process has a part; forward and backward gather it, and gradients are reduced to the average of all processes, of
    which each gets its part. Make optimizers after wrapping.

    Args:
        module: Module.
        process_group: over which parameters are cut; None: all processes; for hybrid strategies a pair (inside of a
            machine, between machines).
        sharding_strategy: ShardingStrategy; None: FULL_SHARD.
        cpu_offload: CPUOffload: whether parts lie in host memory.
        auto_wrap_policy: which modules below become units of their own (see `fsdp.wrap`).
        backward_prefetch: BackwardPrefetch, when backward sends for the next parameters; None: when it needs them.
        mixed_precision: MixedPrecision.
        ignored_modules: modules whose parameters stay as they are.
        param_init_fn: `f(module)` initializes a module's own parameters that are on the meta device; None:
            `reset_parameters()`.
        device_id: a device, or the number of one, where wholes are; None: that of the parameters, or the present one.
        sync_module_states: whether all take the first process's parameters and buffers.
        forward_prefetch: whether forward sends for the parameters of the unit that came next in the forward before.
        limit_all_gathers: whether forward sends for one unit in advance, or for two.
        use_orig_params: whether the parameters stay registered, as parts of one dimension.
        ignored_states: modules or parameters that stay as they are.
        device_mesh: DeviceMesh instead of `process_group`; of two dimensions (between, inside) for hybrid strategies.

    Raises: ValueError for arguments that exclude each other, for hybrid strategies without groups, and for parameters
        that cannot lie in one tensor.
    """

    def __init__(
        self,
        module,
        process_group=None,
        sharding_strategy=None,
        cpu_offload=None,
        auto_wrap_policy=None,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
        mixed_precision=None,
        ignored_modules=None,
        param_init_fn=None,
        device_id=None,
        sync_module_states=False,
        forward_prefetch=False,
        limit_all_gathers=True,
        use_orig_params=False,
        ignored_states=None,
        device_mesh=None,
    ):
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"FullyShardedDataParallel wraps a Module, but got {type(module).__name__}")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        ignored = _ignored(ignored_modules, ignored_states)
        lines = _lines(process_group, device_mesh, strategy, auto_wrap_policy is not None)
        if auto_wrap_policy is not None:
            options = dict(
                process_group=None if device_mesh is not None else process_group or (lines if lines[1] else None),
                sharding_strategy=strategy,
                cpu_offload=cpu_offload,
                backward_prefetch=backward_prefetch,
                mixed_precision=mixed_precision,
                param_init_fn=param_init_fn,
                device_id=device_id,
                sync_module_states=sync_module_states,
                forward_prefetch=forward_prefetch,
                limit_all_gathers=limit_all_gathers,
                use_orig_params=use_orig_params,
                ignored_states=ignored_states,
                ignored_modules=ignored_modules,
                device_mesh=device_mesh,
            )
            _wrap_automatically(module, auto_wrap_policy, options, ignored)
        self._strategy, self._mesh, self._lines = strategy, device_mesh, lines
        self._state_settings = _settings(StateDictType.FULL_STATE_DICT)
        self._summoned, self._leave_load = None, None
        self._ignored = ignored
        self.add_module(FSDP_WRAPPED_MODULE, module)
        device = _device(module, device_id, ignored)
        self._materialize(device, param_init_fn)
        shard, copies = (None, lines[0]) if strategy is ShardingStrategy.NO_SHARD else lines
        if sync_module_states:
            self._sync(lines)
        offload = cpu_offload is not None and cpu_offload.offload_params
        self._build(shard, copies, device, mixed_precision, use_orig_params, offload)
        unit = self._fsdp_unit
        unit.prefetch_forward = (1 if limit_all_gathers else 2) if forward_prefetch else 0
        unit.prefetch_late = backward_prefetch is BackwardPrefetch.BACKWARD_POST
        if backward_prefetch is None:
            unit.backward_prefetch = []
        self._register_load_state_dict_pre_hook(self._before_load)
        self.register_load_state_dict_post_hook(type(self)._after_load)

    def _build(self, shard, copies, device, mixed, original, offload):
        mixed = mixed or policies.MixedPrecision()
        owned = {}
        for module in self._managed():
            for name, parameter in module._parameters.items():
                if parameter is not None and parameter not in self._ignored and not hasattr(parameter, "_fsdp_flat"):
                    owned.setdefault(parameter, []).append((module, name))
        line = Line(shard)
        pieces = []
        if owned:
            self._move(owned, device, offload)
            whole_dtype = mixed.param_dtype
            keep = mixed.keep_low_precision_grads
            place = tessera.device("cpu") if offload else None
            pieces = [FlatParameters(self.module, owned, line, device, original, whole_dtype, keep, place)]
            pieces[0].flat._fsdp_flat = True
            if original:
                for parameter in owned:
                    parameter._fsdp_flat = True
        group = Group(pieces, line, copies, device, mixed.param_dtype, mixed.reduce_dtype)
        full = (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        self._fsdp_unit = _Unit(self, group, None if self._strategy in full else False, mixed)

    def _managed(self):
        """The modules whose parameters and buffers are this unit's."""
        found, waiting = [], [self._modules[FSDP_WRAPPED_MODULE]]
        while waiting:
            one = waiting.pop(0)
            if one in self._ignored or isinstance(one, FullyShardedDataParallel) or one in found:
                continue
            found.append(one)
            waiting[:0] = list(one.children())
        return found

    def _materialize(self, device, init):
        for module in self._managed():
            own = [*module._parameters.values(), *module._buffers.values()]
            if not any(one is not None and one.device.type == "meta" for one in own):
                continue
            if init is not None:
                init(module)
                continue
            module.to_empty(device=device, recurse=False)
            if not callable(getattr(module, "reset_parameters", None)):
                raise AttributeError(f"{type(module).__name__} is on the meta device and has no reset_parameters()")
            with tessera.no_grad():
                module.reset_parameters()

    def _move(self, owned, device, offload):
        for parameter in owned:
            if parameter.device != device and not offload:
                parameter.data = parameter.data.to(device)
        for module in self._managed():
            for name, buffer in module._buffers.items():
                if buffer is not None and buffer.device != device:
                    module._buffers[name] = buffer.to(device)

    def _sync(self, lines):
        for module in self._managed():
            for one in (*module._parameters.values(), *module._buffers.values()):
                if one is not None and one not in self._ignored:
                    for group in lines:
                        if group is not None:
                            c10d.broadcast(one.detach(), group=group, group_src=0)

    # ---- as a module

    @property
    def module(self):
        """The wrapped module."""
        return self._modules[FSDP_WRAPPED_MODULE]

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == FSDP_WRAPPED_MODULE:
                raise
            return getattr(self._modules[FSDP_WRAPPED_MODULE], name)

    def __getitem__(self, key):
        return self.module[key]

    @property
    def _is_root(self):
        return None if self._fsdp_unit.tree is None else self._fsdp_unit.is_root()

    @property
    def _has_params(self):
        return bool(self._fsdp_unit.group.pieces)

    def forward(self, *args, **kwargs):
        """The module's outputs for this process's inputs."""
        unit = self._fsdp_unit
        args, kwargs = unit.enter(self, args, kwargs)
        return unit.leave(self, self.module(*args, **kwargs))

    def _apply(self, *args, **kwargs):
        for unit in self._fsdp_unit.units_below():
            unit.group.reshard()
        made = super()._apply(*args, **kwargs)
        for unit in self._fsdp_unit.units_below():
            for piece in unit.group.pieces:
                piece.refresh()
        return made

    def apply(self, fn):
        """Calls `fn` with every submodule, while parameters are whole. Returns: self."""
        with _summon([self], True, True):
            super().apply(fn)
        return self

    def check_is_root(self):
        """Whether forward begins here."""
        if self._fsdp_unit.tree is None:
            self._fsdp_unit._plant()
        return self._fsdp_unit.is_root()

    def _shown(self, named):
        for name, value in named:
            yield (states.clean(name) if self._summoned is not None else name), value

    def named_parameters(self, *args, **kwargs):
        """As of Module; while parameters are summoned, names are those of the wrapped module."""
        return self._shown(super().named_parameters(*args, **kwargs))

    def named_buffers(self, *args, **kwargs):
        """As of Module; while parameters are summoned, names are those of the wrapped module."""
        return self._shown(super().named_buffers(*args, **kwargs))

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The wrappers in a module, itself included; `root_only`: those that are in no other one."""
        found = [one for one in module.modules() if isinstance(one, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {below for one in found for below in one.modules() if below is not one}
        return [one for one in found if one not in inner]

    def _root_only(self, what, kind=RuntimeError):
        if self._fsdp_unit.tree is None:
            self._fsdp_unit._plant()
        if not self._fsdp_unit.is_root():
            raise kind(f"{what} can only be called on the outermost FullyShardedDataParallel")

    # ---- training

    @contextlib.contextmanager
    def no_sync(self):
        """A context in which gradients of whole parameters add up, until a backward outside of it reduces them. Raises:
        RuntimeError if this is not the outermost wrapper.
        """
        self._root_only("no_sync()")
        units = self._fsdp_unit.units_below()
        before = [unit.group.sync for unit in units]
        for unit in units:
            unit.group.sync = False
        try:
            yield
        finally:
            for unit, sync in zip(units, before):
                unit.group.sync = sync

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """Scales gradients down so that their norm, over all parameters of all processes, is at most `max_norm`.

        Args:
            max_norm: number.
            norm_type: of the p-norm; inf: the largest.

        Returns: the norm before, a tensor of the widest dtype of the gradients. Raises: RuntimeError if this is not the
            outermost wrapper.
        """
        self._root_only("clip_grad_norm_()")
        p, device = float(norm_type), self._fsdp_unit.group.device
        cut, seen, dtypes = {}, [], []
        for unit in self._fsdp_unit.units_below():
            for piece in unit.group.pieces:
                cut.setdefault(piece.line.group, []).extend(parameter for parameter, _ in piece.parameters())
        known = {parameter for listed in cut.values() for parameter in listed}
        cut.setdefault(None, []).extend(one for one in self.parameters() if one not in known)
        total = tessera.zeros((), device=device)
        for group, listed in cut.items():
            slopes = [one.grad for one in listed if one.grad is not None]
            seen += slopes
            dtypes += [one.dtype for one in (slopes or listed)]
            norms = [tessera.linalg.vector_norm(one, p, dtype=tessera.float32) for one in slopes]
            own = tessera.linalg.vector_norm(tessera.stack(norms), p) if norms else tessera.zeros((), device=device)
            largest = p == float("inf")
            own = own if largest else own**p
            if group is not None:
                c10d.all_reduce(own, op=c10d.ReduceOp.MAX if largest else c10d.ReduceOp.SUM, group=group)
            total = tessera.maximum(total, own) if largest else total + own
        total = total if p == float("inf") else total ** (1.0 / p)
        factor = tessera.clamp(float(max_norm) / (total + 1e-6), max=1.0)
        for one in seen:
            one.mul_(factor.to(one.dtype))
        dtype = tessera.float32
        if dtypes:
            dtype = dtypes[0]
            for other in dtypes[1:]:
                dtype = tessera.promote_types(dtype, other)
        return total.to(dtype)

    def register_comm_hook(self, state, hook):
        """Puts a function in the place of the reduction of gradients; dividing by the number of processes is its work.

        Args:
            state: given to it at each call.
            hook: `hook(state, gradient)` where nothing is cut, else `hook(state, gradient, part)`: it writes into
                `part` what this process keeps. Gradients are of one dimension, padded.

        Raises: AssertionError for a second hook and if this is not the outermost wrapper, ValueError for what cannot be
            called.
        """
        if not callable(hook):
            raise ValueError(f"The communication hook must be callable but got {hook}")
        self._root_only("register_comm_hook()", AssertionError)
        units = self._fsdp_unit.units_below()
        if any(unit.group.comm_hook is not None for unit in units):
            raise AssertionError("A communication hook is already registered")
        for unit in units:
            unit.group.comm_hook = (hook, state)

    # ---- whole parameters

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False
    ):
        """A context in which parameters are whole, in full precision, with their own names and shapes.

        Args:
            module: Module, a wrapper or one that has some.
            recurse: also those of wrappers below.
            writeback: whether changes of what lies in this process's part last.
            rank0_only: whether only the first process has them.
            offload_to_cpu: whether they are in host memory.
            with_grads: whether they have gradients, too; needs `use_orig_params`.

        Raises: NotImplementedError for `writeback` with `rank0_only`, and for `with_grads` without `use_orig_params` or
            with `offload_to_cpu`.
        """
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            roots = FullyShardedDataParallel.fsdp_modules(module, root_only=True)
            wrappers = roots if isinstance(module, FullyShardedDataParallel) else []
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True with rank0_only=True: shapes would differ between processes")
        if with_grads:
            pieces = [piece for one in wrappers for piece in one._fsdp_unit.group.pieces]
            if offload_to_cpu or not all(piece.original for piece in pieces):
                raise NotImplementedError("with_grads=True needs use_orig_params=True and offload_to_cpu=False")
        register = not rank0_only or c10d.get_rank() == 0
        with _summon(wrappers, False, writeback, register, "cpu" if offload_to_cpu else None, with_grads):
            yield

    # ---- state dicts

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Chooses what state dicts of a module's wrappers are made of.

        Args:
            module: Module.
            state_dict_type: StateDictType.
            state_dict_config, optim_state_dict_config: of the classes that go with it; None: their defaults.

        Returns: the StateDictSettings before. Raises: RuntimeError for a config of another type.
        """
        made = _settings(state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for one in FullyShardedDataParallel.fsdp_modules(module):
            one._state_settings = made
        return before

    @staticmethod
    def get_state_dict_type(module):
        """The StateDictSettings of a module's wrappers; None without any. Raises: AssertionError if they differ."""
        found = [one._state_settings for one in FullyShardedDataParallel.fsdp_modules(module)]
        if any(one != found[0] for one in found):
            raise AssertionError(f"the wrappers have different settings for state dicts: {found}")
        return found[0] if found else None

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """set_state_dict_type() for the length of a context."""
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        before = [one._state_settings for one in wrappers]
        made = _settings(state_dict_type, state_dict_config, optim_state_dict_config)
        for one in wrappers:
            one._state_settings = made
        try:
            yield
        finally:
            for one, settings in zip(wrappers, before):
                one._state_settings = settings

    def _line_mesh(self):
        """The mesh along which parameters are cut."""
        if self._mesh is not None:
            return self._mesh if self._mesh.ndim == 1 else self._mesh[self._mesh.mesh_dim_names[-1]]
        return DeviceMesh.from_group(self._lines[0], self._fsdp_unit.group.device.type)

    def _sharder(self):
        mesh = self._mesh
        if mesh is not None and mesh.ndim == 2:
            placements = (Replicate(), Shard(0))
        else:
            mesh, placements = self._line_mesh(), (Shard(0),)

        def cut(whole):
            whole = whole.detach()
            copies = (Replicate(),) * len(placements)
            part = redistribute_local(whole, whole.shape, mesh, copies, placements)
            return _wrap(part, DTensorSpec(mesh, placements, tuple(whole.shape), default_strides(whole.shape)))

        return cut

    def state_dict(self, *args, **kwargs):
        """As of Module, with the wrapped module's names; `set_state_dict_type()` says what the values are."""
        options = {**dict(zip(("destination", "prefix", "keep_vars"), args)), **kwargs}
        destination, prefix = options.get("destination"), options.get("prefix", "")
        settings = self._state_settings
        kind = settings.state_dict_type
        before = None if destination is None else set(destination)
        local = kind is StateDictType.LOCAL_STATE_DICT
        if local and self._mesh is not None:
            raise RuntimeError(f"{kind} does not go with a device_mesh; SHARDED_STATE_DICT does")
        for unit in self._fsdp_unit.units_below():
            unit.group.reshard()
        whole = contextlib.nullcontext() if local else _summon([self], False, False)
        with whole:
            values = super().state_dict(**options)
        if getattr(settings.state_dict_config, "rank0_only", False) and c10d.get_rank() != 0:
            for name in [name for name in values if before is None or name not in before]:
                del values[name]
            return values
        self._finish_state(values, prefix, settings, local)
        return values

    def _finish_state(self, values, prefix, settings, local):
        inner = prefix + FSDP_WRAPPED_MODULE + "."
        own = {prefix + clean for clean in self._own_names()}
        buffers = self._fsdp_unit.buffer_dtypes or {}
        names = {module: states.clean(f"{name}." if name else "") for name, module in self.module.named_modules()}
        full = {prefix + names[module] + name: dtype for (module, name), dtype in buffers.items()}
        cut = self._sharder() if settings.state_dict_type is StateDictType.SHARDED_STATE_DICT else None
        if local:
            self._local_state(values, inner)
        for name in [name for name in values if name.startswith(inner)]:
            value, name = values.pop(name), prefix + name[len(inner) :]
            if name in full:
                value = value.to(full[name])
            if cut is not None and name in own:
                value = cut(value)
            if settings.state_dict_config.offload_to_cpu and isinstance(value, tessera.Tensor):
                value = value.cpu()
            values[name] = value
        metadata = getattr(values, "_metadata", None)
        if metadata is not None:
            for name in [name for name in metadata if name.startswith(inner[:-1])]:
                metadata[(prefix + name[len(inner) :]).rstrip(".")] = metadata.pop(name)

    def _local_state(self, values, inner):
        for piece in self._fsdp_unit.group.pieces:
            if piece.original:
                for name in [inner + states.clean(name) for name in self._own_names()]:
                    values.pop(name, None)
            length = piece.part_length * piece.line.size
            spec = DTensorSpec(self._line_mesh(), (Shard(0),), (length,), (1,))
            values[inner + FLAT] = _wrap(piece.flat.detach(), spec) if piece.line.size > 1 else piece.flat.detach()

    def _own_names(self):
        """Names, in the wrapped module, of the parameters of this unit."""
        return list(states.Names(self.module, self._fsdp_unit.group.pieces).entries)

    def _before_load(self, state, prefix, *ignored):
        inner = prefix + FSDP_WRAPPED_MODULE + "."
        for name in [name for name in state if name.startswith(prefix) and not name.startswith(inner)]:
            state[inner + name[len(prefix) :]] = state.pop(name)
        for unit in self._fsdp_unit.units_below():
            unit.group.reshard()
        if self._state_settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            for piece in self._fsdp_unit.group.pieces:
                self._load_local(piece, state, inner)
            return
        for name in [inner + one for one in self._own_names()]:
            if isinstance(state.get(name), DTensor):
                state[name] = state[name].full_tensor()
        self._leave_load = contextlib.ExitStack()
        self._leave_load.enter_context(_summon([self], False, True))

    def _load_local(self, piece, state, inner):
        value = state.get(inner + FLAT)
        if value is None or not piece.original:
            if isinstance(value, DTensor):
                state[inner + FLAT] = value.to_local()
            return
        with tessera.no_grad():
            piece.flat.data.copy_(value.to_local() if isinstance(value, DTensor) else value)
        del state[inner + FLAT]
        for entry, name in zip(piece.entries, self._own_names()):
            state[inner + name] = entry.original.detach()

    def _after_load(self, incompatible):
        if self._leave_load is not None:
            self._leave_load.close()
            self._leave_load = None
        for listed in (incompatible.missing_keys, incompatible.unexpected_keys):
            listed[:] = [states.clean(name) for name in listed]

    # ---- state dicts of optimizers

    @staticmethod
    def _optim_state(model, optim, state=None, kind=None, rank0_only=False, to_cpu=False, group=None):
        wrappers = FullyShardedDataParallel.fsdp_modules(model)
        owners = {piece: one for one in wrappers for piece in one._fsdp_unit.group.pieces}
        sharder = None
        if kind is StateDictType.SHARDED_STATE_DICT:
            sharder = lambda piece, value: owners[piece]._sharder()(value)
        first = c10d.get_rank(group) == 0
        return states.collect(
            model,
            list(owners),
            optim,
            state,
            sharder=sharder,
            first_only=rank0_only,
            to_cpu=to_cpu,
            is_first=first,
        )

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """The state dict of a model's optimizer, with names of whole parameters as keys, made of what the settings of
        the model say.

        Args:
            model: Module.
            optim: its optimizer.
            optim_state_dict: the one to change; None: `optim.state_dict()`.
            group: whose first process is the one of `rank0_only`; None: all processes.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        kind = settings.state_dict_type if settings is not None else StateDictType.FULL_STATE_DICT
        if kind is StateDictType.LOCAL_STATE_DICT:
            if any(one._mesh is not None for one in FullyShardedDataParallel.fsdp_modules(model)):
                raise RuntimeError(f"{kind} does not go with a device_mesh; SHARDED_STATE_DICT does")
            return optim.state_dict() if optim_state_dict is None else optim_state_dict
        config = settings.optim_state_dict_config if settings is not None else policies.FullOptimStateDictConfig()
        first_only = getattr(config, "rank0_only", False)
        return FullyShardedDataParallel._optim_state(
            model, optim, optim_state_dict, kind, first_only, config.offload_to_cpu, group
        )

    @staticmethod
    def optim_state_dict_to_load(
        model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False, group=None
    ):
        """The reverse of optim_state_dict(): what the optimizer can load.

        Args:
            model: Module.
            optim: its optimizer.
            optim_state_dict: with names as keys; where the settings say `rank0_only`, that of the first process counts.
            is_named_optimizer: whether the optimizer's own keys are names.
            load_directly: loads it, too.
            group: as of optim_state_dict().
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        config = None if settings is None else settings.optim_state_dict_config
        if settings is not None and settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            made = optim_state_dict
        else:
            if getattr(config, "rank0_only", False):
                optim_state_dict = _from_first(optim_state_dict, group)
            made = _spread(model, optim_state_dict, optim, None, is_named_optimizer)
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only=True, group=None):
        """The older form of optim_state_dict(): whole tensors.

        Args:
            model: Module.
            optim: its optimizer.
            optim_input: what the optimizer was made with; not needed.
            rank0_only: whether other processes than the first one get {}.
            group: of which it is the first; None: all processes.
        """
        _same_input(optim, optim_input)
        kind = StateDictType.FULL_STATE_DICT
        return FullyShardedDataParallel._optim_state(model, optim, None, kind, rank0_only, True, group)

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None):
        """The older form of optim_state_dict(): DTensors.

        Args:
            model: Module.
            optim: its optimizer.
            group: as of full_optim_state_dict().
        """
        kind = StateDictType.SHARDED_STATE_DICT
        return FullyShardedDataParallel._optim_state(model, optim, None, kind, group=group)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None):
        """What an optimizer can load, of a full_optim_state_dict() that every process has.

        Args:
            full_optim_state_dict: it.
            model: Module.
            optim_input: what the optimizer was made with; None: all parameters, or those of `optim`.
            optim: the optimizer.
        """
        return _spread(model, full_optim_state_dict, optim, optim_input)

    @staticmethod
    def flatten_sharded_optim_state_dict(sharded_optim_state_dict, model, optim):
        """What an optimizer can load, of a sharded_optim_state_dict()."""
        return _spread(model, sharded_optim_state_dict, optim)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None):
        """What an optimizer can load, of a full_optim_state_dict() that the first process has.

        Args:
            full_optim_state_dict: it; of other processes anything.
            model: Module.
            optim_input: what the optimizer was made with; None: all parameters, or those of `optim`.
            optim: the optimizer.
            group: whose first process it is; None: all processes.
        """
        return _spread(model, _from_first(full_optim_state_dict, group), optim, optim_input)

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict, optim_state_key_type, model, optim_input=None, optim=None):
        """A state dict of whole parameters with names as keys instead of numbers, or the reverse.

        Args:
            optim_state_dict: it.
            optim_state_key_type: OptimStateKeyType.
            model: Module whose parameters they are.
            optim_input: what the optimizer was made with; None: all parameters, or those of `optim`.
            optim: the optimizer.
        """
        pieces = _pieces(model)
        to_names = OptimStateKeyType(optim_state_key_type) is OptimStateKeyType.PARAM_NAME
        return states.rekey(optim_state_dict, to_names, model, pieces, optim, optim_input)


def _pieces(model):
    return [piece for one in FullyShardedDataParallel.fsdp_modules(model) for piece in one._fsdp_unit.group.pieces]


def _spread(model, state, optim=None, optim_input=None, named=False):
    return states.spread(model, _pieces(model), state, optim=optim, optim_input=optim_input, named=named)


def _from_first(state, group):
    """The first process's state dict, in all of the group."""
    box = [state if c10d.get_rank(group) == 0 else None]
    c10d.broadcast_object_list(box, group=group, group_src=0)
    return box[0]


def _same_input(optim, optim_input):
    if optim_input is not None:
        count = sum(len(group) for group in states._listed(None, None, optim_input))
        own = sum(len(group["params"]) for group in optim.param_groups)
        if count != own:
            raise ValueError(f"optim_input has {count} parameters, but the optimizer has {own}")


@contextlib.contextmanager
def _summon(wrappers, recurse, writable, register=True, device=None, gradients=False):
    """Registers whole parameters for the length of a context; what is whole already stays as it is."""
    if recurse:
        wrappers = [below for one in wrappers for below in FullyShardedDataParallel.fsdp_modules(one)]
    done = []
    try:
        for one in wrappers:
            if one._summoned is not None:
                continue
            one._fsdp_unit.group.finish()
            one._fsdp_unit.group.reshard()
            made = [(p, p.summon(register, writable, device, gradients)) for p in one._fsdp_unit.group.pieces]
            one._summoned, one._fsdp_unit.suspended = made, True
            done.append(one)
        yield
    finally:
        for one in reversed(done):
            for piece, made in one._summoned:
                piece.dismiss(made)
            one._summoned, one._fsdp_unit.suspended = None, False


def _ignored(modules, given):
    """The modules, with all below them, and parameters that are left alone."""
    if modules is not None and given is not None:
        raise ValueError("ignored_modules and ignored_states exclude each other")
    found = set()
    for one in modules or ():
        if not isinstance(one, Module):
            raise ValueError(f"ignored_modules holds modules, but got {type(one).__name__}")
    for one in list(modules or ()) + list(given or ()):
        if isinstance(one, Module):
            if isinstance(one, FullyShardedDataParallel):
                raise ValueError("a FullyShardedDataParallel cannot be ignored")
            found |= {below for below in one.modules() if not isinstance(below, FullyShardedDataParallel)}
            found |= {p for p in one.parameters() if not hasattr(p, "_fsdp_flat")}
        elif isinstance(one, tessera.Tensor):
            found.add(one)
        else:
            raise ValueError(f"modules or parameters are ignored, but got {type(one).__name__}")
    return found


def _device(module, device_id, ignored):
    if device_id is not None:
        if isinstance(device_id, int):
            return tessera.device("cuda", device_id)
        device = tessera.device(device_id)
        if device.type == "cuda" and device.index is None:
            device = tessera.device("cuda", tessera.cuda.current_device())
        return device
    used = {p.device for p in module.parameters() if p not in ignored and p.device.type not in ("cpu", "meta")}
    if used:
        return next(iter(used))
    if tessera.cuda.is_available():
        return tessera.device("cuda", tessera.cuda.current_device())
    return tessera.device("cpu")


def _lines(process_group, mesh, strategy, automatic):
    """(group of parts, group of copies or None)."""
    if process_group is not None and mesh is not None:
        raise ValueError("FullyShardedDataParallel takes a process_group or a device_mesh, not both")
    hybrid = strategy in _HYBRID
    if mesh is not None:
        if hybrid != (mesh.ndim == 2):
            raise ValueError(f"{strategy} does not go with a device_mesh of {mesh.ndim} dimensions: {mesh}")
        return (mesh.get_group(1), mesh.get_group(0)) if hybrid else (mesh.get_group(), None)
    if not hybrid:
        if isinstance(process_group, tuple):
            if process_group[1] is not None:
                raise ValueError(f"a pair of process groups goes with hybrid strategies, not with {strategy}")
            process_group = process_group[0]
        return (groups._get_default_group() if process_group is None else process_group), None
    if isinstance(process_group, tuple):
        if len(process_group) != 2:
            raise ValueError(f"a hybrid strategy takes a pair of process groups, but got {len(process_group)}")
        return process_group
    if not automatic:
        raise ValueError(f"{strategy} needs a pair of process groups or a device_mesh if a module is wrapped by hand")
    return _machine_lines()


def _machine_lines():
    world, rank = groups.get_world_size(), groups.get_rank()
    near = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    if world % near:
        raise ValueError(f"{world} processes are not on machines of {near} each")
    inside, _ = groups.new_subgroups(near)
    between = None
    for first in range(near):
        made = groups.new_group(list(range(first, world, near)))
        between = made if rank % near == first else between
    return inside, between


def _wrap_automatically(module, policy, options, ignored):
    if any(isinstance(one, FullyShardedDataParallel) for one in module.modules()):
        raise ValueError("auto_wrap_policy goes with modules that have no FullyShardedDataParallel in them yet")
    make = lambda one, **changed: FullyShardedDataParallel(one, **{**options, **changed})
    mixed = options["mixed_precision"]
    whole = tuple((mixed and mixed._module_classes_to_ignore) or ()) if mixed is not None else ()
    found = {one for one in module.modules() if whole and isinstance(one, whole) and one is not module}
    if found:
        warnings.warn(f"modules of {[one.__name__ for one in whole]} stay in full precision, as units of their own")
        make_full = lambda one, **_: _full_precision(make(one, mixed_precision=None))
        wrap_below(module, CustomPolicy(lambda one: one in found), make_full, ignored)
    wrapped = lambda one: isinstance(one, FullyShardedDataParallel)
    wrap_below(module, policy, make, ignored, wrapped)


def _full_precision(wrapper):
    """Casts what a wrapper is given to the parameters' dtype, and what it returns back."""
    dtype = next((p.dtype for p in wrapper.parameters()), tessera.float32)
    given = []

    def before(args, kwargs):
        seen = []
        mapped(lambda x: seen.append(x.dtype) if x.is_floating_point() else None, (args, kwargs))
        given.append(seen[0] if seen else None)
        return cast(dtype, (args, kwargs))

    wrapper.register_forward_pre_hook(lambda wrapper, *call: before(*call), with_kwargs=True)
    wrapper.register_forward_hook(lambda wrapper, args, out: cast(given.pop(), out))
    return wrapper
