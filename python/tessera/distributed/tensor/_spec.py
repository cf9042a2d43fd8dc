"""What is known of a DTensor besides its part."""

from dataclasses import dataclass, replace

from tessera.distributed.device_mesh import DeviceMesh

__all__ = ["DTensorSpec"]


@dataclass(frozen=True)
class DTensorSpec:
    """How a tensor of `shape` and `strides` lies on a mesh."""

    mesh: DeviceMesh
    placements: tuple
    shape: tuple
    strides: tuple

    device_mesh = property(lambda self: self.mesh)
    ndim = property(lambda self: len(self.shape))

    def placed(self, placements):
        """The same tensor with other placements."""
        return replace(self, placements=tuple(placements))

    def is_replicated(self):
        """True if every process has a copy."""
        return all(p.is_replicate() for p in self.placements)

    def is_sharded(self):
        """True if some dimension is cut."""
        return any(p.is_shard() for p in self.placements)
