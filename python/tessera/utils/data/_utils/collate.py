"""From a list of samples to a batch."""

import collections.abc
import copy
import re
import sys

import tessera

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
np_str_obj_array_pattern = re.compile("[SaUO]")  # kinds of arrays that can't become tensors


def _numpy():
    """NumPy, if something has imported it: an array can't exist otherwise."""
    return sys.modules.get("numpy")


def _is_array(value):
    numpy = _numpy()
    return numpy is not None and isinstance(value, numpy.ndarray)


def _is_numpy_scalar(value):
    numpy = _numpy()
    return numpy is not None and isinstance(value, numpy.generic)


def _is_namedtuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _is_text_dtype(dtype):
    return dtype.kind in "SUO"


def default_convert(data):
    """Converts NumPy arrays, also inside containers, to tensors; leaves everything else as it is."""
    if isinstance(data, tessera.Tensor):
        return data
    if _is_array(data) or _is_numpy_scalar(data):
        return data if _is_text_dtype(data.dtype) else tessera.as_tensor(data)
    cls = type(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuild_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if _is_namedtuple(data):
        return cls(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _rebuild_sequence(data, [default_convert(value) for value in data])
    return data


def _rebuild_mapping(like, items):
    try:
        if isinstance(like, collections.abc.MutableMapping):
            clone = copy.copy(like)
            clone.update(items)
            return clone
        return type(like)(items)
    except TypeError:  # the type has no such constructor
        return items


def _rebuild_sequence(like, items):
    try:
        if isinstance(like, collections.abc.MutableSequence):
            clone = copy.copy(like)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(like)(items)
    except TypeError:  # such as range
        return items


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Stacks tensors; in a worker process straight into shared memory."""
    first = batch[0]
    if first.is_nested:
        raise RuntimeError(
            "Batches of nested tensors are not currently supported by the default collate_fn; please provide a custom "
            "collate_fn to handle them appropriately."
        )
    out = _memory_for(batch)
    return tessera.stack(batch, 0) if out is None else tessera.stack(batch, 0, out=out)


def _memory_for(batch):
    """In a worker: memory for a large batch that reaches the loader without a copy; None elsewhere."""
    worker = sys.modules.get("tessera.utils.data._utils.worker")
    if worker is None or worker.get_worker_info() is None:
        return None
    first = batch[0]
    same = all(
        type(t) is tessera.Tensor and t.dtype is first.dtype and t.shape == first.shape and not t.requires_grad
        for t in batch
    )
    if not same or first.device.type != "cpu" or first.is_quantized or not str(first.layout).endswith("strided"):
        return None
    from tessera.utils.data._utils import transport

    return transport.empty((len(batch), *first.shape), first.dtype)


def _tensor_of_array(array):
    if _is_text_dtype(array.dtype):
        raise TypeError(default_collate_err_msg_format.format(array.dtype))
    return tessera.as_tensor(array)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    return collate([*map(_tensor_of_array, batch)], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    return tessera.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    return tessera.tensor(batch, dtype=tessera.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    return tessera.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    return batch


default_collate_fn_map = {
    tessera.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _find_function(value, functions):
    function = functions.get(type(value))
    if function is not None:
        return function
    for cls, function in functions.items():
        if isinstance(value, cls):
            return function
    return None


def collate(batch, *, collate_fn_map=None):
    """Collates recursively; `collate_fn_map` maps types of leaves to functions (list, collate_fn_map=...) -> batch.

    Raises: RuntimeError if sequences in the batch differ in length, TypeError for leaves without a function.
    """
    first = batch[0]
    if collate_fn_map is not None:
        function = _find_function(first, collate_fn_map)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        return _rebuild_mapping(
            first, {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first}
        )
    if _is_namedtuple(first):
        return type(first)(*(collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        size = len(first)
        if not all(len(sample) == size for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch)]
        return columns if isinstance(first, tuple) else _rebuild_sequence(first, columns)
    raise TypeError(default_collate_err_msg_format.format(type(first)))


def default_collate(batch):
    """Puts the samples of a list into tensors with a new first dimension.

    Tensors and arrays are stacked, floats become float64, ints int64; strings and bytes stay a list; mappings, named
    tuples and
    sequences are collated entry by entry.

        >>> tessera.utils.data.default_collate([{"x": 0}, {"x": 1}])
        {'x': tensor([0, 1])}
    """
    functions = default_collate_fn_map
    numpy = _numpy()
    if numpy is not None and numpy.ndarray not in functions:
        functions[numpy.ndarray] = collate_numpy_array_fn
        functions[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn
    return collate(batch, collate_fn_map=functions)
