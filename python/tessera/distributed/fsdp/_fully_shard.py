"""Modules whose parameters are DTensors outside of forward and backward, in place."""

import functools

import tessera
from tessera.distributed import _groups as groups
from tessera.distributed.device_mesh import DeviceMesh
from tessera.distributed.fsdp._group import Group, Line
from tessera.distributed.fsdp._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from tessera.distributed.fsdp._sharded import ShardedParameter
from tessera.distributed.fsdp._unit import Unit, units_of
from tessera.nn import Module, ModuleDict, ModuleList, ParameterDict, ParameterList

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]


class UnshardHandle:
    """An unshard that may still be going on."""

    def __init__(self, group=None):
        self._group = group

    def wait(self):
        """Waits for the parameters, and registers them."""
        if self._group is not None:
            self._group.unshard()
            self._group = None


class _Unit(Unit):
    """A call of fully_shard()."""

    def check(self):
        for piece in self.group.pieces:
            piece.refresh()
            if piece.sharded.device.type == "meta":
                raise RuntimeError(
                    "FSDP parameters should be materialized from meta device before training, but "
                    f"{piece.places[0][1]} of {type(piece.places[0][0]).__name__} is still there; use to_empty() and "
                    "initialize it"
                )


def _units(module, recurse):
    return units_of(module.modules() if recurse else [module])


def _prefetched(modules):
    modules = list(modules)
    for one in modules:
        if not isinstance(one, FSDPModule):
            raise ValueError(f"modules to prefetch are FSDPModules, but got {type(one).__name__}")
    return [one._fsdp_unit for one in modules]


class FSDPModule:
    """What modules are, besides what they were, after `fully_shard`."""

    def __new__(cls, *args, **kwargs):
        """A module of the class that was there before, for those that make others of their own type."""
        original = cls.__mro__[2]
        made = original.__new__(original, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made

    def __deepcopy__(self, memo):
        raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")

    def _apply(self, *args, **kwargs):
        for unit in _units(self, True):
            unit.group.reshard()
        made = super()._apply(*args, **kwargs)
        for unit in _units(self, True):
            for piece in unit.group.pieces:
                piece.refresh()
        return made

    def _get_fsdp_state(self):
        return self._fsdp_unit

    def reshard(self):
        """Lets whole parameters go, and registers the sharded ones; of this module's group alone."""
        self._fsdp_unit.group.reshard()

    def unshard(self, async_op=False):
        """Gathers the parameters of this module's group, in the policy's param_dtype, and registers them.

        Args:
            async_op: returns an UnshardHandle, whose `wait()` registers them; forward waits by itself.
        """
        group = self._fsdp_unit.group
        if not async_op:
            group.unshard()
            return None
        with tessera.no_grad():
            group.start_gather()
        return UnshardHandle(group)

    def set_is_last_backward(self, is_last_backward):
        """Whether the next backward is the last one of a forward; else what prefetching goes by is kept."""
        unit = self._fsdp_unit
        if unit.tree is None:
            unit._plant()
        unit.tree.is_last = is_last_backward

    def _set(self, name, value, recurse=False):
        for unit in _units(self, recurse):
            setattr(unit.group, name, value)

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        """Whether backward reduces gradients; else whole ones add up until it does.

        Args:
            requires_gradient_sync: bool.
            recurse: also of submodules.
        """
        self._set("sync", requires_gradient_sync, recurse)

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        """Whether gradients of copies are reduced (2-d meshes); else parts add up until they are."""
        self._set("all_reduce", requires_all_reduce, recurse)

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        """Whether whole parameters go after forward."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward is a bool here, but got {type(reshard_after_forward).__name__}")
        for unit in _units(self, recurse):
            unit.reshard = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        """Whether whole parameters go after backward."""
        self._set("reshard_after_backward", reshard_after_backward, recurse)

    def set_modules_to_forward_prefetch(self, modules):
        """The modules whose parameters are sent for in this one's forward. Raises: ValueError for other modules."""
        self._fsdp_unit.forward_prefetch = _prefetched(modules)

    def set_modules_to_backward_prefetch(self, modules):
        """The modules whose parameters are sent for in this one's backward; by default the one whose forward was before
        this one's. Raises: ValueError for other modules.
        """
        self._fsdp_unit.backward_prefetch = _prefetched(modules)

    def set_all_reduce_hook(self, hook, *, stream=None):
        """`hook(reduced)` is called with what reductions give: this process's parts, padded, in one dimension.

        Args:
            hook: may change it.
            stream: of a device, in which it is called.
        """
        if stream is not None:
            original = hook

            def hook(reduced):
                with tessera.cuda.stream(stream):
                    return original(reduced)

        self._set("hook", hook)

    def set_post_optim_event(self, event):
        """An event of a device that the next forward waits for, once."""
        unit = self._fsdp_unit
        if unit.tree is None:
            unit._plant()
        unit.tree.event = event

    def set_gradient_divide_factor(self, factor):
        """The number by which sums of gradients are divided, instead of that of processes."""
        self._set("factor", float(factor))

    def set_reduce_scatter_divide_factor(self, factor):
        """The older name of set_gradient_divide_factor()."""
        self.set_gradient_divide_factor(factor)

    def set_force_sum_reduction_for_comms(self, enable):
        """Whether gradients are summed and then divided; they are so in any case."""
        self._set("force_sum", enable)

    def set_unshard_in_backward(self, unshard_in_backward):
        """Whether backward needs this module's parameters."""
        self._set("unshard_in_backward", unshard_in_backward)

    def set_allocate_memory_from_process_group_for_comm(self, enable):
        """Whether the backend allocates what is sent, where it offers `allocate_tensor(size, dtype=, device=)`."""
        self._set("from_backend", enable)

    def set_custom_all_gather(self, comm):
        """An object that gathers: `allocate(size, dtype=, device=)` gives the output, and
        `comm(output, input, group, async_op=False)` fills it; it may return a Work.
        """
        self._set("custom_gather", comm)

    def set_custom_reduce_scatter(self, comm):
        """An object that reduces: as for set_custom_all_gather(), with a ReduceOp after the group."""
        self._set("custom_scatter", comm)


@functools.cache
def _class_for(kind):
    return type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})


def _owned(modules, ignored):
    """{parameter: [(module, name)]} of what no group has yet."""
    found, seen = {}, set()

    def look(module):
        if module in seen or "_fsdp_unit" in module.__dict__:
            return
        seen.add(module)
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter not in ignored:
                found.setdefault(parameter, []).append((module, name))
        for child in module.children():
            look(child)

    for module in modules:
        look(module)
    return found


def _small_line(shard, count, device_type):
    if not 1 <= count <= shard.size or shard.size % count:
        raise ValueError(
            f"reshard_after_forward={count} has to be a divisor of {shard.size}, the number of processes of the shards"
        )
    ranks = groups.get_process_group_ranks(shard.group)
    first = shard.index - shard.index % count
    line = Line(groups.new_group(ranks[first : first + count], use_local_synchronization=True))
    line.mesh = DeviceMesh.from_group(line.group, device_type)
    return line


def _checked(modules):
    for module in modules:
        if not isinstance(module, Module):
            raise TypeError(f"fully_shard() takes a Module or a list of them, but got {type(module).__name__}")
        if isinstance(module, (ModuleList, ModuleDict, ParameterList, ParameterDict)):
            if type(module).forward is Module.forward:
                raise ValueError(
                    f"fully_shard does not support containers that do not implement forward: {type(module)}"
                )
        if isinstance(module, FSDPModule):
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once. fully_shard() has been "
                f"applied to {type(module).__name__} already"
            )


def fully_shard(
    module,
    *,
    mesh=None,
    reshard_after_forward=None,
    shard_placement_fn=None,
    mp_policy=MixedPrecisionPolicy(),
    offload_policy=OffloadPolicy(),
    ignored_params=None,
):
    """Cuts the parameters of a module over processes, in place; forward gathers them, and backward reduces gradients to
    the average of all processes, each of which gets its part. Apply it to inner modules first: parameters that they
    have are not this one's.

    Args:
        module: Module, or a list of them that are gathered together.
        mesh: DeviceMesh of one dimension, or of two: copies along the first, parts along the second; None: all
            processes.
        reshard_after_forward: whether whole parameters go after forward, to be gathered again in backward; None: if
            the module is not the root; an int: parts for so many processes stay.
        shard_placement_fn: `f(parameter)` gives the Shard by which it is cut; None: along dimension 0.
        mp_policy: MixedPrecisionPolicy.
        offload_policy: OffloadPolicy or CPUOffloadPolicy.
        ignored_params: set of parameters that stay as they are.

    Returns: `module`, whose class is now an FSDPModule, too. Raises: ValueError for meshes of more dimensions, for
        containers without forward, for scalars and for an int that does not divide; AssertionError for a second call,
        a mesh of two dimensions without names and a Shard of a dimension that there is not; NotImplementedError for
        uneven parts of another dimension than 0.
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    _checked(modules)
    mesh = mesh if mesh is not None else _default_mesh()
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    assert mesh.ndim == 1 or mesh.mesh_dim_names, (
        f"a 2D mesh needs names of its dimensions (mesh_dim_names), got {mesh}"
    )
    if reshard_after_forward is not None and not isinstance(reshard_after_forward, int):
        raise ValueError(f"reshard_after_forward is a bool or a number of processes, got {reshard_after_forward!r}")
    shard = Line(mesh.get_group(mesh.ndim - 1))
    small, how = None, reshard_after_forward
    if isinstance(how, int) and not isinstance(how, bool):
        small = _small_line(shard, how, mesh.device_type) if how != shard.size else None
        how = "small" if small is not None else False
    device = tessera.device(mesh.device_type)
    if device.type == "cuda":
        device = tessera.device("cuda", tessera.cuda.current_device())
    owned = _owned(modules, set(ignored_params or ()))
    cuts = [_dimension(parameter, places, shard_placement_fn) for parameter, places in owned.items()]
    offload = tessera.device("cpu") if isinstance(offload_policy, CPUOffloadPolicy) else None
    pin = offload is not None and offload_policy.pin_memory
    pieces = [ShardedParameter(p, at, mesh, dim, device, offload, pin) for (p, at), dim in zip(owned.items(), cuts)]
    copies = mesh.get_group(0) if mesh.ndim == 2 else None
    group = Group(pieces, shard, copies, device, mp_policy.param_dtype, mp_policy.reduce_dtype)
    for piece in pieces:
        piece.line = shard
    group.small = small
    unit = _Unit(modules, group, how)
    unit.input_dtype = mp_policy.param_dtype if mp_policy.cast_forward_inputs else None
    unit.output_dtype = mp_policy.output_dtype
    for one in modules:
        _install(one, unit, device)
    return module


def _default_mesh():
    if not groups.is_initialized():
        groups.init_process_group()
    kind = "cuda" if tessera.cuda.is_available() else "cpu"
    return DeviceMesh(kind, list(range(groups.get_world_size())))


def _dimension(parameter, places, placement_of):
    if parameter.dim() == 0:
        name = places[0][1]
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
        )
    placement = placement_of(parameter) if placement_of is not None else None
    if placement is None:
        return 0
    if not placement.is_shard():
        raise ValueError(f"shard_placement_fn returns a Shard or None, but got {placement}")
    dim, ndim = placement.dim, parameter.dim()
    assert -ndim <= dim < ndim, f"{placement} is no cut of a tensor of shape {tuple(parameter.shape)}"
    return dim % ndim


def _install(module, unit, device):
    for buffer in module.buffers():
        if buffer.device != device and buffer.device.type != "meta":
            buffer.data = buffer.data.to(device)
    module.__dict__["_fsdp_unit"] = unit
    module.__class__ = _class_for(type(module))
    module.register_forward_pre_hook(unit.enter, prepend=True, with_kwargs=True)
    module.register_forward_hook(lambda module, inputs, out: unit.leave(module, out))
    to_parts = lambda *ignored: unit.group.reshard() if unit.group.is_whole else None
    for one in {place[0] for piece in unit.group.pieces for place in piece.places} | {module}:
        one.register_state_dict_pre_hook(to_parts)
        one.register_load_state_dict_pre_hook(to_parts)


def register_fsdp_forward_method(module, method_name):
    """Lets a method of an FSDPModule gather and let go of parameters as forward does.

    Args:
        module: Module; nothing happens if it is no FSDPModule.
        method_name: str.

    Raises: ValueError if there is no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    original = getattr(module, method_name)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        unit = module._fsdp_unit
        args, kwargs = unit.enter(module, args, kwargs)
        return unit.leave(module, original(*args, **kwargs))

    setattr(module, method_name, wrapped)


def share_comm_ctx(modules):
    """Lets FSDPModules that are not in one another go on as one: reductions of each wait for those of the others, and
    backward prefetches over all.

    Args:
        modules: list of FSDPModule.

    Raises: ValueError for other modules.
    """
    units = _prefetched(modules)
    below = list(dict.fromkeys(one for unit in units for one in unit.units_below()))
    for unit in units:
        if unit.tree is None:
            unit._plant()
        unit.tree.units = below
