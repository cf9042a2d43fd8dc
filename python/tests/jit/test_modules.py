"""Scripted, traced, frozen and saved modules."""

import io
from typing import List, Optional, Tuple

import pytest
import tessera
from tessera import Tensor, nn


class Net(nn.Module):
    __constants__ = ["k"]
    scale: float

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
        self.tail = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=-1))
        self.k, self.scale, self.calls = 2, 0.5, 0
        self.names: List[str] = ["x"]
        self.register_buffer("steps", tessera.zeros(1))

    def forward(self, x: Tensor, skip: Optional[Tensor] = None) -> Tensor:
        self.calls += 1
        for i, layer in enumerate(self.layers):
            x = self.named["a"](layer(x)) + i
        if skip is not None:
            x = x + skip * self.scale
        return self.helper(self.tail(x))

    def helper(self, x: Tensor) -> Tensor:
        return x * self.k

    @tessera.jit.export
    def doubled(self, x: Tensor) -> Tensor:
        return x * 2

    @tessera.jit.ignore
    def in_python(self, n: int) -> int:
        return n

    @tessera.jit.unused
    def never(self, x):
        import os

        return os.getcwd()


def test_modules_share_parameters_and_state():
    m = Net()
    s = tessera.jit.script(m)
    x = tessera.rand(3, 4)
    assert tessera.allclose(s(x), m(x)) and tessera.allclose(s(x, x), m(x, x))
    assert s.layers[0].weight is m.layers[0].weight and s.calls == 2
    assert sorted(s.state_dict()) == sorted(m.state_dict())
    assert s.doubled(x).tolist() == (x * 2).tolist() and s.in_python(4) == 4
    assert s.never(x) == m.never(x)  # from Python it stays Python
    s.eval()
    assert not s.training and not s.tail[0].training
    assert [n for n, _ in s.named_parameters()] == [n for n, _ in m.named_parameters()]


@pytest.mark.parametrize("where", ["path", "buffer"])
def test_archives_come_back_without_the_class(where, tmp_path):
    s = tessera.jit.script(Net().eval())
    x = tessera.rand(3, 4)
    place = str(tmp_path / "m.pt") if where == "path" else io.BytesIO()
    tessera.jit.save(s, place, _extra_files={"note.txt": b"text"})
    if where == "buffer":
        place.seek(0)
    extra = {"note.txt": ""}
    r = tessera.jit.load(place, _extra_files=extra)
    assert extra["note.txt"] == b"text" and tessera.equal(r(x), s(x)) and tessera.equal(r.doubled(x), x * 2)
    assert sorted(r.state_dict()) == sorted(s.state_dict()) and r.names == ["x"]


LAYERS = [
    (nn.Linear(4, 3), (2, 4)),
    (nn.Conv1d(2, 3, 3, padding=1), (1, 2, 6)),
    (nn.Conv2d(2, 3, 3, stride=2, padding_mode="reflect", padding=1), (1, 2, 6, 6)),
    (nn.Conv2d(2, 4, 3, padding="same", groups=2), (1, 2, 6, 6)),
    (nn.ConvTranspose2d(2, 3, 3, stride=2), (1, 2, 4, 4)),
    (nn.BatchNorm1d(4), (3, 4)),
    (nn.BatchNorm2d(2), (2, 2, 4, 4)),
    (nn.InstanceNorm2d(2), (2, 2, 4, 4)),
    (nn.LayerNorm(4), (3, 4)),
    (nn.GroupNorm(2, 4), (3, 4)),
    (nn.MaxPool2d(2), (1, 2, 4, 4)),
    (nn.AvgPool2d(2), (1, 2, 4, 4)),
    (nn.AdaptiveAvgPool2d((1, 1)), (1, 2, 4, 4)),
    (nn.Dropout(0.0), (3, 4)),
    (nn.GELU(), (3, 4)),
    (nn.SiLU(), (3, 4)),
    (nn.LeakyReLU(0.1), (3, 4)),
    (nn.Hardtanh(), (3, 4)),
    (nn.LogSoftmax(dim=1), (3, 4)),
    (nn.Flatten(), (3, 2, 2)),
    (nn.ZeroPad2d(1), (1, 2, 3, 3)),
    (nn.PixelShuffle(2), (1, 4, 2, 2)),
    (nn.GRUCell(4, 3), (2, 4)),
    (nn.RNNCell(4, 3), (2, 4)),
]


@pytest.mark.parametrize("layer, shape", LAYERS, ids=[type(m).__name__ + str(i) for i, (m, _) in enumerate(LAYERS)])
@pytest.mark.parametrize("how", ["script", "trace", "saved"])
def test_layers_compute_the_same_compiled(layer, shape, how):
    layer.eval()
    x = tessera.rand(shape)
    made = tessera.jit.trace(layer, x) if how == "trace" else tessera.jit.script(layer)
    if how == "saved":
        made = tessera.jit.load(io.BytesIO(made.save_to_buffer()))
    assert tessera.allclose(made(x), layer(x), atol=1e-6)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:
        for i in range(x.shape[0]):
            h, c = self.cell(x[i], (h, c))
        return h, c


def test_recurrent_loops_match():
    m, x, h = Cells(), tessera.rand(5, 2, 3), tessera.zeros(2, 4)
    for a, b in zip(tessera.jit.script(m)(x, h, h), m(x, h, h)):
        assert tessera.allclose(a, b, atol=1e-6)


def test_freezing_folds_attributes_and_norms():
    m = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.5)).eval()
    m[1].running_mean.uniform_(), m[1].running_var.uniform_(0.5, 2)
    with pytest.raises(RuntimeError, match="eval"):
        tessera.jit.freeze(tessera.jit.script(m).train())
    f = tessera.jit.freeze(tessera.jit.script(m.eval()))
    x = tessera.rand(1, 1, 5, 5)
    assert tessera.allclose(f(x), m(x), atol=1e-5) and not list(f.parameters())
    kinds = [n.kind() for n in f.graph.nodes()]
    assert "aten::batch_norm" not in kinds and "aten::dropout" not in kinds and "prim::GetAttr" not in kinds


def test_traces_record_the_way_taken_and_are_checked():
    tr = tessera.jit.trace(lambda x: x + 1 if x.sum() > 0 else x - 1, tessera.ones(2))
    assert tr(-tessera.ones(2)).tolist() == [0.0, 0.0]
    calls = []

    def changing(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(tessera.jit.TracingCheckError):
        tessera.jit.trace(changing, tessera.ones(2))
    with pytest.raises(RuntimeError, match="cannot be traced"):
        tessera.jit.trace(lambda x: x, object())
    assert not tessera.jit.is_tracing()


def test_traced_modules_are_saved_with_their_parameters():
    m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    tr = tessera.jit.trace(m, tessera.rand(2, 3))
    x = tessera.rand(5, 3)
    r = tessera.jit.load(io.BytesIO(tr.save_to_buffer()))
    assert tessera.equal(tr(x), m(x)) and tessera.equal(r(x), m(x))
    assert sorted(r.state_dict()) == sorted(m.state_dict()) and isinstance(r[0].weight, nn.Parameter)


def test_what_stays_in_python_cannot_be_saved():
    class Local(nn.Module):
        def forward(self, x: Tensor) -> int:
            return self.stays(x.numel())

        @tessera.jit.ignore
        def stays(self, n: int) -> int:
            return n + 1

    s = tessera.jit.script(Local())
    assert s(tessera.ones(3)) == 4
    with pytest.raises(RuntimeError, match="Could not export Python function call 'stays'"):
        s.save_to_buffer()


def test_broken_archives_are_errors(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        tessera.jit.load(str(tmp_path / "missing.pt"))
    with pytest.raises(RuntimeError):
        tessera.jit.load(io.BytesIO(b"PK\3\4 nothing"))
    buffer = io.BytesIO()
    tessera.save({"a": tessera.ones(2)}, buffer)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="constants.pkl"):
        tessera.jit.load(buffer)


def doubled(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
    return output * 2


def raised(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
    return (input[0] + 1,)


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 3


def test_hooks_of_the_module_itself_and_of_its_parts(tmp_path):
    module = Shifted()
    module.inner.register_forward_hook(doubled)
    module.register_forward_hook(doubled)
    compiled = tessera.jit.script(module)
    assert compiled(tessera.ones(1)).tolist() == module(tessera.ones(1)).tolist() == [10.0]
    compiled.save(tmp_path / "m.pt")
    assert tessera.jit.load(tmp_path / "m.pt")(tessera.ones(1)).tolist() == [10.0]
    first = nn.Identity()
    first.register_forward_pre_hook(raised)
    assert tessera.jit.script(first)(tessera.ones(1)).tolist() == [2.0]


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.ReLU(), "bc": nn.Tanh()})

    def forward(self, x: Tensor) -> Tensor:
        for name, part in self.parts.items():
            x = part(x) + len(name)
        for name in self.parts.keys():
            x = x + len(name)
        for part in self.parts.values():
            x = part(x)
        return x


def test_dicts_of_modules_are_unrolled():
    module = Named()
    assert tessera.equal(tessera.jit.script(module)(tessera.ones(2)), module(tessera.ones(2)))


def test_constants_stay_and_extra_files_that_are_not_there_are_empty():
    compiled = tessera.jit.script(Net())
    compiled.scale = 0.25
    with pytest.raises(RuntimeError, match="Can't set constant 'k' which has value:2"):
        compiled.k = 3
    file = io.BytesIO()
    tessera.jit.save(compiled, file, _extra_files={"note": "x"})
    file.seek(0)
    found = {"note": "", "other": ""}
    tessera.jit.load(file, _extra_files=found)
    assert found == {"note": b"x", "other": b""}


class Doubles(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x):
        return self.inner(x) * 2


def test_traces_are_compared_whatever_the_sizes_of_further_inputs():
    more = [(tessera.ones(5),), (tessera.zeros(1),)]
    traced = tessera.jit.trace(lambda x: x + 1, tessera.ones(2), check_inputs=more)
    assert traced(tessera.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_traced_modules_are_shown_by_the_names_of_their_classes():
    shown = repr(tessera.jit.trace(Doubles(), tessera.ones(1, 2)))
    assert shown.startswith("Doubles(") and "(0): Linear(original_name=Linear)" in shown


def test_load_hands_programs_on_to_jit(tmp_path):
    path = str(tmp_path / "m.pt")
    tessera.jit.trace(Doubles(), tessera.ones(1, 2)).save(path)
    with pytest.warns(UserWarning, match="looks like a TorchScript archive"):
        loaded = tessera.load(path, weights_only=False)
    assert isinstance(loaded, tessera.jit.ScriptModule)
    with open(path, "rb") as file, pytest.warns(UserWarning, match="TorchScript archive"):
        assert isinstance(tessera.load(file, map_location="cpu", weights_only=False), tessera.jit.ScriptModule)
    with pytest.raises(RuntimeError, match="weights_only"):
        tessera.load(path)


@tessera.jit.interface
class TwoMethods(nn.Module):
    def one(self, x: tessera.Tensor, y: tessera.Tensor) -> tessera.Tensor:
        pass

    def forward(self, x: tessera.Tensor) -> tessera.Tensor:
        pass


def test_interfaces_hold_modules_of_derived_script_classes():
    class Sums(tessera.jit.ScriptModule):
        @tessera.jit.script_method
        def one(self, x: tessera.Tensor, y: tessera.Tensor) -> tessera.Tensor:
            return x + y

        @tessera.jit.script_method
        def forward(self, x: tessera.Tensor) -> tessera.Tensor:
            return self.one(x, x) + 1

    class Products(tessera.jit.ScriptModule):
        @tessera.jit.script_method
        def one(self, x: tessera.Tensor, y: tessera.Tensor) -> tessera.Tensor:
            return x * y

        @tessera.jit.script_method
        def forward(self, x: tessera.Tensor) -> tessera.Tensor:
            return self.one(x, x)

    class Holder(nn.Module):
        inner: TwoMethods

        def __init__(self):
            super().__init__()
            self.inner = Sums()

        def forward(self, x: tessera.Tensor) -> tessera.Tensor:
            return self.inner.forward(x) + self.inner.one(x, x)

    made, x = tessera.jit.script(Holder()), tessera.full((1,), 3.0)
    assert made(x).item() == 13
    made.inner = Products()
    assert made(x).item() == 18
    with pytest.raises(RuntimeError, match="TwoMethods"):
        made.inner = nn.Linear(1, 1)


class Counted(nn.Module):
    def forward(self, x: tessera.Tensor) -> tessera.Tensor:
        return x + 1


def no_tuple(self, given: tessera.Tensor):
    return given


def other_items(self, given: Tuple[int], out: tessera.Tensor):
    return out


def too_few(self, given: Tuple[tessera.Tensor]):
    return given


def other_result(self, given: Tuple[tessera.Tensor], out: int):
    return out


@pytest.mark.parametrize(
    "hook, before, message",
    [
        (no_tuple, True, "Pre-hook 'no_tuple' .* to be typed as a Tuple but found type: 'Tensor'"),
        (other_items, False, r"wrong inner types .* Received type: 'Tuple\[int\]'"),
        (too_few, False, "exactly 3 inputs but it had 2 inputs"),
        (other_result, False, "output argument. Received type: 'int'. Expected type: 'Tensor'"),
    ],
)
def test_hooks_have_the_signature_of_hooks(hook, before, message):
    module = Counted()
    (module.register_forward_pre_hook if before else module.register_forward_hook)(hook)
    with pytest.raises(RuntimeError, match=message):
        tessera.jit.script(module)


class Packs(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = kind(3, 4, batch_first=True, bidirectional=True)

    def forward(self, x: tessera.Tensor, lengths: tessera.Tensor):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.layer(packed)
        whole, _ = self.layer(x)
        padded, n = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return padded, n, whole


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_take_packed_sequences(kind, tmp_path):
    module, args = Packs(kind), (tessera.randn(3, 5, 3), tessera.tensor([2, 5, 4]))
    made = tessera.jit.script(module)
    made.save(tmp_path / "m.pt")
    for program in (made, tessera.jit.load(tmp_path / "m.pt"), tessera.jit.trace(module, args)):
        tessera.testing.assert_close(program(*args), module(*args))
    with pytest.raises(tessera.jit.Error, match="Expected lengths from 1 to 5"):
        made(args[0], tessera.tensor([2, 6, 4]))


class OfTwoKinds(nn.Module):
    @tessera._jit_internal._overload_method
    def forward(self, x: Tuple[tessera.Tensor, int]) -> int: ...

    @tessera._jit_internal._overload_method
    def forward(self, x: tessera.Tensor) -> int: ...  # noqa: F811

    def forward(self, x):  # noqa: F811
        if isinstance(x, tessera.Tensor):
            return 1
        return 2


class CallsBoth(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = OfTwoKinds()

    def forward(self, x: tessera.Tensor):
        return self.part(x), self.part((x, 1))


def test_archives_know_the_overloads_of_methods(tmp_path):
    tessera.jit.script(CallsBoth()).save(tmp_path / "m.pt")
    assert tessera.jit.load(tmp_path / "m.pt")(tessera.ones(1)) == (1, 2)


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.policies = [(("a", 0.4, None), ("b", 0.6, 9)), (("c", 0.4, 8), ("d", 0.6, None))]

    def place(self, n: int) -> Tuple[int, float]:
        drawn = tessera.randint(0, n, size=(1,)).item()
        return drawn, drawn

    def forward(self, x: Tensor, mean: List[float], as_it_is: bool):
        if as_it_is:
            return x
        mean = tessera.as_tensor(mean)
        return x - mean + self.place(1)[0] + len(self.policies)


def test_what_transforms_of_images_are_written_with():
    made = tessera.jit.script(Drawn())
    assert made(tessera.ones(2), [1.0, 2.0], False).tolist() == [2.0, 1.0]
    assert made(tessera.ones(2), [1.0, 2.0], True).tolist() == [1.0, 1.0]

    def capability() -> str:
        return tessera.backends.cpu.get_cpu_capability()

    assert tessera.jit.script(capability)() == capability()
