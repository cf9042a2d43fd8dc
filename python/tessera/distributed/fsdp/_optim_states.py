"""State dicts of optimizers whose parameters are parts: to and from names and shapes of the whole parameters."""

import itertools

import tessera
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.fsdp._flat import FLAT
from tessera.distributed.tensor import DTensor

WRAPPED = "_fsdp_wrapped_module."


def clean(name):
    """A name without what wrappers add."""
    return name.replace(WRAPPED, "").replace("_checkpoint_wrapped_module.", "")


def _listed(model, optim, optim_input=None):
    """The parameters of each group of an optimizer."""
    if optim is not None:
        return [group["params"] for group in optim.param_groups]
    if optim_input is None:
        return [list(model.parameters())]
    given = list(optim_input)
    return [list(group["params"]) for group in given] if given and isinstance(given[0], dict) else [given]


class Names:
    """Which whole parameters the parameters of a model stand for.

    Args:
        model: Module.
        pieces: the FlatParameters in it.
    """

    def __init__(self, model, pieces):
        prefixes = {module: clean(f"{name}." if name else "") for name, module in model.named_modules()}
        self.pieces, self.entries, self.of, self.flat = pieces, {}, {}, {}
        for name, parameter in model.named_parameters():
            self.of[parameter] = [clean(name)]
        for piece in pieces:
            for parameter, entries in piece.parameters():
                module_names = [prefixes[e.places[0][0]] + e.places[0][1] for e in entries]
                self.of[parameter] = module_names
                self.flat[parameter] = (piece, entries)
                for name, entry in zip(module_names, entries):
                    self.entries[name] = (piece, entry, parameter)


def _states(optim, state):
    """{parameter: its state} of a state dict with numbers (or of one with the parameters themselves)."""
    parameters = [p for group in optim.param_groups for p in group["params"]]
    keys = [key for group in state["param_groups"] for key in group["params"]]
    return {p: state["state"][key] for p, key in zip(parameters, keys) if key in state["state"]}


def _is_part(value):
    return isinstance(value, tessera.Tensor) and value.dim() > 0


def collect(model, pieces, optim, state=None, *, sharder=None, first_only=False, to_cpu=False, is_first=True):
    """The state dict of an optimizer, with names as keys and the state of whole parameters.

    Args:
        model: Module.
        pieces: the FlatParameters in it.
        optim: the optimizer.
        state: its state dict; None: `optim.state_dict()`.
        sharder: `sharder(piece, tensor)` cuts a whole tensor; None: it stays whole.
        first_only: whether other processes get {}.
        to_cpu: whether tensors are in host memory.
        is_first: whether this process is the first one.
    """
    names = Names(model, pieces)
    state = optim.state_dict() if state is None else state
    own = _states(optim, state)
    moved = lambda v: v.detach().cpu() if to_cpu and isinstance(v, tessera.Tensor) else v
    found = {}
    for piece in pieces:
        for name, values in _collect_piece(piece, names, own).items():
            found[name] = {
                key: moved(sharder(piece, value) if sharder and _is_part(value) else value)
                for key, value in values.items()
            }
    for parameter, values in own.items():
        if parameter not in names.flat:
            for name in names.of[parameter]:
                found[name] = {key: moved(value) for key, value in values.items()}
    if first_only and not is_first:
        return {}
    groups = []
    for group, shown in zip(optim.param_groups, state["param_groups"]):
        inside = itertools.chain.from_iterable(names.of[p] for p in group["params"])
        groups.append({**{k: v for k, v in shown.items() if k not in ("params", "param_names")}, "params": [*inside]})
    order = [name for group in groups for name in group["params"]]
    return {"state": {name: found[name] for name in order if name in found}, "param_groups": groups}


def _collect_piece(piece, names, own):
    """{name: {key: value of the whole}} of a piece's entries; all processes of its line call this together."""
    listed = {}
    for parameter, entries in piece.parameters():
        for name, entry in zip(names.of[parameter], entries):
            listed[name] = (entry, own.get(parameter, {}))
    seen = {
        name: {key: value.dtype if _is_part(value) else value for key, value in values.items()}
        for name, (_, values) in listed.items()
    }
    kinds = {name: {key: _is_part(value) for key, value in values.items()} for name, (_, values) in listed.items()}
    everyones = [(seen, kinds)]
    if piece.line.size > 1:
        everyones = [None] * piece.line.size
        c10d.all_gather_object(everyones, (seen, kinds), group=piece.line.group)
    found = {}
    for others, part_kinds in everyones:
        for name, values in others.items():
            for key, value in values.items():
                found.setdefault(name, {}).setdefault(key, (part_kinds[name][key], value))
    keys = {(key, value) for values in found.values() for key, (is_part, value) in values.items() if is_part}
    wholes = {}
    for key, dtype in sorted(keys, key=str):
        part = tessera.zeros(piece.part_length, dtype=dtype, device=piece.device)
        for entry, values in listed.values():
            if _is_part(values.get(key)) and values[key].dtype == dtype:
                if piece.original:
                    piece.part_of(part, entry).copy_(values[key].view(piece.part_of(part, entry).shape))
                else:
                    part.copy_(values[key].view(-1))
        wholes[key, dtype] = piece.gather(part)
    result = {}
    for name, values in found.items():
        entry = listed[name][0]
        result[name] = {
            key: piece._view(wholes[key, value], entry).clone() if is_part else value
            for key, (is_part, value) in values.items()
        }
    return result


def _whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def spread(model, pieces, state, *, optim=None, optim_input=None, named=False):
    """A state dict with names and whole (or evenly cut) state, as one that the optimizer of the model can load.

    Args:
        model, pieces: as of `collect`.
        state: the state dict.
        optim: the optimizer; None: one over `optim_input`, or over all parameters.
        optim_input: what the optimizer was made with.
        named: whether keys are names instead of numbers.
    """
    names = Names(model, pieces)
    listed = _listed(model, optim, optim_input)
    numbers = itertools.count()
    wholes = {n: {k: _whole(v) for k, v in values.items()} for n, values in state["state"].items()}
    made, groups = {}, []
    for place, parameters in enumerate(listed):
        ids = []
        for parameter in parameters:
            number = next(numbers)
            key = _key_name(names, parameter) if named else number
            ids.append(key)
            values = _spread_one(names, parameter, wholes)
            if values:
                made[key] = values
        groups.append({**_group_like(state["param_groups"], names, parameters, place), "params": ids})
    return {"state": made, "param_groups": groups}


def _key_name(names, parameter):
    if len(names.of[parameter]) == 1:
        return names.of[parameter][0]
    first = names.of[parameter][0]
    return first.rpartition(".")[0] + "." + FLAT if "." in first else FLAT


def _group_like(groups, names, parameters, place):
    """The options of the group in which the first parameter was."""
    wanted = names.of[parameters[0]][0] if parameters else None
    chosen = next((group for group in groups if wanted in group["params"]), groups[min(place, len(groups) - 1)])
    return {key: value for key, value in chosen.items() if key not in ("params", "param_names")}


def _spread_one(names, parameter, wholes):
    if parameter not in names.flat:
        return dict(wholes.get(names.of[parameter][0], {}))
    piece, entries = names.flat[parameter]
    found = [(entry, wholes.get(name, {})) for entry, name in zip(entries, names.of[parameter])]
    made = {}
    for key in dict.fromkeys(key for _, values in found for key in values):
        sample = next(values[key] for _, values in found if key in values)
        if not _is_part(sample):
            made[key] = sample.clone() if isinstance(sample, tessera.Tensor) else sample
            continue
        part = tessera.zeros(piece.part_length, dtype=sample.dtype, device=piece.flat.device)
        for entry, values in found:
            start, stop, where = piece.span(entry)
            if key in values and stop > start:
                part[start:stop].copy_(values[key].reshape(-1)[where : where + stop - start])
        made[key] = piece.part_of(part, entries[0]).clone() if piece.original else part
    if piece.original and parameter.numel() == 0:
        return {}
    return made


def rekey(state, to_names, model, pieces, optim=None, optim_input=None):
    """A state dict with names for numbers, or numbers for names.

    Args:
        state: the state dict of whole parameters.
        to_names: which way.
        model, pieces, optim, optim_input: as of `spread`.
    """
    names = Names(model, pieces)
    order = [name for group in _listed(model, optim, optim_input) for p in group for name in names.of[p]]
    table = dict(enumerate(order)) if to_names else {name: number for number, name in enumerate(order)}
    changed = {table[key]: value for key, value in state["state"].items()}
    groups = [{**group, "params": [table[key] for key in group["params"]]} for group in state["param_groups"]]
    return {"state": changed, "param_groups": groups}
