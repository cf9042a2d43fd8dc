"""nn.parallel on devices that every machine has: the CPU several times over, and meta."""

import collections
import dataclasses
import threading

import pytest
import tessera
from tessera import nn
from tessera.nn import parallel

CPUS = ["cpu", "cpu"]
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Out:
    loss: object
    parts: object


def test_scatter_cuts_tensors_wherever_they_are():
    x = tessera.arange(6.0).view(3, 2)
    first, second = parallel.scatter((x, [Pair(x, "text")], {"k": x, "n": 4}), CPUS)
    assert first[0].tolist() == x[:2].tolist() and second[0].tolist() == x[2:].tolist()
    assert isinstance(first[1][0], Pair) and first[1][0].b == "text" and second[1][0].a.equal(x[2:])
    assert list(second[2]) == ["k", "n"] and second[2]["n"] == 4 and second[2]["k"].equal(x[2:])
    assert [piece.shape for piece in parallel.scatter(x, CPUS, dim=1)] == [(3, 1), (3, 1)]
    assert [piece.device.type for piece in parallel.scatter(x, ["cpu", "meta"])] == ["cpu", "meta"]
    assert len(parallel.scatter(x[:1], CPUS)) == 1 and parallel.scatter([], CPUS) == [[], []]


def test_gather_joins_what_scatter_cut():
    x = tessera.arange(6.0).view(3, 2)
    obj = (x, [Pair(x, x)], {"k": x})
    back = parallel.gather(parallel.scatter(obj, CPUS), -1)
    assert back[0].equal(x) and isinstance(back[1][0], Pair) and back[1][0].a.equal(x) and back[2]["k"].equal(x)
    assert parallel.gather([tessera.tensor(1.0), tessera.tensor(2.0)], "cpu").tolist() == [1, 2]
    outs = [Out(tessera.tensor(i), [tessera.ones(1, i), None]) for i in (1, 2)]
    joined = parallel.gather(outs, "cpu", 1)
    assert joined.loss.tolist() == [1, 2] and joined.parts[0].shape == (1, 3) and joined.parts[1] is None
    with pytest.raises(ValueError, match="the same keys"):
        parallel.gather([{"a": x}, {"b": x}], "cpu")
    with pytest.raises(TypeError, match="but got str"):
        parallel.gather(["a", "b"], "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(2, 2, bias=False)
        self.body = nn.Sequential(self.shared, nn.BatchNorm1d(2), self.shared)
        self.none = None
        self.register_parameter("absent", None)
        self.threads = []

    def forward(self, x, scale=1.0):
        self.threads.append(threading.get_ident())
        return {"y": self.body(x) * scale, "n": (self.absent, len(list(self.body)))[0]}


def test_replicas_share_what_the_module_shares():
    net = Net()
    here, meta = parallel.replicate(net, ["cpu", "meta"])
    assert type(here) is Net and here is not net and here.shared is here.body[0] is here.body[2]
    assert meta.shared.weight.is_meta and meta.shared.weight.grad_fn is not None and list(meta.parameters()) == []
    assert meta.body[1].running_mean.is_meta and here.body[1].running_mean is net.body[1].running_mean
    assert not parallel.replicate(net, ["meta"], detach=True)[0].shared.weight.requires_grad
    assert len(list(net.parameters())) == 3 and meta(tessera.ones(2, 2, device="meta"))["y"].is_meta


def test_data_parallel_is_the_module_on_the_whole_batch():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    twin = nn.DataParallel(net, ["cpu", "cpu", "cpu"])
    x = tessera.randn(7, 3)
    want = net(x)
    want.pow(2).sum().backward()
    grads = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    out = twin(x)
    tessera.testing.assert_close(out, want)
    out.pow(2).sum().backward()
    for p, grad in zip(net.parameters(), grads):
        tessera.testing.assert_close(p.grad, grad)
    assert list(twin.state_dict()) == ["module." + name for name in net.state_dict()]
    tessera.testing.assert_close(parallel.data_parallel(net, x, CPUS), want)
    tessera.testing.assert_close(twin(x[:1]), want[:1])  # fewer pieces than devices
    with tessera.no_grad():
        assert not twin(x).requires_grad


def test_data_parallel_passes_everything_on():
    net = Net().eval()
    x = tessera.ones(4, 2)
    out = nn.DataParallel(net, CPUS)(x, scale=tessera.tensor([[1.0], [2.0], [3.0], [4.0]]))
    plain = net.body(x)
    tessera.testing.assert_close(out["y"], plain * tessera.arange(1.0, 5.0).view(4, 1))
    assert out["n"] is None and len(set(net.threads)) == 2
    assert nn.DataParallel(net, ["cpu"])(x)["y"].equal(plain)
    tessera.testing.assert_close(parallel.data_parallel(net, (x,), CPUS, module_kwargs={"scale": 2.0})["y"], plain * 2)


def test_without_devices_the_module_is_called():
    if tessera.cuda.is_available():
        pytest.skip("there is a CUDA device")
    net = nn.Linear(2, 2)
    x = tessera.ones(3, 2)
    assert nn.DataParallel(net)(x).equal(net(x)) and nn.parallel.DataParallel is nn.DataParallel
    with pytest.raises(RuntimeError, match="there is no CUDA device"):
        parallel.data_parallel(net, x)


def test_errors():
    net = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="on device meta, the first of its devices, but found one .* device cpu"):
        nn.DataParallel(net, ["meta", "cpu"])(tessera.ones(2, 2))
    with pytest.raises(RuntimeError, match=r"in replica 1 on device cpu"):
        parallel.parallel_apply([net, net], [tessera.ones(1, 2), tessera.ones(1, 3)], devices=CPUS)
    with pytest.raises(AssertionError, match="each of 2 modules, but got 1, 2 and 2"):
        parallel.parallel_apply([net, net], [tessera.ones(1, 2)])


def test_parallel_apply_takes_over_the_modes():
    seen = []
    modules = [lambda x: seen.append((tessera.is_grad_enabled(), tessera.is_inference_mode_enabled()))] * 2
    x = [tessera.ones(1)] * 2
    parallel.parallel_apply(modules, x)
    with tessera.no_grad():
        parallel.parallel_apply(modules, x)
    with tessera.inference_mode():
        parallel.parallel_apply(modules, x)
    assert seen == [(True, False)] * 2 + [(False, False)] * 2 + [(False, True)] * 2
