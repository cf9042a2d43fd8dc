"""utils.flop_counter: counts against formulas on paper."""

import pytest
import tessera
from tessera import nn
from tessera.utils.flop_counter import FlopCounterMode, register_flop_formula

F = nn.functional
aten = tessera.ops.aten


def count(fn, **options):
    with FlopCounterMode(display=False, **options) as counter:
        fn()
    return counter


def test_modules_forward_and_backward():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    counter = count(lambda: net(tessera.randn(3, 4)).sum().backward())
    forward = {"Sequential.0": 2 * 3 * 4 * 8, "Sequential.2": 2 * 3 * 8 * 2}
    # The first layer's input needs no gradient.
    backward = {"Sequential.0": forward["Sequential.0"], "Sequential.2": 2 * forward["Sequential.2"]}
    counts = counter.get_flop_counts()
    for name in forward:
        assert counts[name] == {aten.addmm: forward[name], aten.mm: backward[name]}
    total = sum(forward.values()) + sum(backward.values())
    assert counter.get_total_flops() == sum(counts["Sequential"].values()) == sum(counts["Global"].values()) == total
    assert counter.get_table(1).splitlines()[0].split() == ["Module", "FLOP", "%", "Total"]
    assert "Sequential.0" not in counter.get_table(1) and "Sequential.0" in counter.get_table(2)
    assert "Global" not in counter.get_table()


@pytest.mark.parametrize(
    "call, wanted",
    [
        (lambda: tessera.randn(3, 4) @ tessera.randn(4, 5), 2 * 3 * 4 * 5),
        (lambda: tessera.randn(2, 3, 4) @ tessera.randn(2, 4, 5), 2 * 2 * 3 * 4 * 5),
        (lambda: tessera.baddbmm(tessera.ones(1), tessera.randn(2, 3, 4), tessera.randn(2, 4, 5)), 240),
        (lambda: F.conv1d(tessera.randn(2, 4, 8), tessera.randn(6, 4, 3), padding=1, stride=2), 2 * 2 * 4 * 6 * 4 * 3),
        (lambda: F.conv2d(tessera.randn(1, 4, 8, 8), tessera.randn(4, 2, 3, 3), groups=2), 2 * 36 * 4 * 2 * 9),
        (lambda: F.conv_transpose2d(tessera.randn(2, 4, 3, 3), tessera.randn(4, 2, 3, 3)), 2 * 2 * 9 * 4 * 2 * 9),
        (lambda: tessera.randn(5) + tessera.randn(5), 0),
    ],
)
def test_operators(call, wanted):
    assert count(call).get_total_flops() == wanted


def test_attention_and_recurrence():
    q, k = tessera.randn(2, 4, 8, 16, requires_grad=True), tessera.randn(2, 4, 10, 16, requires_grad=True)
    one = 2 * 2 * 4 * 8 * 10 * 16
    assert (
        count(lambda: F.scaled_dot_product_attention(q, k, k).sum().backward()).get_total_flops() == 2 * one + 5 * one
    )
    recurrent = 2 * 3 * 2 * 20 * 5
    counts = count(lambda: nn.LSTM(4, 5)(tessera.randn(3, 2, 4))).get_flop_counts()["Global"]
    assert counts[aten._rnn_layer] == recurrent and counts[aten.addmm] == 2 * 3 * 2 * 4 * 20


def test_formulas_of_ones_own():
    counter = count(lambda: tessera.ones(3, 4).sin(), custom_mapping={aten.sin: lambda x, out_shape: 7 * out_shape[0]})
    assert counter.get_flop_counts()["Global"] == {aten.sin: 21}

    def raw(x, out_val):
        return x.numel() + out_val.numel()

    raw._get_raw = True
    assert count(lambda: tessera.ones(3, 4).sin(), custom_mapping={aten.sin: raw}).get_total_flops() == 24
    assert count(lambda: tessera.ones(3, 4).sin()).get_total_flops() == 0
    with pytest.raises(ValueError, match="OpOverloadPacket"):
        register_flop_formula("mm")
    with pytest.raises(RuntimeError, match="already"):
        register_flop_formula(aten.mm)(lambda *args, **kwargs: 0)


def test_the_table_is_printed(capsys):
    with FlopCounterMode():
        tessera.randn(100, 100) @ tessera.randn(100, 100)
    printed = capsys.readouterr().out
    assert "2.000M" in printed and "100.00%" in printed and "- aten.mm" in printed
    with pytest.raises(ZeroDivisionError), FlopCounterMode():
        1 / 0  # noqa: B018
    assert capsys.readouterr().out == ""
    assert count(lambda: None).get_table().splitlines()[-1].split() == ["Global", "0", "0%"]
