"""Structured pruning: smaller layers that give what the masked ones gave."""

import pytest
import tessera
from tessera import nn
from tessera.ao.pruning._experimental.pruner import (
    BaseStructuredSparsifier,
    FakeStructuredSparsity,
    FPGMPruner,
    LSTMSaliencyPruner,
    SaliencyPruner,
)
from tessera.nn import functional as F

SEQUENCE = {
    "linear": lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 5), nn.Linear(5, 2)),
    "bare": lambda: nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 5, bias=False), nn.Linear(5, 2)),
    "conv": lambda: nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.Conv2d(4, 2, 1)),
    "pools": lambda: nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 4, 1),
        nn.AvgPool2d(2),
        nn.Tanh(),
        nn.Conv2d(4, 2, 1),
    ),
    "flatten": lambda: nn.Sequential(nn.Conv2d(1, 6, 3), nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(), nn.Linear(12, 2)),
}


def names_of(model):
    return [name for name, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))]


def pruned(model, config, x, kind=SaliencyPruner, **defaults):
    pruner = kind({"sparsity_level": 0.5, **defaults})
    pruner.prepare(model, config)
    pruner.step()
    before = model(x)
    return before, pruner.prune()


@pytest.mark.parametrize("prune_bias", [True, False])
@pytest.mark.parametrize("which", SEQUENCE)
def test_results_stay_and_layers_shrink(which, prune_bias):
    tessera.manual_seed(3)
    model = SEQUENCE[which]()
    x = tessera.randn(3, 4) if which in ("linear", "bare") else tessera.randn(2, 1, 10, 10)
    config = [{"tensor_fqn": f"{name}.weight"} for name in names_of(model)[:-1]]
    before, made = pruned(model, config, x, prune_bias=prune_bias)
    assert tessera.allclose(before, made(x), atol=1e-5)
    first, last = made.get_submodule("0"), made.get_submodule(names_of(model)[-1])
    assert first.weight.shape[0] == 3 == getattr(first, "out_channels", getattr(first, "out_features", None))
    assert list(last._parameters) == ["bias", "weight"] or list(last._parameters) == ["weight", "bias"]
    assert type(first) in (nn.Linear, nn.Conv2d) and not first._forward_hooks
    assert (first.bias is None) == (which == "bare")


def test_functions_and_their_arguments():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

        def forward(self, x):
            return self.b(F.leaky_relu(self.a(x), negative_slope=0.7))

    tessera.manual_seed(1)
    x = tessera.randn(3, 4)
    before, made = pruned(Net(), [{"tensor_fqn": "a.weight", "prune_bias": False}], x)
    assert tessera.allclose(before, made(x), atol=1e-6) and made.b.in_features == 3


def test_the_last_layer_loses_outputs():
    x = tessera.randn(3, 4)
    before, made = pruned(nn.Sequential(nn.Linear(4, 6)), None, x)
    after = made(x)
    assert before.shape == (3, 6) and after.shape == (3, 3)
    assert tessera.allclose(before[:, before.any(0)], after)


def test_channels_with_a_bias_stay_before_padding():
    tessera.manual_seed(2)
    x = tessera.randn(2, 1, 8, 8)

    def make(bias):
        return nn.Sequential(nn.Conv2d(1, 4, 3, bias=bias), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1))

    config = [{"tensor_fqn": "0.weight", "prune_bias": False}]
    before, made = pruned(make(True), config, x)
    assert made.get_submodule("0").out_channels == 4 and tessera.allclose(before, made(x), atol=1e-6)
    before, made = pruned(make(False), config, x)
    assert made.get_submodule("0").out_channels == 2 and tessera.allclose(before, made(x), atol=1e-6)


class Branches(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.a, self.b, self.kind = nn.Linear(4, 6), nn.Linear(6, 3), kind

    def forward(self, x):
        y = self.a(x)
        if self.kind == "twice":
            return self.b(y) + y[:, :3]
        if self.kind == "unknown":
            return self.b(tessera.sin(y))
        return self.b(nn.functional.prelu(y, tessera.ones(6)))


@pytest.mark.parametrize("kind", ["twice", "unknown"])
def test_what_is_no_such_chain_is_refused(kind):
    with pytest.raises(Exception, match="still contains FakeStructuredSparsity"):
        pruned(Branches(kind), [{"tensor_fqn": "a.weight"}], tessera.ones(1, 4))


def test_one_slope_for_each_channel_is_refused():
    model = nn.Sequential(nn.Linear(4, 6), nn.PReLU(6), nn.Linear(6, 2))
    with pytest.raises(Exception, match="still contains"):
        pruned(model, [{"tensor_fqn": "0.weight"}], tessera.ones(1, 4))
    model = nn.Sequential(nn.Conv2d(2, 4, 1, groups=2), nn.Conv2d(4, 2, 1))
    with pytest.raises(Exception, match="still contains"):
        pruned(model, [{"tensor_fqn": "0.weight"}], tessera.ones(1, 2, 3, 3))


def test_the_bias_hook_and_defaults():
    class First(BaseStructuredSparsifier):
        def update_mask(self, module, tensor_name, **kwargs):
            module.parametrizations[tensor_name][0].mask[0] = False

    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    pruner = First(None)
    pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    assert model[0].bias is None and "0._bias" in model.state_dict() and model[0].prune_bias
    pruner.step()
    assert model[0](tessera.ones(1, 2))[0, 0] == 0 and pruner.state["0.weight"]["mask"].tolist() == [False, True, True]
    assert First({}, patterns={}).patterns == {} and len(pruner.patterns) > 400
    pruner = First({})
    pruner.make_config_from_model(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Linear(1, 1), nn.LSTM(1, 1), nn.Embedding(1, 1)))
    assert [c["tensor_fqn"] for c in pruner.config] == ["0.weight", "1.weight", "2.weight"]


def test_fake_structured_sparsity():
    made = FakeStructuredSparsity(tessera.tensor([True, False]))
    assert made(tessera.ones(2, 1, 2)).tolist() == [[[1, 1]], [[0, 0]]] and made.state_dict() == {}
    with pytest.raises(AssertionError, match=r"mask shape\[0\]"):
        made(tessera.ones(3, 3))


def test_saliency_and_medians():
    weight = tessera.tensor([[3.0, -3.0], [0.1, 0.1], [1.0, 1.1], [1.0, 0.9], [-2.0, 0.0]])

    def mask(pruner):
        model = nn.Sequential(nn.Linear(2, 5))
        model[0].weight = nn.Parameter(weight.clone())
        pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
        pruner.step()
        return [int(x) for x in pruner.state["0.weight"]["mask"]]

    assert mask(SaliencyPruner({"sparsity_level": 0.5})) == [1, 0, 1, 0, 1]
    assert mask(FPGMPruner(0.6)) == [1, 0, 0, 0, 1]
    assert mask(FPGMPruner(0.2, lambda x: tessera.cdist(x, x, p=1))) == [1, 1, 1, 0, 1]
    assert mask(FPGMPruner(1.0)) == [0] * 5 and mask(FPGMPruner(0.0)) == [1] * 5
    with pytest.raises(NotImplementedError, match="dist=3"):
        FPGMPruner(0.5, 3)
    with pytest.raises(RuntimeError, match="sparsity_level=2"):
        mask(SaliencyPruner({"sparsity_level": 2}))


class Recurrent(nn.Module):
    def __init__(self, norm=False, layers=1, bias=True):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, layers, bias=bias)
        self.norm = nn.LayerNorm(4) if norm else None
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.linear(y if self.norm is None else self.norm(y))


@pytest.mark.parametrize("norm, layers, bias", [(False, 1, True), (True, 1, True), (False, 2, True), (False, 1, False)])
def test_lstm(norm, layers, bias):
    model = Recurrent(norm, layers, bias)
    config = [{"tensor_fqn": f"lstm.weight_{kind}_l{i}"} for i in range(layers) for kind in ("ih", "hh")]
    before = {name: p.detach().clone() for name, p in model.lstm.named_parameters()}
    pruner = LSTMSaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(model, config)
    pruner.step()
    masks = {name[len("lstm.") :]: state["mask"] for name, state in pruner.state.items()}
    assert all(int(part.sum()) == 2 for mask in masks.values() for part in mask.chunk(4))  # two rows of each gate
    made = pruner.prune()
    assert (
        made.lstm.hidden_size == 2 and made.linear.in_features == 2 and made(tessera.ones(5, 1, 3)).shape == (5, 1, 2)
    )
    rows = [p[:, m] for p, m in zip(before["weight_hh_l0"].chunk(4), masks["weight_hh_l0"].chunk(4))]
    assert tessera.equal(made.lstm.weight_hh_l0, tessera.cat(rows)[masks["weight_hh_l0"]])
    if bias:
        assert tessera.equal(made.lstm.bias_ih_l0, before["bias_ih_l0"][masks["weight_ih_l0"]])
    if norm:
        assert made.norm.normalized_shape == (2,)
    if layers == 2:
        inputs = masks["weight_hh_l0"].chunk(4)[3]
        assert tessera.equal(made.lstm.weight_ih_l1, before["weight_ih_l1"][masks["weight_ih_l1"]][:, inputs])


def test_lstm_with_one_mask_of_two_is_refused():
    with pytest.raises(ValueError, match="equally many rows"):
        pruned(Recurrent(), [{"tensor_fqn": "lstm.weight_ih_l0"}], tessera.ones(5, 1, 3), LSTMSaliencyPruner)
    with pytest.raises(ValueError, match="four gates"):
        pruned(Recurrent(), [{"tensor_fqn": "linear.weight"}], tessera.ones(5, 1, 3), LSTMSaliencyPruner)


def test_modules_of_a_graph_are_in_the_order_of_its_nodes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.seq = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU())

        def forward(self, x):
            return self.last(self.seq(x))

    assert [name for name, _ in tessera.fx.symbolic_trace(Net()).named_children()] == ["seq", "last"]
