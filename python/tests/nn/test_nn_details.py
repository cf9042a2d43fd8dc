"""Layers, functions and optimizers at their edges: what is printed, empty batches, the order of checks."""

import pytest
import tessera
import tessera.nn.functional as F
from tessera import nn


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"batch_first": True}])
def test_recurrent_layers_of_no_sequences(kind, options):
    layer = getattr(nn, kind)(3, 4, **options)
    x = tessera.ones((0, 2, 3) if options.get("batch_first") else (2, 0, 3), requires_grad=True)
    out, state = layer(x)
    directions = 2 if layer.bidirectional else 1
    assert out.shape == (*x.shape[:2], 4 * directions)
    for s in state if kind == "LSTM" else [state]:
        assert s.shape == (layer.num_layers * directions, 0, 4)
    out.sum().backward()
    assert x.grad.shape == x.shape and layer.weight_hh_l0.grad.abs().sum() == 0


def test_recurrent_layer_with_a_projection_of_no_sequences():
    out, (h, c) = nn.LSTM(3, 4, proj_size=2)(tessera.ones(2, 0, 3))
    assert out.shape == (2, 0, 2) and h.shape == (1, 0, 2) and c.shape == (1, 0, 4)


def test_inplace_is_shown_as_a_truth_value():
    assert [repr(m) for m in (nn.ReLU(0.5), nn.ELU(0.1, 3), nn.ReLU(0))] == [
        "ReLU(inplace=True)",
        "ELU(alpha=0.1, inplace=True)",
        "ReLU()",
    ]
    assert repr(nn.Dropout(0.5, 1)) == "Dropout(p=0.5, inplace=1)"


def test_computed_parameters_are_shown_as_there():
    layer = nn.Linear(3, 2)
    nn.utils.prune.identity(layer, "bias")
    assert repr(layer) == "Linear(in_features=3, out_features=2, bias=True)"


def test_lists_of_parameters_show_dtypes():
    assert repr(nn.ParameterList([tessera.ones(2, 3), 5])) == (
        f"ParameterList(\n    (0): Parameter containing: [{tessera.float32} of size 2x3]\n"
        "    (1): Object of type: int\n)"
    )


def test_names_of_a_module_come_once():
    names = dir(nn.Sequential(nn.ReLU()))
    assert len(names) == len(set(names)) and "training" in names and "0" not in names


def test_rows_of_bags_have_no_last_offset():
    weight = tessera.arange(8.0).reshape(4, 2)
    bags = tessera.tensor([[1, 2], [3, 0]])
    with_last = F.embedding_bag(bags, weight, mode="sum", include_last_offset=True)
    assert with_last.equal(F.embedding_bag(bags, weight, mode="sum")) and with_last.shape == (2, 2)


def test_channels_of_what_is_no_volume():
    with pytest.warns(UserWarning, match="dropout3d"):
        x = F.dropout3d(tessera.ones(50, 3, 4))
    assert all(row.sum() in (0, 24) for row in x) and len({row.sum().item() for row in x}) == 2


def test_interpolation_names_the_first_thing_that_is_wrong():
    x = tessera.ones(2, 3, 5)
    for options, error, text in (
        (dict(mode="bilinear", size=3, scale_factor=2), ValueError, "only one of size or scale_factor"),
        (dict(mode="bilinear"), ValueError, "either size or scale_factor"),
        (dict(mode="bilinear", size=3, antialias=True), ValueError, "Anti-alias"),
        (dict(mode="nearest", size=3, align_corners=True), ValueError, "align_corners"),
        (dict(mode="bilinear", size=(3, 3)), ValueError, "same number of spatial dimensions"),
        (dict(mode="bilinear", size=3), NotImplementedError, "Got 3D input, but bilinear mode needs 4D input"),
        (dict(mode="nearest", scale_factor=0.0), RuntimeError, "greater than 0"),
    ):
        with pytest.raises(error, match=text):
            F.interpolate(x, **options)


def test_divergence_of_integers_is_refused():
    for a, b in ((tessera.arange(3), tessera.arange(3)), (tessera.ones(3), tessera.arange(3))):
        with pytest.raises(RuntimeError, match="Integral inputs not supported"):
            F.kl_div(a, b, reduction="sum")


def test_backward_hooks_may_return_lists():
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda m, gi, go: [tessera.full((1, 2), 7.0)])
    x = tessera.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.tolist() == [[7.0, 7.0]]


@pytest.mark.parametrize("name", ["Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adadelta", "ASGD", "SGD"])
def test_rates_that_are_tensors(name):
    results = []
    for lr in (0.1, tessera.tensor(0.1), tessera.tensor([0.1])):
        for foreach in (True, False):
            p = nn.Parameter(tessera.tensor([1.0, -2.0]))
            optimizer = getattr(tessera.optim, name)([p], lr=lr, foreach=foreach)
            for _ in range(3):
                p.grad = p.detach() * 2
                optimizer.step()
            results.append(p.detach())
    for result in results[1:]:
        tessera.testing.assert_close(result, results[0])


def test_adagrad_with_a_rate_of_one_element():
    p = nn.Parameter(tessera.ones(2))
    p.grad = tessera.ones(2)
    tessera.optim.Adagrad([p], lr=tessera.tensor([0.1])).step()
    tessera.testing.assert_close(p.detach(), tessera.full((2,), 0.9))


def test_adam_refuses_tensors_where_lists_are_updated():
    params = [nn.Parameter(tessera.ones(2))]
    t = tessera.tensor
    for cls in (tessera.optim.Adam, tessera.optim.AdamW):
        with pytest.raises(ValueError, match="lr as a Tensor is not supported"):
            cls(params, lr=t(0.1), foreach=True)
        with pytest.raises(ValueError, match=r"betas\[0\] as a Tensor is not supported"):
            cls(params, betas=(t(0.9), t(0.99)), foreach=True)
        with pytest.raises(ValueError, match="either both floats or both Tensors"):
            cls(params, betas=(t(0.9), 0.99))


def test_joining_processes_that_are_all_gone():
    from tessera import multiprocessing

    assert multiprocessing.start_processes(print, nprocs=0) is None
    context = multiprocessing.start_processes(print, nprocs=0, join=False)
    assert context.join() and context.join()


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_what_is_in_no_piece_does_not_count(reduce):
    data = tessera.arange(1.0, 11.0).reshape(5, 2).requires_grad_()
    whole = tessera.segment_reduce(data[1:4], reduce, lengths=tessera.tensor([1, 2]))
    for pieces in (
        tessera.segment_reduce(data, reduce, offsets=tessera.tensor([1, 2, 4])),
        tessera.segment_reduce(data[1:], reduce, lengths=tessera.tensor([1, 2]), unsafe=True),
    ):
        assert pieces.equal(whole)
        (grad,) = tessera.autograd.grad(pieces.sum(), data)
        assert grad[0].abs().sum() == 0 and grad[4].abs().sum() == 0 and grad[1].abs().sum() > 0
    with pytest.raises(RuntimeError, match="to sum to"):
        tessera.segment_reduce(data, reduce, lengths=tessera.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="negative"):
        tessera.segment_reduce(data, reduce, lengths=tessera.tensor([6, -1]))


def test_storages_show_their_bytes_and_name_byte_orders():
    assert repr(tessera.UntypedStorage([1, 2])).startswith(" 1\n 2\n[")
    with pytest.raises(ValueError, match="invalid byte_order 'x'"):
        tessera.FloatStorage.from_buffer(bytearray(8), "x")


@pytest.mark.parametrize(
    "call,error,text",
    [
        (lambda x: nn.RNN(3, 4)(x(3)), ValueError, "RNN: Expected input to be 2D or 3D, got 1D tensor instead"),
        (lambda x: nn.GRU(3, 4)(x(3)), ValueError, "GRU: Expected input to be 2D or 3D, got 1D instead"),
        (lambda x: nn.RNN(3, 4)(x(5, 3), x(1, 2, 4)), RuntimeError, "hx should also be 2-D but got 3-D tensor$"),
        (lambda x: nn.GRUCell(3, 4)(x(2, 4)), RuntimeError, "inconsistent input_size: got 4 expected 3"),
        (lambda x: nn.GRUCell(3, 4)(x(2, 3), x(3, 4)), RuntimeError, "doesn't match hidden0 batch size 3"),
        (
            lambda x: nn.LSTMCell(3, 4)(x(2, 3), (x(2, 4), x(2, 5))),
            RuntimeError,
            "hidden1 has inconsistent hidden_size: got 5, expected 4",
        ),
        (lambda x: nn.EmbeddingBag(5, 3, padding_idx=7), AssertionError, "padding_idx must be within num_embeddings"),
        (lambda x: nn.Embedding(5, 3, padding_idx=7), AssertionError, "Padding_idx must be within num_embeddings"),
        (
            lambda x: nn.MultiheadAttention(4, 2)(x(3, 2, 4), x(3, 2, 4), x(3, 2, 4), is_causal=True),
            RuntimeError,
            "generate_square_subsequent_mask",
        ),
        (
            lambda x: nn.MultiheadAttention(4, 2)(x(3, 2, 4), x(3, 2, 4), x(3, 2, 4), key_padding_mask=x(3, 3) > 2),
            AssertionError,
            r"key_padded_mask.shape\[0\] to be 2, but got 3",
        ),
    ],
)
def test_texts_of_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(tessera.ones)


def test_entries_of_containers_by_the_documented_name():
    for container in (nn.Sequential, nn.ModuleList):
        layers = [nn.ReLU(), nn.Tanh(), nn.Sigmoid()]
        made = container(*layers) if container is nn.Sequential else container(layers)
        made.__delitem__(idx=1)
        made.__delitem__(idx=slice(1, None))
        assert made.__getitem__(idx=0) is layers[0] and len(made) == 1
    numbers = nn.ParameterList([tessera.ones(1), tessera.ones(2)])
    numbers.__setitem__(idx=0, param=tessera.ones(3))
    assert numbers.__getitem__(idx=0).shape == (3,) and isinstance(numbers[0], nn.Parameter)


@pytest.mark.filterwarnings("error")
def test_lazy_layers_do_not_warn():
    assert nn.LazyLinear(3)(tessera.ones(2, 4)).shape == (2, 3)


def test_a_pretrained_table_may_hold_integers():
    table = tessera.tensor([[1, 2], [3, 4]])
    layer = nn.Embedding.from_pretrained(table)
    assert layer(tessera.tensor([1, 0])).tolist() == [[3, 4], [1, 2]] and not layer.weight.requires_grad


def test_a_module_is_not_copied_by_to():
    with pytest.raises(RuntimeError, match="does not accept copy"):
        nn.Linear(1, 1).to("cpu", copy=True)


@pytest.mark.parametrize("option", ["bias", "batch_first", "bidirectional"])
def test_options_of_recurrent_layers_are_bools(option):
    with pytest.raises(TypeError, match=f"{option} should be of type bool, got: int"):
        nn.GRU(2, 3, **{option: 1})


@pytest.mark.parametrize("eps", [0.0, -1.0])
def test_batch_norm_takes_a_positive_eps(eps):
    with pytest.raises(ValueError, match="eps must be positive"):
        nn.BatchNorm1d(2, eps=eps)(tessera.ones(3, 2))


def test_a_buffer_is_registered_by_an_override_with_two_arguments():
    class Noting(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = nn.Buffer(tessera.ones(2))

        def register_buffer(self, name, value):
            super().register_buffer(name, value)

    assert list(Noting().state_dict()) == ["kept"]


def test_max_unpool_at_its_edges():
    x = tessera.arange(64.0).reshape(1, 4, 4, 4).contiguous(memory_format=tessera.channels_last)
    pooled, at = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(pooled, at, 2)
    assert back.is_contiguous(memory_format=tessera.channels_last) and back.sum() == pooled.sum()
    assert F.max_unpool1d(tessera.ones(0, 3, 2), tessera.zeros(0, 3, 2, dtype=tessera.int64), 2).shape == (0, 3, 4)
    with pytest.raises(RuntimeError, match="kernel_size must be an int or 3 ints"):
        F.max_unpool3d(tessera.ones(1, 3, 1, 1, 1), tessera.zeros(1, 3, 1, 1, 1, dtype=tessera.int64), [1, 1])


def test_fractional_max_pool_at_its_edges():
    x = tessera.ones(2, 3, 8, 8, requires_grad=True)
    out = F.fractional_max_pool2d(x, 2, output_size=(0, 1))
    assert out.shape == (2, 3, 0, 1)
    out.sum().backward()
    assert x.grad.abs().sum() == 0
    for bad in ({"kernel_size": (1,)}, {"output_size": ()}):
        with pytest.raises(RuntimeError, match=f"{[*bad][0]} must either be an int or 2 ints"):
            F.fractional_max_pool2d(x, **{"kernel_size": 2, "output_size": (3, 3), **bad})
    with pytest.raises(RuntimeError, match="Expected input of sizes above 0"):
        F.fractional_max_pool2d(tessera.ones(1, 0, 8, 8), 2, output_size=3)
    with pytest.raises(RuntimeError, match="Expect _random_samples"):
        F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=tessera.zeros(0, 3, 2))


def test_batch_norm_without_momentum_keeps_the_mean_over_all_batches():
    layer, plain = tessera.nn.BatchNorm1d(3, momentum=None), tessera.nn.BatchNorm1d(3)
    batches = [tessera.rand(5, 3, generator=tessera.Generator().manual_seed(i)) for i in range(4)]
    for batch in batches:
        assert tessera.equal(layer(batch), plain(batch))
    mean = tessera.stack([batch.mean(0) for batch in batches]).mean(0)
    var = tessera.stack([batch.var(0) for batch in batches]).mean(0)
    tessera.testing.assert_close(layer.running_mean, mean)
    tessera.testing.assert_close(layer.running_var, var)
    assert layer.num_batches_tracked == 4
    # no number is asked for: there are none on Meta
    assert tessera.nn.BatchNorm1d(3, momentum=None, device="meta")(batches[0].to("meta")).shape == (5, 3)
