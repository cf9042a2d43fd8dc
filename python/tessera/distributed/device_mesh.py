"""Meshes: the processes of a program as an array, with groups along each of its dimensions.

>>> import tessera.distributed as dist
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
>>> mesh["tp"].mesh.tolist(), mesh.get_coordinate()
([0], (0, 0))
>>> dist.destroy_process_group()
"""

import math
import threading

import tessera
from tessera.distributed import _groups as groups
from tessera.distributed._kinds import Backend

__all__ = ["DeviceMesh", "init_device_mesh"]


class _MeshEnv(threading.local):
    """The meshes that `with mesh:` has made the present ones, and what other code asks of meshes."""

    def __init__(self):
        self.mesh_stack = []

    def get_current_mesh(self):
        """The present mesh. Raises: RuntimeError if there is none."""
        if not self.mesh_stack:
            raise RuntimeError("no device mesh is active; use it inside of 'with mesh:'")
        return self.mesh_stack[-1]

    @staticmethod
    def get_root_mesh(device_mesh):
        """The mesh that this one was cut out of; itself if it was not."""
        return device_mesh._get_root_mesh()

    @staticmethod
    def get_root_mesh_dim(device_mesh):
        """The dimension of the root mesh that a mesh of one dimension is."""
        return device_mesh._get_root_mesh_dim()

    @staticmethod
    def get_mesh_dim_by_name(device_mesh, mesh_dim_name):
        """The number of the dimension of that name."""
        return device_mesh._get_mesh_dim_by_name(mesh_dim_name)

    @staticmethod
    def num_devices_per_host(device_type):
        """The number of devices of a type in this machine."""
        return tessera.cuda.device_count() if device_type == "cuda" else 1


_mesh_resources = _MeshEnv()


def _checked_names(names, dims):
    if names is None:
        return None
    names = tuple(names)
    if len(set(names)) != len(names):
        raise RuntimeError(f"the names of a mesh's dimensions have to be different, but got {names}")
    if len(names) != dims:
        raise RuntimeError(f"a mesh of {dims} dimensions takes as many names, but got {names}")
    return names


def _checked_type(device_type):
    if not isinstance(device_type, str) or not device_type.isalpha():
        raise RuntimeError(
            f"a mesh takes a type of devices such as 'cpu' or 'cuda', without an index, but got {device_type!r}"
        )
    return device_type


class DeviceMesh:
    """An array of global ranks, with a process group along each dimension through every place.

    All processes of the default group (which is made if need be) make it together.

    Args:
        device_type: "cpu", "cuda" ...
        mesh: the ranks: a list (of lists) or an integer tensor.
        mesh_dim_names: a name for each dimension.
        backend_override: for a dimension (its number or name) the backend of its groups.

    Raises: RuntimeError for names that do not fit, for a device with an index, and for a mesh larger than the world.
    """

    def __init__(
        self,
        device_type,
        mesh=None,
        *,
        mesh_dim_names=None,
        backend_override=None,
        _init_backend=True,
        _rank=None,
        _layout=None,
        _rank_map=None,
        _root_mesh=None,
    ):
        if mesh is None or _layout is not None or _rank_map is not None:
            raise TypeError("a DeviceMesh is made from `mesh`, the array of ranks")
        self._device_type = _checked_type(device_type)
        ranks = mesh.detach().to("cpu") if isinstance(mesh, tessera.Tensor) else tessera.tensor(mesh)
        if ranks.dtype.is_floating_point or ranks.numel() == 0:
            raise ValueError("a mesh is an array of ranks, which are whole numbers")
        self._mesh = ranks.to(tessera.int32).contiguous()
        self._steps = tuple(math.prod(self._mesh.shape[dim + 1 :]) for dim in range(self._mesh.dim()))
        self._names = _checked_names(mesh_dim_names, self._mesh.dim())
        self._root, self._flat, self._dims = _root_mesh, {}, None
        self._group_names = []
        self._setup(_rank, _init_backend, backend_override)

    def _setup(self, rank, init_backend, override):
        if init_backend or rank is None:
            self._join_world()
        self._rank = groups.get_rank() if rank is None else rank
        self._coordinate = self._find()
        self._thread = threading.get_ident()
        if init_backend:
            self._group_names = self._make_groups(override or {})

    def _join_world(self):
        if not groups.is_initialized():
            groups.init_process_group()
        size = groups.get_world_size()
        if self._mesh.numel() > size or int(self._mesh.max()) >= size:
            raise RuntimeError(
                f"a mesh of shape {self.shape}, ranks up to {int(self._mesh.max())}, is larger than the world of {size}"
            )
        if len(set(self._mesh.flatten().tolist())) != self._mesh.numel():
            raise RuntimeError(f"the ranks of a mesh have to be different, but got {self._mesh.tolist()}")
        if self._device_type == "cuda" and tessera.cuda.is_available() and not tessera.cuda.is_initialized():
            local = groups.get_node_local_rank(groups.get_rank() % tessera.cuda.device_count())
            tessera.cuda.set_device(local)

    def _find(self):
        places = (self._mesh == self._rank).nonzero()
        return tuple(places[0].tolist()) if places.shape[0] else None

    def _make_groups(self, override):
        """The name of this process's group along each dimension; all processes make all of them."""
        names = []
        for dim in range(self._mesh.dim()):
            label = self._names[dim] if self._names else f"dim_{dim}"
            backend = override.get(dim, override.get(label))
            names.append(self._line_groups(dim, label, backend))
        return names

    def _line_groups(self, dim, label, backend):
        lines = self._mesh.movedim(dim, -1).reshape(-1, self._mesh.shape[dim]).tolist()
        world = groups.get_process_group_ranks(None)
        if len(lines) == 1 and lines[0] == world and backend is None:
            return groups._get_default_group().group_name
        found = None
        for ranks in lines:
            options = backend[1] if isinstance(backend, tuple) else None
            name = backend[0] if isinstance(backend, tuple) else backend
            made = groups.new_group(ranks, backend=name, pg_options=options, group_desc=f"mesh_{label}")
            if self._rank in ranks:
                found = made.group_name
        return found

    # ---- what it is

    @property
    def device_type(self):
        """The type of the devices."""
        return self._device_type

    @property
    def mesh(self):
        """The ranks, an int32 tensor."""
        return self._mesh

    @property
    def mesh_dim_names(self):
        """The names of the dimensions, None if they have none."""
        return self._names

    @property
    def ndim(self):
        """The number of dimensions."""
        return self._mesh.dim()

    @property
    def shape(self):
        """The lengths of the dimensions."""
        return tuple(self._mesh.shape)

    def size(self, mesh_dim=None):
        """The number of places, or the length of a dimension."""
        return self._mesh.numel() if mesh_dim is None else self._mesh.shape[self._dim(mesh_dim)]

    def get_rank(self):
        """The global rank of this process."""
        return self._rank

    def get_coordinate(self):
        """The place of this process, a tuple; None if it has none."""
        return self._coordinate

    _sym_get_coordinate = get_coordinate

    def _is_current_rank_part_of_mesh(self):
        return self._coordinate is not None

    def _dim(self, dim):
        if isinstance(dim, str):
            return self._get_mesh_dim_by_name(dim)
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"a mesh of {self.ndim} dimensions has no dimension {dim}")
        return dim % self.ndim

    def _get_mesh_dim_by_name(self, name):
        if self._names is None or name not in self._names:
            raise KeyError(f"the mesh has no dimension '{name}'; its dimensions are {self._names}")
        return self._names.index(name)

    def _only_dim(self, dim, what):
        if dim is None and self.ndim > 1:
            raise RuntimeError(f"{what}: the mesh has {self.ndim} dimensions; say which")
        return 0 if dim is None else self._dim(dim)

    def get_local_rank(self, mesh_dim=None):
        """The place of this process along a dimension (its number or name); it may be left out if there is only one."""
        dim = self._only_dim(mesh_dim, "get_local_rank()")
        if self._coordinate is None:
            raise RuntimeError("this process has no place in the mesh")
        return self._coordinate[dim]

    def get_group(self, mesh_dim=None):
        """The group along a dimension (its number or name) in which this process is; the dimension may be left out if
        there is only one."""
        if isinstance(mesh_dim, str) and (self._names is None or mesh_dim not in self._names):
            flat = self._get_root_mesh()._flat.get(mesh_dim)
            if flat is not None:
                return flat.get_group()
        dim = self._only_dim(mesh_dim, "get_group()")
        if not self._group_names:
            raise RuntimeError("this mesh was made without process groups")
        if self._group_names[dim] is None:
            return groups.GroupMember.NON_GROUP_MEMBER
        return groups._resolve_process_group(self._group_names[dim])

    def get_all_groups(self):
        """The groups along all dimensions in which this process is."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    # ---- parts of it

    def __getitem__(self, mesh_dim_names):
        """The mesh of some dimensions, at the place of this process in the others.

        Args:
            mesh_dim_names: a name, or a tuple of them.

        Raises: RuntimeError for a mesh without names, KeyError for a name that it does not have.
        """
        if self._names is None:
            raise RuntimeError("a mesh can be sliced by the names of its dimensions, and this one has none")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._names:
            return self
        root = self._get_root_mesh()
        if len(names) == 1 and names[0] in root._flat and names[0] not in self._names:
            return root._flat[names[0]]
        if len(set(names)) != len(names):
            raise KeyError(f"a slice names each dimension once, but got {names}")
        for name in names:
            if name not in self._names:
                raise KeyError(
                    f"the mesh has no dimension '{name}'; its dimensions are {self._names + tuple(root._flat)}"
                )
        dims = [self._names.index(name) for name in names]
        if dims != sorted(dims):
            raise KeyError(f"a slice names dimensions in their order, which is {self._names}, but got {names}")
        return self._slice(dims)

    def _slice(self, dims):
        others = [dim for dim in range(self.ndim) if dim not in dims]
        place = self._coordinate or (0,) * self.ndim
        ordered = self._mesh.permute(*others, *dims)
        return self._part(ordered[tuple(place[dim] for dim in others)], dims)

    def _part(self, ranks, dims):
        part = DeviceMesh.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part._mesh, part._flat = ranks.contiguous(), {}
        part._steps = tuple(self._steps[dim] for dim in dims)
        part._names = tuple(self._names[dim] for dim in dims) if self._names else None
        part._root, part._dims = self._get_root_mesh(), [self._root_dim(dim) for dim in dims]
        part._group_names = [self._group_names[dim] for dim in dims] if self._group_names else []
        part._coordinate = part._find()
        return part

    def _root_dim(self, dim):
        return dim if self._dims is None else self._dims[dim]

    def _get_root_mesh(self):
        return self if self._root is None else self._root

    _root_mesh = property(_get_root_mesh)

    def _get_root_mesh_dim(self):
        return self._dims[0] if self._dims is not None and len(self._dims) == 1 else None

    def _get_all_submeshes(self, mesh_dim_name):
        """The meshes of one dimension through every place of the others."""
        dim = self._get_mesh_dim_by_name(mesh_dim_name)
        lines = self._mesh.movedim(dim, -1).reshape(-1, self._mesh.shape[dim])
        return [self._part(line, [dim]) for line in lines]

    def _flatten(self, mesh_dim_name=None, backend_override=None):
        """A mesh of one dimension with all places of this one, which the root then has under that name (by default the
        names with underscores between them). All processes call this."""
        root = self._get_root_mesh()
        if self._names is None:
            raise RuntimeError("a mesh without names cannot be flattened")
        name = mesh_dim_name or "_".join(self._names)
        if name in root._flat:
            return root._flat[name]
        if root._names and name in root._names and self.ndim > 1:
            raise ValueError(f"the mesh has a dimension '{name}' already")
        if self.ndim == 1:
            flat = self._part(self._mesh, [0])
            flat._names = (name,)
        else:
            flat = self._flattened(root, name, backend_override)
        root._flat[name] = flat
        return flat

    def _flattened(self, root, name, backend):
        own = list(range(root.ndim)) if self._dims is None else self._dims
        others = [dim for dim in range(root.ndim) if dim not in own]
        table = root._mesh.permute(*others, *own).reshape(-1, self._mesh.numel())
        flat = self._part(self._mesh.flatten(), [0])
        flat._names, flat._dims, flat._steps = (name,), None, (1,)
        whole = DeviceMesh.__new__(DeviceMesh)
        whole.__dict__.update(self.__dict__)
        whole._mesh = table
        flat._group_names = [whole._line_groups(1, name, backend)] if self._group_names else []
        return flat

    def _unflatten(self, dim, mesh_sizes, mesh_dim_names, backend_override=None):
        """The mesh with one dimension cut into several. All processes call this, as their groups are made.

        Args:
            dim: the dimension, by number or name.
            mesh_sizes: lengths of the new ones, whose product is the old one's.
            mesh_dim_names: their names.
            backend_override: for a new dimension (its number among them, or name) the backend of its groups.
        """
        at, sizes, names = self._dim(dim) % self.ndim, tuple(mesh_sizes), tuple(mesh_dim_names)
        if len(names) != len(sizes):
            raise RuntimeError(f"_unflatten: {len(sizes)} lengths take as many names, but got {names}")
        if math.prod(sizes) != self.shape[at]:
            raise ValueError(f"_unflatten: the product of {sizes} is not {self.shape[at]}, the dimension's length")
        kept = self._names or tuple(f"dim_{i}" for i in range(self.ndim))
        labels, override = _checked_names(kept[:at] + names + kept[at + 1 :], self.ndim + len(sizes) - 1), {}
        for key, backend in _override_of(backend_override, names).items():
            override[at + (names.index(key) if isinstance(key, str) else key)] = backend
        made = DeviceMesh.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._root, made._dims, made._flat, made._names = None, None, {}, labels
        made._mesh = self._mesh.reshape(*self.shape[:at], *sizes, *self.shape[at + 1 :])
        within = tuple(self._steps[at] * math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
        made._steps = self._steps[:at] + within + self._steps[at + 1 :]
        made._coordinate = made._find()
        if self._group_names:
            new = self._new_groups(made, range(at, at + len(sizes)), override)
            made._group_names = self._group_names[:at] + new + self._group_names[at + 1 :]
        return made

    def _new_groups(self, made, dims, override):
        """Groups along some dimensions of `made`, in which this mesh has another shape, in all of the root."""
        root = self._get_root_mesh()
        own = list(range(root.ndim)) if self._dims is None else self._dims
        others = [dim for dim in range(root.ndim) if dim not in own]
        whole = DeviceMesh.__new__(DeviceMesh)
        whole.__dict__.update(self.__dict__)
        whole._mesh = root._mesh.permute(*others, *own).reshape(-1, *made.shape)
        return [whole._line_groups(dim + 1, made._names[dim], override.get(dim)) for dim in dims]

    @staticmethod
    def _concatenate(device_mesh_list):
        """One mesh with the dimensions of several that were cut out of the same root."""
        roots = {id(mesh._get_root_mesh()): mesh._get_root_mesh() for mesh in device_mesh_list}
        if len(roots) != 1:
            raise RuntimeError("only meshes that were cut out of the same one can be put together")
        root = next(iter(roots.values()))
        return root[tuple(name for mesh in device_mesh_list for name in mesh._names)]

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh over groups that are there.

        Args:
            group: a group, for a mesh of one dimension, or a list with one for each dimension.
            device_type: of its devices.
            mesh: the array of ranks; may be left out for one group.
            mesh_dim_names: names of the dimensions; needed for a list.

        Raises: ValueError for a list without mesh or names, and for a mesh that does not fit.
        """
        one = not isinstance(group, (list, tuple))
        listed = [group] if one else list(group)
        if not listed:
            raise ValueError("from_group takes at least one group")
        if one:
            ranks = groups.get_process_group_ranks(group)
            given = ranks if mesh is None else mesh.tolist() if isinstance(mesh, tessera.Tensor) else list(mesh)
            if given != ranks:
                raise ValueError(f"from_group: the mesh is {given}, but the group has the ranks {ranks}")
            mesh = ranks
        elif mesh is None or mesh_dim_names is None:
            raise ValueError("from_group needs mesh and mesh_dim_names for a list of groups")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if made.ndim != len(listed):
            raise ValueError(f"from_group: {len(listed)} groups do not fit a mesh of {made.ndim} dimensions")
        made._group_names = [None if groups._rank_not_in_group(g) else g.group_name for g in listed]
        return made

    # ---- as a value

    def _key(self):
        return (tuple(self._mesh.flatten().tolist()), self.shape, self._device_type, self._names, self._thread)

    def __eq__(self, other):
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        if self._names:
            shape = "(" + ", ".join(f"{name}={size}" for name, size in zip(self._names, self.shape)) + ")"
        else:
            shape = str(self.shape)
        return f"DeviceMesh({shape}, '{self._device_type}', stride={self._steps})"

    def __enter__(self):
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *exception):
        _mesh_resources.mesh_stack.pop()

    def __getstate__(self):
        state = dict(self.__dict__)
        state["_mesh"], state["_flat"] = self._mesh.tolist(), {}
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._mesh = tessera.tensor(state["_mesh"], dtype=tessera.int32)
        self._thread = threading.get_ident()


def _override_of(given, names):
    """Backends of dimensions, checked. Raises: RuntimeError for a dimension that there is not, or that comes twice."""
    override = {}
    for dim, backend in (given or {}).items():
        known = dim in names if isinstance(dim, str) else isinstance(dim, int) and 0 <= dim < len(names)
        if not known:
            raise RuntimeError(f"backend_override names the dimension {dim!r}, which the mesh does not have")
        if not isinstance(dim, str) and names[dim] in given:
            raise RuntimeError(f"backend_override names the dimension {names[dim]!r} twice: {list(given)}")
        override[dim] = Backend(backend) if isinstance(backend, str) else backend
    return override


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """A mesh of all processes, numbered along its last dimension first. Makes the default group if there is none.

    Args:
        device_type: "cpu", "cuda" ..., without an index.
        mesh_shape: the lengths of the dimensions.
        mesh_dim_names: a name for each dimension.
        backend_override: for a dimension (its number or name) the backend of its groups.

    Raises: RuntimeError for a device with an index, for names that do not fit, and for a mesh larger than the world.
    """
    _checked_type(device_type)
    shape = tuple(mesh_shape)
    if not shape or any(size < 1 for size in shape):
        raise ValueError(f"mesh_shape holds lengths of at least 1, but got {shape}")
    _checked_names(mesh_dim_names, len(shape))
    names = tuple(mesh_dim_names or [None] * len(shape))
    override = _override_of(backend_override, names)
    ranks = tessera.arange(math.prod(shape), dtype=tessera.int32).view(shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=override or None)
