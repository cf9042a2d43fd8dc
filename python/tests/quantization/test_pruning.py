"""`ao.pruning`: masks of weights, of activations and of plain data, and what changes their level."""

import pickle
import warnings

import pytest
import tessera
from tessera import nn
from tessera.ao import pruning
from tessera.ao.pruning._experimental.activation_sparsifier import ActivationSparsifier
from tessera.ao.pruning._experimental.data_scheduler import BaseDataScheduler
from tessera.ao.pruning._experimental.data_sparsifier import BaseDataSparsifier, DataNormSparsifier


def numbers(*shape):
    """Every value another, in no order: recorded masks depend on it."""
    count = tessera.empty(shape).numel()
    return ((tessera.arange(count) * 7919 % 1009 - 500) / 500.0).reshape(shape)


def masked(weight, sparsifier, steps=1):
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].weight = nn.Parameter(weight)
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    for _ in range(steps):
        sparsifier.step()
    return model[0].parametrizations.weight[0].mask


def rows(mask):
    return ["".join(str(int(x)) for x in row) for row in mask.tolist()]


def two_layers(sparsifier=None):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for layer in model:
        layer.weight.data = (tessera.arange(16) * 7919 % 97 - 48.0).reshape(4, 4) / 50
    sparsifier = sparsifier or pruning.WeightNormSparsifier()
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "1.weight", "sparsity_level": 0.75}])
    return sparsifier, model


@pytest.mark.parametrize(
    "level, block, zeros, expected",
    [
        (1.0, (1, 4), 2, ["11000011", "10010110", "00111100", "00111001"]),
        (0.5, (1, 4), 2, ["11111111", "10011111", "00111100", "11111001"]),
        (0.5, (2, 2), None, ["11000011", "11000011", "00111100", "00111100"]),
        (0.5, (2, 2), 1, ["11110111", "11011111", "10111110", "11111111"]),
        (0.0, (1, 4), 2, ["11111111"] * 4),
        (1.0, (1, 4), None, ["00000000"] * 4),
        (0.95, (1, 4), None, ["00000000", "00001111", "00000000", "00000000"]),
    ],
)
def test_blocks_of_least_norm_become_zero(level, block, zeros, expected):
    mask = masked(numbers(4, 8), pruning.WeightNormSparsifier(level, block, zeros))
    assert rows(mask) == expected


def test_blocks_over_the_edges_count_what_is_there():
    got = masked(numbers(5, 7), pruning.WeightNormSparsifier(0.5, (2, 3)))
    assert rows(got) == ["1110001", "1110001", "0000001", "0000001", "0001111"]
    got = masked(numbers(5, 7), pruning.WeightNormSparsifier(0.6, (2, 3), 2))
    assert got.shape == (5, 7) and int((~got).sum()) == 10


def test_norms_are_of_the_weights_behind_the_mask():
    negative = lambda x: -x  # noqa: E731
    got = masked(numbers(4, 8), pruning.WeightNormSparsifier(0.5, (1, 4), None, negative))
    assert rows(got) == ["00001111", "00001111", "11110000", "11110000"]
    with pytest.raises(NotImplementedError, match="norm='L1'"):
        pruning.WeightNormSparsifier(norm="L1")
    for zeros in (5, -1):
        with pytest.raises(ValueError, match="zeros per block"):
            masked(numbers(4, 8), pruning.WeightNormSparsifier(0.5, (1, 4), zeros))
    with pytest.raises(ValueError, match="2 dimensions"):
        masked(numbers(8), pruning.WeightNormSparsifier())


def test_nearly_diagonal():
    got = masked(numbers(4, 4), pruning.NearlyDiagonalSparsifier(3))
    assert rows(got) == ["1100", "1110", "0111", "0011"]
    assert rows(masked(numbers(3, 5), pruning.NearlyDiagonalSparsifier())) == ["10000", "01000", "00100"]
    with pytest.raises(ValueError, match="odd"):
        masked(numbers(4, 4), pruning.NearlyDiagonalSparsifier(2))
    with pytest.raises(ValueError, match="larger"):
        masked(numbers(4, 4), pruning.NearlyDiagonalSparsifier(9))


def test_prepare_step_and_squash():
    sparsifier, model = two_layers()
    assert [g["tensor_fqn"] for g in sparsifier.groups] == ["0.weight", "1.weight"]
    assert sparsifier.groups[1]["sparsity_level"] == 0.75 and sparsifier.groups[0]["module"] is model[0]
    sparsifier.step()
    assert rows(sparsifier.state["1.weight"]["mask"]) == ["1111", "0000", "0000", "0000"]
    assert not model[1].weight[1:].any() and list(model.state_dict())[:2] == [
        "0.bias", "0.parametrizations.weight.original",
    ]  # fmt: skip
    sparsifier.enable_mask_update = False
    model[0].parametrizations.weight[0].mask.fill_(1)
    sparsifier.step()
    assert model[0].parametrizations.weight[0].mask.all()
    sparsifier.squash_mask(("sparsity_level",), {"1": ("sparse_block_shape",)})
    assert type(model[1]) is nn.Linear and not model[1].weight[1:].any()
    assert model[0].sparse_params == {"sparsity_level": 0.5}
    assert model[1].sparse_params == {"sparsity_level": 0.75, "sparse_block_shape": (1, 4)}


def test_state_dicts_bring_masks():
    first, _ = two_layers()
    first.step()
    second, model = two_layers()
    second.load_state_dict(first.state_dict())
    assert tessera.equal(model[1].parametrizations.weight[0].mask, first.state["1.weight"]["mask"])
    assert set(first.state_dict()["groups"][0]) == {
        "sparsity_level", "sparse_block_shape", "zeros_per_block", "tensor_fqn",
    }  # fmt: skip
    assert [g["module"] for g in second.groups] == list(model)
    assert second.state_dict()["state"].keys() == first.state_dict()["state"].keys()
    strange = {"state": {"9.weight": {"mask": tessera.ones(4, 4)}}, "groups": []}
    with pytest.raises(RuntimeError, match="Error loading 9.weight"):
        second.load_state_dict(strange)
    second.load_state_dict(strange, strict=False)
    with pytest.raises(RuntimeError, match="prepare"):
        pruning.WeightNormSparsifier().load_state_dict(first.state_dict())
    plain = pruning.WeightNormSparsifier()
    bare = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    plain.prepare(bare, [])
    plain.load_state_dict(first.state_dict())
    assert not bare[1].weight[1:].any()  # a tensor without a mask gets one
    assert pickle.loads(pickle.dumps(pruning.WeightNormSparsifier(0.25))).defaults["sparsity_level"] == 0.25


def test_configs():
    model = nn.Sequential(
        nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)), nn.Linear(2, 2), nn.Embedding(3, 4)
    )
    sparsifier = pruning.WeightNormSparsifier()
    sparsifier.make_config_from_model(model)
    assert sparsifier.config == [{"tensor_fqn": f"{name}.weight"} for name in ("1", "0.0", "0.2")]
    sparsifier.make_config_from_model(model, {nn.Embedding})
    assert sparsifier.config == [{"tensor_fqn": "2.weight"}]
    bad = (
        {"foo": 1},
        "1.weight",
        {"tensor_fqn": "1.weight", "tensor_name": "bias"},
        {"tensor_fqn": "1.weight", "module": 3},
    )
    for entry in bad:
        with pytest.raises(AssertionError):
            pruning.WeightNormSparsifier().prepare(model, [entry])
    with pytest.raises(AttributeError):
        pruning.WeightNormSparsifier().prepare(model, [{"tensor_fqn": "1.wight"}])
    mask = tessera.tensor([[1.0, 0.0], [1.0, 1.0]])
    pruning.WeightNormSparsifier().prepare(model, [{"tensor_fqn": "1.weight", "mask": mask}])
    assert model[1].weight[0, 1] == 0
    sparsifier = pruning.WeightNormSparsifier()
    sparsifier.prepare(model, [{"tensor_fqn": "0.0.weight"}])
    sparsifier.prepare(model, [{"tensor_fqn": "0.2.weight"}])  # one more, without another mask for the first
    assert len(sparsifier.groups) == 2 and len(model[0][0].parametrizations.weight) == 1


def test_names_of_modules():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    inner = model[0][0]
    assert pruning.module_to_fqn(model, inner) == "0.0" and pruning.module_to_fqn(model, inner, "x.") == "x.0.0"
    assert pruning.module_to_fqn(model, nn.Linear(1, 1)) is None
    assert pruning.fqn_to_module(model, "0.0") is inner and pruning.fqn_to_module(model, "") is model
    assert pruning.fqn_to_module(model, "0.7.weight") is None
    info = pruning.get_arg_info_from_tensor_fqn(model, "0.0.weight")
    assert info == {"module_fqn": "0.0", "module": inner, "tensor_name": "weight", "tensor_fqn": "0.0.weight"}
    assert pruning.get_arg_info_from_tensor_fqn(model, "weight")["module"] is model


def test_fake_sparsity():
    made = pruning.FakeSparsity(tessera.tensor([[1.0, 0.0]]))
    assert made.state_dict() == {} and made(tessera.ones(1, 2)).tolist() == [[1, 0]]
    with pytest.raises(AssertionError, match="mask shape"):
        made(tessera.ones(2, 2))


class Dense(nn.Linear):
    @classmethod
    def from_dense(cls, mod):
        return cls(mod.in_features, mod.out_features)


def test_convert():
    sparsifier, model = two_layers()
    calls = []
    model[0].register_forward_hook(lambda *a: calls.append(1))
    sparsifier.squash_mask()
    assert type(sparsifier.convert(model, {nn.Linear: Dense})[0]) is nn.Linear  # no mask, no change
    sparsifier, model = two_layers()
    model[0].register_forward_hook(lambda *a: calls.append(1))
    made = sparsifier.convert(model, {nn.Linear: Dense})
    made(tessera.ones(1, 4))
    assert type(made[0]) is Dense and calls == [1] and type(model[0]) is not Dense
    assert sparsifier.convert(model, {nn.Linear: Dense}, inplace=True) is model and type(model[1]) is Dense
    with pytest.raises(NotImplementedError, match="mapping"):
        sparsifier.convert(model)
    assert pruning.get_static_sparse_quantized_mapping()[nn.Linear] is tessera.ao.nn.sparse.quantized.Linear
    assert pruning.get_dynamic_sparse_quantized_mapping()[nn.Linear] is tessera.ao.nn.sparse.quantized.dynamic.Linear


def test_the_text_of_a_sparsifier():
    assert repr(pruning.NearlyDiagonalSparsifier()) == "NearlyDiagonalSparsifier ()"
    model = nn.Sequential(nn.Linear(2, 2))
    sparsifier = pruning.NearlyDiagonalSparsifier()
    sparsifier.prepare(model, None)
    text = repr(sparsifier)
    assert text.startswith("NearlyDiagonalSparsifier (\n\tGroup 0\n\t    module: ParametrizedLinear(\n")
    assert text.endswith(
        "\n\t    module_fqn: 0\n\t    nearliness: 1\n\t    tensor_fqn: 0.weight\n\t    tensor_name: weight\n)"
    )


class Half(pruning.BaseScheduler):
    def get_sl(self):
        part = 0.5 if self.last_epoch > 0 else 1
        return [group["sparsity_level"] * part for group in self.sparsifier.groups]


def test_schedulers_change_levels(capsys):
    sparsifier, _ = two_layers()
    scheduler = Half(sparsifier, verbose=True)
    assert scheduler.last_epoch == 0 and scheduler.base_sl == [0.5, 0.75] and scheduler.get_last_sl() == [0.5, 0.75]
    sparsifier.step()
    sparsifier.enable_mask_update = False
    scheduler.step(3)
    assert scheduler.get_last_sl() == [0.25, 0.375] and sparsifier.groups[0]["sparsity_level"] == 0.25
    assert sparsifier.enable_mask_update
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Adjusting sparsity level of group 0 to 5.0000e-01."
    assert printed[-1] == "Epoch     3: adjusting sparsity level of group 1 to 3.7500e-01."
    other = Half(two_layers()[0])
    other.load_state_dict(scheduler.state_dict())
    assert other.last_epoch == 1 and other.get_last_sl() == [0.25, 0.375] and "sparsifier" not in scheduler.state_dict()
    assert repr(other).endswith("\n    base_sl: [0.5, 0.75]\n)")
    with pytest.raises(TypeError, match="BaseSparsifier"):
        Half(3)
    with pytest.raises(NotImplementedError):
        pruning.BaseScheduler(sparsifier)


def test_schedulers_warn_before_the_first_step():
    sparsifier, _ = two_layers()
    scheduler = Half(sparsifier)
    with pytest.warns(UserWarning, match="before `sparsifier.step"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sparsifier, _ = two_layers()
        scheduler = Half(sparsifier)
        sparsifier.step()
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_sl"):
        pruning.LambdaSL(sparsifier, lambda epoch: 1).get_sl()


def test_lambda_and_cubic():
    sparsifier, _ = two_layers()
    scheduler = pruning.LambdaSL(sparsifier, [lambda epoch: 0.5**epoch, lambda epoch: 1])
    for _ in range(2):
        sparsifier.step()
        scheduler.step()
    assert scheduler.get_last_sl() == [0.125, 0.75]
    with pytest.raises(ValueError, match="Expected 2"):
        pruning.LambdaSL(sparsifier, [abs])
    sparsifier, _ = two_layers()
    cubic = pruning.CubicSL(sparsifier, init_sl=0.1, init_t=[2, 0], delta_t=3, total_t=10, initially_zero=[True, False])
    levels = []
    for _ in range(33):
        levels.append(cubic.get_last_sl())
        sparsifier.step()
        cubic.step()
    assert [level[0] for level in levels[:4]] == pytest.approx([0, 0, 0.1, 0.5 - 0.4 * (29 / 30) ** 3])
    assert levels[-1] == [0.5, 0.75] and cubic.sparsity_compute_fn(0.1, 0.9, 16, 6, 2, 10) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="length 2"):
        pruning.CubicSL(sparsifier, init_sl=[1, 2, 3])


def test_activations():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    plus, mean = (lambda a, b: a + b), (lambda x: x.mean(0))
    sparsifier = ActivationSparsifier(model, plus, mean, lambda x, limit: (x > limit).float(), limit=1.0)
    sparsifier.register_layer(model[0])
    sparsifier.register_layer(model[1], features=[0, 1], feature_dim=1, limit=-100.0, mask_fn=lambda x, limit: x * 0)
    x = tessera.tensor([[0.2, 0.6, 3.0]])
    with pytest.raises(RuntimeError, match="has seen no input"):
        sparsifier.step()
    for _ in range(2):
        model(x)
    sparsifier.step()
    assert sparsifier.get_mask("0").tolist() == [0, 1, 1] and len(sparsifier.get_mask(layer=model[1])) == 2
    saved = sparsifier.state_dict()
    assert saved["state"]["0"]["mask"].is_sparse and "layer" not in saved["data_groups"]["0"]
    sparsifier.squash_mask()
    hidden = model[0](tessera.ones(1, 3))
    expected = tessera.tensor([[0.0, 1.0, 1.0]]) @ model[0].weight.T + model[0].bias
    assert tessera.allclose(hidden, expected)
    only_last = model[1](tessera.ones(1, 3))
    assert tessera.allclose(only_last, tessera.tensor([[0.0, 0.0, 1.0]]) @ model[1].weight.T + model[1].bias)
    other = ActivationSparsifier(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)))
    other.load_state_dict(saved)
    assert other.get_mask("0").tolist() == [0, 1, 1] and other.data_groups["1"]["layer"] is other.model[1]
    sparsifier.unregister_layer("0")
    assert tessera.allclose(model[0](tessera.ones(1, 3)), model[0].weight.sum(1) + model[0].bias)
    for name in ("features", "layer"):
        with pytest.raises(AssertionError):
            sparsifier.register_layer(model[0] if name == "features" else nn.ReLU(), features=[1])
    with pytest.raises(ValueError, match="not found"):
        sparsifier.get_mask("7")


class Rows(BaseDataSparsifier):
    def update_mask(self, name, data, **kwargs):
        self.get_mask(name)[0] = 0


def test_data():
    a = (tessera.arange(6.0) + 1).reshape(2, 3)
    data = Rows([("a", a.clone()), ("b", nn.Parameter(a.clone()))], level=0.5)
    data.add_data("emb", nn.Embedding(2, 3), level=0.9)
    data.step()
    assert data.data_groups == {"a": {"level": 0.5}, "b": {"level": 0.5}, "emb": {"level": 0.9}}
    assert data.get_data("a").tolist() == a.tolist()
    assert data.get_data("a", return_original=False).tolist() == [[0, 0, 0], [4, 5, 6]]
    with pytest.warns(UserWarning, match="Replacing"):
        data.add_data("a", a + 1)
    assert data.get_data("a", False).tolist() == [[0, 0, 0], [5, 6, 7]]
    with pytest.warns(UserWarning), pytest.raises(AssertionError, match="reuse_mask"):
        data.add_data("a", tessera.ones(2, 2))
    with pytest.warns(UserWarning):
        data.add_data("a", a, reuse_mask=False)
    assert data.get_mask("a").all()
    other = pickle.loads(pickle.dumps(data))
    assert list(other.data_groups) == ["b", "emb", "a"] and other.get_data("b", False).tolist()[0] == [0, 0, 0]
    third = Rows([("c", a)])
    third.load_state_dict(data.state_dict(), strict=False)
    assert list(third.data_groups) == ["c", "b", "emb", "a"]
    data.squash_mask(names="b")
    assert data.get_data("b", False).tolist() == [[0, 0, 0], [4, 5, 6]]
    with pytest.raises(ValueError, match="squashed"):
        data.get_data("b")
    with pytest.raises(ValueError, match="does not exist"):
        data.get_mask("z")
    with pytest.raises(AssertionError, match="specified data type"):
        data.add_data("z", [1, 2])
    with pytest.raises(NotImplementedError):
        data.prepare(None, None)
    assert repr(Rows([("a", a)], n=1)) == "Rows (\n\tData Group\n\t    name: a\n\t    n: 1\n)"


def test_norms_of_data():
    made = DataNormSparsifier([("w", numbers(4, 8)), ("v", numbers(6))], 0.9, (2, 3), 4)
    made.step()
    assert rows(made.get_mask("w")) == ["11000011", "00001111", "00001000", "01110000"]
    assert made.get_mask("w").dtype is tessera.int8 and made.get_data("v", False).tolist() == [0] * 6
    with pytest.raises(AssertionError, match="L1"):
        DataNormSparsifier(norm="L3")
    with pytest.raises(ValueError, match="3 dimensions"):
        DataNormSparsifier([("w", numbers(2, 2, 2))]).step()


class Less(BaseDataScheduler):
    def get_schedule_param(self):
        return {name: value * 0.5**self.last_epoch for name, value in self.base_param.items()}


def test_data_scheduler():
    data = DataNormSparsifier([("a", numbers(2, 4))], 0.8)
    scheduler = Less(data, "sparsity_level")
    data.step()
    scheduler.step()
    assert scheduler.get_last_param() == {"a": 0.4} == {"a": data.data_groups["a"]["sparsity_level"]}
    with pytest.raises(TypeError, match="BaseDataSparsifier"):
        Less(two_layers()[0], "sparsity_level")
