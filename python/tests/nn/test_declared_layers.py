"""Layers made from declarations (nn/modules/_declared.py): what the decorator makes, and when."""

import copy
import inspect
import pickle

import pytest

import tessera
from tessera import nn
from tessera.nn.modules import _declared
from tessera.nn.modules._declared import LAYERS, layer


@layer(
    "rows, cols=2, bias=True, scale=1.0, device=None, dtype=None",
    "input, extra=0 -> nn.functional.linear(input, weight, bias=bias) * scale + extra",
    "rows cols=? bias= scale=!r",
    sets={"wide": "cols > rows"},
    then="self._check()",
    weight="(rows, cols) ~ ones",
    bias="(rows,) if bias ~ zeros",
)
class Scaled(nn.Module):
    def _check(self):
        if self.rows < 1:
            raise ValueError(f"rows must be positive, got {self.rows}")


@layer("rows", shows="rows", base="rows, 3, scale=2.0")
class Doubled(Scaled):
    pass


def test_a_declaration_makes_a_layer():
    made = Scaled(1, bias=False)
    assert str(inspect.signature(Scaled)) == "(rows, cols=2, bias=True, scale=1.0, device=None, dtype=None)"
    assert (made.rows, made.cols, made.scale, made.wide) == (1, 2, 1.0, True)
    assert made.bias is None and list(made.state_dict()) == ["weight"]
    assert repr(made) == "Scaled(1, bias=False, scale=1.0)"
    assert repr(Scaled(1, 3, scale="s")) == "Scaled(1, cols=3, bias=True, scale='s')"
    assert made(tessera.ones(1, 2), extra=1).tolist() == [[3.0]]
    assert made.__constants__ == ["rows", "cols", "scale", "wide"]
    with pytest.raises(ValueError, match="rows must be positive, got 0"):
        Scaled(0)
    with pytest.raises(TypeError, match=r"Scaled.__init__\(\) missing 1 required positional argument: 'rows'"):
        Scaled()


def test_a_subclass_inherits_what_it_does_not_declare():
    made = Doubled(1)
    assert (made.cols, made.scale) == (3, 2.0) and repr(made) == "Doubled(1)"
    assert made(tessera.ones(1, 3)).tolist() == [[6.0]]

    class Own(Scaled):
        def __init__(self):
            super().__init__(2, scale=4.0)
            self.more = nn.Linear(1, 1)

    assert repr(Own()).splitlines()[1] == "  2, bias=True, scale=4.0"
    made.weight.data.fill_(7)
    made.reset_parameters()
    assert made.weight.tolist() == [[1.0, 1.0, 1.0]]


def test_functions_are_made_when_somebody_asks():
    @layer("size", "input * size")
    class Times(nn.Module):
        pass

    assert isinstance(vars(Times)["forward"], _declared._Pending)
    held = vars(Times)["forward"]
    assert callable(held)  # a method, to whoever looks into the class
    assert Times(3)(2) == 6 and held(Times(4), 2) == 8
    assert inspect.isfunction(vars(Times)["forward"]) and Times.forward.__qualname__.endswith("Times.forward")
    Times.forward = held  # as who patches a class puts back what its dictionary had
    assert Times(3)(5) == 15


def test_options_that_are_tensors_or_modules_are_registered():
    @layer("part, value", "input")
    class Holder(nn.Module):
        pass

    made = Holder(nn.Linear(1, 1), nn.Parameter(tessera.ones(2)))
    assert [name for name, _ in made.named_parameters()] == ["value", "part.weight", "part.bias"]
    assert "part" not in vars(made)
    with pytest.raises(AttributeError, match="before Module.__init__"):
        vars(made).clear()
        made.part = nn.Linear(1, 1)


PUBLIC = [name for name in nn.modules.__all__ if isinstance(getattr(nn, name), type)]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_layer_is_a_class_of_its_file(name):
    cls = getattr(nn, name)
    assert cls.__name__ == cls.__qualname__ == name and cls.__doc__
    assert pickle.loads(pickle.dumps(cls)) is cls
    inspect.signature(cls)
    for key in {"__init__", "forward"} & vars(cls).keys() if name in LAYERS else ():
        function = getattr(cls, key)
        assert inspect.isfunction(function) and function.__module__ == cls.__module__, key
        assert function.__code__.co_filename == inspect.getfile(cls), key


def test_the_table_has_the_families():
    assert len(LAYERS) > 100
    assert {"Linear", "Conv2d", "ConvTranspose3d", "LSTM", "CrossEntropyLoss", "MaxPool1d"} <= set(LAYERS)


def test_tracebacks_show_the_file_of_the_layer():
    with pytest.raises(RuntimeError) as caught:
        nn.Linear(3, 4)(tessera.ones(2, 5))
    files = [str(entry.path) for entry in caught.traceback]
    assert inspect.getfile(nn.Linear) in files


def test_lazy_norms_get_all_their_tensors():
    for made, shape in ((nn.LazyBatchNorm2d(), (2, 3, 4, 4)), (nn.LazyInstanceNorm1d(affine=True), (2, 3, 4))):
        made(tessera.ones(shape))
        assert type(made).__name__ in ("BatchNorm2d", "InstanceNorm1d")
        assert made.running_mean.shape == (3,) and type(made.running_var) is tessera.Tensor
        assert made.weight.tolist() == [1.0, 1.0, 1.0] and made.num_features == 3


def test_deep_copies_are_what_copy_makes():
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, nn.BatchNorm1d(2), shared)
    model.note = {"seen": [shared, model]}
    model.register_forward_hook(lambda module, args, output: output + 1)
    twin = copy.deepcopy(model)
    assert twin[0] is twin[2] and twin[0] is not shared
    assert twin.note["seen"][0] is twin[0] and twin.note["seen"][1] is twin
    assert len(twin._forward_hooks) == 1 and twin._forward_hooks is not model._forward_hooks
    assert twin[0].weight is not shared.weight and twin[0].weight.equal(shared.weight)
    assert vars(twin[1]).keys() == vars(model[1]).keys()
    twin.note["seen"].clear()
    assert len(model.note["seen"]) == 2


def test_deep_copies_go_the_way_that_a_class_has():
    class Reduced(nn.Linear):
        def __reduce__(self):
            return Reduced, (self.in_features, 7)

    class Stated(nn.Linear):
        def __getstate__(self):
            return {**super().__getstate__(), "told": True}

        def __setstate__(self, state):
            super().__setstate__(state)
            self.restored = True

    assert copy.deepcopy(Reduced(2, 3)).out_features == 7
    twin = copy.deepcopy(Stated(2, 3))
    assert twin.told and twin.restored and not hasattr(Stated(2, 3), "told")


def test_paths_name_what_is_missing():
    model = nn.Sequential(nn.BatchNorm1d(2))
    assert model.get_parameter("0.weight") is model[0].weight
    assert model.get_buffer("0.running_mean") is model[0].running_mean
    for find, path, message in (
        (model.get_parameter, "0.nothing", "BatchNorm1d has no attribute `nothing`"),
        (model.get_parameter, "0.running_mean", "`running_mean` is not an nn.Parameter"),
        (model.get_buffer, "0.weight", "`weight` is not a buffer"),
        (model.get_buffer, "1.weight", "Sequential has no attribute `1`"),
    ):
        with pytest.raises(AttributeError, match=message):
            find(path)


def test_exceptions_of_other_processes_come_back():
    from tessera._utils import ExceptionWrapper

    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)

    class Told(Exception):
        message = "told"

        def __init__(self, message):
            super().__init__(message)

    for given, kind in (
        (ValueError("x"), ValueError),
        (KeyError("x"), KeyError),
        (Odd(1, 2), RuntimeError),
        (Told("x"), Told),
    ):
        try:
            raise given
        except Exception:
            wrapped = ExceptionWrapper(where="in a test")
        with pytest.raises(kind, match=f"Caught {type(given).__name__} in a test.\nOriginal Traceback") as caught:
            wrapped.reraise()
        assert type(caught.value) is kind


def test_saved_tensors_on_the_host_are_what_they_were():
    from tessera.autograd.graph import save_on_cpu

    for pinned in (False, True):
        x = tessera.arange(6.0).view(2, 3).t().requires_grad_()
        with save_on_cpu(pin_memory=pinned):
            y = x * x
        y.sum().backward()
        assert x.grad.equal(2 * x.detach())
