"""Bad input: the documented exception, a message that says what was given, and nothing half done."""

import pickle

import numpy as np
import pytest
import tessera

HUGE = 2**62


def x23():
    return tessera.arange(6.0).reshape(2, 3)


SHAPES = [
    (lambda: tessera.ones(2, 3) + tessera.ones(4), RuntimeError, "must match", "(3)", "(4)"),
    (lambda: tessera.ones(2, 3) @ tessera.ones(2, 3), RuntimeError, "2x3"),
    (lambda: tessera.ones(3).reshape(2, 2), RuntimeError, "[2, 2]", "3"),
    (lambda: tessera.ones(6).view(-1, -1), RuntimeError, "one dimension can be inferred"),
    (lambda: tessera.ones(6).view(4, -1), RuntimeError, "[4, -1]", "6"),
    (lambda: x23().t().view(6), RuntimeError, "view"),
    (lambda: tessera.cat([tessera.ones(2, 3), tessera.ones(2, 4)]), RuntimeError, "3", "4"),
    (lambda: tessera.stack([tessera.ones(2), tessera.ones(3)]), RuntimeError, "[2]", "[3]"),
    (lambda: tessera.ones(2).expand(3), RuntimeError, "2", "3"),
    (lambda: tessera.ones(3).dot(tessera.ones(4)), RuntimeError, "3", "4"),
    (lambda: tessera.ones(2, 3).permute(0, 0), RuntimeError),
    (lambda: tessera.ones(2, 3).permute(0), RuntimeError),
    (lambda: tessera.ones(3).unfold(0, 4, 1), RuntimeError, "4"),
    (lambda: tessera.ones(3).split([1, 1]), RuntimeError, "3"),
    (lambda: tessera.ones(3).tensor_split(0), RuntimeError),
    (lambda: tessera.ones(3).chunk(0), RuntimeError, "chunks"),
    (lambda: tessera.ones(3).as_strided([4], [1]), RuntimeError, "storage"),
    (lambda: tessera.ones(3).as_strided([2], [-1]), RuntimeError),
    (lambda: tessera.ones(3).amax(()).sum() + tessera.ones(0).amax(), RuntimeError),
    (lambda: tessera.ones(0).max(), RuntimeError),
    (lambda: tessera.ones(0, 3).argmax(0), IndexError),
]
INDICES = [
    (lambda: x23()[2], IndexError, "2"),
    (lambda: x23()[-3], IndexError, "-3"),
    (lambda: x23()[0, 0, 0], IndexError, "too many indices"),
    (lambda: x23()[::-1], ValueError, "step"),
    (lambda: x23()[::0], ValueError, "step"),
    (lambda: x23()["a"], TypeError, "str"),
    (lambda: x23()[1.5], IndexError),
    (lambda: x23()[tessera.tensor([0, 2])], IndexError, "2"),
    (lambda: x23()[tessera.tensor([True, False, True])], IndexError),
    (lambda: x23().select(5, 0), IndexError, "5"),
    (lambda: x23().select(0, 5), IndexError, "5"),
    (lambda: x23().sum(2), IndexError, "2"),
    (lambda: tessera.ones(()).repeat_interleave(2, dim=1), IndexError, "1"),
    (
        lambda: tessera.ones(0).scatter_reduce(1, tessera.zeros(0, dtype=tessera.int64), tessera.ones(0), "sum"),
        IndexError,
        "1",
    ),
    (lambda: tessera.norm(tessera.ones(2, 2, 2), p="nuc"), RuntimeError, "2-tuple"),
    (lambda: x23().transpose(0, 7), IndexError, "7"),
    (lambda: x23().index_select(0, tessera.tensor([4])), IndexError),
    (lambda: x23().gather(0, tessera.tensor([[5]])), RuntimeError, "5"),
    (lambda: x23().scatter(0, tessera.tensor([[-1]]), 1.0), RuntimeError, "-1"),
    (lambda: x23().narrow(0, 1, 2), RuntimeError),
    (lambda: x23().take(tessera.tensor([6])), IndexError, "6"),
    (lambda: x23().topk(4), RuntimeError, "range"),
    (lambda: tessera.ones(3).squeeze(1), IndexError, "1"),
]
DTYPES = [
    (lambda: tessera.ones(2, dtype=tessera.bool) - tessera.ones(2, dtype=tessera.bool), RuntimeError, "bool"),
    (lambda: tessera.ones(2, dtype=tessera.int64).mean(), RuntimeError, "Long"),
    (lambda: tessera.ones(2, dtype=tessera.int64).add_(1.5), RuntimeError, "Float", "Long"),
    (lambda: tessera.ones(2, dtype=tessera.int64).requires_grad_(), RuntimeError, "floating point"),
    (lambda: tessera.ones(2, 2) @ tessera.ones(2, 2, dtype=tessera.float64), RuntimeError, "dtype"),
    (
        lambda: tessera.add(tessera.ones(2), 1.0, out=tessera.ones(2, dtype=tessera.int64)),
        RuntimeError,
        "Float",
        "Long",
    ),
    (
        lambda: tessera.ones(2, dtype=tessera.float32) & tessera.ones(2, dtype=tessera.float32),
        NotImplementedError,
        "Float",
    ),
    (lambda: tessera.ones(2, dtype=tessera.complex64) < 1, NotImplementedError, "Complex"),
    (lambda: tessera.ones(3).index_select(0, tessera.ones(1)), RuntimeError),
    (lambda: tessera.full((1,), 300, dtype=tessera.uint8), RuntimeError, "overflow"),
    (
        lambda: tessera.ones(2, dtype=tessera.int32) // tessera.zeros(2, dtype=tessera.int32),
        RuntimeError,
        "ZeroDivisionError",
    ),
    (lambda: tessera.from_numpy(np.array(["a"])), TypeError, "numpy.str_"),
]
ARGUMENTS = [
    (lambda: tessera.add(tessera.ones(2), "x"), TypeError, "str"),
    (lambda: tessera.add(), TypeError),
    (lambda: tessera.exp(1.0), TypeError, "float"),
    (lambda: tessera.exp(tessera.ones(1), nonsense=1), TypeError, "nonsense"),
    (lambda: tessera.zeros("a"), TypeError),
    (lambda: tessera.zeros(2, dtype="float32"), TypeError, "dtype"),
    (lambda: tessera.tensor([[1, 2], [3]]), ValueError, "expected sequence of length 2"),
    (lambda: tessera.tensor(object()), RuntimeError),
    (lambda: tessera.zeros(-1), RuntimeError, "negative dimension"),
    (lambda: tessera.arange(0, 1, 0), RuntimeError, "step"),
    (lambda: tessera.arange(1, 0, 1), RuntimeError),
    (lambda: tessera.linspace(0, 1, -1), RuntimeError, "steps"),
    (lambda: bool(tessera.ones(2)), RuntimeError, "ambiguous"),
    (lambda: tessera.ones(2).item(), RuntimeError, "2 elements"),
    (lambda: int(tessera.ones(2)), ValueError, "one element"),
    (lambda: len(tessera.tensor(1)), TypeError, "0-d"),
    (lambda: iter(tessera.tensor(1)), TypeError, "0-d"),
    (lambda: tessera.ones(2).nonsense, AttributeError, "nonsense"),
    (lambda: tessera.nonsense, AttributeError, "nonsense"),
    (lambda: tessera.einsum("ij,jk", tessera.ones(2, 3)), RuntimeError),
    (lambda: tessera.set_num_threads(0), RuntimeError, "positive"),
]
DEVICES = [
    (lambda: tessera.device("nonsense"), RuntimeError, "nonsense"),
    (lambda: tessera.device("cpu:x"), RuntimeError, "cpu:x"),
    (lambda: tessera.ones(2) + tessera.ones(2, device="meta"), RuntimeError, "meta", "cpu"),
    (lambda: tessera.ones(1, device="meta").item(), RuntimeError, "meta"),
    (lambda: tessera.ones(2, device="meta").numpy(), TypeError),
]
OVERFLOWS = [
    (lambda: tessera.empty(HUGE, 4), RuntimeError),
    (lambda: tessera.empty(HUGE), RuntimeError),
    (lambda: tessera.ones(1).expand(HUGE, HUGE), RuntimeError),
    (lambda: tessera.ones(1).expand(HUGE).clone(), RuntimeError),
    (lambda: tessera.empty_strided((2, 2), (HUGE, 1)), RuntimeError),
    (lambda: tessera.ones(4).as_strided((2,), (HUGE,)), RuntimeError),
    (lambda: tessera.ones(4).as_strided((HUGE, HUGE), (0, 0)), RuntimeError),
    (lambda: tessera.ones(4).as_strided((2,), (1,), HUGE), RuntimeError),
    (lambda: tessera.ones(2).repeat(HUGE, 2), RuntimeError),
    (lambda: tessera.zeros(10**30), (RuntimeError, TypeError, OverflowError)),
    (lambda: tessera.arange(0, HUGE, 1e-30), RuntimeError),
    (lambda: tessera.eye(HUGE), RuntimeError),
    (lambda: tessera.ones(3).roll(HUGE).roll(-HUGE).unfold(0, HUGE, HUGE), RuntimeError),
    (lambda: tessera.ones(3)[HUGE], IndexError),
    (lambda: tessera.ones(2).resize_(HUGE), RuntimeError),
]


@pytest.mark.parametrize(
    "case", SHAPES + INDICES + DTYPES + ARGUMENTS + DEVICES + OVERFLOWS, ids=lambda c: str(c[0].__code__.co_firstlineno)
)
def test_exceptions(case):
    call, error, *words = case
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert message
    for word in words:
        assert word in message, message
    if error is RuntimeError:  # not a subclass that means something else
        assert type(caught.value) is RuntimeError or isinstance(caught.value, tessera.OutOfMemoryError)


# ---- nothing half done
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "break_it",
    [
        lambda t: t.add_(tessera.ones(4)),
        lambda t: t.add_(tessera.ones(5, 2, 3)),
        lambda t: t.copy_(tessera.ones(7)),
        lambda t: t.__setitem__(tessera.tensor([0, 9]), 5.0),
        lambda t: t.__setitem__((slice(None), 0), tessera.ones(3)),
        lambda t: t.index_add_(0, tessera.tensor([0, 9]), tessera.ones(2, 3)),
        lambda t: t.scatter_(1, tessera.tensor([[0, 1, 9]]), 5.0),
        lambda t: t.index_fill_(0, tessera.tensor([0, 9]), 5.0),
        lambda t: t.clamp_(None, None),
        lambda t: t.resize_(-1),
        lambda t: tessera.add(tessera.ones(2), tessera.ones(3), out=t),
        lambda t: tessera.mm(tessera.ones(2, 3), tessera.ones(2, 3), out=t),
        lambda t: t.index_copy_(0, tessera.tensor([0, 9]), tessera.ones(2, 3)),
        lambda t: t.masked_fill_(tessera.ones(3, 3, dtype=tessera.bool), 1.0),
    ],
)
def test_a_failed_call_changes_nothing(break_it):
    t = x23()
    version, pointer = t._version, t.data_ptr()
    with pytest.raises((RuntimeError, IndexError)):
        break_it(t)
    assert t.shape == (2, 3) and t.data_ptr() == pointer and t._version == version
    assert t.tolist() == x23().tolist()


def test_overlapping_memory_is_not_written():
    row = tessera.ones(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        row.expand(2, 3).add_(1)
    line = tessera.arange(4.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        line[1:].add_(line[:-1])
    with pytest.raises(RuntimeError, match="single memory location"):
        tessera.exp(line[:-1], out=line[1:])
    assert row.tolist() == [1, 1, 1] and line.tolist() == [0, 1, 2, 3]


def test_in_place_on_leaves_and_their_views():
    leaf = tessera.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        leaf.add_(1)
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"
    ):
        leaf[0] = 5
    with pytest.raises(RuntimeError, match="out=... arguments don't support automatic differentiation"):
        tessera.exp(leaf, out=tessera.empty(3))
    assert leaf.tolist() == [1, 1, 1] and leaf._version == 0
    with tessera.no_grad():
        leaf.add_(1)
    assert leaf.tolist() == [2, 2, 2]


def test_a_modified_saved_tensor():
    a = tessera.ones(3, requires_grad=True)
    b = a * 2
    c = (b * b).sum()
    b.add_(1)
    with pytest.raises(
        RuntimeError,
        match=(
            r"modified by an inplace operation: \[torch.FloatTensor \[3\]\].*is at version 1; expected version 0 "
            r"instead"
        ),
    ):
        c.backward()
    assert a.grad is None


def test_a_graph_that_was_freed():
    a = tessera.ones(3, requires_grad=True)
    loss = (a * a).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()
    assert a.grad.tolist() == [2, 2, 2]


def test_backward_without_a_graph():
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        tessera.ones(1).backward()
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (tessera.ones(2, requires_grad=True) * 2).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (tessera.ones(2, requires_grad=True) * 2).backward(tessera.ones(3))


def test_gradients_that_do_not_fit():
    t = tessera.ones(2, requires_grad=True)
    with pytest.raises((RuntimeError, TypeError), match="size|shape"):
        t.grad = tessera.ones(3)
    with pytest.raises((RuntimeError, TypeError), match="dtype|type"):
        t.grad = tessera.ones(2, dtype=tessera.float64)
    with pytest.raises(TypeError):
        t.grad = 1
    assert t.grad is None


def test_inference_tensors_stay_out_of_graphs():
    with tessera.inference_mode():
        t = tessera.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        tessera.ones(2, requires_grad=True) * t
    with pytest.raises(RuntimeError, match="inference"):
        t.requires_grad_()


def test_errors_leave_the_modes_as_they_were():
    for mode in (tessera.no_grad, tessera.inference_mode):
        with pytest.raises(RuntimeError):
            with mode():
                tessera.ones(2) + tessera.ones(3)
        assert tessera.is_grad_enabled() and not tessera.is_inference_mode_enabled()


def test_buffers_that_are_too_small():
    with pytest.raises(ValueError, match="buffer"):
        tessera.frombuffer(bytearray(3), dtype=tessera.float32)
    with pytest.raises(ValueError):
        tessera.frombuffer(bytearray(8), dtype=tessera.float32, offset=9)
    with pytest.raises(ValueError):
        tessera.frombuffer(bytearray(8), dtype=tessera.float32, count=3)


def test_a_shrunk_storage_is_noticed():
    t = tessera.arange(100.0)
    t.untyped_storage().resize_(4)
    with pytest.raises(RuntimeError, match="storage"):
        t.sum()
    with pytest.raises(RuntimeError, match="storage"):
        t.tolist()


def test_a_damaged_pickle_raises():
    data = pickle.dumps(tessera.ones(3))
    for cut in range(0, len(data), 7):
        with pytest.raises(Exception):
            pickle.loads(data[:cut])


@pytest.mark.parametrize("name", ["index_add_", "index_copy_"])
@pytest.mark.parametrize(
    "shape, index, source",
    [
        ((3, 7, 1), (), ()),
        ((3, 2), (1,), ()),
        ((1, 1), (), ()),
        ((3, 2), (1,), (2,)),
        ((3, 2), (1,), (1, 3)),
        ((3, 2), (2,), (1, 2)),
    ],
)
def test_sources_of_other_shapes_than_the_slices(name, shape, index, source):
    t = tessera.zeros(shape)
    with pytest.raises((RuntimeError, IndexError)):
        getattr(t, name)(0, tessera.zeros(index, dtype=tessera.int64), tessera.ones(source))
    assert not t.any()


@pytest.mark.parametrize("name, shape", [("index_add_", ()), ("index_copy_", ()), ("index_copy_", (1,))])
def test_slices_that_are_numbers(name, shape):
    t = tessera.zeros(shape)
    getattr(t, name)(0, tessera.tensor(0), tessera.tensor(2.0))
    assert t.sum() == 2


def test_an_argument_without_memory_beside_one_with_memory():
    t = tessera.zeros(4, 2)
    with pytest.raises(RuntimeError, match="same device"):
        t.bernoulli_(tessera.empty(4, 2, device="meta"))
    assert not t.any()
