"""Members of classes and functions of the root that programs rarely name: schemas, keys, streams, vitals."""

import enum
import subprocess
import sys

import pytest
import tessera
from tessera import nn


def schema(text):
    return tessera.parse_schema(text)


@pytest.mark.parametrize(
    "new, old, back, forth",
    [
        ("f(Tensor x, int n=1) -> Tensor", "f(Tensor x) -> Tensor", True, True),
        ("f(Tensor x) -> Tensor", "f(Tensor x, int n=1) -> Tensor", False, True),
        ("f(Tensor x, int n) -> Tensor", "f(Tensor x) -> Tensor", False, "of type int did not provide a default"),
        ("f(Tensor x, int[] n=[1, 2]) -> Tensor", "f(Tensor x) -> Tensor", True, "container type as its default"),
        ("f(Tensor x, int n=1) -> Tensor", "f(Tensor x, int n) -> Tensor", True, "'n' is not forward"),
        ("f(Tensor x, int n=2) -> Tensor", "f(Tensor x, int n=1) -> Tensor", False, "'n' is not forward"),
        ("f(Tensor? x) -> Tensor", "f(Tensor x) -> Tensor", True, "'x' is not forward"),
        ("f(Tensor x) -> Tensor", "f(Tensor? x) -> Tensor", False, True),
        ("f(Tensor x, *, int n=1) -> Tensor", "f(Tensor x, int n=1) -> Tensor", False, "'n' is not forward"),
        ("f(Tensor x, int n=1) -> Tensor", "f(Tensor x, *, int n=1) -> Tensor", True, True),
        ("f(Tensor x) -> Tensor?", "f(Tensor x) -> Tensor", False, True),
        ("f(Tensor x) -> Tensor", "f(Tensor x) -> Tensor?", True, True),
        ("f(Tensor(a!) x) -> Tensor(a!)", "f(Tensor x) -> Tensor", False, "'x' is not forward"),
        ("f(Tensor x) -> (Tensor, Tensor)", "f(Tensor x) -> Tensor", False, ""),
        ("g(Tensor x) -> Tensor", "f(Tensor x) -> Tensor", False, ""),
        (
            "f(Tensor x, *, int k=2, Tensor(a!) out) -> Tensor(a!)",
            "f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
            True,
            True,
        ),
        ("f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", "f(Tensor x) -> Tensor", False, "number of out arguments"),
    ],
)
def test_schemas_that_changed(new, old, back, forth):
    new, old = schema(new), schema(old)
    assert new.is_backward_compatible_with(old) is back
    fits, why = new.check_forward_compatible_with(old)
    assert fits is (forth is True) and (fits or (forth in why if forth else why == ""))


def test_arguments_say_the_length_of_lists():
    arguments = schema("f(Tensor x, int[3] n, int[] m, bool[1]? k) -> Tensor").arguments
    assert [a.N for a in arguments] == [None, 3, None, 1] and arguments[1].real_type == "int[3]"
    for name in ("name", "overload_name", "arguments", "returns", "is_mutable"):
        assert hasattr(tessera.FunctionSchema, name)


def test_keys_without_kernels_are_named_and_refused():
    for name in ("HIP", "SparseCsrXLA", "QuantizedHIP", "EndOfDenseBackends", "StartOfSparseBackends", "AutogradVE"):
        assert tessera.DispatchKey[name] == name
    with pytest.raises(RuntimeError, match="SparseHIP"):
        tessera.library.Library("aten", "IMPL", "SparseHIP")


def test_streams_and_events_without_an_accelerator():
    assert issubclass(tessera.cuda.Event, tessera.Event) and issubclass(tessera.cuda.Stream, tessera.Stream)
    for name in "device device_index device_type native_handle stream_id".split():
        assert isinstance(getattr(tessera.Stream, name), property)
    for name in "elapsed_time from_ipc_handle ipc_handle query record synchronize wait".split():
        assert callable(getattr(tessera.Event, name))
    if not tessera.accelerator.is_available():
        for make in (tessera.Event, tessera.Stream, lambda: tessera.Event.from_ipc_handle(0, b"")):
            with pytest.raises(RuntimeError, match="accelerator"):
                make()


def test_sparse_classes_of_devices():
    found = tessera.cuda.sparse.FloatTensor
    assert found.is_sparse and found.dtype is tessera.float32 and found.__module__.endswith("cuda.sparse")
    assert not isinstance(tessera.ones(2).to_sparse(), found)
    assert not hasattr(tessera.cuda.sparse, "BoolTensor") and not hasattr(tessera.cuda.sparse, "x")


def test_new_storages_are_empty():
    storage = tessera.UntypedStorage(4)
    assert storage.new().nbytes() == 0 and type(storage.new()) is tessera.UntypedStorage
    assert tessera.StorageBase.new is tessera.UntypedStorage.new


def test_vitals(monkeypatch):
    monkeypatch.delenv("TORCH_VITAL", raising=False)
    assert not tessera.vitals_enabled() and not tessera.set_vital("a", "b", "c") and tessera.read_vitals() == ""
    with pytest.raises(TypeError, match="expected str"):
        tessera.set_vital("a", "b", 3)
    program = (
        "import tessera as t; assert t.set_vital('a', 'b', 'c') and t.vitals_enabled(); t.set_vital('a', 'b', 'd')"
    )
    monkeypatch.setenv("TORCH_VITAL", "1")
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == "[TORCH_VITAL] a.b\t\t d\n[TORCH_VITAL] CUDA.used\t\t False\n"


def test_nodes_have_metadata():
    node = (tessera.ones(2, requires_grad=True) * 2).grad_fn
    node.metadata["a"] = 1
    assert tessera.autograd.graph.Node.metadata(node) == {"a": 1}


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def test_types_of_enums():
    @tessera.jit.script
    def is_red(x: Color) -> bool:
        return x == Color.RED

    kind = next(iter(is_red.graph.inputs())).type()
    assert isinstance(kind, tessera.EnumType) and not isinstance(tessera.IntType.get(), tessera.EnumType)
    assert tessera.EnumType(kind.annotation_str, tessera.IntType.get(), list(Color)) == kind
    with pytest.raises(TypeError, match="EnumType"):
        tessera.EnumType("__torch__.Other", tessera.IntType.get(), list(Color))


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x, n: int):
        for i in range(n):
            if i > 1:
                x = x + 1
            else:
                x = self.inner(x)
        return x

    @tessera.jit.export
    def other(self, x):
        return tessera.sigmoid(x)


def test_operators_of_compiled_modules():
    made = tessera.jit.script(Both())
    names = tessera.jit.export_opnames(made)
    assert names == ["aten::add.Scalar", "aten::gt.int", "aten::linear", "aten::sigmoid"]
    with pytest.raises(AttributeError, match="ScriptModule"):
        tessera.jit.export_opnames(3)


def test_methods_are_added_to_compiled_modules():
    made = tessera.jit.script(Both())
    made.define("""
        def twice(self, x):
            return self.once(x) * 2
        def once(self, x):
            return self.inner(x)
    """)
    x = tessera.ones(1, 2)
    assert tessera.equal(made.twice(x), made.inner(x) * 2)
    with pytest.raises(RuntimeError, match="Can't redefine method: once"):
        made.define("def once(self, x):\n    return x\n")
    assert made.forward.owner is made and made.forward.raw_owner is made._c
    for name in "define forward_magic_method get_debug_state graph_for original_name".split():
        assert hasattr(tessera.jit.ScriptModule, name)
    assert made.original_name == "Both" and "aten::linear" in str(made.graph_for(x, 1))
    with pytest.raises(NotImplementedError):
        made.forward_magic_method("__len__")


def test_modules_of_annotations():
    from tessera.jit.annotations import Module

    assert Module("m", {"x": 1}).x == 1
    with pytest.raises(RuntimeError, match="Module m has no member called y"):
        Module("m", {}).y
    assert issubclass(tessera.jit.frontend.FrontendTypeError, tessera.jit.frontend.FrontendError)
