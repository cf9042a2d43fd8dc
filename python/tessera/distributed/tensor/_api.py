"""The tensor of many processes, and what makes one."""

import inspect
import warnings

import tessera
from tessera import _C
from tessera.autograd import Function
from tessera.distributed import _functional_collectives as collectives
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.device_mesh import _mesh_resources
from tessera.distributed.tensor._operators import dispatch
from tessera.distributed.tensor._redistribute import redistribute_local
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import (
    compute_global_tensor_info,
    compute_local_shape_and_global_offset,
    default_strides,
    normalized,
)
from tessera.distributed.tensor.placement_types import Replicate

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


def _placements_for(placements, mesh, ndim, error=IndexError):
    placements = [Replicate()] * mesh.ndim if placements is None else list(placements)
    if len(placements) != mesh.ndim:
        raise ValueError(f"`placements` must have the same length as `device_mesh.ndim`: got {placements} for {mesh}")
    if len({p.reduce_op for p in placements if p.is_partial()}) > 1:
        raise ValueError(f"placements may not mix the reductions of Partial, got {placements}")
    found = normalized(placements, ndim)
    for placement in found:
        if placement.is_shard() and not 0 <= placement.dim < max(ndim, 1):
            raise error(f"{placement}: the tensor has {ndim} dimensions")
    return found


def _without_partial(placements):
    return tuple(Replicate() if p.is_partial() else p for p in placements)


class _FromLocal(Function):
    @staticmethod
    def forward(ctx, local, spec):
        ctx.spec = spec
        return _wrap(local.detach(), spec)

    @staticmethod
    def backward(ctx, grad):
        wanted = _without_partial(ctx.spec.placements)
        return redistribute_local(grad._local_tensor, grad.shape, ctx.spec.mesh, grad._spec.placements, wanted), None


class _ToLocal(Function):
    @staticmethod
    def forward(ctx, tensor, grad_placements):
        ctx.spec, ctx.grad_placements = tensor._spec, grad_placements
        return tensor._local_tensor.view_as(tensor._local_tensor)

    @staticmethod
    def backward(ctx, grad):
        # Parts of a sum have its gradient each.
        own = _without_partial(ctx.spec.placements)
        placements = own if ctx.grad_placements is None else ctx.grad_placements
        return _wrap(grad, ctx.spec.placed(normalized(placements, len(ctx.spec.shape)))), None


class _Redistribute(Function):
    @staticmethod
    def forward(ctx, tensor, placements, forward_dtype, backward_dtype):
        spec = ctx.spec = tensor._spec
        ctx.backward_dtype, ctx.dtype = backward_dtype, tensor.dtype
        local = tensor._local_tensor
        local = local if forward_dtype is None else local.to(forward_dtype)
        moved = redistribute_local(local, spec.shape, spec.mesh, spec.placements, placements)
        return _wrap(moved.view_as(moved) if moved is tensor._local_tensor else moved, spec.placed(placements))

    @staticmethod
    def backward(ctx, grad):
        spec, local = ctx.spec, grad._local_tensor
        local = local if ctx.backward_dtype is None else local.to(ctx.backward_dtype)
        wanted = _without_partial(spec.placements)
        local = redistribute_local(local, spec.shape, spec.mesh, grad._spec.placements, wanted)
        return _wrap(local.to(ctx.dtype), spec.placed(wanted)), None, None, None


def _wrap(local, spec, requires_grad=False):
    """The DTensor of a local part; nothing is recorded."""
    made = tessera.Tensor._make_wrapper_subclass(
        DTensor,
        spec.shape,
        strides=spec.strides,
        dtype=local.dtype,
        device=local.device,
        layout=local.layout,
        requires_grad=requires_grad,
    )
    made._local_tensor, made._spec = local, spec
    return made


class DTensor(tessera.Tensor):
    """A tensor whose parts or copies lie in the processes of a mesh. Size, strides and results are those of the whole;
    every process makes the same calls. Made by `distribute_tensor`, `DTensor.from_local` and the functions of this
    namespace.

    Operators: elementwise ones work on the parts where all operands lie alike, and dimensions may be moved; for others
    the parts are brought together first, and each process computes the whole.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, local_tensor, spec, *, requires_grad=False):
        if local_tensor.requires_grad and not requires_grad:
            raise RuntimeError("a DTensor of a tensor that requires grad is made by DTensor.from_local")
        return _wrap(local_tensor.detach(), spec, requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            raise NotImplementedError(
                f"{func} is for tensors of one process: give it to_local(), or use redistribute()"
            )
        return dispatch(DTensor, _wrap, func, args, kwargs or {})

    def __tensor_flatten__(self):
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner_tensors, flatten_spec, outer_size, outer_stride):
        spec, requires_grad = flatten_spec
        return _wrap(inner_tensors["_local_tensor"], spec, requires_grad)

    def __repr__(self):
        spec = self._spec
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={spec.mesh}, placements={spec.placements})"

    @property
    def device_mesh(self):
        """The DeviceMesh."""
        return self._spec.mesh

    @property
    def placements(self):
        """A placement for each dimension of the mesh: a tuple."""
        return self._spec.placements

    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check=False, shape=None, stride=None):
        """The DTensor of which each process brings its part; differentiable, and nothing is sent.

        Args:
            local_tensor: this process's part.
            device_mesh: DeviceMesh; None: that of the `with` block around.
            placements: one for each dimension of the mesh; None: copies.
            run_check: compares shapes, strides, dtypes and requires_grad across processes, and takes copies from the
                first one.
            shape, stride: of the whole, both or none; None: all parts have this one's size.

        Raises: RuntimeError for a DTensor, a dimension that there is not, and one of shape and stride alone;
            ValueError if `run_check` finds parts that differ.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(f"the local_tensor argument only accepts torch.Tensor but got {type(local_tensor)}")
        if (shape is None) != (stride is None):
            raise RuntimeError("please pass both shape and stride, or none of them")
        mesh = _mesh_resources.get_current_mesh() if device_mesh is None else device_mesh
        placements = _placements_for(placements, mesh, local_tensor.dim(), RuntimeError)
        if shape is None:
            shape, stride = compute_global_tensor_info(local_tensor, mesh, placements)
        if mesh.get_coordinate() is None:
            local_tensor = local_tensor.new_empty(0, requires_grad=local_tensor.requires_grad)
        elif run_check:
            local_tensor = _checked(local_tensor, mesh, placements)
        return _FromLocal.apply(local_tensor, DTensorSpec(mesh, placements, tuple(shape), tuple(stride)))

    def to_local(self, *, grad_placements=None):
        """This process's part, of the same memory; differentiable. `grad_placements`: how its gradient lies; None: as
        this tensor does, but as copies where this one is Partial.
        """
        if not tessera.is_grad_enabled():
            return self._local_tensor
        return _ToLocal.apply(self, grad_placements)

    def full_tensor(self, *, grad_placements=None):
        """The whole, in every process; differentiable. `grad_placements`: how its gradient lies; None: as copies."""
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return collectives.wait_tensor(whole.to_local(grad_placements=grad_placements))

    def redistribute(
        self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None, backward_dtype=None
    ):
        """The same tensor, lying otherwise; differentiable.

        Args:
            device_mesh: the tensor's own, or None.
            placements: one for each dimension of the mesh; no Partial where there is none now.
            async_op: accepted for programs that wait themselves; the result is complete.
            forward_dtype, backward_dtype: dtypes in which values and gradients are sent; None: as they are.

        Raises: RuntimeError without placements and for new Partials, NotImplementedError for another mesh.
        """
        spec = self._spec
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        if device_mesh is not None and device_mesh != spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet: redistribute works on the same mesh")
        placements = _placements_for(placements, spec.mesh, self.dim())
        if any(p.is_partial() and p != now for p, now in zip(placements, spec.placements)):
            raise RuntimeError("Can not redistribute to Partial, redistributing to Partial is for internal use only!")
        if placements == spec.placements and forward_dtype is None and backward_dtype is None:
            if not (tessera.is_grad_enabled() and self.requires_grad):
                return self  # else gradients may have to come back to these placements
        return _Redistribute.apply(self, placements, forward_dtype, backward_dtype)

    def __create_chunk_list__(self):
        """The piece that this process has: a list of one ChunkStorageMetadata."""
        from tessera.distributed.checkpoint.metadata import ChunkStorageMetadata

        if any(p.is_partial() for p in self.placements):
            raise RuntimeError(f"a DTensor with sums that are to come ({self.placements}) has no piece of its own")
        sizes, offsets = compute_local_shape_and_global_offset(self.shape, self.device_mesh, self.placements)
        return [ChunkStorageMetadata(offsets=tessera.Size(offsets), sizes=tessera.Size(sizes))]

    def __get_tensor_shard__(self, index):
        (chunk,) = self.__create_chunk_list__()
        if index.offset is not None and tuple(index.offset) != tuple(chunk.offsets):
            raise ValueError(f"'{index.fqn}': this process has the piece at {chunk.offsets}, not at {index.offset}")
        return self._local_tensor


def _checked(local, mesh, placements):
    """Compares parts across the mesh, and takes copies from the first process of each line."""
    shapes = [None] * mesh.size()
    for at in range(mesh.ndim):
        shapes = [None] * mesh.size(at)
        mine = tuple(local.shape), local.stride(), str(local.dtype), local.requires_grad
        c10d.all_gather_object(shapes, mine, group=mesh.get_group(at))
        if len(set(shapes)) > 1:
            raise ValueError(f"the parts differ in shape, stride, dtype or requires_grad: {shapes}")
    local = local.contiguous()
    for at, placement in enumerate(placements):
        if placement.is_replicate():
            with tessera.no_grad():
                local = local.clone() if local.requires_grad is False else local
                c10d.broadcast(local.detach(), group=mesh.get_group(at), group_src=0)
    return local


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """Spreads a tensor, of which each process has the whole, over a mesh.

    Args:
        tensor: a leaf; the result is one that requires grad if it does.
        device_mesh: DeviceMesh; None: that of the `with` block around.
        placements: one for each dimension of the mesh; None: copies.
        src_data_rank: whose data count, along each dimension of the mesh; None: everyone's own, and nothing is sent.

    Raises: RuntimeError for a tensor with history, IndexError for a dimension that there is not, ValueError for a
        number of placements other than the mesh's dimensions, and for a DTensor that lies otherwise.
    """
    mesh = _mesh_resources.get_current_mesh() if device_mesh is None else device_mesh
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(f"a DTensor of {tensor.device_mesh} cannot be moved to a different device mesh {mesh}")
        placements = _placements_for(placements, mesh, tensor.dim())
        if tensor.placements != placements:
            raise ValueError(
                f"a DTensor that lies as {tensor.placements} cannot be moved to a different placements {placements}: "
                "redistribute() does that"
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placements = _placements_for(placements, mesh, tensor.dim())
    local = tensor.detach()
    if mesh.get_coordinate() is not None:
        if src_data_rank is not None and mesh.size() > 1 and local.device.type != "meta":
            local = local.clone(memory_format=tessera.contiguous_format)
            for at in range(mesh.ndim):
                if mesh.size(at) > 1:
                    c10d.broadcast(local, group=mesh.get_group(at), group_src=src_data_rank)
        local = redistribute_local(local, tensor.shape, mesh, (Replicate(),) * mesh.ndim, placements)
    spec = DTensorSpec(mesh, placements, tuple(tensor.shape), default_strides(tensor.shape))
    made = _wrap(local, spec, tensor.requires_grad)
    return tessera.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, tessera.nn.Parameter) else made


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Makes DTensors of a module's parameters and buffers, in place.

    Args:
        module: Module.
        device_mesh: DeviceMesh; None: that of the `with` block around.
        partition_fn: `partition_fn(name, submodule, mesh)` is called for every submodule and may place parameters;
            the others become copies.
        input_fn: `input_fn(module, inputs, mesh)` sees the module's inputs; what it returns replaces them.
        output_fn: `output_fn(module, outputs, mesh)`, the same for outputs.

    Returns: the module.
    """
    mesh = _mesh_resources.get_current_mesh() if device_mesh is None else device_mesh
    copies = [Replicate()] * mesh.ndim
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, parameter in list(part._parameters.items()):
            if parameter is not None and not isinstance(parameter, DTensor):
                placed = distribute_tensor(parameter.data, mesh, copies)
                part.register_parameter(key, tessera.nn.Parameter(placed, parameter.requires_grad))
        for key, buffer in part._buffers.items():
            if buffer is not None and not isinstance(buffer, DTensor):
                part._buffers[key] = distribute_tensor(buffer, mesh, copies)
    if input_fn is not None:
        before = _of_three(input_fn, "input_fn")
        module.register_forward_pre_hook(lambda part, inputs: before(part, inputs, mesh))
    if output_fn is not None:
        after = _of_three(output_fn, "output_fn")
        module.register_forward_hook(lambda part, inputs, outputs: after(part, outputs, mesh))
    return module


def _of_three(function, name):
    """A function of (module, values, mesh), of one that may be of (values, mesh). Raises: ValueError for others."""
    count = len(inspect.signature(function).parameters)
    if count == 3:
        return function
    if count != 2:
        raise ValueError(f"distribute_module: {name} takes (module, values, device_mesh), but takes {count} arguments")
    warnings.warn(
        f"Deprecating {name} that takes two arguments (values, device_mesh): the module comes first",
        FutureWarning,
        stacklevel=3,
    )
    return lambda part, values, mesh: function(values, mesh)
