"""Tensors of many processes: what they are made of, and that they compute as one."""

import copy
import io
import subprocess
import sys
import tempfile

import pytest
import ranks
import tessera
import tessera.distributed as dist
from tessera.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from tessera.distributed.tensor._utils import compute_local_shape_and_global_offset


def numbers(*shape):
    return tessera.arange(float(tessera.Size(shape).numel())).reshape(shape)


def test_placements_are_values():
    assert Shard(0) == Shard(0) != Shard(1) and Partial() == Partial("sum") != Partial("avg")
    assert str(Shard(1)) == "S(1)" and repr(Replicate()) == "Replicate()" and len({Shard(0), Shard(0)}) == 1
    with pytest.raises(AttributeError):
        Shard(0).dim = 1
    with pytest.raises(TypeError):
        Shard("a")
    assert [Shard.local_shard_size_and_offset(5, 4, r) for r in range(4)] == [(2, 0), (2, 2), (1, 4), (0, 5)]


def spread(rank, world):
    mesh = dist.init_device_mesh("cpu", (world,))
    whole = numbers(5, 4)
    d = distribute_tensor(whole + 100 * rank, mesh, [Shard(0)])
    assert type(d) is DTensor and d.shape == (5, 4) and tessera.equal(d.to_local(), whole.chunk(world)[rank])
    assert compute_local_shape_and_global_offset((5, 4), mesh, [Shard(0)])[1] == (3 * rank, 0)
    for placement in (Replicate(), Shard(1), Shard(0)):
        assert tessera.equal(d.redistribute(placements=[placement]).full_tensor(), whole)
    p = DTensor.from_local(tessera.full((4,), rank + 1.0), mesh, [Partial()])
    assert p.redistribute(placements=[Shard(0)]).to_local().tolist() == [3.0] * 2
    with pytest.raises(RuntimeError, match="mixed"):
        d + whole
    return d.placements


def test_pieces_of_a_tensor():
    assert ranks.run(spread) == [(Shard(0),)] * 2


def computed(rank, world):
    mesh = dist.init_device_mesh("cpu", (world,))
    a, b = numbers(5, 4), numbers(4, 3) / 7
    pa, pb = a.clone().requires_grad_(), b.clone().requires_grad_()
    (pa @ pb).tanh().sum().backward()
    da = distribute_tensor(a.requires_grad_(), mesh, [Shard(0)])
    db = distribute_tensor(b.requires_grad_(), mesh, [Shard(1)])
    out = (da @ db).tanh().sum()
    out.backward()
    assert tessera.allclose(da.grad.full_tensor(), pa.grad) and tessera.allclose(db.grad.full_tensor(), pb.grad)
    moved = da.detach().t().unsqueeze(0)
    assert moved.placements == (Shard(2),) and tessera.equal(moved.full_tensor(), a.detach().t().unsqueeze(0))
    with tessera.no_grad():
        da.mul_(2).add_(da.detach())
    assert da.placements == (Shard(0),) and tessera.equal(da.detach().full_tensor(), a.detach() * 4)
    return True


def test_results_and_gradients_are_those_of_the_whole():
    assert all(ranks.run(computed))


def trained(rank, world):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    tessera.manual_seed(0)
    plain = tessera.nn.Linear(6, 5)
    spread_out = tessera.nn.Linear(6, 5)
    spread_out.load_state_dict(plain.state_dict())
    place = {"weight": [Shard(0), Shard(0)], "bias": [Replicate(), Shard(0)]}
    for name, parameter in list(spread_out.named_parameters()):
        setattr(spread_out, name, tessera.nn.Parameter(distribute_tensor(parameter.data, mesh, place[name])))
    x = numbers(3, 6) / 18
    for model, data in ((plain, x), (spread_out, distribute_tensor(x, mesh))):
        optimizer = tessera.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
    assert spread_out.weight.placements == (Shard(0), Shard(0))
    return all(
        tessera.allclose(p, q.full_tensor(), atol=1e-6) for p, q in zip(plain.parameters(), spread_out.parameters())
    )


def test_a_model_on_a_mesh_of_two_dimensions_trains_alike():
    assert all(ranks.run(trained, world=4))


def mapped(rank, world):
    from tessera.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
    from tessera.distributed.tensor.experimental import implicit_replication, local_map

    mesh = dist.init_device_mesh("cpu", (world,))
    d = distribute_tensor(numbers(4, 2), mesh, [Shard(0)])
    with implicit_replication():
        assert tessera.equal((d + tessera.ones(4, 2)).full_tensor(), numbers(4, 2) + 1)
    double = local_map(lambda x: x * 2, out_placements=[Shard(0)], in_placements=([Shard(0)],))
    assert tessera.equal(double(d).full_tensor(), numbers(4, 2) * 2)
    with pytest.raises(ValueError, match="has to lie"):
        double(d.redistribute(placements=[Replicate()]))
    model = tessera.nn.Linear(2, 4)
    model.weight = tessera.nn.Parameter(d)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    assert type(whole["weight"]) is tessera.Tensor and tessera.equal(whole["weight"], numbers(4, 2))
    keys = set_model_state_dict(model, {"weight": numbers(4, 2) * 3}, options=StateDictOptions(strict=False))
    assert keys.missing_keys == ["bias"] and tessera.equal(model.weight.full_tensor(), numbers(4, 2) * 3)
    return True


def test_functions_of_parts_and_state_dicts():
    assert all(ranks.run(mapped))


def test_whole_state_dicts_fill_modules_on_the_meta_device():
    from tessera.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    given = tessera.nn.Linear(2, 3).state_dict()
    hollow = tessera.nn.Linear(2, 3, device="meta")
    set_model_state_dict(hollow, given, options=StateDictOptions(full_state_dict=True))
    assert hollow.weight.data_ptr() == given["weight"].data_ptr() and hollow.weight.requires_grad
    filled = tessera.nn.Linear(2, 3)
    weight = filled.weight
    set_model_state_dict(filled, given, options=StateDictOptions(full_state_dict=True))
    assert filled.weight is weight and tessera.equal(weight, given["weight"])


def test_copies_and_data_of_dtensors_are_dtensors():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        x = distribute_tensor(tessera.arange(6.0), mesh, [Shard(0)])
        x.note = "mine"
        other = copy.deepcopy({"a": x, "b": x})
        assert other["a"] is other["b"] and other["a"].placements == (Shard(0),) and other["a"].note == "mine"
        other["a"].zero_()
        assert type(copy.deepcopy(tessera.nn.Parameter(x))) is DTensor
        return x.full_tensor().tolist(), other["a"].full_tensor().tolist()

    assert ranks.run(body) == [([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0.0] * 6)] * 2


def test_what_is_to_be_added_up_is_shared_out():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        parts = [distribute_tensor(tessera.ones(2), mesh, [Partial(op)]).to_local().tolist() for op in ("sum", "avg")]
        with pytest.raises(IndexError, match="1 dimensions"):
            distribute_tensor(tessera.ones(4), mesh, [Shard(1)])
        return parts

    assert ranks.run(body) == [[[0.5, 0.5], [1.0, 1.0]]] * 2


def test_what_cannot_be_spread_is_told_by_what_it_is():
    def body(rank, world):
        mesh, other = dist.init_device_mesh("cpu", (world, 1)), dist.init_device_mesh("cpu", (world,))
        leaf = tessera.ones(4, 4, requires_grad=True)
        made = distribute_tensor(leaf, mesh, [Shard(0), Shard(1)])
        for tensor, where, placements, kind, text in (
            (leaf, mesh, [Shard(0)], ValueError, "same length"),
            (leaf + 2, mesh, [Shard(0)], RuntimeError, "leaf"),
            (made, other, [Shard(0)], ValueError, "to a different device mesh"),
            (made, mesh, [Shard(0), Replicate()], ValueError, "to a different placements"),
        ):
            with pytest.raises(kind, match=text):
                distribute_tensor(tensor, where, placements)

    ranks.run(body)


def test_plain_tensors_of_one_element_are_copies():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        x = distribute_tensor(tessera.arange(4.0), mesh, [Shard(0)])
        with pytest.warns(UserWarning, match="non-scalar tensor with numel=1"):
            out = tessera.tensor([2.0]) * x
        with pytest.raises(RuntimeError, match="mixed"):
            tessera.ones(4) + x
        return (out + tessera.tensor(1)).full_tensor().tolist()

    assert ranks.run(body) == [[1.0, 3.0, 5.0, 7.0]] * 2


def test_who_is_not_of_the_mesh_has_shapes_alone():
    def body(rank, world):
        mesh = dist.DeviceMesh("cpu", [0])
        x = DTensor.from_local(tessera.ones(3, 4), mesh, [Shard(0)])
        parts = x.split([2, 2], dim=1)
        assert x.add_(1) is x and x.equal(x) is True
        total = x.sum()
        return [tuple(p.shape) for p in parts], parts[0].to_local().numel(), total.to_local().item()

    assert ranks.run(body) == [([(3, 2), (3, 2)], 6, 24.0), ([(3, 2), (3, 2)], 0, 0.0)]


def test_parts_are_compared_when_asked_for():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        x = tessera.ones(3, 3)
        for part in (x.double(), x.t().contiguous().t(), x.clone().requires_grad_(), x[:2]):
            DTensor.from_local(part if rank == 0 else x, mesh, [Shard(0)])
            with pytest.raises(ValueError, match="differ"):
                DTensor.from_local(part if rank == 0 else x, mesh, [Shard(0)], run_check=True)
        DTensor.from_local(x, mesh, [Shard(0)], run_check=True)

    ranks.run(body)


def test_gradients_that_nobody_asked_for_take_no_place():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        spread = lambda x, *placement: distribute_tensor(x, mesh, placement)
        image, kernel = tessera.rand(4, 2, 5, 5), tessera.rand(3, 2, 2, 2)
        rows, scale = tessera.rand(4, 6), tessera.rand(6)
        for call, plain in (
            (lambda x, w, b: tessera.nn.functional.layer_norm(x, (6,), w, b), (rows, scale, tessera.rand(6))),
            (tessera.nn.functional.conv2d, (image, kernel, tessera.rand(3))),
        ):
            wanted = [tensor.clone().requires_grad_(i > 0) for i, tensor in enumerate(plain)]
            call(*wanted).square().sum().backward()
            x, w, b = (spread(t.detach(), Shard(0) if i == 0 else Replicate()) for i, t in enumerate(plain))
            call(x, w.requires_grad_(), b.requires_grad_()).square().sum().backward()
            for one, other in zip((w, b), wanted[1:]):
                tessera.testing.assert_close(one.grad.full_tensor(), other.grad)

    ranks.run(body)


def test_gradients_come_back_as_the_tensor_lies():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        x = distribute_tensor(tessera.ones(3, requires_grad=True), mesh, [Replicate()])
        out = x.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
        out.backward(tessera.full((3,), rank + 1.0))
        return x.grad.placements == (Replicate(),) and x.grad.to_local().tolist()

    assert ranks.run(body) == [[3.0] * 3] * 2


def test_files_with_dtensors_load_with_weights_only():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        saved = {"a": distribute_tensor(numbers(4, 2), mesh, [Shard(0)]), "b": DTensor.from_local(numbers(2), mesh)}
        file = io.BytesIO()
        tessera.save(saved, file)
        file.seek(0)
        got = tessera.load(file, weights_only=True)
        assert all(got[name].placements == saved[name].placements for name in saved) and got["a"].device_mesh == mesh
        return got["a"].full_tensor().tolist(), file.getvalue()

    whole, data = ranks.run(body)[0]
    assert whole == numbers(4, 2).tolist()
    code = "import sys, tessera; tessera.load(sys.argv[1])"
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        without = subprocess.run([sys.executable, "-c", code, file.name], capture_output=True, text=True)
    assert without.returncode != 0 and "must be imported to load DTensors" in without.stderr


def test_hooks_of_modules_may_take_two_arguments():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        model = tessera.nn.Linear(3, 2)
        hooks = {
            "input_fn": lambda inputs, mesh: DTensor.from_local(inputs[0], mesh, [Shard(0)]),
            "output_fn": lambda outputs, mesh: outputs.to_local(),
        }
        with pytest.warns(FutureWarning, match="Deprecating"):
            distribute_module(model, mesh, **hooks)
        with pytest.raises(ValueError, match="takes 1 arguments"):
            distribute_module(model, mesh, input_fn=lambda inputs: inputs)
        out = model(tessera.ones(4, 3))
        return type(out) is tessera.Tensor and tuple(out.shape) == (4, 2)

    assert ranks.run(body) == [True, True]


def test_looking_up_goes_on_in_parts():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        whole, rows = numbers(4, 6), tessera.tensor([3, 0, 1, 1])
        spread = lambda x, placement: distribute_tensor(x, mesh, [placement])
        cases = {
            "rows": (lambda x, i: x[i], Shard(1), Replicate(), Shard(1)),
            "cut rows": (lambda x, i: x[i], Replicate(), Shard(0), Shard(0)),
            "between": (lambda x, i: x[None, :, i], Shard(0), Replicate(), Shard(1)),
            "sum": (lambda x, i: x[i], Partial(), Replicate(), Partial()),
            "select": (lambda x, i: x.index_select(1, i), Replicate(), Shard(0), Shard(1)),
            "gather": (lambda x, i: x.gather(0, i.unsqueeze(1).expand(4, 6)), Replicate(), Shard(0), Shard(0)),
        }
        for name, (call, own, other, expected) in cases.items():
            out = call(spread(whole, own), spread(rows, other))
            assert out.placements == (expected,), (name, out.placements)
            assert tessera.equal(out.full_tensor(), call(whole, rows)), name
        made = spread(whole, Partial()).new_ones(4, 6)
        assert made.full_tensor().sum().item() == 24
        both = spread(whole, Shard(1)) * spread(whole, Shard(0))
        assert both.placements == (Shard(1),) and (spread(whole, Shard(0)) + spread(whole, Partial())).placements == (
            Shard(0),
        )

    ranks.run(body)


def test_parts_of_a_sum_have_its_gradient_each():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (world,))
        found = []
        for placements in (None, [Partial()]):
            x = distribute_tensor(numbers(4).requires_grad_(), mesh, [Shard(0)])
            x.sum().to_local(grad_placements=placements).backward()
            found.append(x.grad.full_tensor().tolist())
        x = distribute_tensor(numbers(4).requires_grad_(), mesh, [Shard(0)])
        again = DTensor.from_local(x.sum().to_local(), mesh, [Partial()], run_check=False)
        again.full_tensor().backward()
        return [*found, x.grad.full_tensor().tolist()]

    assert ranks.run(body) == [[[1.0] * 4, [2.0] * 4, [1.0] * 4]] * 2
