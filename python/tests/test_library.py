"""torch.ops, torch.library, dispatch modes and subclasses with a dispatch of their own."""

import gc
import itertools

import pytest
import tessera
import tessera.autograd.forward_ad as fwAD
from tessera import library
from tessera.func import jvp
from tessera.utils._python_dispatch import TorchDispatchMode

_count = itertools.count()


def fresh(name="op"):
    return f"tst{next(_count)}::{name}"


def packet(name):
    namespace, _, short = name.partition("::")
    return getattr(getattr(tessera.ops, namespace), short)


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


# ---- ops
# --------------------------------------------------------------------------------------------------------------------


def test_overloads_are_singletons_with_schemas():
    add = tessera.ops.aten.add.Tensor
    assert add is tessera.ops.aten.add.Tensor and add.overloadpacket is tessera.ops.aten.add
    assert [a.name for a in add._schema.arguments] == ["self", "other", "alpha"]
    alpha = add._schema.arguments[2]
    assert alpha.kwarg_only and alpha.has_default_value() and alpha.default_value == 1
    written = tessera.ops.aten.add_.Tensor._schema.arguments[0]
    assert written.alias_info.is_write and tessera.ops.aten.add_.Tensor._schema.is_mutable
    assert add(tessera.ones(1), tessera.ones(1), alpha=3).item() == 4
    with pytest.raises(RuntimeError, match="Declaration"):
        add(tessera.ones(1))
    with pytest.raises(AttributeError):
        tessera.ops.aten.add.Nothing


def test_outputs_have_the_names_of_the_schema():
    x = tessera.tensor([1.0, 3.0, 2.0])
    values, indices = tessera.empty(0), tessera.empty(0, dtype=tessera.int64)
    assert tessera.ops.aten.topk.values(x, 1, values=values, indices=indices)[0] is values and (
        values.item(),
        indices.item(),
    ) == (3.0, 1)
    result = tessera.empty(3)
    assert tessera.ops.aten.tanh_backward.grad_input(x, x, grad_input=result) is result
    with pytest.raises(RuntimeError, match="Declaration"):
        tessera.ops.aten.topk.values(x, 1, values=values)
    with pytest.raises(TypeError):  # functions of the public namespace take out=
        tessera.topk(x, 1, values=values, indices=indices)


# ---- Library
# ----------------------------------------------------------------------------------------------------------------


def test_kernels_come_and_go_with_their_library():
    name = fresh()
    namespace = name.split("::")[0]
    defs = library.Library(namespace, "DEF")
    defs.define("op(Tensor x, int k=2) -> Tensor")
    op = packet(name)
    with pytest.raises(NotImplementedError, match="CPU"):
        op(tessera.ones(1))
    kernels = library.Library(namespace, "IMPL", "CPU")
    kernels.impl("op", lambda x, k: x * k)
    assert op(tessera.ones(1)).item() == 2 and op(tessera.ones(1), k=5).item() == 5
    del kernels
    gc.collect()
    with pytest.raises(NotImplementedError):
        op(tessera.ones(1))
    del defs
    gc.collect()
    with pytest.raises(RuntimeError, match="gone"):
        op(tessera.ones(1))


def test_a_kernel_of_a_built_in_operator_is_used_by_operators_too():
    lib = library.Library("aten", "IMPL")
    calls = []

    def mul(a, b):
        calls.append(1)
        return a.clone()

    lib.impl("mul.Tensor", mul, "CPU")
    a, b = tessera.full((1,), 3.0), tessera.full((1,), 4.0)
    assert (a * b).item() == 3 and calls == [1]
    lib._destroy()
    assert (a * b).item() == 12


def test_kernels_raise_what_they_raise_and_results_are_checked():
    lib = library.Library(fresh().split("::")[0], "DEF")
    lib.define("bad(Tensor x) -> Tensor")
    lib.define("two(Tensor x) -> (Tensor, Tensor)")
    lib.impl("bad", lambda x: {}[1], "CPU")
    lib.impl("two", lambda x: (x,), "CPU")
    ops = getattr(tessera.ops, lib.ns)
    with pytest.raises(KeyError):
        ops.bad(tessera.ones(1))
    with pytest.raises(RuntimeError, match="returned 1 values"):
        ops.two(tessera.ones(1))
    lib.impl("bad", lambda x: "text", "CPU", allow_override=True)
    with pytest.raises(TypeError, match="returned str"):
        ops.bad(tessera.ones(1))


def test_keysets_and_redispatch():
    lib = library.Library(fresh().split("::")[0], "DEF")
    lib.define("f(Tensor x) -> Tensor")
    op = getattr(tessera.ops, lib.ns).f.default
    lib.impl("f", lambda x: x + 1, "CPU")

    def autograd(keys, x):
        assert keys.has("AutogradCPU") and keys.has("CPU") and keys.highestPriorityTypeId().startswith("Autograd")
        return (
            op.redispatch(
                keys - tessera._ops.DispatchKeySet("Autograd") - tessera._ops.DispatchKeySet("AutogradCPU"), x
            )
            * 10
        )

    lib.impl("f", autograd, "Autograd", with_keyset=True)
    assert op(tessera.zeros(1)).item() == 10


def test_operators_without_a_rule_refuse_tangents():
    """A kernel of a backend gives values alone; what it made of a dual would be taken for a constant."""
    lib = library.Library(fresh().split("::")[0], "DEF")
    lib.define("plain(Tensor x) -> Tensor")
    lib.define("listed(Tensor[] xs) -> Tensor")
    lib.define("made(Tensor x) -> Tensor")
    lib.impl("plain", lambda x: x.detach() * 2, "CPU")
    lib.impl("listed", lambda xs: xs[0].detach() * 2, "CompositeExplicitAutograd")
    lib.impl("made", lambda x: x * 2, "CompositeImplicitAutograd")
    ops = getattr(tessera.ops, lib.ns)
    x = tessera.ones(2)

    @library.custom_op(fresh(), mutates_args=())
    def scaled(x: tessera.Tensor) -> tessera.Tensor:
        return x.detach() * 2

    scaled.register_autograd(lambda ctx, g: g * 2)
    refused = {"plain": ops.plain, "listed": lambda x: ops.listed([tessera.ones(2), x]), "custom": scaled}
    for name, f in refused.items():
        for y in (x, x.clone().requires_grad_()):
            with fwAD.dual_level(), pytest.raises(NotImplementedError, match="forward (mode )?AD"):
                f(fwAD.make_dual(y, x))
            with pytest.raises(NotImplementedError, match="forward (mode )?AD"):
                jvp(f, (y,), (x,))
            assert f(y).tolist() == [2, 2], name
    assert jvp(ops.made, (x,), (x,))[1].tolist() == [2, 2]
    with fwAD.dual_level():
        assert fwAD.unpack_dual(ops.made(fwAD.make_dual(x, x))).tangent.tolist() == [2, 2]
        with fwAD._set_fwd_grad_enabled(False):
            assert ops.plain(fwAD.make_dual(x, x)).tolist() == [2, 2]


# ---- custom_op
# --------------------------------------------------------------------------------------------------------------


def make_scale(name):
    @library.custom_op(name, mutates_args=())
    def scale(xs: list[tessera.Tensor], factor: float) -> list[tessera.Tensor]:
        return [x.detach().clone() * factor for x in xs]

    return scale


def test_derivative_of_an_operator_on_lists():
    scale = make_scale(fresh())

    def setup(ctx, inputs, output):
        assert ctx.needs_input_grad == ([True, True], False)
        ctx.factor = inputs[1]

    scale.register_autograd(lambda ctx, grads: ([g * ctx.factor for g in grads], None), setup_context=setup)
    a, b = tessera.ones(2, requires_grad=True), tessera.ones(3, requires_grad=True)
    x, y = scale([a, b], 3.0)
    (x.sum() + 2 * y.sum()).backward()
    assert a.grad.tolist() == [3, 3] and b.grad.tolist() == [6, 6, 6]


def test_operators_that_write():
    @library.custom_op(fresh(), mutates_args={"x"})
    def fill(x: tessera.Tensor, value: float) -> None:
        x.fill_(value)

    x = tessera.zeros(2)
    before = x._version
    assert fill(x, 4.0) is None and x.tolist() == [4, 4] and x._version > before
    with pytest.raises(RuntimeError, match="non-functional"):
        fill.register_autograd(lambda ctx: None)


def test_opcheck_finds_a_wrong_fake():
    scale = make_scale(fresh())
    scale.register_fake(lambda xs, factor: [x.new_empty(7) for x in xs])
    args = ([tessera.ones(2)], 2.0)
    assert library.opcheck(scale, args, test_utils="test_schema") == {"test_schema": "SUCCESS"}
    with pytest.raises(Exception, match="shape"):
        library.opcheck(scale, args, test_utils="test_faketensor")


# ---- modes and subclasses
# ---------------------------------------------------------------------------------------------------


def test_modes_see_operators_below_autograd_and_nest():
    x = tessera.ones(2, requires_grad=True)
    with Log() as outer, Log() as inner:
        (x * 2).sum().backward()
    assert (
        outer.seen == inner.seen and inner.seen[:2] == ["aten.mul.Tensor", "aten.sum.default"] and len(inner.seen) > 3
    )
    count = len(inner.seen)
    tessera.ones(1) + 1
    assert len(inner.seen) == count and x.grad.tolist() == [2, 2]


def test_mode_errors_leave_the_stack_as_it_was():
    class Fails(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(str(func))

    with pytest.raises(KeyError, match="aten.ones"):
        with Fails():
            tessera.ones(1)
    assert (tessera.ones(1) + 1).item() == 2


class Wrapper(tessera.Tensor):
    """Holds a plain tensor and counts calls."""

    __torch_function__ = tessera._C._disabled_torch_function_impl
    calls = []

    @staticmethod
    def __new__(cls, inner):
        return tessera.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(str(func))

        def unwrap(a):
            return a.inner if isinstance(a, cls) else a

        result = func(*map(unwrap, args), **{k: unwrap(v) for k, v in (kwargs or {}).items()})
        return cls(result) if isinstance(result, tessera.Tensor) else result


def test_subclasses_with_a_dispatch_of_their_own():
    w = Wrapper(tessera.ones(3))
    r = w + 1
    assert type(r) is Wrapper and r.inner.tolist() == [2, 2, 2] and Wrapper.calls[-1] == "aten.add.Tensor"
    w.requires_grad_()
    (w * 3).sum().backward()
    for _ in range(3):  # the object of a tensor that lives on in C++ keeps its attributes, however often it is dropped
        assert type(w.grad) is Wrapper and w.grad.inner.tolist() == [3, 3, 3]
        gc.collect()


def test_wrappers_without_data_are_not_read():
    class Silent(tessera.Tensor):
        __torch_function__ = tessera._C._disabled_torch_function_impl
        __torch_dispatch__ = tessera._C._disabled_torch_dispatch_impl

    w = tessera.Tensor._make_wrapper_subclass(Silent, (2,))
    for use in (w.tolist, w.numpy):
        with pytest.raises(RuntimeError, match="storage"):
            use()


def test_fake_of_an_operator_that_is_still_to_be_loaded():
    """A package registers what its compiled part defines, also where that part can't be loaded."""
    with pytest.warns(UserWarning, match="namespace notloaded.*not loaded"):

        @tessera.library.register_fake("notloaded::twice")
        def fake(x):
            return x.new_empty(x.shape[0] * 2)

    library = tessera.library.Library("notloaded", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    assert tessera.ops.notloaded.twice(tessera.empty(3, device="meta")).shape == (6,)
    with pytest.raises(RuntimeError, match="no operator notloaded::thrice"):
        tessera.library.register_fake("notloaded::thrice", fake)


def test_schemas_may_say_that_an_argument_is_written_to_without_naming_a_set():
    library = tessera.library.Library("written", "DEF")
    library.define("into(Tensor x, Tensor! out) -> ()")
    assert [a.is_write for a in tessera.ops.written.into.default._schema.arguments] == [False, True]


def test_pin_memory_is_an_operator_for_those_who_ask():
    assert tessera.ops.aten._pin_memory.default._schema.name == "aten::_pin_memory"


def test_calls_with_effects_are_kept():
    from tessera._library.effects import EffectType

    @library.custom_op("effects::note", mutates_args=())
    def note(x: tessera.Tensor) -> tessera.Tensor:
        return x + 1

    note.register_fake(lambda x: tessera.empty_like(x))
    graph = tessera.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(tessera.ops.effects.note.default, (x,))
    graph.output(x)
    note.register_effect(EffectType.ORDERED)
    assert node.is_impure() and not graph.eliminate_dead_code()
    note.register_effect(None)
    assert graph.eliminate_dead_code()
    with pytest.raises(TypeError, match="EffectType"):
        note.register_effect("ordered")


def test_kernels_as_objects():
    x, keys = tessera.tensor([0.5, 2.0]), tessera._C.DispatchKeySet("CPU")
    built_in = tessera.library.get_kernel("aten::sin", "CPU")
    assert tessera.equal(built_in.call_boxed(keys, x), x.sin())
    lib = tessera.library.Library("aten", "IMPL")
    lib.impl("sin", lambda x: built_in.call_boxed(keys, x) + 1, "CPU")
    own = tessera.library.get_kernel(tessera.ops.aten.sin.default, tessera._C.DispatchKey.CPU)
    assert tessera.equal(x.sin(), own.call_boxed(keys, x)) and tessera.equal(x.sin(), built_in.call_boxed(keys, x) + 1)
    lib._destroy()
    assert tessera.equal(x.sin(), built_in.call_boxed(keys, x)) and tessera.equal(own.call_boxed(keys, x), x.sin() + 1)
    assert tessera.library.get_kernel("aten::linear", "CPU").call_boxed(keys, x, x) == (x * x).sum()
    y = x.clone().requires_grad_()
    tessera.library.get_kernel("aten::sin", "AutogradCPU").call_boxed(keys, y).sum().backward()
    assert tessera.equal(y.grad, x.cos())


def test_kernels_that_python_registered():
    lib = tessera.library.Library("kernels_as_objects", "DEF")
    lib.define("f(Tensor x, int n=2, *, float c=1.0) -> (Tensor, Tensor)")
    lib.impl("f", lambda keys, x, n=2, *, c=1.0: (x * n, x + keys.has("CPU") * c), "CPU", with_keyset=True)
    kernel, keys = tessera.library.get_kernel("kernels_as_objects::f", "CPU"), tessera._C.DispatchKeySet("CPU")
    x = tessera.ones(2)
    assert [t.tolist() for t in kernel.call_boxed(keys, x, 3, c=2.0)] == [[3.0, 3.0], [3.0, 3.0]]
    for kind, call in (
        (RuntimeError, lambda: kernel.call_boxed(keys, x, 3, 4)),
        (TypeError, lambda: kernel.call_boxed(x)),
        (ValueError, lambda: tessera.library.get_kernel(3, "CPU")),
        (ValueError, lambda: tessera.library.get_kernel("aten::sin", "BadKey")),
        (TypeError, lambda: tessera.library.get_kernel("aten::sin", 3)),
        (RuntimeError, lambda: tessera.library.get_kernel("aten::nope", "CPU")),
    ):
        with pytest.raises(kind):
            call()
    lib._destroy()


def test_triton_operators_are_transparent():
    @tessera.library.triton_op("tests_library::visible", mutates_args=())
    def visible(x: tessera.Tensor) -> tessera.Tensor:
        return x + 1

    class M(tessera.nn.Module):
        def forward(self, x):
            return visible(x) * 2

    program = tessera.export.export(M(), (tessera.ones(2),))  # its fake implementation is the function itself
    targets = lambda p: [str(n.target) for n in p.graph.nodes if n.op == "call_function"]  # noqa: E731
    assert targets(program.run_decompositions()) == ["tests_library.visible.default", "aten.mul.Tensor"]
    shown = targets(program.run_decompositions(decompose_custom_triton_ops=True))
    assert shown == ["aten.add.Tensor", "aten.mul.Tensor"]


@pytest.mark.parametrize("write", [lambda x: x.add_(1), lambda x: x.numpy().fill(2)])
def test_a_call_counts_as_one_version(write):
    @tessera.library.custom_op("tests_library::written", mutates_args={"x"})
    def written(x: tessera.Tensor) -> None:
        write(x)

    x = tessera.ones(2)
    before = x._version
    written(x)
    assert x._version == before + 1 and x.tolist() == [2, 2]
    with pytest.raises(ValueError, match="namespace::name"):
        tessera.library.impl("no_namespace", "cpu", write)


def test_functions_for_dispatch_keys_are_registered_without_a_library():
    tessera.library.define("keys_without_library::twice", "(Tensor x) -> Tensor")

    @tessera.library.impl("keys_without_library::twice", "CompositeImplicitAutograd")
    def twice(x):
        return x + x

    x = tessera.ones(2, requires_grad=True)
    (gradient,) = tessera.autograd.grad(tessera.ops.keys_without_library.twice(x).sum(), x)
    assert gradient.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="Nowhere"):
        tessera.library.impl("keys_without_library::twice", "Nowhere", twice)
