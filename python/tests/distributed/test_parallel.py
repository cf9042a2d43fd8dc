"""DTensors: rules of operators, tensor parallel modules, what is sent and how it lies."""

import contextlib
import io
import json

import pytest
import ranks
import tessera
import tessera.distributed as dist
import tessera.nn.functional as F
from tessera.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from tessera.distributed.tensor.debug import CommDebugMode, visualize_sharding
from tessera.distributed.tensor.experimental import _attention, context_parallel
from tessera.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from tessera.distributed.tensor.placement_types import _StridedShard

S0, S1, S2, R, P = Shard(0), Shard(1), Shard(2), Replicate(), Partial()
# Operator, shapes and placements of operands, placement of the result; the length 5 cannot be cut evenly.
RULES = [
    (lambda a, b: a + b, [((5, 4), S0), ((4,), R)], S0),
    (lambda a, b: a * b, [((5, 4), S1), ((5, 1), R)], S1),
    (lambda a, b: a + b, [((5, 4), P), ((5, 4), R)], P),
    (lambda a: a * 2, [((5, 4), P)], P),
    (lambda a: a.exp(), [((5, 4), P)], R),
    (lambda a: a.mean(0), [((6, 4), S0)], Partial("avg")),
    (lambda a: a.mean(0), [((5, 4), S0)], R),
    (lambda a: a.amax(1), [((5, 4), S0)], S0),
    (lambda a: a.amax(0), [((5, 4), S0)], Partial("max")),
    (lambda a: a.sum(0, keepdim=True), [((5, 4), S1)], S1),
    (lambda a: a.softmax(-1), [((5, 4), S0)], S0),
    (lambda a: a.softmax(0), [((5, 4), S0)], R),
    (lambda a: a.cumsum(1), [((5, 4), S0)], S0),
    (lambda a: a.sort(1)[0], [((5, 4), S0)], S0),
    (lambda a: a.reshape(2, 3, 4), [((6, 4), S1)], S2),
    (lambda a: a.reshape(6, 4), [((2, 3, 4), S0)], S0),
    (lambda a: a.reshape(6, 4), [((2, 3, 4), S1)], R),
    (lambda a: a[:, 1], [((5, 4), S0)], S0),
    (lambda a: a.split(2, 1)[1], [((5, 4), S0)], S0),
    (lambda a: a.unbind(1)[0], [((5, 4), S0)], S0),
    (lambda a: a.expand(3, 5, 4), [((5, 4), S0)], S1),
    (lambda a, b: tessera.cat([a, b], 1), [((5, 4), S0), ((5, 2), S0)], S0),
    (lambda a: a.tril(), [((4, 3, 3), S0)], S0),
    (lambda a, b: tessera.bmm(a, b), [((4, 2, 3), S0), ((4, 3, 2), S0)], S0),
    (lambda a, b: a @ b, [((4, 2, 6), R), ((6, 4), S1)], S2),
    (lambda a, b: F.linear(a, b), [((4, 6), S1), ((3, 6), S1)], P),
    (lambda a, b: F.layer_norm(a, (4,), b), [((5, 4), S0), ((4,), R)], S0),
    (lambda a, b: F.mse_loss(a, b), [((6, 4), S0), ((6, 4), S0)], Partial("avg")),
    (lambda a, b: F.conv1d(a, b), [((4, 2, 5), S0), ((3, 2, 2), R)], S0),
    (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), [((1, 4, 3, 2), S1)], S1),
    (lambda a: a.squeeze(1), [((5, 1, 4), S2)], S1),
]


def by_rules(rank, world):
    mesh, random = dist.init_device_mesh("cpu", (world,)), tessera.Generator().manual_seed(3)
    for at, (function, operands, wanted) in enumerate(RULES):
        plain, spread = [], []
        for shape, place in operands:
            x = tessera.randn(*shape, generator=random)
            part = x / world if place.is_partial() else None
            plain.append(x.clone().requires_grad_())
            made = DTensor.from_local(part, mesh, [place]) if part is not None else distribute_tensor(x, mesh, [place])
            spread.append(made.detach().requires_grad_())
        expected, found = function(*plain), function(*spread)
        assert found.placements == (wanted,), (at, found.placements)
        assert tessera.allclose(found.full_tensor(), expected, atol=1e-5), at
        weight = tessera.arange(float(expected.numel())).reshape(expected.shape)
        (expected * weight).sum().backward()
        (found.redistribute(placements=[R]) * distribute_tensor(weight, mesh)).sum().backward()
        for x, d in zip(plain, spread):
            assert d.grad.shape == x.grad.shape and tessera.allclose(d.grad.full_tensor(), x.grad, atol=1e-4), at
    return True


def test_operators_work_on_parts():
    assert all(ranks.run(by_rules))


def at_random_and_in_place(rank, world):
    mesh = dist.init_device_mesh("cpu", (world,))
    tessera.manual_seed(5)
    whole = tessera.empty(5, 3).normal_()
    tessera.manual_seed(5)
    d = distribute_tensor(tessera.zeros(5, 3), mesh, [S0])
    assert tessera.equal(d.normal_().full_tensor(), whole) and d.placements == (S0,)
    assert tessera.equal(d, d.clone()) and not tessera.equal(d, d + 1)
    norm = tessera.linalg.vector_norm(d)
    assert norm.placements[0].is_partial() and tessera.allclose(norm.full_tensor(), whole.norm())
    assert tessera.nn.utils.get_total_norm([d, d]).full_tensor().allclose(tessera.cat([whole, whole]).norm())
    d.copy_(distribute_tensor(whole * 2, mesh, [S1]))
    assert d.placements == (S0,) and tessera.equal(d.full_tensor(), whole * 2)
    pairs = dist.init_device_mesh("cpu", (world // 2, 2))
    strided = distribute_tensor(numbers(7, 2), pairs, [_StridedShard(0, 2), S0])
    assert tessera.equal(strided.full_tensor(), numbers(7, 2))
    (chunk,) = strided.__create_chunk_list__()
    assert tessera.equal(strided.to_local(), numbers(7, 2)[chunk.offsets[0] : chunk.offsets[0] + chunk.sizes[0]])
    twice = tessera.nn.Parameter(strided) * 2
    assert twice.placements == strided.placements and tessera.equal(twice.full_tensor(), numbers(7, 2) * 2)
    assert tessera.equal((strided.t() @ strided).full_tensor(), numbers(7, 2).t() @ numbers(7, 2))
    assert tuple(strided.redistribute(placements=[S1, R]).to_local().shape) == (7, 1)
    return True


def numbers(*shape):
    return tessera.arange(float(tessera.Size(shape).numel())).reshape(shape)


def test_random_numbers_norms_and_strided_shards():
    assert all(ranks.run(at_random_and_in_place, world=4))


class Block(tessera.nn.Module):
    """A transformer's block without residuals."""

    def __init__(self):
        super().__init__()
        self.table = tessera.nn.Embedding(10, 8)
        self.norm = tessera.nn.LayerNorm(8)
        self.up, self.down = tessera.nn.Linear(8, 12), tessera.nn.Linear(12, 8)
        self.head = tessera.nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.down(F.gelu(self.up(self.norm(self.table(x))))))


def in_parallel(rank, world):
    mesh = dist.init_device_mesh("cpu", (world,))
    tessera.manual_seed(0)
    plain, model = Block(), Block()
    model.load_state_dict(plain.state_dict())
    plan = {
        "table": RowwiseParallel(input_layouts=R, output_layouts=S1),
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=S1),
        "down": RowwiseParallel(),
        "head": ColwiseParallel(use_local_output=False),
    }
    with pytest.warns(UserWarning, match="no submodule"):
        parallelize_module(model, mesh, {**plan, "nothing": ColwiseParallel()})
    x, target = tessera.randint(0, 10, (2, 4)), tessera.randint(0, 10, (2, 4))
    with CommDebugMode() as mode, loss_parallel():
        out = model(x)
        assert out.placements == (S2,)
        loss = F.cross_entropy(out.reshape(8, 10), target.reshape(8), ignore_index=3)
        loss.backward()
    expected = F.cross_entropy(plain(x).reshape(8, 10), target.reshape(8), ignore_index=3)
    expected.backward()
    assert tessera.allclose(loss.full_tensor(), expected, atol=1e-6)
    for (name, p), q in zip(model.named_parameters(), plain.parameters()):
        assert tessera.allclose(p.grad.full_tensor(), q.grad, atol=1e-5), name
    table = mode.generate_comm_debug_tracing_table(1)
    assert "Block.down" in table and "BACKWARD PASS" in table and "aten.addmm.default" in table
    assert mode.get_sharding_info()["Block.table.weight"] == (S0,)
    tree = json.loads(json.dumps(mode._tree("Global", 0)))
    assert [child["fqn"] for child in tree["children"]] == ["Block"] and len(tree["children"][0]["children"]) == 5
    probe = tessera.nn.Identity()
    into = PrepareModuleInput(input_layouts=S0, desired_input_layouts=R, use_local_output=True)
    parallelize_module(probe, mesh, into)
    parallelize_module(probe, mesh, PrepareModuleOutput(output_layouts=R, desired_output_layouts=S0))
    assert probe(tessera.full((1, 2), float(rank))).tolist() == [[float(rank)] * 2]
    with pytest.raises(NotImplementedError, match="Conv2d"):
        parallelize_module(tessera.nn.Conv2d(1, 1, 1), mesh, ColwiseParallel())
    return True


def test_a_model_in_parallel_trains_as_a_plain_one():
    assert all(ranks.run(in_parallel))


def along_sequences(rank, world):
    mesh = dist.init_device_mesh("cpu", (world,))
    tessera.manual_seed(1)
    q, k, v = (tessera.randn(2, 4, 8, 3) for _ in range(3))
    grads = {}
    for method, causal in (("allgather", True), ("alltoall", True), ("alltoall", False)):
        _attention.set_rotate_method(method)
        plain = [x.clone().requires_grad_() for x in (q, k, v)]
        expected = F.scaled_dot_product_attention(*plain, is_causal=causal)
        expected.square().sum().backward()
        parts = [x.clone() for x in (q, k, v)]
        with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3):
            parts = [x.clone().requires_grad_() for x in parts]
            out = F.scaled_dot_product_attention(*parts, is_causal=causal)
            out.square().sum().backward()
        made = _attention.context_parallel_unshard(mesh, [out.detach(), *(x.grad for x in parts)], [2] * 4)
        for x, y in zip(made, [expected, *(x.grad for x in plain)]):
            assert tessera.allclose(x, y, atol=1e-5), method
        grads[method] = made
    _attention.set_rotate_method("allgather")
    with pytest.raises(ValueError, match="cannot be cut"):
        with context_parallel(mesh, buffers=[tessera.ones(6)], buffer_seq_dims=[0]):
            pass
    with pytest.raises(NotImplementedError):
        _attention.set_rotate_method("pigeon")
    with contextlib.redirect_stdout(io.StringIO()) as text:
        try:
            visualize_sharding(distribute_tensor(tessera.ones(4, 2), mesh, [S0]), header="rows")
        except ValueError as error:  # neither package is here
            assert rank == 0 and "tabulate" in str(error)
        else:
            assert ("rows" in text.getvalue() and "cpu:1" in text.getvalue()) == (rank == 0)
    return True


def test_attention_of_sequences_in_parts():
    assert all(ranks.run(along_sequences))
