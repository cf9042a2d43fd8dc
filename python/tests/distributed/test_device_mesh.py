"""Meshes whose dimensions are cut into several."""

import pytest
import tessera.distributed as dist
from ranks import run


def test_a_dimension_is_cut_with_its_groups():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (4,), mesh_dim_names=("world",))._unflatten(0, (2, 2), ("rows", "columns"))
        assert mesh.mesh.tolist() == [[0, 1], [2, 3]] and mesh.get_coordinate() == (rank // 2, rank % 2)
        part = mesh["rows"]
        grid = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
        longer = grid["b"]._unflatten("b", (2, 1), ("x", "y"), backend_override={"x": "gloo"})
        with pytest.raises(ValueError, match="the product of"):
            grid._unflatten(0, (3, 2), ("x", "y"))
        with pytest.raises(RuntimeError, match="as many names"):
            grid._unflatten(0, (2, 1), ("x",))
        with pytest.raises(RuntimeError, match="'a' twice"):
            dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"), backend_override={0: "gloo", "a": "gloo"})
        ranks = [dist.get_process_group_ranks(m.get_group(name)) for m, name in ((part, 0), (longer, "x"), (mesh, 1))]
        return part.mesh.tolist(), longer.mesh.tolist(), longer.mesh_dim_names, ranks

    for rank, (part, longer, names, ranks) in enumerate(run(body, 4)):
        row = [0, 1] if rank < 2 else [2, 3]
        column = [rank % 2, rank % 2 + 2]
        assert part == column and longer == [[row[0]], [row[1]]] and names == ("x", "y")
        assert ranks == [column, row, row]
