"""What DTensors send, and how they lie."""

import collections
import importlib
import importlib.util
import json

import tessera
from tessera.distributed.tensor._api import DTensor
from tessera.distributed.tensor._utils import compute_local_shape_and_global_offset
from tessera.utils import _pytree
from tessera.utils._python_dispatch import TorchDispatchMode
from tessera.utils.module_tracker import ModuleTracker

__all__ = ["CommDebugMode", "visualize_sharding"]

_COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "scatter", "gather", "reduce"),
    *("allreduce", "allgather", "alltoall"),
)
# Operators that compute nothing.
_TRIVIAL = frozenset(
    "alias clone detach empty_like expand lift_fresh ones ones_like permute reshape select slice split squeeze t "
    "transpose unbind unsqueeze view _unsafe_view zeros zeros_like wait_tensor".split()
)


class _Tracker(ModuleTracker):
    """Also keeps what it saw: modules in the order of their calls."""

    def __init__(self):
        super().__init__()
        self.modules = {}

    def _enter_forward(self, module, args):
        super()._enter_forward(module, args)
        self.modules[self._name_of(module)] = (str(type(module))[1:-1], dict(module.named_parameters(recurse=False)))


class CommDebugMode(TorchDispatchMode):
    """Context manager that counts collectives, for each module and in all, and writes down operators. Counting begins
    anew at each `with`.
    """

    def __init__(self):
        super().__init__()
        self._start()

    def _start(self):
        self._counts = collections.defaultdict(int)
        self._by_module = collections.defaultdict(int)
        self._operators = collections.defaultdict(list)
        self._tracker = _Tracker()

    def __enter__(self):
        self._start()
        self._tracker.__enter__()
        return super().__enter__()

    def __exit__(self, *args):
        self._tracker.__exit__(*args)
        return super().__exit__(*args)

    def _note(self, func, args, kwargs):
        leaves = [x for x in _pytree.tree_leaves((args, kwargs)) if isinstance(x, tessera.Tensor)]
        if any(x.device.type == "meta" for x in leaves):
            return
        where = max(self._tracker.parents, key=lambda name: (name != "Global") + name.count("."))
        spread = [x for x in leaves if isinstance(x, DTensor)]
        self._operators[where, self._tracker.is_bw].append(
            {
                "name": str(func),
                "input_shape": [str(x.shape) for x in spread],
                "input_sharding": [str(x.placements) for x in spread],
                "device_mesh": str(spread[0].device_mesh) if spread else "",
            }
        )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self._note(func, args, kwargs or {})
        if any(issubclass(t, DTensor) for t in types):
            return NotImplemented  # its own operators come here
        packet = func.overloadpacket
        if func.namespace in ("_c10d_functional", "c10d") and packet.__name__.lstrip("_").startswith(_COLLECTIVES):
            if func.namespace[0] == "_":  # by the name that programs know
                packet = getattr(tessera.ops.c10d_functional, packet.__name__, packet)
            self._counts[packet] += 1
            for name in self._tracker.parents:
                self._by_module[name, self._tracker.is_bw, packet] += 1
        return func(*args, **(kwargs or {}))

    def get_comm_counts(self):
        """{operator, of c10d or c10d_functional: how many calls}."""
        return self._counts

    comm_counts = property(get_comm_counts)

    @property
    def comm_module_counts(self):
        """{name of a module, or "Global": {"forward" or "backward": {operator: how many calls}}}."""
        found = {name: {"forward": {}, "backward": {}} for name in ("Global", *self._tracker.modules)}
        for (name, backward, packet), count in self._by_module.items():
            found[name]["backward" if backward else "forward"][packet] = count
        return found

    def get_total_counts(self):
        """How many collectives in all."""
        return sum(self._counts.values())

    def get_parameter_info(self):
        """{name of a module: {name: parameter}} of the modules that were called and have parameters."""
        return {name: params for name, (_, params) in self._tracker.modules.items() if params}

    def get_sharding_info(self):
        """{name of a parameter: placements} of the parameters that are DTensors."""
        return {
            f"{name}.{key}": parameter.placements
            for name, params in self.get_parameter_info().items()
            for key, parameter in params.items()
            if isinstance(parameter, DTensor)
        }

    def _operators_at(self, name, backward, noise_level):
        """Those that a level of detail shows."""
        for one in self._operators[name, backward]:
            trivial = one["name"].split(".")[1] in _TRIVIAL or "c10d" in one["name"]
            if noise_level >= 3 or (not trivial and (noise_level == 2 or (noise_level == 1 and one["input_shape"]))):
                yield one

    def _collectives_at(self, name, backward):
        return [
            (str(packet).lstrip("_"), count)
            for (where, back, packet), count in self._by_module.items()
            if where == name and back == backward
        ]

    def generate_comm_debug_tracing_table(self, noise_level=3):
        """A text: modules, and what each has sent.

        Args:
            noise_level: 0: collectives; 1: also operators of DTensors that compute something, and parameters; 2: all
                operators that do; 3: all operators.
        """
        lines = []
        for name in ("Global", *self._tracker.modules):
            depth = 0 if name == "Global" else 1 + name.count(".")
            pad = "  " * 2 * depth
            lines.append(pad + name)
            if noise_level and depth:
                kind, params = self._tracker.modules[name]
                lines.append(f"{pad}*module type: {kind}")
                lines += [f"{pad}*Parameter List"] if params else []
                places = {key: p.placements for key, p in params.items() if isinstance(p, DTensor)}
                lines += [f"{pad} *{key}: {places.get(key, 'not a DTensor')}" for key in params]
            for title, backward in (("FORWARD PASS", False), ("BACKWARD PASS", True)):
                found = [f"{pad}    *{packet}: {count}" for packet, count in self._collectives_at(name, backward)]
                for one in self._operators_at(name, backward, noise_level):
                    found.append(f"{pad}    **{one['name']}")
                    if one["input_shape"]:
                        found.append(f"{pad}      shape: [{', '.join(one['input_shape'])}]")
                        found.append(f"{pad}      sharding: [{', '.join(one['input_sharding'])}]")
                        found.append(f"{pad}      device mesh: {one['device_mesh']}")
                lines += [f"{pad}  {title}", *found] if found else []
        return "\n".join(lines) + "\n"

    def _tree(self, name, noise_level):
        kind, params = self._tracker.modules.get(name, ("", {}))
        depth = 0 if name == "Global" else 1 + name.count(".")
        below = [
            other
            for other in self._tracker.modules
            if other.count(".") == depth and (depth == 0 or other.startswith(f"{name}."))
        ]
        found = {
            "fqn": name,
            "module_type": kind,
            "parameters": [[key, str(getattr(p, "placements", ""))] for key, p in params.items()],
            "children": [self._tree(other, noise_level) for other in below],
        }
        for title, backward in (("forward", False), ("backward", True)):
            found[f"collectives_{title}"] = [list(pair) for pair in self._collectives_at(name, backward)]
            found[f"operations_{title}"] = list(self._operators_at(name, backward, noise_level))
        return found

    def generate_json_dump(self, file_name="comm_mode_log.json", noise_level=3):
        """Writes the table as JSON: nested objects, one for each module. `noise_level`: as for the table."""
        with open(file_name, "w") as stream:
            json.dump(self._tree("Global", noise_level), stream, indent=4)

    def log_comm_debug_tracing_table_to_file(self, file_name="comm_mode_log.txt", noise_level=3):
        """Writes the table into a file. `noise_level`: as for the table."""
        with open(file_name, "w") as stream:
            stream.write(self.generate_comm_debug_tracing_table(noise_level))


def _pieces(dtensor):
    """[((first row, last), (first column, last), places of the mesh)]."""
    mesh, found = dtensor.device_mesh, {}
    for place in _places(mesh.shape):
        at = _Standing(mesh, place)
        sizes, offsets = compute_local_shape_and_global_offset(dtensor.shape, at, dtensor.placements)
        sizes, offsets = (1,) * (2 - len(sizes)) + tuple(sizes), (0,) * (2 - len(offsets)) + tuple(offsets)
        if 0 not in sizes:
            rows, columns = ((o, o + n - 1) for o, n in zip(offsets, sizes))
            found.setdefault((rows, columns), []).append(f"{mesh.device_type}:{int(mesh.mesh[place])}")
    return found


def _places(shape):
    if not shape:
        return [()]
    return [(first, *rest) for first in range(shape[0]) for rest in _places(shape[1:])]


class _Standing:
    """A mesh, seen from one of its places."""

    def __init__(self, mesh, place):
        self._mesh, self._place = mesh, place

    def get_coordinate(self):
        return list(self._place)

    def size(self, dim):
        return self._mesh.size(dim)


def visualize_sharding(dtensor, header="", use_rich=False):
    """Prints, in the first process of the mesh, which piece of a tensor is where. Nothing for an empty tensor.

    Args:
        dtensor: DTensor of one or two dimensions.
        header: a line above.
        use_rich: by the package rich, even if tabulate is there.

    Raises: RuntimeError for more dimensions, ValueError if neither rich nor tabulate is installed.
    """
    if dtensor.numel() == 0:
        return
    if not 1 <= dtensor.dim() <= 2:
        raise RuntimeError(f"visualize_sharding supports one or two dimensions, but got {dtensor.dim()}")
    if dtensor.device_mesh.get_coordinate() is None or any(dtensor.device_mesh.get_coordinate()):
        return
    tools = {name: importlib.util.find_spec(name) is not None for name in ("rich", "tabulate")}
    if not any(tools.values()):
        raise ValueError("`visualize_sharding` requires either `rich` or `tabulate`.")
    found = _pieces(dtensor)
    rows, columns = (sorted({key[at] for key in found}) for at in (0, 1))
    table = [[", ".join(found.get((row, column), ())) for column in columns] for row in rows]
    titles = [f"Col {a}-{b}" for a, b in columns]
    names = [f"Row {a}-{b}" for a, b in rows]
    if header:
        print(header)
    if tools["rich"] and (use_rich or not tools["tabulate"]):
        rich_table = importlib.import_module("rich.table").Table("", *titles)
        for name, row in zip(names, table):
            rich_table.add_row(name, *row)
        importlib.import_module("rich").print(rich_table)
    else:
        print(importlib.import_module("tabulate").tabulate(table, headers=titles, showindex=names))
