"""Options that are honoured, or refused with an error that says why."""

import json
from collections import defaultdict, namedtuple

import pytest
import tessera
from tessera.utils import _pytree as pytree

SPARSE = tessera.sparse_coo
VALUES = {
    "size": (2, 2),
    "self": None,
    "stride": (2, 1),
    "physical_layout": (0, 1),
    "fill_value": 1,
    "s": 1,
    "start": 0,
    "end": 3,
    "step": 1,
    "steps": 3,
    "n": 3,
    "m": 2,
    "high": 5,
    "low": 1,
    "generator": None,
    "mean": 0.0,
    "std": 1.0,
    "window_length": 4,
    "M": 4,
    "d": 1.0,
    "a": [0.5, 0.5],
    "row": 2,
    "col": 2,
    "periodic": True,
    "alpha": 0.5,
    "beta": 0.5,
    "base": 2.0,
    "offset": 0,
}


def factories():
    """(qualified name, values of the required arguments by name) of every op that takes layout=."""
    from tessera._ops import _resolve

    for row in tessera._C._operator_table():
        if "Layout? layout" in row[0] and not row[4].startswith("sparse/"):
            name = row[0].split("(")[0]
            op = _resolve(name)
            given = {}
            for a in op._schema.arguments:
                if a.name in ("layout", "out"):
                    continue
                if a.type == "Tensor":
                    given[a.name] = tessera.tensor(3.0) if a.name in ("start", "end", "high") else tessera.ones(2, 2)
                elif not a.has_default_value():
                    given[a.name] = VALUES[a.name]
            yield name, op, given


# Those that make sparse tensors as well; their out= forms, as others.
ANY_LAYOUT = ("aten::empty.memory_format", "aten::zeros", "aten::empty_like", "aten::zeros_like")
FACTORIES = {name: (op, given) for name, op, given in factories()}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_refuse_layouts_that_there_are_no_tensors_of(name):
    op, given = FACTORIES[name]
    given = dict(given, **({"out": tessera.empty(0)} if any(a.name == "out" for a in op._schema.arguments) else {}))
    windows = name.startswith("aten::windows_")  # documented: a wrong value
    with pytest.raises(
        ValueError if windows else NotImplementedError,
        match="strided tensors only" if windows else r"layout=torch\.(sparse_coo|jagged) is not supported",
    ):
        op(**given, layout=tessera.jagged if name in ANY_LAYOUT else SPARSE)
    assert op(**{k: v for k, v in given.items()}, layout=tessera.strided).layout == tessera.strided


def test_there_are_factories():
    assert len(FACTORIES) > 60


@pytest.mark.parametrize(
    "name", [n for n in FACTORIES if any(a.name == "out" for a in FACTORIES[n][0]._schema.arguments)]
)
def test_out_has_to_have_the_dtype_and_device_that_are_given(name):
    op, given = FACTORIES[name]
    out = tessera.zeros(1, dtype=tessera.int16)
    with pytest.raises(RuntimeError, match="dtype float32 does not match dtype of out parameter"):
        op(**given, dtype=tessera.float32, out=out)
    with pytest.raises(RuntimeError, match="device meta does not match device of out parameter"):
        op(**given, device="meta", out=out)
    assert out.shape == (1,)


def test_other_makers_refuse_layouts(tmp_path):
    for call in (
        lambda: tessera.ones(2).new_tensor([1], layout=SPARSE),
        lambda: tessera.from_file(str(tmp_path / "f"), True, 2, layout=SPARSE),
    ):
        with pytest.raises(NotImplementedError, match="there are no tensors of that layout"):
            call()
    with pytest.raises(TypeError):
        tessera.ones(2).new_tensor([1], layout=3)
    assert tessera.tensor([1.0], names=("N",)).names == ("N",)
    with pytest.raises(RuntimeError, match=r"Number of names \(2\)"):
        tessera.tensor([1.0], names=("N", "C"))
    with pytest.raises(RuntimeError, match="memory_format"):
        tessera.empty(1, 2, 3, 4, memory_format=tessera.channels_last, out=tessera.empty(0))


def test_generators_of_random_tensors_like_others():
    x = tessera.ones(2, 3)
    for make, again in (
        (tessera.rand_like, lambda g: tessera.rand(2, 3, generator=g)),
        (tessera.randn_like, lambda g: tessera.randn(2, 3, generator=g)),
        (
            lambda x, generator: tessera.randint_like(x, 9, generator=generator),
            lambda g: tessera.randint(9, (2, 3), generator=g).float(),
        ),
        (
            lambda x, generator: tessera.randint_like(x, 3, 9, generator=generator),
            lambda g: tessera.randint(3, 9, (2, 3), generator=g).float(),
        ),
    ):
        g, h = tessera.Generator().manual_seed(5), tessera.Generator().manual_seed(5)
        assert tessera.equal(make(x, generator=g), again(h))


def test_dim_order_can_be_ambiguous():
    assert tessera.ones(2, 3).dim_order(ambiguity_check=True) == (0, 1)
    assert tessera.ones(1, 3).dim_order() == (0, 1)
    last = tessera.ones(2, 3, 4, 5).to(memory_format=tessera.channels_last)
    assert last.dim_order(ambiguity_check=[tessera.contiguous_format, tessera.channels_last]) == (0, 2, 3, 1)
    for t, check in (
        (tessera.ones(1, 3), True),
        (tessera.ones(4).as_strided((2, 2), (1, 1)), True),
        (tessera.ones(2, 1, 3, 4), [tessera.contiguous_format, tessera.channels_last]),
    ):
        with pytest.raises(RuntimeError, match="unique dim order"):
            t.dim_order(ambiguity_check=check)
    with pytest.raises(TypeError):
        tessera.ones(2).dim_order(ambiguity_check="yes")


@pytest.mark.filterwarnings("ignore:the argument 'device':DeprecationWarning")
def test_pinning_is_for_cuda_devices():
    t, loader = tessera.ones(2), tessera.utils.data.DataLoader
    for s in (t, t.untyped_storage(), t.storage()):
        assert not s.is_pinned("cpu")
        with pytest.raises(RuntimeError, match="pinned for cuda devices only"):
            s.pin_memory("cpu")
    with pytest.raises(ValueError, match="pinned for cuda devices only"):
        loader([1], pin_memory=True, pin_memory_device="cpu")
    with pytest.raises(ValueError, match="pinned for cuda devices only"):
        tessera.utils.data._utils.pin_memory.pin_memory([t], "xpu")
    with pytest.raises(RuntimeError):
        loader([1], pin_memory_device="nosuchdevice")
    assert loader([1], pin_memory_device="cuda:0").pin_memory_device == "cuda:0"


def test_repeats_have_to_fit_the_size_that_is_promised():
    x = tessera.arange(3)
    assert tessera.repeat_interleave(x, 2, output_size=6).tolist() == [0, 0, 1, 1, 2, 2] and x.repeat_interleave(
        tessera.tensor(2), output_size=6
    ).shape == (6,)
    assert tessera.repeat_interleave(x[None], 2, 0, output_size=2).shape == (2, 3)
    with pytest.raises(RuntimeError, match="Invalid output_size, expected 6 but got 5"):
        tessera.repeat_interleave(x, 2, output_size=5)


# ---- settings
# ----------------------------------------------------------------------------------------------------------------


def test_precisions_of_backends_are_checked_and_kept():
    cudnn, mkldnn = tessera.backends.cudnn, tessera.backends.mkldnn
    assert cudnn.fp32_precision == mkldnn.fp32_precision == "none" and cudnn._uses_tf32() is True
    for precision, tf32 in (("ieee", False), ("tf32", True)):
        with cudnn.flags(allow_tf32=False, fp32_precision=precision):
            assert cudnn.fp32_precision == precision and cudnn._uses_tf32() is tf32
    with mkldnn.flags(fp32_precision="bf16"):
        assert mkldnn.fp32_precision == "bf16"
    assert cudnn.fp32_precision == mkldnn.fp32_precision == "none"
    for module, precision in ((cudnn, "bf16"), (cudnn, "exact"), (mkldnn, "exact"), (mkldnn, True)):
        with pytest.raises((RuntimeError, TypeError), match="precision"):
            with module.flags(fp32_precision=precision):
                pass
        with pytest.raises((RuntimeError, TypeError)):
            module.fp32_precision = precision
    old = cudnn.set_flags(_fp32_precision="ieee")
    assert old == (True, False, 10, False, True, "none") and cudnn.fp32_precision == "ieee"
    assert cudnn.set_flags(*old)[-1] == "ieee" and cudnn.fp32_precision == "none"


class _Library:
    """Takes down what a CUDA library is told."""

    def __init__(self):
        self.told = []

    def set_blas(self, *values):
        pass

    def set_linalg_library(self, library):
        pass

    def set_dnn(self, *values):
        self.told.append(values)


def test_the_cuda_library_is_told_of_limits_and_precisions(monkeypatch):
    from tessera.cuda import _library

    library = _Library()
    monkeypatch.setattr(_library, "_module", library)
    with tessera.backends.cudnn.flags(benchmark_limit=3, allow_tf32=False, fp32_precision="ieee"):
        assert library.told[-1] == (True, False, False, False, 3)
    assert library.told[-1] == (True, False, False, True, 10)


def test_the_accelerator_of_the_build_and_of_the_machine(monkeypatch):
    from tessera.cuda import _library

    current = tessera.accelerator.current_accelerator
    monkeypatch.setattr(_library, "path", lambda: "a library")
    monkeypatch.setattr(tessera.cuda, "device_count", lambda: 0)
    assert (
        current() == tessera.device("cuda")
        and current(check_available=True) is None
        and tessera.get_device_module() is tessera.cpu
    )
    monkeypatch.setattr(tessera.cuda, "device_count", lambda: 1)
    assert current(True) == tessera.device("cuda")
    monkeypatch.setattr(_library, "path", lambda: None)
    assert current() is None


# ---- pytree
# ------------------------------------------------------------------------------------------------------------------

Point = namedtuple("Point", "x y")


class Box:
    def __init__(self, value, tags):
        self.value, self.tags = value, tags


def test_contexts_of_trees_are_dumped_and_loaded():
    spec = pytree.tree_structure({"a": [1, Point(2, 3)], "b": defaultdict(list, c=4), "d": defaultdict(None, e=5)})
    assert pytree.treespec_loads(pytree.treespec_dumps(spec, 1)) == spec
    pytree.register_pytree_node(
        Box,
        lambda b: ([b.value], b.tags),
        lambda values, tags: Box(values[0], tags),
        serialized_type_name="the box",
        to_dumpable_context=sorted,
        from_dumpable_context=frozenset,
    )
    try:
        spec = pytree.tree_structure(Box(1, frozenset("qr")))
        text = pytree.treespec_dumps(spec)
        assert json.loads(text)[1]["type"] == "the box" and json.loads(text)[1]["context"] == ["q", "r"]
        assert pytree.treespec_loads(text) == spec
    finally:
        pytree._deregister_pytree_node(Box)
    with pytest.raises(NotImplementedError, match="not registered"):
        pytree.treespec_loads(text)
    with pytest.raises(NotImplementedError, match="not registered"):
        pytree.treespec_dumps(spec)


def test_contexts_that_can_not_be_dumped():
    local = namedtuple("local", "x")
    for tree in (local(1), defaultdict(lambda: 0, a=1)):
        with pytest.raises(TypeError, match="Unable to serialize context"):
            pytree.treespec_dumps(pytree.tree_structure(tree))
    with pytest.raises(ValueError, match="must be None or registered"):
        pytree.register_pytree_node(Box, None, None, to_dumpable_context=sorted)
    assert Box not in pytree.SUPPORTED_NODES
    with pytest.raises(ValueError, match="Unknown protocol 2"):
        pytree.treespec_dumps(pytree.tree_structure(1), protocol=2)
    text = pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))
    for name in (
        "os:system",
        "nosuchmodule:Point",
        "builtins:dict",
    ):  # nothing is imported, and a class of another kind is no named tuple
        with pytest.raises(ValueError, match="no named tuple of a loaded module"):
            pytree.treespec_loads(text.replace(f"{__name__}:Point", name))


# ---- others
# ------------------------------------------------------------------------------------------------------------------


def test_gradcheck_takes_masked():
    x = tessera.ones(2, dtype=tessera.float64, requires_grad=True)
    assert all(tessera.autograd.gradcheck(tessera.sin, x, masked=m) for m in (None, True, False))
    with pytest.raises(TypeError):
        tessera.autograd.gradcheck(tessera.sin, x, masked="some")


def test_removed_and_misspelt_arguments():
    with pytest.warns(UserWarning, match="volatile was removed"):
        tessera.autograd.Variable(tessera.ones(1), volatile=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'prioritty'"):
        tessera.cuda.Stream(prioritty=1)
    with pytest.raises(RuntimeError):
        tessera.autograd.graph.save_on_cpu(pin_memory=True, device_type="nosuchdevice")


def test_rules_of_torch_dispatch_live_as_long_as_their_library():
    from tessera.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    library = tessera.library.Library("aten", "IMPL")
    tessera.library.register_torch_dispatch(
        "aten::sin", Mode, lambda mode, func, types, args, kwargs: args[0] + 6, lib=library
    )
    with Mode():
        assert tessera.sin(tessera.ones(1)).item() == 7
    library._destroy()
    with Mode():
        assert tessera.sin(tessera.zeros(1)).item() == 0


def test_signatures_of_operators_are_shown_as_python_writes_them():
    assert "add(input, other, *, alpha=1, out=None) -> Tensor" in tessera.add.__doc__.splitlines()
    assert "add(other, *, alpha=1) -> Tensor" in tessera.Tensor.add.__doc__.splitlines()
    assert tessera.zeros.__doc__.splitlines()[0] == (
        "zeros(*size, dtype=None, layout=None, device=None, pin_memory=None, out=None, requires_grad=False) -> Tensor"
    )


# ---- of devices, without one: what the Python side does with its arguments
# ----------------------------------------------------


def test_coalesced_sums_travel_in_buffers_of_the_given_size(monkeypatch):
    from tessera.cuda import comm

    calls = []

    def add(inputs, destination=None):
        calls.append(inputs[0].numel())
        return sum(inputs[1:], inputs[0])

    monkeypatch.setattr(comm, "reduce_add", add)
    lists = [[tessera.full((2, 2), 1.0 * k), tessera.full((3,), 2.0 * k), tessera.full((1,), 3.0 * k)] for k in (1, 2)]
    for size, buffers in ((1 << 20, [8]), (28, [7, 1]), (1, [4, 3, 1])):
        calls.clear()
        total = comm.reduce_add_coalesced(lists, buffer_size=size)
        assert [t.shape for t in total] == [(2, 2), (3,), (1,)]
        assert [t.flatten()[0].item() for t in total] == [3, 6, 9]
        assert calls == buffers
    with pytest.raises(ValueError, match="buffer_size"):
        comm.reduce_add_coalesced(lists, buffer_size=0)
    with pytest.raises(ValueError, match="same shapes"):
        comm.reduce_add_coalesced([lists[0], lists[1][:2]])


def test_collectives_run_on_the_given_streams(monkeypatch):
    import contextlib

    from tessera.cuda import nccl

    entered = []

    @contextlib.contextmanager
    def select(stream):
        entered.append(stream)
        yield

    class Stream:
        device = tessera.device("cpu")

    class Elsewhere:
        device = tessera.device("meta")

    monkeypatch.setattr(tessera.cuda, "stream", select)
    monkeypatch.setattr(nccl, "_checked", lambda name, tensors: list(tensors))
    tensors, stream = [tessera.ones(2), tessera.full((2,), 2.0)], Stream()
    nccl.all_reduce(tensors, streams=[stream, None])
    assert entered == [stream, None] and tensors[1].tolist() == [3, 3]
    out = [tessera.zeros(4)]
    gathered = [tessera.zeros(1), tessera.zeros(1)]
    for call in (
        lambda **given: nccl.reduce(tensors, tessera.zeros(2), **given),
        lambda **given: nccl.broadcast(tensors, **given),
        lambda **given: nccl.all_gather(tensors, out, **given),
        lambda **given: nccl.reduce_scatter(tensors, gathered, **given),
    ):
        entered.clear()
        call(streams=[stream, stream])
        assert entered == [stream, stream]
        with pytest.raises(NotImplementedError, match="comms"):
            call(comms=[object()])
        with pytest.raises(ValueError, match="one for each of the 2 inputs"):
            call(streams=[stream])
        with pytest.raises(ValueError, match="expected a stream of cpu"):
            call(streams=[stream, Elsewhere()])
    assert out[0].tolist() == [3, 3, 3, 3] and gathered[0].tolist() == [6]


def test_history_of_memory_shows_what_was_asked_for(monkeypatch):
    from tessera.cuda import memory

    class Library:
        def record_memory_history(self, enabled, most, clear):
            self.recorded = enabled, most, clear

        def memory_history(self):
            kinds = (("alloc", 0), ("free_requested", 0), ("alloc", 1))
            return [{"action": action, "device": device} for action, device in kinds]

    library = Library()
    monkeypatch.setattr(memory, "_lazy_init", lambda: library)
    monkeypatch.setattr(memory, "is_initialized", lambda: True)
    monkeypatch.setattr(memory, "_device_index", lambda device: tessera.device(device).index)
    monkeypatch.setattr(memory._library, "_module", library)
    monkeypatch.setattr(tessera.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(memory, "_shown_device", None)
    monkeypatch.setattr(memory, "_hidden_actions", frozenset())
    record = memory._record_memory_history
    record(max_entries=7, clear_history=True)
    assert library.recorded == (True, 7, True) and [len(events) for events in memory._traces()] == [2, 1]
    record(device="cuda:0", skip_actions=["alloc"])
    assert memory._traces() == [[{"action": "free_requested"}], []]
    record(context=None, stacks="python")
    assert [len(events) for events in memory._traces()] == [2, 1]
    for wrong in (dict(enabled="some"), dict(context="stack"), dict(stacks="c"), dict(skip_actions=["nothing"])):
        with pytest.raises(RuntimeError):
            record(**wrong)
    for unknown in (dict(compile_context=True), dict(global_record_annotations=True)):
        with pytest.raises(NotImplementedError):
            record(**unknown)
    assert [len(events) for events in memory._traces()] == [2, 1]


def test_settings_change_for_blocks_alone_once_that_is_asked_for(monkeypatch):
    from tessera.backends import _flags, cudnn

    monkeypatch.setattr(_flags, "_frozen", False)
    assert not tessera.backends.flags_frozen()
    tessera.backends.disable_global_flags()
    assert tessera.backends.flags_frozen()
    before = cudnn.deterministic
    with pytest.raises(RuntimeError, match=r"flags\(\) for a block"):
        cudnn.deterministic = not before
    with cudnn.flags(deterministic=True):
        assert cudnn.deterministic
    assert cudnn.deterministic is before
    with getattr(tessera.backends, "__allow_nonbracketed_mutation")():
        cudnn.deterministic = before
    cudnn.set_flags(_benchmark=cudnn.benchmark)
