"""What sharded training asks of parameters that are DTensors already."""

import math

from tessera.distributed.device_mesh import DeviceMesh
from tessera.distributed.tensor import DTensor, Replicate, Shard
from tessera.distributed.tensor._api import _wrap
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import default_strides
from tessera.distributed.tensor.placement_types import _StridedShard, part_of

__all__ = ["DTensorExtensions"]


class DTensorExtensions:
    """Between DTensors and the plain tensors of which flat parameters are made.

    Args:
        device_handle: the module of the devices' functions; kept for programs that ask for it.
    """

    def __init__(self, device_handle):
        self.device_handle = device_handle

    def pre_flatten_transform(self, tensor):
        """(local part, how it lies) of a DTensor; (tensor, None) of a plain one."""
        if not isinstance(tensor, DTensor):
            return tensor, None
        return tensor.to_local(), tensor._spec

    def post_unflatten_transform(self, tensor, param_extension):
        """The DTensor of a local part, from what `pre_flatten_transform` said."""
        spec = param_extension
        return DTensor.from_local(tensor, spec.mesh, spec.placements, shape=spec.shape, stride=spec.strides)

    def chunk_tensor(self, tensor, rank, world_size, num_devices_per_node, pg, device=None):
        """This process's part of a whole tensor, as a DTensor of a group's processes.

        Args:
            tensor: the same everywhere.
            rank: the process's; world_size: the group's size; num_devices_per_node: on a machine.
            pg: ProcessGroup.
            device: where the part goes; None: where the tensor is.
        """
        if not 0 <= rank < world_size or num_devices_per_node < 1:
            raise ValueError(f"rank {rank} of {world_size}, {num_devices_per_node} devices on a machine")
        tensor = tensor if device is None else tensor.to(device)
        return self.chunk_dtensor(tensor, rank, DeviceMesh.from_group(pg, tensor.device.type))

    def chunk_dtensor(self, tensor, rank, device_mesh):
        """This process's part, along dimension 0, of a tensor that lies alike in all processes of a mesh.

        Args:
            tensor: plain, or a DTensor of another dimension of the mesh's root.
            rank: the process's along the last dimension of the mesh.
            device_mesh: DeviceMesh; all its dimensions but the last have copies.
        """
        local, inner = (tensor._local_tensor, tensor._spec) if isinstance(tensor, DTensor) else (tensor, None)
        size, start = part_of(local.shape[0], device_mesh.size(device_mesh.ndim - 1), rank)
        part, own = local.detach().narrow(0, start, size).clone(), (Replicate(),) * (device_mesh.ndim - 1)
        if inner is None:
            spec = DTensorSpec(device_mesh, (*own, Shard(0)), tuple(tensor.shape), default_strides(tensor.shape))
            return _wrap(part, spec)
        both = DeviceMesh._concatenate([device_mesh, inner.mesh])
        before = math.prod(inner.mesh.size(at) for at, p in enumerate(inner.placements) if p.is_shard(0))
        cut = Shard(0) if before == 1 else _StridedShard(0, split_factor=before)
        return _wrap(part, DTensorSpec(both, (*own, cut, *inner.placements), inner.shape, inner.strides))

    def pre_load_state_dict_transform(self, tensor):
        """(local part, its ChunkStorageMetadata) of a DTensor."""
        return tensor._local_tensor, tensor.__create_chunk_list__()

    def all_gather_dtensor(self, tensor, parent_mesh):
        """A DTensor's local part without the cut of `chunk_dtensor`. `parent_mesh`: the mesh of both cuts; None: there
        is no other one.
        """
        outer = 1 if parent_mesh is None else max(parent_mesh.ndim - 1, 1)
        places = [Replicate()] * min(outer, tensor.device_mesh.ndim)
        return tensor.redistribute(placements=[*places, *tensor.placements[len(places) :]]).to_local()
