"""One parameter that is a DTensor, cut along one dimension over the processes of a mesh."""

import math

import tessera
from tessera.distributed.device_mesh import DeviceMesh
from tessera.distributed.fsdp._group import Line, Piece
from tessera.distributed.tensor import DTensor, Replicate, Shard
from tessera.distributed.tensor._api import _wrap
from tessera.distributed.tensor._redistribute import redistribute_local
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import default_strides
from tessera.distributed.tensor.placement_types import _StridedShard, part_of
from tessera.nn import Module, Parameter


def set_parameter(module, name, parameter):
    """Registers another parameter under a name that the module has."""
    if type(module).__setattr__ is Module.__setattr__:
        module._parameters[name] = parameter
    else:
        setattr(module, name, parameter)


def sized(tensor, numel):
    """Gives a tensor that has its storage for itself `numel` numbers of memory."""
    storage, wanted = tensor.untyped_storage(), numel * tensor.element_size()
    if storage.nbytes() != wanted:
        storage.resize_(wanted)


class ShardedParameter(Piece):
    """A parameter of one or more modules.

    Args:
        parameter: the whole one, plain or a DTensor of another dimension of the mesh's root.
        places: [(module, name)], where it is registered.
        mesh: of one dimension, or of two, whose first one has copies.
        dim: that is cut.
        device: where wholes are; offload: where parts are, or None.
    """

    def __init__(self, parameter, places, mesh, dim, device, offload=None, pin=False):
        self.places, self.device, self.offload, self.dim = places, device, offload, dim
        self.inner = parameter._spec if isinstance(parameter, DTensor) else None
        local = parameter._local_tensor if self.inner else parameter.data
        if not local.is_contiguous():
            raise NotImplementedError(
                f"FSDP does not support non-contiguous parameters yet: {tuple(local.shape)}, strides {local.stride()}"
            )
        self.shape = tuple(local.shape)
        self.line = Line(mesh.get_group(mesh.ndim - 1))
        if dim and self.shape[dim] % self.line.size:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {dim}: {self.shape} over {self.line.size} processes"
            )
        self.spec = self._spec(mesh)
        local = local if local.device.type == "meta" else local.to(offload or device)
        part = self._cut(local, self.line)
        self.sharded = Parameter(_wrap(part.pin_memory() if pin else part, self.spec), parameter.requires_grad)
        self.sharded.__dict__.update({k: v for k, v in parameter.__dict__.items() if not k.startswith("_")})
        self.whole = self.small = self._shown = self._held = None
        self.show("part")

    def _spec(self, mesh):
        own = (Replicate(),) * (mesh.ndim - 1)
        if self.inner is None:
            return DTensorSpec(mesh, (*own, Shard(self.dim)), self.shape, default_strides(self.shape))
        inner = self.inner
        both = DeviceMesh._concatenate([mesh, inner.mesh])
        before = math.prod(inner.mesh.size(i) for i, p in enumerate(inner.placements) if p.is_shard(self.dim))
        cut = _StridedShard(self.dim, split_factor=before) if before > 1 else Shard(self.dim)
        return DTensorSpec(both, (*own, cut, *inner.placements), inner.shape, inner.strides)

    # ---- parts

    @property
    def dtype(self):
        return self.sharded.dtype

    def _cut(self, whole, line):
        size, start = part_of(self.shape[self.dim], line.size, line.index)
        return whole.narrow(self.dim, start, size).clone(memory_format=tessera.contiguous_format)

    def _row_shape(self, line, index=0):
        shape = list(self.shape)
        shape[self.dim] = part_of(shape[self.dim], line.size, index)[0]
        return shape

    def length(self, line):
        return math.prod(self._row_shape(line))

    def refresh(self):
        module, name = self.places[0]
        now = module._parameters.get(name)
        if self._shown == "part" and now is not self.sharded and isinstance(now, DTensor):
            self.sharded = now
            for other, key in self.places[1:]:
                set_parameter(other, key, now)

    def write_part(self, out, line):
        part = self.small if line is not self.line and self.small is not None else self.sharded
        local = part._local_tensor
        out[: local.numel()].view(local.shape).copy_(local)

    def _as_parameter(self, local, spec):
        return Parameter(local if spec is None else _wrap(local, spec), self.sharded.requires_grad)

    def fill(self, rows, dtype, line):
        if self.whole is None or self.whole.dtype != dtype:
            self.whole = self._as_parameter(tessera.empty(self.shape, dtype=dtype, device=self.device), self.inner)
        self.whole.requires_grad_(self.sharded.requires_grad)
        local = self._local_whole()
        sized(local, math.prod(self.shape))
        if self.dim == 0 and self.shape[0] % line.size == 0:
            local.view(rows.shape).copy_(rows)
            return
        for index, row in enumerate(rows):
            size, start = part_of(self.shape[self.dim], line.size, index)
            if size:
                shape = self._row_shape(line, index)
                local.narrow(self.dim, start, size).copy_(row[: math.prod(shape)].view(shape))

    def _local_whole(self):
        return (self.whole._local_tensor if self.inner else self.whole).data

    def free(self):
        if self.whole is not None:
            sized(self.whole._local_tensor if self.inner else self.whole, 0)

    def make_small(self, line):
        mesh = line.mesh
        spec = DTensorSpec(mesh, (Shard(self.dim),), self.shape, default_strides(self.shape))
        self.small = self._as_parameter(self._cut(self._local_whole(), line).to(self.dtype), spec)

    def show(self, what):
        if what == "part":
            self.small = None
        if what != self._shown:
            shown = {"part": self.sharded, "small": self.small, "whole": self.whole}[what]
            for module, name in self.places:
                set_parameter(module, name, shown)
            self._shown = what

    # ---- gradients

    def gradient(self):
        gradient = None if self.whole is None else self.whole.grad
        if gradient is None or self.inner is None:
            return gradient
        spec = gradient._spec
        return redistribute_local(gradient._local_tensor, spec.shape, spec.mesh, spec.placements, self.inner.placements)

    def clear(self):
        self.whole.grad = None

    def pack(self, gradient, rows, line):
        gradient = gradient.to_dense() if gradient.layout is not tessera.strided else gradient
        if self.dim == 0 and self.shape[0] % line.size == 0:
            rows.copy_(gradient.contiguous().view(rows.shape))
            return
        for index, row in enumerate(rows):
            size, start = part_of(self.shape[self.dim], line.size, index)
            if size:
                shape = self._row_shape(line, index)
                row[: math.prod(shape)].view(shape).copy_(gradient.narrow(self.dim, start, size))

    def hold(self, gradient, dtype):
        gradient = gradient if dtype is None else gradient.to(dtype)
        self._held = gradient if self._held is None else self._held.add_(gradient)

    def held(self):
        held, self._held = self._held, None
        return held

    def give(self, part):
        local = self.sharded._local_tensor
        part = part[: local.numel()].view(local.shape).to(local)
        if self.sharded.grad is None:
            self.sharded.grad = _wrap(part, self.spec)
        else:
            self.sharded.grad._local_tensor.add_(part)
        for hook in list((getattr(self.sharded, "_post_accumulate_grad_hooks", None) or {}).values()):
            hook(self.sharded)
