"""The package itself: lazy names, small helpers, overrides, trees of containers, hooks."""

import collections
import subprocess
import sys

import pytest
import tessera
from tessera.overrides import (
    TorchFunctionMode,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    wrap_torch_function,
)
from tessera.torch_version import TorchVersion
from tessera.utils import _pytree as pytree
from tessera.utils.hooks import RemovableHandle


def test_import_loads_little():
    code = (
        "import sys; before = set(sys.modules); import tessera; new = set(sys.modules) - before;"
        "print(sorted(n for n in new if n.startswith('tessera')), sorted({'numpy', 'typing', 'inspect', 'dataclasses', "
        "'re', 'pickle'} & new))"
    )
    out = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; sys.path[:0] = " + repr(sys.path) + "; " + code],
        capture_output=True,
        text=True,
    )
    modules, heavy = out.stdout.strip().split("] [")
    assert heavy == "]", out
    assert "tessera.nn" not in modules and "tessera.autograd" not in modules and "tessera.serialization" not in modules


def test_lazy_names_and_missing_ones():
    from tessera import nn, utils

    assert tessera.nn is nn and tessera.utils is utils
    assert {"nn", "optim", "autograd", "save", "no_grad"} <= set(dir(tessera))
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        tessera.nope
    with pytest.raises(ImportError):
        from tessera import nope  # noqa: F401


def test_typename_and_tests_of_types():
    assert tessera.typename(3) == "int" and tessera.typename(collections.OrderedDict) == "collections.OrderedDict"
    assert tessera.is_tensor(tessera.ones(1)) and not tessera.is_tensor([1])
    assert tessera.is_storage(tessera.ones(1).untyped_storage())
    with pytest.raises(AssertionError, match="text"):
        tessera._assert(False, "text")


def test_versions_compare():
    version = TorchVersion("2.11.0+cpu")
    assert (
        version >= "2.6"
        and version > (2, 9)
        and version < "3"
        and version == "2.11"
        and version != "2.10.5"
        and "2.11" in version
    )
    assert TorchVersion("2.11.0a1") < "2.11.0"


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "duck", func, types


def test_overrides_by_types():
    assert tessera.add(Duck(), 1)[0] == "duck" and tessera.add(tessera.ones(1), Duck())[2] == (Duck,)
    assert is_tensor_like(Duck()) and is_tensor_like(tessera.ones(1)) and not is_tensor_like([1])

    def own(x):
        return handle_torch_function(own, (x,), x) if has_torch_function((x,)) else "plain"

    assert own(3) == "plain" and own(Duck())[:2] == ("duck", own)

    @wrap_torch_function(lambda a: (a,))
    def wrapped(a):
        return "plain"

    assert wrapped(1) == "plain" and wrapped(Duck())[0] == "duck"


def test_modes_nest_innermost_first():
    order = []

    class Mode(TorchFunctionMode):
        def __init__(self, tag):
            super().__init__()
            self.tag = tag

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(self.tag)
            return func(*args, **(kwargs or {}))

    with Mode("outer"), Mode("inner"):
        tessera.zeros(1)
    tessera.zeros(1)
    assert order == ["inner", "outer"]


def test_default_device():
    with tessera.device("meta"):
        assert tessera.zeros(2).is_meta and tessera.zeros(2, device="cpu").device.type == "cpu"
        assert tessera.get_default_device().type == "meta"
        assert tessera.signal.windows.hann(3).is_meta
    assert tessera.zeros(1).device.type == "cpu"
    tessera.set_default_device("meta")
    try:
        assert tessera.ones(1).is_meta
    finally:
        tessera.set_default_device(None)
    assert tessera.get_default_device() == tessera.device("cpu")


def test_warnings_of_once_per_process_can_come_always():
    code = """
import tessera, warnings
import numpy as np
fixed = np.ones(2)
fixed.flags.writeable = False
def count(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3): call()
    return len(seen)
for call in (lambda: tessera.meshgrid(tessera.ones(2), tessera.ones(2)), lambda: tessera.ones(1, 2, 3).T,
             lambda: tessera.from_numpy(fixed), lambda: tessera.frombuffer(b"abcd", dtype=tessera.uint8),
             lambda: tessera.ones(2, names=("N",))):
    for always in (False, True, False):
        tessera.set_warn_always(always)
        print(count(call), end="")
    print()
print(count(lambda: tessera.ones(3, 3)[[slice(0, 1), slice(0, 1)]]))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.split() == ["130"] * 5 + ["3"], out.stderr
    with pytest.raises(TypeError):
        tessera.set_warn_always(1)


def test_limits():
    assert (
        tessera.finfo(tessera.float16).max == 65504.0
        and tessera.finfo().eps == 2.0**-23
        and tessera.finfo(tessera.complex64).bits == 32
    )
    assert (
        tessera.iinfo(tessera.uint8).max == 255
        and repr(tessera.iinfo(tessera.int8)) == "iinfo(min=-128, max=127, dtype=int8)"
    )
    for info, dtype in ((tessera.finfo, tessera.int8), (tessera.iinfo, tessera.float32), (tessera.iinfo, tessera.bool)):
        with pytest.raises(TypeError):
            info(dtype)


Point = collections.namedtuple("Point", "x y")
TREE = {"a": [1, (2, None)], "b": Point(3, {"z": 4}), "c": collections.OrderedDict(q=5), "d": collections.deque([6], 3)}


def test_pytree_round_trip_and_map():
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, None, 3, 4, 5, 6] and spec.num_leaves == 7
    assert pytree.tree_unflatten(leaves, spec) == TREE and pytree.tree_structure(TREE) == spec
    assert pytree.tree_map(lambda a, b: (a, b), [1, {"k": 2}], [3, {"k": 4}]) == [(1, 3), {"k": (2, 4)}]
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(TREE)][:4] == [
        "['a'][0]",
        "['a'][1][0]",
        "['a'][1][1]",
        "['b'].x",
    ]
    assert pytree.tree_map_only(int, lambda v: -v, [1, "s"]) == [-1, "s"]
    with pytest.raises(ValueError):
        pytree.tree_unflatten([1], spec)
    with pytest.raises(ValueError):
        pytree.tree_map(lambda a, b: a, [1, 2], [1])


def test_pytree_registration():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda values, _: Pair(*values))
    assert pytree.tree_leaves([Pair(1, [2]), 3]) == [1, 2, 3]
    assert pytree.tree_map(lambda v: v + 1, Pair(1, 2)).b == 3
    with pytest.raises(ValueError):
        pytree.register_pytree_node(Pair, None, None)


def test_removable_handle():
    hooks = collections.OrderedDict()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = print
    with handle:
        assert handle.id in hooks
    assert not hooks
    handle.remove()


def test_random_state_round_trip():
    tessera.manual_seed(3)
    state = tessera.get_rng_state()
    first = tessera.rand(4)
    tessera.set_rng_state(state)
    assert tessera.equal(first, tessera.rand(4)) and state.dtype is tessera.uint8
    with tessera.random.fork_rng():
        tessera.manual_seed(99)
    after = tessera.get_rng_state()
    tessera.set_rng_state(state)
    tessera.rand(4)
    assert tessera.equal(after, tessera.get_rng_state())
    with pytest.raises(TypeError):
        tessera.set_rng_state([1])
    with pytest.raises(RuntimeError):
        tessera.set_rng_state(state[:-1])


def test_small_helpers_that_libraries_use():
    from tessera import _utils
    from tessera.utils.data._utils.worker import _generate_state

    index = _utils._get_device_index
    assert index(3) == 3 and index("cuda:1") == 1 and index("cpu", allow_cpu=True) == -1
    for device, options in (("cpu", {}), ("cuda", {}), (None, {"allow_cpu": True})):
        with pytest.raises(ValueError, match="but got: ?"):
            index(device, **options)
    if not tessera.cuda.is_available():
        assert index(None, optional=True) is None and _utils._get_available_device_type() is None
    assert _utils._get_device_module("cpu") is tessera.cpu and _utils._element_size(tessera.float64) == 8
    with pytest.raises(RuntimeError, match="expected torch.dtype"):
        _utils._element_size(3)
    assert _generate_state(12345678901234, 3) == [2677634501, 810098766, 226270600, 4115140591]
    assert tessera.serialization.MAP_LOCATION and tessera.optim.optimizer._params_t
