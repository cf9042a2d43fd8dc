"""Named dimensions: rules of operators, methods that rename and align, and what is refused."""

import copy
import pickle
import subprocess
import sys

import pytest

import tessera

pytestmark = pytest.mark.filterwarnings("ignore:Named tensors")


def zeros(*size, names):
    return tessera.zeros(*size, names=names)


X = ("N", "C")


@pytest.mark.parametrize(
    "function, names",
    [
        (lambda x: x.abs(), X),
        (lambda x: x.permute(1, 0), ("C", "N")),
        (lambda x: x.unsqueeze(1), ("N", None, "C")),
        (lambda x: x.expand(4, 2, 3), (None, "N", "C")),
        (lambda x: x.diagonal(), (None,)),
        (lambda x: x.movedim(0, 1), ("C", "N")),
        (lambda x: x.sum(), ()),
        (lambda x: x.sum(("N",), keepdim=True), X),
        (lambda x: x.norm(2, "N"), ("C",)),
        (lambda x: x.max("N", True)[1], X),
        (lambda x: tessera.var_mean(x, "C")[0], ("N",)),
        (lambda x: x.squeeze("N"), (None, None)),  # not of size 1
        (lambda x: x.sort("N")[1], X),
        (lambda x: x.T, ("C", "N")),
        (lambda x: x[0], ("C",)),
        (lambda x: x[:, None, 1:], ("N", None, "C")),
        (lambda x: x[..., 0], ("N",)),
        (lambda x: tessera.where(x > 0, x, x), X),
        (lambda x: tessera.zeros_like(x), X),
        (lambda x: x.new_zeros(2, 3), (None, None)),
        (lambda x: x.masked_select(x > 0), (None,)),
        (lambda x: tessera.addmm(x, tessera.zeros(2, 2), tessera.zeros(2, 3)), X),
        (lambda x: x.nonzero(), (None, None)),
        (lambda x: x.to(tessera.int64), X),
        (lambda x: x.normal_(), X),
        (lambda x: x.resize_(2, 3), X),
        (lambda x: tessera.zeros(2, 3).copy_(x), X),
        (lambda x: tessera.nn.functional.linear(x, zeros(4, 3, names=("out", "in"))), ("N", "out")),
        (lambda x: x.unflatten("C", (("a", 3), ("b", 1))), ("N", "a", "b")),
        (lambda x: x.flatten(0, 1, "all"), ("all",)),
        (lambda x: x.flatten("N", "C", "all"), ("all",)),
        (lambda x: x.align_to("D", ...), ("D", "N", "C")),
        (lambda x: tessera.align_tensors(x, zeros(3, names=("C",)))[1], X),
        (copy.deepcopy, X),
        (lambda x: x.as_strided((6,), (1,)), (None,)),
        (lambda x: tessera.cdist(x, zeros(5, 3, names=("M", "C"))), ("N", "M")),
        (lambda x: tessera.nn.functional.max_pool2d(zeros(1, 1, 4, 4, names=tuple("ABCD")), 2), tuple("ABCD")),
        (lambda x: tessera.nn.functional.max_pool1d(zeros(1, 1, 4, names=tuple("ABC")), 2), tuple("ABC")),
        (lambda x: tessera.zeros(1).resize_as_(x), X),
    ],
)
def test_results_have_the_names_of_the_rule(function, names):
    assert function(zeros(2, 3, names=X)).names == names


def test_names_live_in_the_key_and_go_with_it():
    t = zeros(2, 3, names=X)
    assert t.has_names() and (t.size("C"), t.stride("N")) == (3, 3)
    t.names = None
    assert not t.has_names() and (t + t).names == (None, None)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: x.view(3, 2), RuntimeError, "not yet supported with named tensors"),
        (lambda x: x.reshape(6), RuntimeError, "not yet supported with named tensors"),
        (lambda x: x.sgn(), RuntimeError, "not yet supported with named tensors"),
        (lambda x: x[tessera.tensor([0])], RuntimeError, "not yet supported with named tensors"),
        (lambda x: x.resize_(3, 2), RuntimeError, "to other sizes"),
        (lambda x: x.sum("H"), RuntimeError, r"Name 'H' not found in Tensor\['N', 'C'\]"),
        (lambda x: x.size("H"), RuntimeError, "not found"),
        (lambda x: x.narrow("N", 0, 1), TypeError, "narrow"),
        (lambda x: x.argmax("N"), TypeError, "argmax"),
        (lambda x: x + "N", TypeError, "unsupported operand"),
        (lambda x: x.mm(zeros(3, 4, names=("A", "N"))), RuntimeError, "duplicate names"),
        (lambda x: pickle.dumps(x), RuntimeError, "serialization"),
        (lambda x: tessera.empty(2, names="N"), TypeError, "names"),
        (lambda x: tessera.empty(2, names=(1,)), TypeError, "dimension 0"),
        (lambda x: tessera.arange(2, names=("N",)), TypeError, "arange"),
        (lambda x: x.rename(), RuntimeError, "rename"),
        (lambda x: x.align_to("N", None), RuntimeError, "align_to"),
        (lambda x: x.refine_names(..., ...), RuntimeError, "More than one"),
        (lambda x: x.select(None, 0), RuntimeError, "look up dimensions by name"),
        (lambda x: x.prod(None), RuntimeError, "look up dimensions by name"),
        (lambda x: x.sum([None, "C"]), RuntimeError, "look up dimensions by name"),
        (lambda x: tessera.tensor(x, names=("N", "D")), RuntimeError, "Name mismatch"),
        (lambda x: x.resize_as_(tessera.zeros(2, 3)), RuntimeError, "not the same"),
        (lambda x: x.align_to("C"), RuntimeError, "Cannot find dim 'N'"),
        (lambda x: x.align_to(..., "N", "N"), RuntimeError, "duplicate names"),
    ],
)
def test_what_is_refused(call, error, message):
    x = zeros(2, 3, names=X)
    with pytest.raises(error, match=message):
        call(x)
    assert x.names == X


def test_a_refused_result_leaves_out_as_it_was():
    out = tessera.full((2, 3), 7.0, names=("A", "B"))
    with pytest.raises(RuntimeError, match="differ from the names of out="):
        tessera.abs(zeros(2, 3, names=X), out=out)
    assert out.names == ("A", "B") and out.rename(None).eq(7).all()


@pytest.mark.filterwarnings("ignore:Autograd was passed")
def test_gradients_have_no_names_even_of_named_ones():
    w = tessera.ones(3, names=("D",), requires_grad=True)
    w.backward(tessera.ones(3, names=("D",)))
    (w * 2).abs().backward(tessera.ones(3, names=("C",)))
    assert w.grad.names == (None,) and w.grad.tolist() == [3.0] * 3


def test_views_share_memory_and_history():
    w = tessera.ones(2, 3, requires_grad=True)
    w.refine_names("N", "C").align_to("C", "N").rename(N="B").sum("B").sum().backward()
    assert w.grad.eq(1).all()
    base = tessera.zeros(2, 3)
    base.refine_names("N", "C").align_to("C", "N").rename(None)[0].add_(1)
    assert base.tolist() == [[1, 0, 0], [1, 0, 0]]


def test_the_warning_comes_once():
    program = (
        "import warnings, tessera\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    tessera.zeros(2, names=('N',)); tessera.zeros(2).refine_names('N')\n"
        "assert [str(w.message)[:13] for w in seen] == ['Named tensors'], seen\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_dots_stand_for_dimensions_without_names_too():
    x = tessera.arange(6.0).reshape(2, 3).refine_names("N", None)
    assert x.align_to(..., "N").names == (None, "N") and x.align_to(..., "N").rename(None).equal(x.rename(None).t())
    assert x.align_to("K", "N", ...).names == ("K", "N", None) and x.align_to("K", "N", ...).shape == (1, 2, 3)
    with pytest.raises(RuntimeError, match="must be named"):
        x.align_to("N", "C")


def test_unflatten_takes_an_ordered_dict():
    from collections import OrderedDict

    x = tessera.zeros(2, 6).refine_names("N", "C")
    assert x.unflatten("C", OrderedDict([("H", 2), ("W", 3)])).names == ("N", "H", "W")


def test_diagonal_by_names():
    x = tessera.zeros(2, 3, 5, 7, names=list("ABCD"))
    made = x.diagonal(outdim="E", dim1="B", dim2="D")
    assert made.names == ("A", "C", "E") and made.shape == (2, 5, 3)


def test_flatten_of_places_out_of_range():
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 2"):
        tessera.randn(1, 2).flatten(0, 2, "N")
    with pytest.raises(RuntimeError, match="start_dim cannot come after end_dim"):
        tessera.randn(1, 2).flatten(1, 0, "N")


def test_unflatten_of_a_named_dimension_needs_names():
    x = tessera.ones(4, names=("A",))
    with pytest.raises(TypeError, match="must be int, not str"):
        x.unflatten("A", (2, 2))
    with pytest.raises(RuntimeError, match="named tensors"):
        x.unflatten(0, (2, 2))


def test_all_names_of_a_scalar():
    assert tessera.randn([]).rename("...").names == ()


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_a_copy_of_a_named_tensor_has_its_names():
    assert tessera.tensor(zeros(2, 3, names=X)).names == X
    assert tessera.tensor(zeros(2, 3, names=X), names=X).names == X
    assert tessera.tensor(tessera.zeros(2, 3), names=X).names == X


def test_equal_tensors_have_equal_names():
    x = tessera.ones(2, 3)
    assert tessera.equal(x.rename(*X), x.rename(*X))
    assert not tessera.equal(x.rename("M", "C"), x.rename(*X))
    assert not tessera.equal(x, x.rename(*X)) and not tessera.equal(x.rename(None, "C"), x.rename(*X))


def test_a_batch_dimension_is_not_contracted():
    a = zeros(3, 3, 3, names=("N", "A", "B"))
    with pytest.raises(RuntimeError, match="misaligned"):
        tessera.bmm(a, zeros(3, 3, 3, names=(None, "N", "B")))
    with pytest.raises(RuntimeError, match="misaligned"):
        tessera.bmm(zeros(3, 3, 3, names=(None, "A", "M")), zeros(3, 3, 3, names=("M", "A", "C")))
    with pytest.raises(RuntimeError, match="duplicate names"):
        tessera.bmm(zeros(3, 3, 3, names=("N", "A", "B")), zeros(3, 3, 3, names=(None, "B", "A")))
    assert tessera.bmm(a, zeros(3, 3, 3, names=("N", "A", "D"))).names == ("N", "A", "D")


def test_a_gradient_with_names_is_warned_of():
    x = tessera.ones(2, 3, names=X).requires_grad_()
    with pytest.warns(UserWarning, match="Autograd was passed a named grad tensor"):
        x.clone().backward(tessera.ones(2, 3, names=X))
    assert x.grad.names == (None, None)


def test_an_order_of_a_norm_is_no_name():
    for call in (lambda o: tessera.linalg.vector_norm(tessera.ones(2, 2), o), lambda o: tessera.linalg.vector_norm(
        tessera.ones(2, 2), ord=o
    )):  # fmt: skip
        for order in ("nuc", "fro"):
            with pytest.raises(TypeError, match="argument 'ord'.* must be Number, not str"):
                call(order)
    x = tessera.ones(2, 3, names=X)
    assert tessera.linalg.vector_norm(x, 2, "C").names == ("N",)
    assert tessera.linalg.vector_norm(x, 1, None) == 6


def test_no_dimension_is_no_name():
    x = tessera.ones(2, 3, names=X)
    with pytest.raises(RuntimeError, match="look up dimensions by name, got None"):
        tessera.kthvalue(x, 1, None)
    assert tessera.kthvalue(x, 1, "N")[0].names == ("C",)
