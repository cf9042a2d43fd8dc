"""Which results keep the layout of what they are computed from, and which are row-major: a random mask drawn with
`empty_like` behind them (dropout) goes by memory, so programs whose layouts differ draw other masks.
"""

import pytest
import tessera
import tessera.nn.functional as F
from tessera.nn.utils import rnn

INDEX = tessera.tensor([1, 0])
# For whole (2, 3, 4): what is row-major whatever the argument's layout.
ROW_MAJOR = {
    "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(1),
    "cummax": lambda x: x.cummax(1).indices,
    "cummin": lambda x: x.cummin(1).values,
    "logcumsumexp": lambda x: x.logcumsumexp(2),
    "scatter": lambda x: x.scatter(0, tessera.zeros(1, 3, 4, dtype=tessera.int64), 1.0),
    "scatter_add": lambda x: x.scatter_add(0, tessera.zeros(1, 3, 4, dtype=tessera.int64), x),
    "index_add": lambda x: x.index_add(0, INDEX, x),
    "index_copy": lambda x: x.index_copy(0, INDEX, x),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "masked_fill by a tensor": lambda x: x.masked_fill(x > 0, tessera.tensor(0.0)),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "gather": lambda x: x.gather(0, tessera.zeros(2, 3, 4, dtype=tessera.int64)),
}
KEPT = {
    "exp": tessera.exp,
    "dropout": lambda x: F.dropout(x, 0.5),
    "index_fill": lambda x: x.index_fill(0, INDEX, 1.0),
    "where": lambda x: tessera.where(x > 0, x, 0.0),
    "relu": F.relu,
}


def layouts():
    """(2, 3, 4) in four orders of memory, none of them row-major."""
    for order in [(2, 1, 0), (0, 2, 1), (1, 0, 2), (2, 0, 1)]:
        shape = [(2, 3, 4)[d] for d in order]
        yield tessera.rand(shape).sub(0.5).permute([order.index(d) for d in range(3)])


@pytest.mark.parametrize("name", ROW_MAJOR)
def test_row_major_results(name):
    for x in layouts():
        x.requires_grad_()
        y = ROW_MAJOR[name](x)
        assert y.shape == (2, 3, 4) and y.is_contiguous(), (x.stride(), y.stride())
        assert tessera.allclose(y, ROW_MAJOR[name](x.contiguous()), rtol=1e-6)  # sums of a norm go by memory
        meta = ROW_MAJOR[name](x.detach().to("meta")) if "by a tensor" not in name else y
        assert meta.stride() == y.stride()


@pytest.mark.parametrize("name", KEPT)
def test_results_that_keep_the_layout(name):
    for x in layouts():
        y = KEPT[name](x)
        assert y.stride() == x.stride()


@pytest.mark.parametrize("batch_first", [False, True])
def test_padded_sequences(batch_first):
    """Row-major where the order was restored, else as the time-major memory that they are made in."""
    x = tessera.rand(3, 5, 2) if batch_first else tessera.rand(5, 3, 2)
    for lengths, ordered in [([5, 3, 2], True), ([2, 5, 3], False)]:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=ordered)
        padded, found = rnn.pad_packed_sequence(packed, batch_first=batch_first)
        assert found.tolist() == lengths and padded.shape == x.shape
        assert padded.is_contiguous() == (not (ordered and batch_first))
