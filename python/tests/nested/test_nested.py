"""Nested tensors of both layouts, against the same operators on their components one by one."""

import copy
import io
import pickle
import warnings

import pytest

import tessera
from tessera import nested
from tessera.nested._internal.nested_tensor import NestedTensor
from tessera.nested._internal.ops import extract_kwargs

F = tessera.nn.functional
LENGTHS = (2, 5, 3)


def components(*tail, requires_grad=False):
    generator = tessera.Generator().manual_seed(0)
    return [tessera.randn(n, *tail, generator=generator, requires_grad=requires_grad) for n in LENGTHS]


def both(function):
    return pytest.mark.parametrize("layout", [tessera.strided, tessera.jagged], ids=["strided", "jagged"])(function)


def close(found, want):
    assert len(found.unbind()) == len(want)
    for a, b in zip(found.unbind(), want):
        tessera.testing.assert_close(a, b)


W, B = tessera.randn(4, 4, generator=tessera.Generator().manual_seed(1)), tessera.randn(4)
TABLE = tessera.randn(9, 4)
SAME_BOTH = {
    "sin": lambda x: x.sin(),
    "operators": lambda x: (2 - x) * x / 3 + x**2,
    "clamp": lambda x: x.clamp(-1, 1),
    "gelu": F.gelu,
    "silu": F.silu,
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "comparison": lambda x: x > 0,
    "to": lambda x: x.to(tessera.float64),
    "linear": lambda x: F.linear(x, W, B),
    "layer_norm": lambda x: F.layer_norm(x, (4,), B, B),
    "rms_norm": lambda x: F.rms_norm(x, (4,), B),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1),
    "zeros_like": tessera.zeros_like,
    "in place": lambda x: x.clone().mul_(2).add_(1),
    "where": lambda x: tessera.where(x > 0, x, 0.0),
}


@both
@pytest.mark.parametrize("name", SAME_BOTH)
def test_operators_that_know_no_batch(layout, name):
    parts = components(4)
    x = nested.nested_tensor(parts, layout=layout)
    close(SAME_BOTH[name](x), [SAME_BOTH[name](part) for part in parts])


# of the nested tensor, and of a component
JAGGED = {
    "transpose": (lambda x: x.transpose(1, 2), lambda p: p.transpose(0, 1)),
    "permute": (lambda x: x.permute(0, 2, 1), lambda p: p.permute(1, 0)),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda p: p.unsqueeze(0)),
    "squeeze": (lambda x: x.unsqueeze(-1).squeeze(-1), lambda p: p),
    "unflatten": (lambda x: x.unflatten(-1, (2, 2)), lambda p: p.unflatten(-1, (2, 2))),
    "flatten": (lambda x: x.unflatten(-1, (2, 2)).flatten(-2), lambda p: p),
    "view": (lambda x: x.view(3, -1, 2, 2), lambda p: p.view(-1, 2, 2)),
    "reshape by symbol": (lambda x: x.reshape(3, x.size(1), 2, 2), lambda p: p.view(-1, 2, 2)),
    "chunk": (lambda x: x.chunk(2, -1)[1], lambda p: p.chunk(2, -1)[1]),
    "split": (lambda x: x.split([1, 3], -1)[1], lambda p: p.split([1, 3], -1)[1]),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda p: p.narrow(1, 1, 2)),
    "select": (lambda x: x.select(-1, 0), lambda p: p.select(-1, 0)),
    "index": (lambda x: x[..., 1:3], lambda p: p[..., 1:3]),
    "cat": (lambda x: tessera.cat([x, x], -1), lambda p: tessera.cat([p, p], -1)),
    "stack": (lambda x: tessera.stack([x, x], -1), lambda p: tessera.stack([p, p], -1)),
    "matmul": (lambda x: x @ W, lambda p: p @ W),
    "bmm": (lambda x: tessera.bmm(x, W.expand(3, 4, 4)), lambda p: p @ W),
    "softmax over the ragged": (lambda x: x.softmax(1), lambda p: p.softmax(0)),
    "cumsum over the ragged": (lambda x: x.cumsum(1), lambda p: p.cumsum(0)),
    "sort over the ragged": (lambda x: x.sort(1)[0], lambda p: p.sort(0)[0]),
    "sum of features": (lambda x: x.sum(-1), lambda p: p.sum(-1)),
    "max of features": (lambda x: x.max(2).values, lambda p: p.max(1).values),
    "features broadcast": (lambda x: x + B, lambda p: p + B),
    "mean kept": (lambda x: x.mean(-1, keepdim=True), lambda p: p.mean(-1, keepdim=True)),
}


@pytest.mark.parametrize("name", JAGGED)
def test_jagged_operators_and_their_gradients(name):
    function, one = JAGGED[name]
    parts = components(4, requires_grad=True)
    found = function(nested.as_nested_tensor(parts, layout=tessera.jagged))
    want = [one(part) for part in parts]
    close(found, want)
    weights = [tessera.randn_like(w) for w in want]
    got = tessera.autograd.grad([sum((p * w).sum() for p, w in zip(found.unbind(), weights))], parts)
    tessera.testing.assert_close(got, tessera.autograd.grad([sum((p * w).sum() for p, w in zip(want, weights))], parts))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "any", "argmax", "var", "logsumexp", "norm"])
def test_reductions_over_the_ragged_dimension(name):
    parts = components(4)
    x = nested.nested_tensor(parts, layout=tessera.jagged)
    if name == "norm":
        found, want = x.norm(2, 1), [part.norm(2, 0) for part in parts]
    else:
        found, want = getattr(x, name)(1), [getattr(part, name)(0) for part in parts]
    tessera.testing.assert_close(found, tessera.stack(want))


def test_a_whole_reduction_is_that_of_all_elements():
    parts = components(4)
    for layout in (tessera.strided, tessera.jagged):
        tessera.testing.assert_close(nested.nested_tensor(parts, layout=layout).sum(), tessera.cat(parts).sum())
    assert nested.nested_tensor(parts, layout=tessera.jagged).sum((0, 1)).shape == (4,)


def test_a_batch_of_rows_broadcasts_over_the_ragged_dimension():
    parts, rows = components(4), tessera.randn(3, 1, 4)
    close(nested.nested_tensor(parts, layout=tessera.jagged) * rows, [p * r for p, r in zip(parts, rows)])


def test_a_padded_operand_gives_what_lies_under_the_components():
    parts, padded = components(4), tessera.randn(3, 5, 4)
    close(nested.nested_tensor(parts, layout=tessera.jagged) * padded, [p * q[: len(p)] for p, q in zip(parts, padded)])


@both
def test_attention_is_each_sequence_s_own(layout):
    parts = [p.transpose(0, 1) for p in components(2, 4)]
    if layout is tessera.jagged:
        x = nested.nested_tensor(components(2, 4), layout=layout).transpose(1, 2)
    else:
        x = nested.nested_tensor(parts, layout=layout)
    for causal in (False, True):
        found = F.scaled_dot_product_attention(x, x, x, is_causal=causal)
        want = [F.scaled_dot_product_attention(p[None], p[None], p[None], is_causal=causal)[0] for p in parts]
        close(found, want)


@both
def test_layers_on_nested_input(layout):
    tessera.manual_seed(0)
    layer = tessera.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    attention = tessera.nn.MultiheadAttention(8, 2, batch_first=True)
    parts = components(8)
    x = nested.nested_tensor(parts, layout=layout)
    close(layer(x), [layer(part[None])[0] for part in parts])
    close(attention(x, x, x, need_weights=False)[0], [attention(*[part[None]] * 3)[0][0] for part in parts])


def test_the_encoder_leaves_padding_out():
    tessera.manual_seed(0)
    layer = tessera.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = tessera.nn.TransformerEncoder(layer, 2).eval()
    padding = tessera.arange(5)[None] >= tessera.tensor(LENGTHS)[:, None]
    x = nested.to_padded_tensor(nested.nested_tensor(components(8)), 0.0)
    with tessera.no_grad():
        found = encoder(x, src_key_padding_mask=padding)
        encoder.enable_nested_tensor = False
        want = encoder(x, src_key_padding_mask=padding)
    tessera.testing.assert_close(found[~padding], want[~padding])
    assert found.shape == want.shape and not found[padding].any()


@pytest.mark.parametrize(
    "heads, options, reason",
    [
        (2, {"norm_first": True}, ".norm_first was True"),
        (2, {"batch_first": False}, ".self_attn.batch_first was not True"),
        (3, {"bias": False}, ".self_attn was passed bias=False"),
        (3, {"activation": F.silu}, ".activation_relu_or_gelu was not True"),
        (3, {}, ".self_attn.num_heads is odd"),
        (2, {}, None),
    ],
)
def test_an_encoder_says_why_padding_stays(heads, options, reason):
    layer = tessera.nn.TransformerEncoderLayer(6, heads, 16, **{"batch_first": True, **options})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        encoder = tessera.nn.TransformerEncoder(layer, 1).eval()
        tessera.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    told = [str(w.message).partition("encoder_layer")[2].partition("(")[0] for w in seen]
    assert told == ([] if reason is None else [reason])
    assert encoder.use_nested_tensor is (reason is None)
    padding = tessera.tensor([[False, False, True], [False, False, False]])
    if layer.self_attn.batch_first:
        with tessera.no_grad():
            found = encoder(tessera.ones(2, 3, 6), src_key_padding_mask=padding)
        assert bool(found[0, 2].any()) is (reason is not None)


def test_without_mask_check_what_is_left_moves_to_the_beginning():
    layer = tessera.nn.TransformerEncoderLayer(6, 2, 16, batch_first=True)
    padding = tessera.tensor([[False, True, False, True]])
    for check, zeros in ((True, [False] * 4), (False, [False, False, True, True])):
        encoder = tessera.nn.TransformerEncoder(layer, 1, mask_check=check).eval()
        with tessera.no_grad():
            found = encoder(tessera.ones(1, 4, 6), src_key_padding_mask=padding)
        assert (found == 0).all(2).tolist() == [zeros]


@both
def test_gradients_reach_leaves_of_both_kinds(layout):
    parts = components(4, requires_grad=True)
    (nested.as_nested_tensor(parts, layout=layout) * 3).sin().sum().backward()
    for part in parts:
        tessera.testing.assert_close(part.grad, 3 * (3 * part.detach()).cos())
    leaf = nested.nested_tensor(parts, layout=layout, requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad
    (leaf * leaf).sum().backward()
    close(leaf.grad, [2 * part.detach() for part in parts])
    (again,) = tessera.autograd.grad((leaf * 5).sum(), leaf)
    close(again, [tessera.full_like(part, 5.0).detach() for part in parts])


@both
def test_padding_and_back(layout):
    parts = components(4, requires_grad=True)
    padded = nested.as_nested_tensor(parts, layout=layout).to_padded_tensor(-1.0)
    assert padded.shape == (3, 5, 4) and padded[0, 2:].eq(-1).all()
    padded.sum().backward()
    assert all(part.grad.eq(1).all() for part in parts)
    assert nested.to_padded_tensor(nested.nested_tensor(parts, layout=layout), 0.0, (3, 6, 4)).shape == (3, 6, 4)


@both
def test_pickles_and_copies(layout):
    x = nested.nested_tensor(components(4), layout=layout)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), _saved(x)):
        assert type(y) is type(x) and y is not x and tessera.equal(x, y)
    x.unbind()[0].zero_()
    assert not tessera.equal(x, y)


def _saved(x):
    file = io.BytesIO()
    tessera.save(x, file)
    file.seek(0)
    return tessera.load(file)


def test_sizes_are_symbols_that_stand_for_offsets():
    x = nested.nested_tensor(components(4), layout=tessera.jagged)
    y = nested.nested_tensor(components(4), layout=tessera.jagged)
    assert x.shape == (x * 2).shape == x.transpose(1, 2).transpose(1, 2).shape and x.shape != y.shape
    assert x.size(1) == x.shape[1] and x.size(1) > 1 and x.shape[0] == 3 and x.shape[2] == 4
    assert str(x.shape).startswith("torch.Size([3, j") or str(x.shape).startswith("tessera.Size([3, j")
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
        x + y
    assert NestedTensor(x.values() * 2, **extract_kwargs(x)).shape == x.shape


def test_values_with_holes():
    values = tessera.arange(20.0).reshape(10, 2)
    x = nested.nested_tensor_from_jagged(values, tessera.tensor([0, 4, 10]), tessera.tensor([3, 2]))
    parts = [values[:3], values[4:6]]
    close(x, parts)
    close(x * 2, [part * 2 for part in parts])
    assert x.numel() == 10 and not x.is_contiguous() and x.contiguous().is_contiguous()
    tessera.testing.assert_close(x.sum(1), tessera.stack([part.sum(0) for part in parts]))
    assert nested.to_padded_tensor(x, 0.0).shape == (2, 3, 2)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda s, j: nested.nested_tensor(3), TypeError),
        (lambda s, j: nested.nested_tensor([], layout=tessera.jagged), RuntimeError),
        (lambda s, j: nested.nested_tensor([tessera.zeros(2, 3), tessera.zeros(3)]), RuntimeError),
        (lambda s, j: nested.as_nested_tensor([tessera.zeros(2), tessera.zeros(2).int()]), RuntimeError),
        (lambda s, j: nested.nested_tensor([tessera.zeros(2)], layout=tessera.sparse_coo), RuntimeError),
        (
            lambda s, j: nested.nested_tensor([tessera.zeros(2, 3), tessera.zeros(3, 4)], layout=tessera.jagged),
            RuntimeError,
        ),
        (lambda s, j: nested.nested_tensor_from_jagged(tessera.zeros(3)), RuntimeError),
        (lambda s, j: nested.nested_tensor_from_jagged(tessera.zeros(3), tessera.zeros(2)), RuntimeError),
        (
            lambda s, j: nested.nested_tensor_from_jagged(tessera.zeros(3), tessera.tensor([0, 3]), jagged_dim=2),
            IndexError,
        ),
        (lambda s, j: s.size(), RuntimeError),
        (lambda s, j: s.size(1), RuntimeError),
        (lambda s, j: s.matmul(W), RuntimeError),
        (lambda s, j: s + B, RuntimeError),
        (lambda s, j: j.sum(0), RuntimeError),
        (lambda s, j: j.sum((1, 2)), RuntimeError),
        (lambda s, j: j[0:1], RuntimeError),
        (lambda s, j: j[3], IndexError),
        (lambda s, j: j.transpose(0, 1), ValueError),
        (lambda s, j: j.flatten(1), RuntimeError),
        (lambda s, j: j.transpose(1, 2) @ W, RuntimeError),
        (lambda s, j: tessera.cat([j, j], 1), RuntimeError),
        (lambda s, j: tessera.cat([j, j]), RuntimeError),
        (lambda s, j: j + s, RuntimeError),
        (lambda s, j: j.tril(), NotImplementedError),
        (lambda s, j: tessera.ops.aten.tril.default(j), NotImplementedError),
        (lambda s, j: j.numpy(), RuntimeError),
        (lambda s, j: s.to_padded_tensor(0.0, (3, 2, 4)), RuntimeError),
        (lambda s, j: B.to_padded_tensor(0.0), RuntimeError),
        (lambda s, j: F.scaled_dot_product_attention(j, j, W), ValueError),
        (lambda s, j: nested.narrow(W, 0, 0, 1, layout=tessera.jagged), RuntimeError),
        (lambda s, j: nested.narrow(W, 1, 0, 9, layout=tessera.jagged), RuntimeError),
        (lambda s, j: nested.masked_select(W, W), RuntimeError),
    ],
)
def test_bad_input(call, error):
    s, j = (nested.nested_tensor(components(4), layout=layout) for layout in (tessera.strided, tessera.jagged))
    with pytest.raises(error):
        call(s, j)


@pytest.mark.parametrize("offsets", [[0, 2, 7], [-1, 2, 6], [0, 5, 2], [3, 1, 6]])
@pytest.mark.parametrize(
    "use", [lambda x: x.unbind(), lambda x: x.sum(1), lambda x: x.to_padded_tensor(0.0), lambda x: x.softmax(1)]
)
def test_hostile_offsets_are_found_before_anything_is_read(offsets, use):
    with pytest.raises(RuntimeError, match="do not lie inside"):
        use(nested.nested_tensor_from_jagged(tessera.zeros(6, 2), tessera.tensor(offsets)))


def test_hostile_descriptions_of_buffers_are_refused():
    two = tessera.tensor([[2, 3]])
    for sizes, strides, offset in (([[2, 3]], [[3, 1]], 1), ([[2, 3]], [[-3, 1]], 5), ([[2, -3]], [[3, 1]], 0)):
        with pytest.raises(RuntimeError):
            tessera._nested_view_from_buffer(
                tessera.zeros(6), tessera.tensor(sizes), tessera.tensor(strides), tessera.tensor([offset])
            )
    with pytest.raises(RuntimeError):
        tessera._nested_view_from_buffer(tessera.zeros(6), two, two[0], tessera.tensor([0]))


def test_a_tensor_without_data_says_so():
    class Wrapper(tessera.Tensor):
        pass

    wrapper = tessera.Tensor._make_wrapper_subclass(Wrapper, (2, 3))
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        wrapper.sum()


@pytest.mark.parametrize("lengths", [None, [2, 1]])
def test_jagged_tensors_come_apart_and_together(lengths):
    lengths = None if lengths is None else tessera.tensor(lengths)
    values = tessera.arange(10.0).view(5, 2)
    n = nested.nested_tensor_from_jagged(values, tessera.tensor([0, 2, 5]), lengths, min_seqlen=1, max_seqlen=3)
    names, rest = n.transpose(1, 2).__tensor_flatten__()
    assert names == [
        *("_values", "_offsets"),
        *(() if lengths is None else ("_lengths",)),
        *("_min_seqlen_tensor", "_max_seqlen_tensor"),
    ]
    assert rest == {"requires_grad": False, "ragged_idx": 2}
    again = NestedTensor.__tensor_unflatten__({k: getattr(n, k) for k in names}, dict(rest, ragged_idx=1), None, None)
    close(again, n.unbind())
    assert again.shape == n.shape and (again._maybe_min_seqlen, again._maybe_max_seqlen) == (1, 3)
    unknown = nested.nested_tensor_from_jagged(values, tessera.tensor([0, 2, 5]))
    assert unknown.__tensor_flatten__()[0] == ["_values", "_offsets"] and unknown._max_seqlen_tensor is None


def test_products_of_matrices_along_the_ragged_dimension():
    parts = [tessera.randn(2, 3, 4), tessera.randn(5, 3, 4)]
    nt = nested.nested_tensor(parts, layout=tessera.jagged)
    for got, part in zip(tessera.matmul(nt, nt.transpose(-1, -2)).unbind(), parts):
        tessera.testing.assert_close(got, part @ part.mT)
    with pytest.raises(RuntimeError):
        tessera.matmul(nt, nested.nested_tensor(parts[::-1], layout=tessera.jagged).transpose(-1, -2))


def test_a_jagged_tensor_of_the_rows_of_a_tensor():
    rows = tessera.arange(6.0).reshape(2, 3)
    nt = nested.nested_tensor(rows, layout=tessera.jagged)
    assert [t.tolist() for t in nt.unbind()] == rows.tolist()
    again = nested.nested_tensor(nt, layout=tessera.jagged)
    assert again.values().equal(nt.values()) and again.values().data_ptr() != nt.values().data_ptr()
    with pytest.raises(TypeError):
        nested.nested_tensor(rows)


def test_ragged_sizes_are_symbolic_integers():
    x = nested.nested_tensor([tessera.ones(2, 4), tessera.ones(3, 4)], layout=tessera.jagged)
    size = x.shape[1]
    assert isinstance(size, tessera.SymInt) and size != 3 and size >= 2 and size <= size and size > 0
    for call in (lambda: int(size), lambda: size + 1, lambda: range(size)):
        with pytest.raises(RuntimeError, match="ragged size"):
            call()


def test_normalization_over_the_ragged_dimension():
    parts = [tessera.randn(2, 4), tessera.randn(3, 4)]
    x = nested.nested_tensor(parts, layout=tessera.jagged, requires_grad=True)
    norm = tessera.nn.functional.layer_norm
    found = norm(x, x.shape[1:], eps=1e-3)
    for part, got in zip(parts, found.unbind()):
        tessera.testing.assert_close(got, norm(part, part.shape, eps=1e-3))
    (found * found).values().sum().backward()
    assert x.grad.shape[2] == 4
    with pytest.raises(RuntimeError, match="batch dimension"):
        norm(x, x.shape)
    with pytest.raises(RuntimeError, match="weight"):
        norm(x, x.shape[1:], weight=tessera.ones(3, 4))
    thin = nested.nested_tensor([tessera.ones(2), tessera.ones(3)], layout=tessera.jagged)
    with pytest.raises(RuntimeError, match="2 or fewer"):
        norm(thin, thin.shape[1:])


def test_components_seen_without_history_have_one_later():
    leaf = nested.nested_tensor([tessera.ones(2, 3), tessera.ones(1, 3)], requires_grad=True)
    with tessera.no_grad():
        nested.to_padded_tensor(leaf, 0.0)
    (leaf.unbind()[0] * 2).sum().backward()
    assert leaf.grad.unbind()[0].tolist() == [[2] * 3] * 2 and leaf.grad.unbind()[1].tolist() == [[0] * 3]


def test_strided_batches_products_and_parts():
    none = nested.nested_tensor([])
    assert len(none @ none) == 0
    x = nested.nested_tensor([tessera.ones(2, 3, 4), tessera.ones(1, 3, 4)])
    assert (x @ tessera.ones(4, 5)).unbind()[1].shape == (1, 3, 5)
    assert x.narrow(0, 1, 1).unbind()[0].shape == (1, 3, 4)
    with pytest.raises(RuntimeError, match="narrow"):
        x.narrow(0, 1, 2)
    for layout in (tessera.strided, tessera.jagged):
        with pytest.raises(RuntimeError, match="dim"):
            nested.as_nested_tensor(tessera.ones(3), layout=layout)


def test_selected_elements_of_each_row():
    t = tessera.arange(12).view(2, 2, 3)
    found = nested.masked_select(t, t % 2 == 0)
    assert found.offsets().tolist() == [0, 2, 3, 5, 6] and found.values().tolist() == [0, 2, 4, 6, 8, 10]


def test_jagged_attention_with_sequences_of_one_length():
    values = tessera.randn(5, 6, 4, requires_grad=True)
    x = nested.nested_tensor_from_jagged(values, tessera.tensor([0, 2, 5]))
    attend = tessera.nn.functional.scaled_dot_product_attention
    tessera.testing.assert_close(attend(x, x, x).values(), attend(values, values, values))
    with pytest.raises(RuntimeError, match="input.dim"):
        x.permute(0, 2, 1)
    assert x.detach().clone().apply_(lambda n: 2.0).values().unique().tolist() == [2]


def test_writes_reach_components_whose_values_were_asked_for():
    x = nested.nested_tensor([tessera.zeros(2, 3), tessera.zeros(1, 3)]).transpose(1, 2)
    assert not x.is_contiguous() and x.values().sum() == 0 and not x.is_contiguous()
    assert x.contiguous().is_contiguous()
    x.add_(1)
    x += 1
    assert [part.unique().tolist() for part in x.unbind()] == [[2], [2]] and x.values().unique().tolist() == [2]
    assert nested.as_nested_tensor([tessera.ones(2), tessera.ones(3)]).is_contiguous()


def test_gradients_of_components_taken_after_they_were_asked_for():
    x = nested.as_nested_tensor([tessera.ones(2), tessera.ones(3)]).requires_grad_()
    (3 * x.unbind()[1]).sum().backward()
    assert [part.tolist() for part in x.grad.unbind()] == [[0, 0], [3, 3, 3]]


class Scaled(tessera.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor, (x * x).values().sum()

    @staticmethod
    def backward(ctx, grad, total):
        (x,) = ctx.saved_tensors
        assert x.is_nested and grad.is_nested
        return grad * ctx.factor + 2 * total * x, None


class Doubled(tessera.autograd.Function):
    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        assert inputs[0].is_nested and output.is_nested

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


@both
def test_custom_functions_take_nested_tensors(layout):
    x = nested.nested_tensor(components(4), layout=layout, requires_grad=True)
    found, total = Scaled.apply(x, 3)
    assert found.is_nested and "Scaled" in type(found.grad_fn).__name__
    close(found, [3 * part for part in components(4)])
    (Doubled.apply(found).values().sum() + total).backward()
    close(x.grad, [6 + 2 * part for part in components(4)])
    y = x.detach().requires_grad_()
    Scaled.apply(y, 3)[0].values().sum().backward()  # no gradient of the other result
    assert y.grad.values().unique().tolist() == [3]


def jagged_of(*shape):
    return nested.nested_tensor(components(*shape), layout=tessera.jagged)


def test_norms_counts_and_refusals_along_named_dimensions():
    x = jagged_of(4)
    close(x.norm(dim=-1), [part.norm(dim=-1) for part in components(4)])
    close(x.norm(1, -1, True), [part.norm(1, -1, True) for part in components(4)])
    assert x.norm(3, 1).equal(tessera.stack([part.norm(3, 0) for part in components(4)]))
    assert x.count_nonzero(1).equal(tessera.stack([part.count_nonzero(0) for part in components(4)]))
    for name in ("argmax", "prod", "max", "sum"):
        with pytest.raises(RuntimeError, match="along the batch dimension but not the ragged"):
            getattr(x, name)(dim=0)


def test_masks_and_writes_of_jagged_tensors():
    x = jagged_of(4)
    close(x.masked_select(x > 0), [part[part > 0] for part in components(4)])
    with pytest.raises(RuntimeError, match="sizes of the other"):
        x.masked_select(jagged_of(4) > 0)
    wanted = components(4)
    x[x > 0] = 7
    for part in wanted:
        part[part > 0] = 7
    x[1], wanted[1][:] = 3, 3
    x[..., 2], _ = -1, [part.__setitem__((..., 2), -1) for part in wanted]
    close(x, wanted)


def test_what_changes_nothing_or_names_a_type():
    strided = nested.nested_tensor(components(4))
    assert strided.type() == "torch.FloatTensor" and strided.storage_offset() == 0
    assert nested.nested_tensor(components(4), layout=tessera.jagged).type() == "torch.FloatTensor"
    for change in (tessera.positive, tessera.conj, tessera.real):
        close(change(jagged_of(4)), components(4))
    shared = jagged_of(4).share_memory_()
    assert shared.is_shared() and shared.offsets().is_shared()
