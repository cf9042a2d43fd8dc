"""How calls are routed, seen from Python: `explain`, `__torch_function__`, operators as objects, kernels made at run
time.
"""

import pickle

import pytest
import tessera
from tessera.overrides import TorchFunctionMode


def steps_of(function, *args, **kwargs):
    return tessera.explain(function, *args, **kwargs)[0]


# ---- explain
# ----------------------------------------------------------------------------------------------------------------


def test_explain_names_overload_keys_and_rule():
    a = tessera.ones(2)
    step = steps_of(tessera.add, a, a)
    assert step.name == "aten::add.Tensor"
    assert step.keys == ["CPU"] and step.steps == [("CPU", "slot")]
    assert step.rule == "POINTWISE add" and step.source.startswith("tensor/ops/tables/arithmetic.textproto:")
    assert step.simd in ("SSE4", "AVX2", "AVX3")


def test_explain_shows_the_autograd_layer():
    a = tessera.ones(2, requires_grad=True)
    step = steps_of(tessera.mul, a, a)
    assert step.keys[0] == "AutogradCPU" and step.steps[0] == ("AutogradCPU", "slot")


def test_explain_shows_meta_and_composites():
    assert steps_of(tessera.exp, tessera.ones(2, device="meta")).steps == [("Meta", "slot")]
    assert steps_of(tessera.subtract, tessera.ones(2), tessera.ones(2)).steps[-1][1] == "CompositeImplicit"


def test_explain_lists_overloads_that_do_not_fit():
    step = steps_of(tessera.sum, tessera.ones(2), 0)
    assert step.name == "aten::sum.dim_IntList" and any(other.startswith("aten::sum(") for other in step.tried)


def test_explain_runs_other_functions_and_records_their_operators():
    found = tessera.explain(lambda x: (x.exp() + 1).sum(), tessera.ones(3))
    names = [step.name.split(".")[0] for step in found]
    assert names == ["aten::exp", "aten::add", "aten::sum"]
    assert "aten::exp" in repr(found) and "SIMD target" in repr(found)


def test_explain_rejects_arguments_that_fit_nothing():
    with pytest.raises(TypeError):
        tessera.explain(tessera.exp, "x")


# ---- __torch_function__
# -----------------------------------------------------------------------------------------------------


class Recording:
    """Not a tensor; answers every function with its name."""

    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((func.__name__, types, len(args), sorted(kwargs or {})))
        return func.__name__


class Loud(tessera.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Recording.calls.append((func.__name__, types, len(args), sorted(kwargs or {})))
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.fixture(autouse=True)
def forget():
    Recording.calls.clear()


def test_a_foreign_type_takes_calls_over():
    assert tessera.add(tessera.ones(2), Recording()) == "add"
    assert tessera.cat([tessera.ones(2), Recording()], dim=0) == "cat"
    assert Recording.calls == [("add", (Recording,), 2, []), ("cat", (Recording,), 1, ["dim"])]


def test_a_foreign_type_takes_operators_over():
    assert (tessera.ones(2) + Recording()) in ("add", "__add__")
    assert tessera.ones(2).add(Recording()) == "add"


def test_subclasses_are_kept_by_operators():
    t = tessera.ones(2).as_subclass(Loud)
    for result in (t + 1, t.exp(), t[0], tessera.stack([t, t]), t.reshape(1, 2), 2 * t):
        assert type(result) is Loud
    assert Recording.calls
    assert isinstance(t + tessera.ones(2), Loud) and t.shape == (2,)


def test_not_implemented_by_all_is_a_type_error():
    class Refusing:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="Refusing"):
        tessera.exp(Refusing())


def test_modes_see_every_call_and_nest():
    seen = []

    class Mode(TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((self.name, getattr(func, "__name__", str(func))))
            return func(*args, **(kwargs or {}))

    a = tessera.ones(2)
    with Mode("outer"), Mode("inner"):
        a.exp()
        tessera.zeros(2)
    assert [s for s in seen if s[1] == "exp"] == [("inner", "exp"), ("outer", "exp")]
    assert ("outer", "zeros") in seen
    seen.clear()
    a.exp()
    assert not seen


def test_an_exception_in_a_mode_leaves_the_stack_clean():
    class Broken(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError("no")

    with pytest.raises(KeyError):
        with Broken():
            tessera.ones(2).exp()
    assert tessera.ones(2).exp().shape == (2,)


# ---- callables
# --------------------------------------------------------------------------------------------------------------


def test_operators_look_like_functions():
    assert tessera.add.__name__ == "add" and tessera.add.__doc__
    assert tessera.Tensor.add.__name__ == "add"
    assert pickle.loads(pickle.dumps(tessera.Tensor.add)) is tessera.Tensor.add
    assert pickle.loads(pickle.dumps(tessera.add)) is tessera.add
    assert callable(tessera.ones(1).add) and tessera.ones(1).add(1).item() == 2


def test_operators_as_objects():
    overload = tessera.ops.aten.add.Tensor
    assert overload is tessera.ops.aten.add.Tensor and overload in {overload: 1}
    assert str(overload) == "aten.add.Tensor" and overload._schema.arguments[2].name == "alpha"
    assert overload(tessera.ones(1), tessera.ones(1), alpha=3).item() == 4
    with pytest.raises(RuntimeError, match="schema"):
        overload("x")
    with pytest.raises(AttributeError):
        tessera.ops.aten.nonsense
    with pytest.raises(AttributeError):
        tessera.ops.aten.add.nonsense


def test_every_operator_of_the_registry_can_be_named():
    for schema, *_ in tessera._C._operator_table():
        name = schema.partition("(")[0].split("::")[1]
        base, _, overload = name.partition(".")
        assert str(getattr(getattr(tessera.ops.aten, base), overload or "default")._schema) == schema


def test_kernels_made_at_run_time_come_and_go():
    library = tessera.library.Library("aten", "IMPL")
    library.impl("exp", lambda x: x + 100, "CPU")
    assert tessera.ones(1).exp().item() == 101
    assert tessera.explain(tessera.exp, tessera.ones(1))[0].steps == [("CPU", "run-time kernel")]
    library._destroy()
    assert abs(tessera.ones(1).exp().item() - 2.718281) < 1e-5


def test_explanations_agree_with_calls_that_meet_kernels_made_at_run_time():
    x = tessera.ones(1, requires_grad=True)
    last = lambda f, *args: steps_of(f, *args).steps[-1]
    library = tessera.library.Library("aten", "IMPL")
    try:
        # A composite operator: an alias of run time comes before the slot of its own.
        assert last(tessera.subtract, x, x) == ("CPU", "CompositeImplicit")
        library.impl("subtract.Tensor", lambda a, b, *, alpha=1: a * 0 + 42, "CompositeImplicitAutograd")
        assert tessera.subtract(x, x).item() == 42
        assert last(tessera.subtract, x, x) == ("CPU", "run-time kernel")
        # A kernel for other keys: the layers and the backend of these tensors are as before.
        library.impl("multiply.Tensor", lambda a, b: a, "Meta")
        assert tessera.multiply(x, x).item() == 1
        assert last(tessera.multiply, x, x) == ("CPU", "CompositeImplicit")
        # A fallthrough skips its layer, slot and all.
        library.impl("exp", tessera.library.fallthrough_kernel, "AutogradCPU")
        assert not tessera.exp(x).requires_grad
        assert steps_of(tessera.exp, x).steps[-2:] == [("AutogradCPU", "skipped"), ("CPU", "slot")]
    finally:
        library._destroy()
    assert tessera.subtract(x, x).item() == 0 and last(tessera.subtract, x, x) == ("CPU", "CompositeImplicit")
    assert tessera.exp(x).requires_grad


def test_explain_shows_what_becomes_of_conjugates_and_of_calls_without_tensors():
    with tessera.inference_mode():
        z = tessera.ones(2, dtype=tessera.complex64).conj()
        assert steps_of(tessera.exp, z).steps == [("Conjugate", "bits materialised"), ("CPU", "slot")]
    assert steps_of(tessera.randperm, 2).steps == [("Undefined", "CompositeExplicit")]


def test_new_operators():
    library = tessera.library.Library("tessera_test", "DEF")
    library.define("twice(Tensor x, *, int n=2) -> Tensor")
    library.impl("twice", lambda x, *, n=2: x * n, "CompositeImplicitAutograd")
    x = tessera.ones(2, requires_grad=True)
    tessera.ops.tessera_test.twice(x, n=5).sum().backward()
    assert x.grad.tolist() == [5, 5]
    with pytest.raises(RuntimeError):
        tessera.ops.tessera_test.twice("x")
    library._destroy()


class Told(tessera.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Told.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize(
    ("make", "name"), [(bool, "__bool__"), (int, "__int__"), (float, "__float__"), (len, "__len__")]
)
def test_values_of_subclasses_are_asked_for_by_name(make, name):
    Told.calls = []
    assert make(tessera.ones(1).as_subclass(Told)) == 1 and Told.calls == [name]
    with tessera._C.DisableTorchFunctionSubclass():
        assert make(tessera.ones(1).as_subclass(Told)) == 1 and Told.calls == [name]


def test_modes_see_which_values_are_asked_for():
    class Names(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    seen = []
    with Names():
        assert bool(tessera.ones(())) and float(tessera.ones(())) == 1.0
    assert [n for n in seen if n.startswith("__")] == ["__bool__", "__float__"]


def test_as_subclass_is_no_call_that_a_class_takes_over():
    Told.calls = []
    x = tessera.ones(2).as_subclass(Told)
    assert type(x.as_subclass(tessera.Tensor)) is tessera.Tensor and Told.calls == []


def test_dispatch_modes_and_profiles_see_items():
    from tessera.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen, x = [], tessera.tensor([2.5])
    with Names():
        assert x.item() == 2.5
    assert seen == ["aten._local_scalar_dense.default"]
    with tessera.profiler.profile(activities=[tessera.profiler.ProfilerActivity.CPU]) as p:
        x.item()
    assert "aten::item" in [e.key for e in p.key_averages()]


def test_programs_are_told_documented_operators():
    from tessera.utils._python_dispatch import TorchDispatchMode

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func)[5:], [a for a in args if not isinstance(a, tessera.Tensor)]))
            return func(*args, **(kwargs or {}))

    x, seen = tessera.tensor([-1.0, 0.5, 2.0]), []
    wide = tessera.arange(6.0).view(2, 3)
    made = [
        lambda: x.clamp(min=0),
        lambda: x.clamp(max=1),
        lambda: x.clone().clamp_(0, 1),
        lambda: x**2,
        lambda: 2**x,
        lambda: x.pow(3),
        lambda: x > 0,
        lambda: x.remainder(2),
        lambda: 2 - x,
        lambda: x.masked_fill(x > 0, 1.5),
        lambda: tessera.where(x > 0, x, 0.0),
        lambda: x.clamp_min(0),
        lambda: tessera.nn.functional.layer_norm(wide, (3,)),
        lambda: tessera.nn.functional.batch_norm(wide, None, None, training=True),
    ]
    want = [f() for f in made]
    with Calls():
        got = [f() for f in made]
    for a, b in zip(got, want, strict=True):
        assert tessera.equal(a, b)
    assert [name for name, _ in seen if name != "clone.default"] == [
        "clamp.default",
        "clamp.default",
        "clamp_.default",
        "pow.Tensor_Scalar",
        "pow.Scalar",
        "pow.Tensor_Scalar",
        "gt.Scalar",
        "remainder.Scalar",
        "rsub.Scalar",
        "gt.Scalar",
        "masked_fill.Scalar",
        "gt.Scalar",
        "where.ScalarOther",
        "clamp_min.default",
        "native_layer_norm.default",
        "native_batch_norm.default",
    ]
    assert seen[:2] == [("clamp.default", [0]), ("clamp.default", [None, 1])]
