"""Quantized layers in programs: scripted and traced, in archives; their weights are objects of a registered class."""

import concurrent.futures
import copy
import io
import pathlib
import subprocess
import sys

import pytest
import tessera
import tessera.ao.nn.intrinsic.quantized as nniq
import tessera.ao.nn.quantized as nnq
import tessera.ao.nn.quantized.dynamic as nnqd
import tessera.ao.quantization as Q
from tessera import jit, nn
from tessera.ao.quantization import quantize_fx


def integers(*sizes):
    return tessera.quantize_per_tensor(tessera.randn(sizes), 0.05, 64, tessera.quint8)


def numbers(result):
    return result.dequantize() if result.is_quantized else result


def loaded(program):
    file = io.BytesIO()
    jit.save(program, file)
    file.seek(0)
    return jit.load(file)


def check(module, *args):
    """Scripted and traced, loaded twice and copied: the same bits; frozen: the same numbers."""
    module.eval()
    leaves = tessera.utils._pytree.tree_leaves
    wanted = list(map(numbers, leaves(module(*args))))
    for program in (jit.script(module), jit.trace(module, args)):
        again = loaded(program)
        for made in (program, again, loaded(again), copy.deepcopy(program)):
            got = list(map(numbers, leaves(made(*args))))
            assert len(got) == len(wanted) and all(map(tessera.equal, got, wanted))
        got = list(map(numbers, leaves(jit.freeze(program)(*args))))  # normalisations are part of convolutions there
        tessera.testing.assert_close(got, wanted)


IMAGES = {1: (2, 4, 9), 2: (2, 4, 9, 9), 3: (1, 4, 5, 6, 7)}


@pytest.mark.parametrize("dims", IMAGES)
def test_convolutions(dims):
    sizes = IMAGES[dims]
    for kind in ("Conv", "ConvTranspose"):
        check(getattr(nnq, f"{kind}{dims}d")(4, 6, 3, stride=2, padding=1), integers(*sizes))
        check(getattr(nnqd, f"{kind}{dims}d")(4, 6, 3), tessera.randn(sizes))
    check(getattr(nniq, f"ConvReLU{dims}d")(4, 6, 3, groups=2, bias=False), integers(*sizes))


def test_convolutions_with_more():
    x = integers(2, 4, 9, 9)
    check(nnq.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), x)
    check(nniq.ConvAdd2d(4, 6, 3), x, integers(2, 6, 7, 7))
    check(nniq.ConvAddReLU2d(4, 6, 3), x, integers(2, 6, 7, 7))
    with pytest.raises(jit.Error, match="Input shape must be `\\(N, C, H, W\\)`!"):
        jit.script(nnq.Conv2d(4, 6, 3))(integers(4, 9, 9))


class Meanwhile(nn.Module):
    """Another thread traces while this is traced, between two layers with packed weights."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nnqd.Linear(4, 4), nnqd.Linear(4, 3)
        self.others = nnqd.Linear(4, 4), tessera.zeros(1, 4)

    def forward(self, x):
        x = self.first(x)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(jit.trace, *self.others).result().graph
        return self.second(x)


def test_traces_of_two_threads_know_their_own_weights():
    module, x = Meanwhile().eval(), tessera.randn(2, 4)
    traced = jit.trace(module, x, check_trace=False)
    layers = [node for node in traced.inlined_graph.nodes() if node.kind() == "quantized::linear_dynamic"]
    sources = [list(node.inputs())[1].node().kind() for node in layers]
    assert sources == ["prim::GetAttr"] * 2
    assert tessera.equal(loaded(traced)(x), module(x))


def test_products_and_tables():
    x, indices = integers(2, 4), tessera.tensor([1, 2, 3])
    for layer in (nnq.Linear(4, 3), nniq.LinearReLU(4, 3), nniq.LinearLeakyReLU(4, 3, 0.1), nniq.LinearTanh(4, 3)):
        check(layer, x)
    for layer in (nnqd.Linear(4, 3), nnqd.Linear(4, 3, dtype=tessera.float16), nniq.dynamic.LinearReLU(4, 3)):
        check(layer, tessera.randn(2, 4))
    check(nnq.Embedding(10, 4), indices)
    check(nnq.Embedding(10, 4, dtype=tessera.quint4x2), indices)
    check(nnq.EmbeddingBag(10, 4), indices, tessera.tensor([0, 2]))


@pytest.mark.parametrize(
    "layer",
    [nnq.ReLU6(), nnq.Hardswish(0.1, 3), nnq.ELU(0.1, 3), nnq.LeakyReLU(0.1, 3), nnq.Sigmoid(0.01, 0),
     nnq.Softmax(1, 0.01, 0), nnq.Dropout(), nnq.BatchNorm2d(4), nnq.MaxPool2d(2), nn.ReLU(), nn.AvgPool2d(2),
     nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Hardtanh(), nn.ZeroPad2d(1),
     nn.ReflectionPad2d(1)],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_other_layers(layer):
    check(layer, integers(2, 4, 6, 6))


def test_functions_of_quantized_tensors():
    class Functions(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nnq.QFunctional()

        def forward(self, x, y):
            parts = tessera.cat([self.f.add(x, y), self.f.mul(x, y)], 1).view(2, 2, 3).permute(0, 2, 1)
            q = tessera.quantize_per_channel(parts.dequantize(), tessera.tensor([0.1, 0.2]), tessera.tensor([1, 2]), 2,
                                             tessera.quint8)  # fmt: skip
            r = tessera.quantize_per_tensor(q.dequantize(), tessera.tensor(0.1), tessera.tensor(3), tessera.qint8)
            return tessera.dequantize(r) + r.int_repr() * r.q_scale() + r.q_zero_point() + q.q_per_channel_axis()

    check(Functions(), integers(2, 3), integers(2, 3))


@pytest.mark.parametrize("dtype", [tessera.qint8, tessera.float16])
def test_recurrent_layers(dtype):
    x, state = tessera.randn(5, 2, 3), tessera.randn(1, 2, 4)
    for kind, given in ((nnqd.LSTM, (state, state + 1)), (nnqd.GRU, state)):
        check(kind(3, 4, dtype=dtype), x)
        check(kind(3, 4, dtype=dtype), x, given)
        check(kind(3, 4, 2, bidirectional=True, batch_first=True, dtype=dtype), x)
    for kind in (nnqd.LSTMCell, nnqd.GRUCell, nnqd.RNNCell):
        check(kind(3, 4, dtype=dtype), x[0])
    check(nnqd.RNNCell(3, 4, nonlinearity="relu"), x[0], state[0])


@pytest.mark.parametrize("flow", ["eager", "graph", "dynamic"])
def test_whole_networks(flow):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.d = Q.QuantStub(), Q.DeQuantStub()
            self.conv, self.norm, self.end = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

        def forward(self, x):
            x = tessera.relu(self.norm(self.conv(self.q(x))))
            return self.d(self.end(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)))

    net, x = Net().eval(), tessera.randn(2, 3, 8, 8)
    if flow == "dynamic":
        made = Q.quantize_dynamic(net, {nn.Linear})
    elif flow == "graph":
        made = quantize_fx.prepare_fx(net, Q.get_default_qconfig_mapping("fbgemm"), (x,))
        made(x)
        made = quantize_fx.convert_fx(made)
    else:
        net = Q.fuse_modules(net, [["conv", "norm"]])
        net.qconfig = Q.get_default_qconfig("fbgemm")
        made = Q.prepare(net)
        made(x)
        made = Q.convert(made)
    check(made, x)


def test_archives_hold_quantized_tensors():
    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            x, scales = tessera.randn(2, 3), tessera.tensor([0.1, 0.2])
            self.register_buffer("all", tessera.quantize_per_tensor(x, 0.1, 5, tessera.quint8))
            self.each = tessera.quantize_per_channel(x, scales, tessera.tensor([0, 1]), 0, tessera.qint32).t()

        def forward(self, x):
            return self.all.dequantize() + self.each.dequantize().t() + x

    check(Held(), tessera.ones(2, 3))
    again = loaded(jit.script(Held()))
    assert again.all.q_zero_point() == 5 and again.each.q_per_channel_axis() == 1
    check(nnq.PReLU(0.1, 3), integers(2, 3))
    with pytest.raises(NotImplementedError, match="quint4x2 in an archive"):
        jit.save(jit.script(Small()), io.BytesIO())


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        ones = tessera.ones(2)
        self.table = tessera.quantize_per_channel(tessera.randn(2, 4), ones, ones * 0.5, 0, tessera.quint4x2)

    def forward(self, x):
        return self.table.dequantize() + x


def test_another_process_runs_an_archive(tmp_path):
    layer, x = nnqd.Linear(4, 3), tessera.ones(2, 4)
    path = tmp_path / "layer.pt"
    jit.save(jit.script(layer), str(path))
    code = f"import tessera; print(tessera.jit.load({str(path)!r})(tessera.ones(2, 4)).tolist())"
    tree = pathlib.Path(tessera.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tree)
    assert done.stdout.strip() == str(layer(x).tolist()), done.stderr


def test_packed_weights_are_objects_of_a_class():
    weight = tessera.quantize_per_tensor(tessera.randn(3, 4), 0.1, 0, tessera.qint8)
    packed = tessera.ops.quantized.linear_prepack(weight, tessera.ones(3))

    @jit.script
    def run(x: tessera.Tensor, packed: tessera.classes.quantized.PackedWeight):
        return tessera.ops.quantized.linear_dynamic(x, packed), packed.unpack()[1], packed

    x = tessera.randn(2, 4)
    got, bias, same = run(x, packed)
    assert tessera.equal(got, tessera.ops.quantized.linear_dynamic(x, packed))
    assert same is packed and tessera.equal(bias, tessera.ones(3))
    with pytest.raises(RuntimeError, match="PackedWeight"):
        run(x, weight)
