"""Where programs also look for meshes."""

from tessera.distributed.device_mesh import DeviceMesh, _mesh_resources, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
