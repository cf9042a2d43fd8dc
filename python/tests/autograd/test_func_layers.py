"""Batching rules of layers and of operators whose work depends on values: against one call for each element."""

import pytest
import tessera
from tessera.func import functional_call, grad, vmap


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_gradients_of_recurrent_layers_for_each_sample(kind):
    layer = getattr(tessera.nn, kind)(3, 4, num_layers=2, bidirectional=True, dtype=tessera.float64)
    weights = {k: v.detach() for k, v in layer.named_parameters()}
    x = tessera.rand(3, 5, 2, 3, dtype=tessera.float64)

    def loss(weights, x):
        return functional_call(layer, weights, (x,))[0].square().sum()

    def stacked(rows):
        return {k: tessera.stack([row[k] for row in rows]) for k in rows[0]}

    shared = vmap(grad(loss), in_dims=(None, 0))(weights, x)
    tessera.testing.assert_close(shared, stacked([grad(loss)(weights, one) for one in x]))
    models = {k: tessera.stack([v, v * 0.5, v * 2]) for k, v in weights.items()}
    own = vmap(grad(loss))(models, x)
    want = [grad(loss)({k: v[i] for k, v in models.items()}, x[i]) for i in range(3)]
    tessera.testing.assert_close(own, stacked(want))
    with tessera.no_grad():  # grad records all the same
        tessera.testing.assert_close(grad(loss)(weights, x[0]), want[0])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("last", [False, True])
def test_bags_that_differ_across_a_batch(mode, padding, last):
    tables = tessera.rand(2, 5, 3, dtype=tessera.float64)
    indices = tessera.tensor([[0, 1, 4, 1, 2, 3], [3, 3, 1, 0, 2, 2]])
    offsets = tessera.tensor([[0, 2, 2, 4], [0, 1, 5, 5]])  # bags of any length; with `last` some indices are in none

    def loss(table, indices, offsets):
        bags = tessera.nn.functional.embedding_bag(
            indices, table, offsets, mode=mode, padding_idx=padding, include_last_offset=last
        )
        return bags.square().sum(), bags

    for mapped in ((0, 0, 0), (None, 0, 0), (0, None, None), (0, None, 0), (None, 0, None)):
        given = [t if m == 0 else t[0] for t, m in zip((tables, indices, offsets), mapped)]
        rows = [[t[i] if m == 0 else t for t, m in zip(given, mapped)] for i in range(2)]
        gradients, bags = vmap(grad(loss, has_aux=True), in_dims=mapped)(*given)
        for i, row in enumerate(rows):
            want, want_bags = grad(loss, has_aux=True)(*row)
            tessera.testing.assert_close(bags[i], want_bags)
            tessera.testing.assert_close(gradients[i], want)


def test_bags_out_of_range():
    table, offsets = tessera.rand(2, 5, 3), tessera.tensor([0, 1])
    bags = vmap(lambda w, i, o: tessera.nn.functional.embedding_bag(i, w, o), in_dims=(0, 0, None))
    with pytest.raises(IndexError, match="out of range"):  # the other table's rows are not its own
        bags(table, tessera.tensor([[0, 1], [-1, 1]]), offsets)
    with pytest.raises(IndexError, match="out of range"):
        bags(table, tessera.tensor([[0, 5], [0, 1]]), offsets)
    with pytest.raises(RuntimeError, match="has to be 0"):
        vmap(lambda i, o: tessera.nn.functional.embedding_bag(i, table[0], o))(
            tessera.tensor([[0, 1], [0, 1]]), tessera.tensor([[0, 1], [1, 1]])
        )


def test_masks_with_too_many_places():
    scatter = vmap(lambda x, mask, source: x.masked_scatter(mask, source))
    x, source = tessera.zeros(2, 3), tessera.rand(2, 2)
    mask = tessera.tensor([[True, False, True], [False, False, True]])
    assert scatter(x, mask, source)[1].tolist() == [0, 0, source[1, 0].item()]
    with pytest.raises((RuntimeError, IndexError)):
        scatter(x, tessera.ones(2, 3, dtype=tessera.bool), source)
    with pytest.raises(RuntimeError, match="number of ones"):
        scatter(x, mask, tessera.rand(2, 0))


def test_histograms_of_each_element():
    x = tessera.rand(3, 20) * tessera.tensor([[1.0], [2.0], [5.0]])
    for options in (dict(bins=4), dict(bins=3, min=0.2, max=0.9)):
        assert tessera.equal(
            vmap(lambda v: tessera.histc(v, **options))(x), tessera.stack([tessera.histc(v, **options) for v in x])
        )
    assert vmap(lambda v: tessera.histc(v, 2))(tessera.ones(2, 3)).tolist() == [[0, 3], [0, 3]]
    with pytest.raises(RuntimeError, match="finite"):
        vmap(tessera.histc)(tessera.tensor([[1.0, float("nan")], [1.0, 2.0]]))
