"""nn.utils.

Computed tensors (parametrizations, weight and spectral norm, pruning), packed sequences, fusion, calls with other
tensors.
"""

import copy
import gc

import pytest

import tessera
from tessera import nn
from tessera.nn import utils
from tessera.nn.utils import parametrizations, parametrize, prune, rnn, stateless


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, y):
        return y / 2


class Product(nn.Module):
    def forward(self, a, b):
        return a * b

    def right_inverse(self, y):
        return y * 2, tessera.full_like(y, 0.5)


def linear(n=3):
    layer = nn.Linear(n, n)
    with tessera.no_grad():
        layer.weight.copy_(tessera.arange(n * n).reshape(n, n) / 10 + tessera.eye(n))
    return layer


COMPUTED = {  # name -> (apply, names of what takes the weight's place, take back)
    "weight_norm": (utils.weight_norm, ["weight_g", "weight_v"], utils.remove_weight_norm),
    "spectral_norm": (utils.spectral_norm, ["weight_orig", "weight_u", "weight_v"], utils.remove_spectral_norm),
    "pruning": (
        lambda m: prune.l1_unstructured(m, "weight", 4),
        ["weight_orig", "weight_mask"],
        lambda m: prune.remove(m, "weight"),
    ),
    "parametrization": (
        lambda m: parametrize.register_parametrization(m, "weight", Doubled()),
        ["parametrizations.weight.original"],
        lambda m: parametrize.remove_parametrizations(m, "weight"),
    ),
    "two originals": (
        lambda m: parametrize.register_parametrization(m, "weight", Product()),
        ["parametrizations.weight.original0", "parametrizations.weight.original1"],
        lambda m: parametrize.remove_parametrizations(m, "weight"),
    ),
    "new weight_norm": (
        parametrizations.weight_norm,
        ["parametrizations.weight.original0", "parametrizations.weight.original1"],
        lambda m: parametrize.remove_parametrizations(m, "weight"),
    ),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", COMPUTED)
def test_pieces_take_the_place_of_a_parameter_and_give_it_back(name):
    apply, pieces, take_back = COMPUTED[name]
    layer, x = linear(), tessera.ones(2, 3)
    assert apply(layer) is layer
    assert sorted(set(layer.state_dict()) - {"bias"}) == sorted(pieces)
    assert "weight" not in layer._parameters
    layer(x).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    layer.eval()
    y = layer(x)
    assert take_back(layer) is layer
    assert (
        sorted(layer.state_dict()) == ["bias", "weight"]
        and isinstance(layer.weight, nn.Parameter)
        and type(layer) is nn.Linear
    )
    assert not layer._forward_pre_hooks and not layer._state_dict_hooks
    assert tessera.allclose(layer(x), y, atol=1e-6)
    with pytest.raises(ValueError, match="weight"):
        take_back(layer)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("what", ["weight_norm", "spectral_norm"])
def test_hooks_are_refused_where_they_cannot_be(what):
    apply = getattr(utils, what)
    with pytest.raises(RuntimeError, match="two " + what):
        apply(apply(linear()))
    lazy = nn.LazyLinear(3)
    with pytest.raises(ValueError, match="dummy forward before applying " + what.replace("_norm", " normalization")):
        apply(lazy)


def test_spectral_norms_agree():
    """The hook and the parametrization find the same largest singular value."""
    old = utils.spectral_norm(linear(), n_power_iterations=60)
    new = parametrizations.spectral_norm(linear(), n_power_iterations=60)
    old(tessera.ones(1, 3))
    largest = tessera.linalg.vector_norm(old.weight_orig @ old.weight_v)
    found = tessera.linalg.vector_norm(linear().weight @ new.parametrizations.weight[0]._v)
    assert float(largest) == pytest.approx(float(found), rel=1e-5)
    assert tessera.allclose(old.weight, new.weight, atol=1e-5)
    assert tessera.allclose(new.weight * largest, linear().weight, atol=1e-5)


def test_removing_from_a_copy_leaves_the_original_parametrized():
    layer = parametrize.register_parametrization(linear(), "weight", Doubled())
    twin = copy.deepcopy(layer)
    parametrize.remove_parametrizations(twin, "weight")
    assert parametrize.is_parametrized(layer, "weight") and tessera.equal(layer.weight, twin.weight)
    assert type(twin) is nn.Linear and type(layer).__name__ == "ParametrizedLinear"


def test_cached_tensors_are_those_of_their_own_module():
    """Also when a module dies within the block, and another one gets its address."""
    with parametrize.cached():
        for value in range(20):
            layer = parametrize.register_parametrization(linear(), "weight", Doubled())
            layer.weight = tessera.full((3, 3), float(value))
            assert layer.weight is layer.weight and float(layer.weight[0, 0]) == value
            del layer
            gc.collect()


def test_an_assignment_that_fails_changes_no_original():
    class Odd(Product):
        def right_inverse(self, y):
            return y * 2, tessera.full_like(y, 0.5).to(self.dtype)

    odd = Odd()
    odd.dtype = tessera.float32
    layer = parametrize.register_parametrization(linear(), "weight", odd)
    before = layer.weight.clone()
    odd.dtype = tessera.float64
    with pytest.raises(ValueError, match="Tensor 1 returned by `right_inverse` has dtype"):
        layer.weight = tessera.zeros(3, 3)
    assert tessera.equal(layer.weight, before)


def test_a_failed_pruning_leaves_the_earlier_one():
    class Fails(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            raise RuntimeError("no mask")

    layer = prune.l1_unstructured(linear(), "weight", 4)
    for module, pruned in ((linear(), False), (layer, True)):
        names = list(module.state_dict())
        with pytest.raises(RuntimeError, match="no mask"):
            Fails.apply(module, "weight")
        assert list(module.state_dict()) == names and prune.is_pruned(module) == pruned
    assert len(layer._forward_pre_hooks) == 1
    prune.random_unstructured(layer, "weight", 2)
    (hook,) = layer._forward_pre_hooks.values()
    assert [type(method).__name__ for method in hook] == ["L1Unstructured", "RandomUnstructured"] and int(
        (layer.weight == 0).sum()
    ) == 6


@pytest.mark.parametrize("dim", [-4, 3])
def test_pruning_of_a_dim_that_is_not_there(dim):
    with pytest.raises(IndexError, match="Invalid index"):
        prune.ln_structured(linear(), "weight", 1, 2, dim)


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_and_padding_are_inverse(batch_first):
    lengths = [2, 4, 1]
    sequences = [tessera.arange(n * 3.0).reshape(n, 3) + 100 * i for i, n in enumerate(lengths)]
    leaf = rnn.pad_sequence(sequences, batch_first=batch_first, padding_value=-1).requires_grad_()
    packed = rnn.pack_padded_sequence(leaf, lengths, batch_first=batch_first, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1] and packed.data[:, 0].tolist() == [100, 0, 200, 103, 3, 106, 109]
    assert packed.sorted_indices.tolist() == [1, 0, 2] and packed.unsorted_indices.tolist() == [1, 0, 2]
    padded, n = rnn.pad_packed_sequence(packed, batch_first=batch_first, padding_value=-1)
    assert tessera.equal(padded, leaf) and n.tolist() == lengths
    padded.sum().backward()
    assert tessera.equal(leaf.grad, (leaf >= 0).to(tessera.float32))  # nothing flows into the padding
    longer, _ = rnn.pad_packed_sequence(packed, batch_first=batch_first, total_length=6)
    assert longer.shape[1 if batch_first else 0] == 6
    assert all(tessera.equal(a, b) for a, b in zip(rnn.unpack_sequence(packed), sequences, strict=True))


def test_packed_sequences_convert():
    packed = rnn.pack_sequence([tessera.ones(2), tessera.ones(1)])
    for name in ("double", "float", "half", "long", "int", "short", "char", "byte"):
        other = getattr(packed, name)()
        assert type(other) is rnn.PackedSequence and getattr(rnn.PackedSequence, name).__name__ == name
        assert (
            str(other.data.dtype).split(".")[-1]
            == str(
                getattr(tessera, name if name not in ("char", "byte") else {"char": "int8", "byte": "uint8"}[name])
            ).split(".")[-1]
        )
    assert packed.float() is packed
    assert rnn.invert_permutation(tessera.tensor([2, 0, 1], dtype=tessera.int32)).tolist() == [1, 2, 0]


def test_calls_with_names_that_the_module_lacks():
    layer, weight, x = linear(), tessera.ones(3, 3), tessera.ones(3)
    with pytest.warns(FutureWarning):
        y = stateless.functional_call(layer, {"weight": weight, "more": weight}, x)
    assert tessera.equal(y, weight.sum(1) + layer.bias) and not hasattr(layer, "more")
    with (
        pytest.warns(FutureWarning),
        pytest.raises(
            RuntimeError,
            match=r"Unexpected key\(s\): 'more'.\n\tMissing "
            r"key\(s\): 'bias'",
        ),
    ):
        stateless.functional_call(layer, {"weight": weight, "more": weight}, x, strict=True)


def test_pickled_modules_hold_what_other_implementations_read():
    lstm = nn.LSTM(2, 3)
    state = lstm.__getstate__()
    assert [id(w) for w in state["_flat_weights"]] == [id(w) for w in lstm.parameters()]
    assert state["_flat_weights_names"] == list(dict(lstm.named_parameters()))
    twin = copy.deepcopy(lstm)
    assert "_flat_weights" not in vars(twin) and all(
        tessera.equal(a, b) and a is not b for a, b in zip(twin._flat_weights, lstm.parameters(), strict=True)
    )
    for activation, code in (("relu", 1), (nn.functional.gelu, 2), (nn.ReLU(), 1), (tessera.tanh, 0)):
        assert nn.TransformerEncoderLayer(4, 1, 4, activation=activation).activation_relu_or_gelu == code
    hooked = utils.spectral_norm(linear())
    (hook,) = hooked._load_state_dict_pre_hooks.values()
    assert type(hook).__module__ == nn.Module.__module__


def test_members_by_dotted_names():
    from tessera.nn.utils._named_member_accessor import NamedMemberAccessor, set_tensor, swap_submodule, swap_tensor

    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    access = NamedMemberAccessor(net)
    old, new = net[0].weight, tessera.zeros(3, 2)
    assert access.swap_tensor("0.weight", new) is old and net[0].weight is new is access.get_tensor("0.weight")
    access.set_tensors(["0.weight", "1.running_mean"], [old, new[:, 0]])
    assert net[1].running_mean.equal(new[:, 0]) and access.get_tensors(["0.weight"]) == [old]
    assert access.check_keys(["0.weight", "nosuch"]) == (sorted(set(net.state_dict()) - {"0.weight"}), ["nosuch"])
    with pytest.raises(AttributeError):
        access.swap_tensors_dict({"0.weight": new, "0.nosuch": new})
    assert net[0].weight is old  # all or none
    before, missing = access.swap_tensors_dict({"0.weight": new, "0.extra": new}, allow_missing=True)
    assert before["0.weight"] is old and missing == ["0.extra"] and net[0].extra is new
    assert access.swap_tensors(before, before.values(), allow_missing=True)[0] is new and not hasattr(net[0], "extra")
    access.del_tensor("0.bias")
    assert "0.bias" not in dict(access.named_tensors())
    set_tensor(net[0], "bias", new[:, 0])
    assert swap_tensor(net[0], "bias", new[:, 1]).equal(new[:, 0])
    layer = nn.Identity()
    assert isinstance(access.swap_submodule("1", layer), nn.BatchNorm1d) and access.get_submodule("1") is layer
    for error, call in (
        (KeyError, lambda: swap_tensor(net, "0.weight", new)),
        (KeyError, lambda: swap_submodule(net, "5", layer)),
        (TypeError, lambda: access.set_tensor("0.weight", 3)),
        (TypeError, lambda: access.get_tensor("0.training")),
        (ValueError, lambda: access.set_tensors(["0.weight"], [])),
    ):
        with pytest.raises(error):
            call()


ORTHOGONAL = [(3, 3), (5, 3), (3, 5), (2, 4, 3), (4, 1)]


def is_orthogonal(weight):
    tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.mT
    tessera.testing.assert_close(
        tall.mH @ tall, tessera.eye(tall.shape[-1], dtype=weight.dtype).expand_as(tall.mH @ tall)
    )
    return True


@pytest.mark.parametrize("dtype", [tessera.float64, tessera.complex128])
@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("way", [None, "matrix_exp", "cayley", "householder"])
def test_orthogonal_weights(way, trivial, dtype):
    for shape in ORTHOGONAL:
        m = nn.Module()
        m.weight = nn.Parameter(tessera.randn(shape, dtype=dtype))
        if way == "householder" and dtype.is_complex:
            with pytest.raises(ValueError, match="does not support complex"):
                parametrizations.orthogonal(m, orthogonal_map=way, use_trivialization=trivial)
            continue
        parametrizations.orthogonal(m, orthogonal_map=way, use_trivialization=trivial)
        assert m.weight.shape == shape and is_orthogonal(m.weight.detach())
        m.weight.abs().sum().backward()
        with tessera.no_grad():
            for p in m.parameters():
                assert p.grad is not None and p.grad.isfinite().all()
                p -= 0.1 * p.grad
        assert is_orthogonal(m.weight.detach())
        if trivial:
            target = m.weight.detach() * -1
            m.weight = target
            tessera.testing.assert_close(m.weight.detach(), target)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (4, 2, 3)])
def test_orthogonal_first_values(shape):
    w = nn.init.orthogonal_(tessera.empty(shape, dtype=tessera.float64), gain=2.0).view(shape[0], -1)
    assert is_orthogonal(w / 2)


def test_an_inverse_keeps_the_shape():
    class Short(nn.Module):
        def forward(self, x):
            return x

        def right_inverse(self, x):
            return x[:-1]

    layer = nn.Linear(2, 3)
    parametrize.register_parametrization(layer, "weight", Doubled())
    with pytest.raises(ValueError, match="must have the same shape"):
        parametrize.register_parametrization(layer, "weight", Short())
    assert len(layer.parametrizations.weight) == 1


def test_a_parametrized_tensor_moves_to_a_module_without_it():
    source, target = nn.Linear(2, 2), nn.Linear(2, 2)
    source.extra = nn.Parameter(tessera.ones(3))
    parametrize.register_parametrization(source, "extra", Doubled())
    parametrize.transfer_parametrizations_and_params(source, target, "extra")
    assert target.extra.equal(source.extra)
    assert target.parametrizations.extra.original.equal(source.parametrizations.extra.original)
