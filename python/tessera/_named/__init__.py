"""Named dimensions: the methods of Tensor that rename and align, and the calls that mention names where an operator
takes places. How names go through operators is told in C++ (named/rules.cc).
"""

import tessera
from tessera import _C

_FACTORIES = frozenset(("empty", "full", "new_empty", "ones", "rand", "randn", "zeros"))
# The operators that take a name wherever they take the place of a dimension.
_TAKE_NAMES = frozenset(
    name + form
    for name in (
        "all any argsort cat concat concatenate cummax cummin cumprod cumsum diagonal gather index_add index_copy "
        "index_fill index_select kthvalue linalg_vector_norm log_softmax logcumsumexp logsumexp max mean median min "
        "mode nanmedian prod scatter scatter_add select softmax sort squeeze std std_mean sum transpose unbind var "
        "var_mean"
    ).split()
    for form in ("", "_")
)
_FIRST_PLACE = {"kthvalue": 2, "linalg_vector_norm": 2}  # what comes before (k, an order) is no place
_PLACES = ("dim", "dims", "dim0", "dim1", "dim2", "axis")


def _text(tensor):
    return f"Tensor{list(tensor.names)}"


def _plain(tensor):
    """The same memory, history and sizes without names."""
    return rename(tensor, None)


def _is_name(value):
    return isinstance(value, str) or (
        isinstance(value, (tuple, list))
        and any(isinstance(item, str) for item in value)
        and all(isinstance(item, (str, type(None))) for item in value)
    )


def _to_place(tensor, value):
    if value is None or (not isinstance(value, str) and None in value):
        raise RuntimeError(f"Please look up dimensions by name, got {value}: None stands for no dimension")
    if isinstance(value, str):
        return _C._dim_by_name(tensor, value)
    return [_C._dim_by_name(tensor, name) for name in value]


def call(function, args, kwargs):
    """What an operator's callable does with arguments that none of its overloads takes: those with names.

    Returns NotImplemented where the operator takes no names.
    """
    name = function.__name__
    if name in _FACTORIES and "names" in kwargs:
        names = kwargs.pop("names")
        result = function(*args, **kwargs)
        _C._set_names(result, names)
        return result
    if name == "flatten":
        return _flatten(*args, **kwargs)
    if name == "unflatten":
        return _unflatten(*args, **kwargs)
    if name == "diagonal" and "outdim" in kwargs:
        return _diagonal(*args, **kwargs)
    if name not in _TAKE_NAMES or not args:
        return NotImplemented
    first = args[0][0] if isinstance(args[0], (tuple, list)) and args[0] else args[0]
    if not isinstance(first, tessera.Tensor):
        return NotImplemented
    fixed = _FIRST_PLACE.get(name, 1)
    if args[fixed : fixed + 1] == (None,) and name != "linalg_vector_norm" and has_names(first):
        _to_place(first, None)  # for a norm None is all dimensions
    places = [*args[:fixed], *(_to_place(first, a) if _is_name(a) else a for a in args[fixed:])]
    by_name = {k: _to_place(first, v) if k in _PLACES and _is_name(v) else v for k, v in kwargs.items()}
    if all(a is b for a, b in zip(args, places)) and all(by_name[k] is kwargs[k] for k in kwargs):
        return NotImplemented
    return function(*places, **by_name)


def getitem(tensor, index):
    """`tensor[index]` with integers, slices, None and ...: a dimension that stays keeps its name.

    Raises: RuntimeError for indices that are tensors or sequences.
    """
    parts = index if isinstance(index, tuple) else (index,)
    names = list(tensor.names)
    given = sum(1 for part in parts if part is not None and part is not Ellipsis)
    kept = []
    for part in parts:
        if part is None:
            kept.append(None)
        elif part is Ellipsis:
            skipped = len(names) - given
            kept += names[:skipped]
            del names[:skipped]
        elif isinstance(part, slice):
            kept += names[:1]
            del names[:1]
            given -= 1
        elif isinstance(part, (tessera.Tensor, tuple, list, bool)) and not (
            isinstance(part, tessera.Tensor) and part.dim() == 0 and part.dtype is not tessera.bool
        ):
            raise RuntimeError(
                "indexing with tensors or sequences is not yet supported with named tensors. Please drop names via "
                "`tensor = tensor.rename(None)`, index the unnamed tensor, and set names on the result."
            )
        else:
            del names[:1]
            given -= 1
    result = _plain(tensor)[index]
    _C._set_names(result, tuple(kept + names) or None)
    return result


def has_names(self):
    """Whether any dimension has a name."""
    return any(name is not None for name in self.names)


def _expanded(given, names):
    """`given` with the one "..." in it replaced by the names that it stands for, by place."""
    given = [Ellipsis if name == "..." else name for name in given]
    if Ellipsis not in given:
        return given
    if given.count(Ellipsis) > 1:
        raise RuntimeError(f"More than one '...' among the names: {tuple(given)}")
    at = given.index(Ellipsis)
    behind = len(given) - at - 1
    return given[:at] + list(names[at : len(names) - behind]) + given[at + 1 :]


def _given(names):
    """Names given one by one or as one sequence."""
    return tuple(names[0]) if len(names) == 1 and isinstance(names[0], (tuple, list)) else names


def _new_names(tensor, names, mapping, method):
    if names and mapping:
        raise RuntimeError(
            f"{method}: expected either positional args or keyword args (names by position, or a map of old to new "
            "names), got both"
        )
    if not names and not mapping:
        raise RuntimeError(f"{method}: expected names, a map of old to new names, or None to drop all of them")
    if mapping:
        for old in mapping:
            if old not in tensor.names:
                raise RuntimeError(
                    f"{method}: Tried to rename dim '{old}' to dim '{mapping[old]}' in {_text(tensor)} but dim "
                    f"'{old}' does not exist"
                )
        return tuple(mapping.get(name, name) for name in tensor.names)
    names = _given(names)
    return None if names == (None,) and tensor.dim() != 1 else tuple(_expanded(names, tensor.names)) or None


def rename(self, *names, **rename_map):
    """A view whose dimensions have other names.

    Args:
        names: a name or None for each dimension, "..." for those that keep theirs; a single None drops all names.
        rename_map: new names by old names.

    Raises: RuntimeError for both kinds of arguments or none, for a name that is not there, is no identifier, or is
    given twice.
    """
    new = _new_names(self, names, rename_map, "rename")
    result = _C.alias(self)
    _C._set_names(result, new)
    return result


def rename_(self, *names, **rename_map):
    """`rename` of the tensor itself."""
    _C._set_names(self, _new_names(self, names, rename_map, "rename_"))
    return self


def refine_names(self, *names):
    """A view with names where there were none.

    Args:
        names: a name or None for each dimension; one "..." stands for those not mentioned. A dimension that has a name
            keeps it: its own name must be given.

    Raises: RuntimeError where a name differs from the one that is there, or the number of names from that of
    dimensions.
    """
    new = _expanded(_given(names), self.names)
    if len(new) != self.dim():
        raise RuntimeError(
            f"refine_names: cannot coerce {_text(self)} to Tensor{new} because they have a different number of dims "
            f"({self.dim()} and {len(new)} respectively)."
        )
    for at, (old, name) in enumerate(zip(self.names, new)):
        if old is not None and old != name:
            reason = (
                f"'{old}' is different from '{name}'" if name is not None else f"'{old}' is more specific than None"
            )
            raise RuntimeError(
                f"refine_names: cannot coerce {_text(self)} to Tensor{new} because {reason} at index {at}"
            )
    result = _C.alias(self)
    _C._set_names(result, tuple(new) or None)
    return result


def _aligned(tensor, names, method):
    have = tensor.names
    rest = [place for place, name in enumerate(have) if name is None or name not in names]
    if Ellipsis not in names and None in have:
        raise RuntimeError(
            f"{method}: All input dims must be named. Found unnamed dim at index {have.index(None)} of {_text(tensor)}"
        )
    if Ellipsis not in names and rest:
        raise RuntimeError(
            f"{method}: Cannot find dim '{have[rest[0]]}' of {_text(tensor)} among {list(names)}, which have to name "
            "all of them"
        )
    if len(set(names)) != len(names):
        raise RuntimeError(f"{method}: duplicate names in {list(names)}")
    places = []  # of the tensor's dimensions, or the name of a new one
    for name in names:
        places += rest if name is Ellipsis else [have.index(name) if name in have else name]
    result = _plain(tensor).permute([place for place in places if not isinstance(place, str)])
    for at, place in enumerate(places):
        if isinstance(place, str):
            result = result.unsqueeze(at)
    _C._set_names(result, tuple(p if isinstance(p, str) else have[p] for p in places) or None)
    return result


def align_to(self, *names):
    """A view with the dimensions in the order of `names`, and dimensions of size 1 for those that are new.

    Args:
        names: all names of the tensor and any others; one "..." stands for the tensor's dimensions that are not
            mentioned, in their order, also those without a name.

    Raises: RuntimeError for a dimension that `names` leave out, by its name or because it has none.
    """
    names = [Ellipsis if name == "..." else name for name in _given(names)]
    if names.count(Ellipsis) > 1:
        raise RuntimeError(f"align_to: expected at most one '...' among the names, got {tuple(names)}")
    if None in names:
        raise RuntimeError(f"align_to: the desired order of dimensions cannot contain a None name, got {tuple(names)}")
    return _aligned(self, names, "align_to")


def align_as(self, other):
    """`align_to` with the names of `other`.

    Raises: RuntimeError as `align_to` does, also where a dimension of `other` has no name.
    """
    if None in other.names:
        raise RuntimeError(f"align_as: all dims of `other` must be named, got {_text(other)}")
    return _aligned(self, other.names, "align_as")


def align_tensors(*tensors):
    """The tensors, each aligned to the names of the one with the most dimensions."""
    tensors = _given(tensors)
    longest = max(tensors, key=lambda tensor: tensor.dim())
    return tuple(align_as(tensor, longest) for tensor in tensors)


def _canonical(dim, ndim):
    room = max(ndim, 1)
    if not -room <= dim < room:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-room}, {room - 1}], but got {dim})")
    return dim % room


def _diagonal(tensor, *, outdim, dim1, dim2, offset=0):
    """diagonal(outdim=, dim1=, dim2=, offset=) by names; the diagonal's dimension gets the name `outdim`."""
    result = _plain(tensor).diagonal(offset, _to_place(tensor, dim1), _to_place(tensor, dim2))
    kept = tuple(name for name in tensor.names if name not in (dim1, dim2))
    _C._set_names(result, (*kept, outdim))
    return result


def _flatten(tensor, dims=None, out_dim=None, *more, start_dim=None, end_dim=None):
    """flatten(dims, out_dim) and flatten(start_dim, end_dim, out_dim)."""
    if more or start_dim is not None:
        start_dim, end_dim = (dims, out_dim) if start_dim is None else (start_dim, end_dim)
        out_dim = more[0] if more else out_dim
        first, last = (
            _to_place(tensor, d) if isinstance(d, str) else _canonical(d, tensor.dim()) for d in (start_dim, end_dim)
        )
        if first > last:
            raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
        places = list(range(first, last + 1))
    else:
        places = [_to_place(tensor, d) if isinstance(d, str) else d for d in dims]
    if not places:
        raise RuntimeError("flatten(tensor, dims, out_dim): dims cannot be empty")
    if places != list(range(places[0], places[0] + len(places))):
        names = [tensor.names[place] for place in places]
        raise RuntimeError(f"flatten(tensor, dims, out_dim): dims {names} must be consecutive in {_text(tensor)}")
    names = tensor.names
    result = _plain(tensor).flatten(places[0], places[-1])
    _C._set_names(result, names[: places[0]] + (out_dim,) + names[places[-1] + 1 :])
    return result


def _unflatten(tensor, dim, sizes):
    """unflatten(dim, [(name, size), ...]), or an OrderedDict of them."""
    place = _to_place(tensor, dim) if isinstance(dim, str) else dim % max(tensor.dim(), 1)
    if isinstance(sizes, dict):
        sizes = list(sizes.items())
    if not all(isinstance(item, (tuple, list)) and len(item) == 2 for item in sizes):
        if isinstance(dim, str):
            raise TypeError(
                f"unflatten(): argument 'dim' (position 1) must be int, not str, unless the sizes are pairs of a name "
                f"and a size; got {sizes}"
            )
        raise RuntimeError(
            f"unflatten: input is a named tensor but no names were given for unflattened sizes; got {sizes}"
        )
    names = tensor.names
    result = _plain(tensor).unflatten(place, [size for _, size in sizes])
    _C._set_names(result, names[:place] + tuple(name for name, _ in sizes) + names[place + 1 :])
    return result
