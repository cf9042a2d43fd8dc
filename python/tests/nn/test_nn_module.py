"""Module: registration, state dicts, hooks, conversions, reprs."""

import copy
import pickle
from collections import OrderedDict

import pytest

import tessera
from tessera import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 3)
        self.b = nn.Sequential(nn.Linear(3, 3, bias=False), nn.ReLU())
        self.register_buffer("steps", tessera.zeros(1, dtype=tessera.int64))
        self.register_buffer("tmp", tessera.ones(2), persistent=False)

    def forward(self, x):
        return self.b(self.a(x))


def test_names_in_registration_order():
    m = Net()
    assert [n for n, _ in m.named_parameters()] == ["a.weight", "a.bias", "b.0.weight"]
    assert [n for n, _ in m.named_buffers()] == ["steps", "tmp"]
    assert [n for n, _ in m.named_modules()] == ["", "a", "b", "b.0", "b.1"]
    assert list(m.state_dict()) == ["steps", "a.weight", "a.bias", "b.0.weight"]


def test_shared_parameter_is_yielded_once_but_saved_twice():
    m = nn.Module()
    m.p = nn.Parameter(tessera.ones(1))
    m.q = m.p
    assert len(list(m.parameters())) == 1 and list(m.state_dict()) == ["p", "q"]


@pytest.mark.parametrize("name,error", [("", KeyError), ("a.b", KeyError), ("weight", KeyError), (3, TypeError)])
def test_bad_buffer_names(name, error):
    with pytest.raises(error):
        nn.Linear(2, 2).register_buffer(name, tessera.ones(1))


def test_assignment_rules():
    m = nn.Linear(2, 2)
    with pytest.raises(TypeError):
        m.weight = tessera.ones(2, 2)
    m.bias = None
    assert list(m.state_dict()) == ["weight"]
    m.sub = nn.ReLU()
    with pytest.raises(TypeError):
        m.sub = 3
    with pytest.raises(AttributeError):
        m.nothing
    del m.weight
    assert list(m.parameters()) == []


def test_assignment_before_init_is_an_error():
    class M(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(tessera.ones(1))

    with pytest.raises(AttributeError):
        M()


def test_repr():
    m = nn.Sequential(OrderedDict(fc=nn.Linear(2, 3), act=nn.ReLU()))
    assert repr(m) == "Sequential(\n  (fc): Linear(in_features=2, out_features=3, bias=True)\n  (act): ReLU()\n)"
    assert repr(nn.ModuleList([nn.ReLU() for _ in range(3)])) == "ModuleList(\n  (0-2): 3 x ReLU()\n)"


def test_state_dict_aliases_and_load_copies():
    a, b = Net(), Net()
    w = b.a.weight
    assert repr(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert b.a.weight is w and tessera.equal(w, a.a.weight)
    a.state_dict()["a.weight"].fill_(7)
    assert (a.a.weight == 7).all() and not tessera.equal(w, a.a.weight)


def test_load_reports_missing_unexpected_and_shapes():
    m = nn.Linear(2, 2)
    sd = {"weight": tessera.ones(2, 2), "extra": tessera.ones(1)}
    with pytest.raises(RuntimeError, match="Missing key.*bias"):
        m.load_state_dict(sd)
    r = m.load_state_dict(sd, strict=False)
    assert r.missing_keys == ["bias"] and r.unexpected_keys == ["extra"]
    with pytest.raises(RuntimeError, match="size mismatch"):
        m.load_state_dict({"weight": tessera.ones(3, 2)}, strict=False)
    with pytest.raises(TypeError):
        m.load_state_dict([1])


def test_forward_hooks_in_order_and_removable():
    m = nn.Identity()
    h = m.register_forward_hook(lambda mod, a, o: o * 2)
    m.register_forward_hook(lambda mod, a, o: o + 1)
    m.register_forward_pre_hook(lambda mod, a: (a[0] + 1,))
    assert m(tessera.tensor(3.0)).item() == 9
    h.remove()
    assert m(tessera.tensor(3.0)).item() == 5


def test_always_called_hook_sees_exceptions():
    class M(nn.Module):
        def forward(self, x):
            raise RuntimeError("boom")

    m, seen = M(), []
    m.register_forward_hook(lambda mod, a, o: seen.append(o), always_call=True)
    with pytest.raises(RuntimeError, match="boom"):
        m(1)
    assert seen == [None]


def test_full_backward_hooks_replace_gradients():
    m = nn.Identity()
    m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 4,))
    m.register_full_backward_hook(lambda mod, gi, go: (gi[0] + 1,))
    x = tessera.ones(2, requires_grad=True)
    m(x).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_conversion_keeps_parameter_objects():
    m = Net()
    w = m.a.weight
    assert m.double() is m and m.a.weight is w and w.dtype == tessera.float64
    assert m.steps.dtype == tessera.int64 and m.tmp.dtype == tessera.float64
    with pytest.raises(TypeError):
        m.to(tessera.int32)


def test_deepcopy_and_pickle_keep_ties():
    m = nn.Module()
    m.a, m.b = nn.Linear(2, 2), nn.Linear(2, 2)
    m.b.weight = m.a.weight
    c = copy.deepcopy(m)
    assert c.b.weight is c.a.weight and c.a.weight is not m.a.weight
    p = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2))))
    assert isinstance(p[0].weight, nn.Parameter)


def test_lazy_linear_takes_shape_from_first_input():
    m = nn.LazyLinear(3)
    w = m.weight
    assert m.has_uninitialized_params()
    assert m(tessera.ones(2, 5)).shape == (2, 3)
    assert type(m) is nn.Linear and m.weight is w and m.in_features == 5


def test_containers():
    s = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    assert len(s[:2]) == 2 and isinstance(s[-1], nn.Linear)
    s.insert(0, nn.Identity())
    del s[2]
    assert [type(c).__name__ for c in s] == ["Identity", "Linear", "Linear"] and list(dict(s.named_children())) == [
        "0",
        "1",
        "2",
    ]
    with pytest.raises(IndexError):
        s[7]
    d = nn.ParameterDict({"l": tessera.ones(2)})
    assert isinstance(d["l"], nn.Parameter) and list(d | {"k": tessera.ones(1)}) == ["l", "k"]
    with pytest.raises(TypeError):
        nn.ModuleList([3])


def test_plain_attributes():
    class Counted(nn.Module):
        def __init__(self):
            self.early = 1  # before there is any place for members
            super().__init__()
            self.child, self.weight = nn.Identity(), nn.Parameter(tessera.ones(1))
            self.register_buffer("state", None)

        @property
        def twice(self):
            return 2 * self.single

        @twice.setter
        def twice(self, value):
            self.single = value // 2

    m = Counted()
    m.twice, m.name, m.sizes = 8, "m", [1, 2]
    assert (m.early, m.single, m.twice, m.name, m.sizes) == (1, 4, 8, "m", [1, 2])
    for name in ("child", "weight", "state"):
        with pytest.raises(TypeError, match=f"'{name}'"):
            setattr(m, name, 3)
    m.child = m.weight = m.state = None
    assert m.child is m.weight is m.state is None
    with pytest.raises(KeyError, match="already exists"):
        m.register_buffer("single", None)
    with pytest.raises(KeyError, match="already exists"):
        m.add_module("forward", None)
    del m.single
    assert not hasattr(m, "twice") and not hasattr(m, "single")

    class Watched(Counted):
        def __setattr__(self, name, value):
            seen.append(name)
            super().__setattr__(name, value)

    seen = []
    w = Watched()
    w.a = 1
    assert seen == ["early", "child", "weight", "a"]
    Counted.__setattr__ = lambda self, name, value: seen.append(value)
    try:
        m.later = 5
        assert seen[-1] == 5 and not hasattr(m, "later")
    finally:
        del Counted.__setattr__
    m.later = 6
    assert m.later == 6


def test_parametrization_recomputes_and_can_be_removed():
    from tessera.nn.utils import parametrize

    class Double(nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    m = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Double())
    m.weight = tessera.ones(2, 2)
    assert (m.parametrizations.weight.original == 0.5).all() and (m.weight == 1).all()
    parametrize.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and (m.weight == 1).all()


def test_a_memo_of_copies_keeps_the_originals():
    """What a deepcopy knows by its identity may not be freed before it: another tensor would be taken for it."""
    kinds = tessera.tensor, lambda v: nn.Parameter(tessera.tensor(v)), lambda v: tessera.full((2,), v).untyped_storage()
    for make in kinds:
        memo, originals, copies = {}, [], []
        for i in range(50):
            original = make(float(i))
            originals.append(original.tolist())
            copies.append(original.__deepcopy__(memo).tolist())
            del original
        assert copies == originals


def test_cached_parametrizations_are_of_their_own_module():
    class Negated(nn.Module):
        def forward(self, x):
            return -x

    layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", Negated())
    with nn.utils.parametrize.cached():
        first = layer.weight
        other = copy.deepcopy(layer)
        with tessera.no_grad():
            other.parametrizations.weight.original.fill_(3.0)
        assert (other.weight == -3.0).all() and other.weight is other.weight
        assert layer.weight is first and (first != -3.0).all()


def test_layers_register_through_a_replaced_register_parameter(monkeypatch):
    """accelerate's init_empty_weights() puts a function in its place; layers had asked whether a subclass does."""
    plain = nn.Module.register_parameter

    def on_meta(module, name, parameter):
        plain(module, name, None if parameter is None else nn.Parameter(parameter.detach().to("meta")))

    monkeypatch.setattr(nn.Module, "register_parameter", on_meta)
    assert nn.Linear(2, 3).weight.is_meta and nn.BatchNorm1d(2).bias.is_meta and nn.Embedding(2, 3).weight.is_meta
    monkeypatch.undo()
    assert not nn.Linear(2, 3).weight.is_meta


def test_instances_have_annotations():
    """typing.get_type_hints() of a layer, which fastai asks for."""
    import typing

    assert typing.get_type_hints(nn.CrossEntropyLoss())["training"] is bool


class _OwnState(nn.Module):
    made = []

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def __getstate__(self):
        state = {**self.__dict__, "_modules": dict(self._modules)}
        self.made.append(id(state["_modules"]))
        return state


def test_deepcopy_keeps_the_dicts_of_getstate():
    """Like the tensors above: the dict of another module's state would get the id, and be taken for the first one."""
    memo = {}
    copied = copy.deepcopy(nn.ModuleList([_OwnState(), _OwnState()]), memo)
    assert copied[0].layer is not copied[1].layer
    assert set(_OwnState.made) <= {id(kept) for kept in memo[id(memo)]}
