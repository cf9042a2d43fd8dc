"""DistributedDataParallel, its hooks, Join, sharded optimizers."""

import copy

import pytest
import tessera
import tessera.distributed as dist
from ranks import run
from tessera import nn
from tessera.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    ddp_zero_hook,
    default_hooks,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from tessera.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from tessera.distributed.optim import ZeroRedundancyOptimizer
from tessera.nn.parallel import DistributedDataParallel
from tessera.nn.parallel.distributed import _MixedPrecision
from tessera.optim import SGD


def network():
    tessera.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 2))


def batch():
    generator = tessera.Generator().manual_seed(5)
    return tessera.randn(12, 6, generator=generator), tessera.randn(12, 2, generator=generator)


def train(model, rank, world, steps=4, optimizer=None):
    optimizer = optimizer or SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = batch()
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[rank::world]), y[rank::world]).backward()
        optimizer.step()
    return tessera.cat([p.detach().flatten() for p in model.parameters()])


WAYS = [
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"find_unused_parameters": True},
    {"bucket_cap_mb": 0.002},
    {"bucket_cap_mb": 0.002, "gradient_as_bucket_view": True},
    {"bucket_cap_mb_list": [0.001, 0.004, 0.002]},
]


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("settings", WAYS, ids=lambda one: "-".join(one) or "plain")
def test_training_equals_one_process_with_the_whole_batch(settings, world):
    def body(rank, world):
        return train(DistributedDataParallel(network(), **settings), rank, world)

    found = run(body, world)
    assert all(tessera.equal(one, found[0]) for one in found)
    assert tessera.allclose(found[0], train(network(), 0, 1), atol=1e-6)


@pytest.mark.parametrize("skip", [False, True])
def test_buckets_of_unused_parameters_are_left_out_where_asked_for(skip):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            return self.used(x)

    def body(rank, world):
        settings = {"find_unused_parameters": True, "bucket_cap_mb_list": [1e-5], "skip_all_reduce_unused_params": skip}
        model = DistributedDataParallel(Half(), **settings)
        asked, reduce = [], model.process_group.allreduce
        model.process_group.allreduce = lambda tensors, opts: asked.append(tensors[0].numel()) or reduce(tensors, opts)
        model(tessera.ones(2, 3) * (rank + 1)).sum().backward()
        del model.process_group.allreduce
        return sorted(asked), model.module.used.weight.grad, model.module.unused.weight.grad

    for asked, used, unused in run(body, 2):
        assert asked.count(8) == (1 if skip else 2)
        assert tessera.equal(used, tessera.full((2, 3), 3.0)) and unused is None


def test_sizes_of_buckets_are_above_zero():
    def body(rank, world):
        for wrong in ([], [1, 0]):
            with pytest.raises(ValueError, match="bucket_cap_mb_list holds sizes above 0"):
                DistributedDataParallel(network(), bucket_cap_mb_list=wrong)

    run(body, 2)


def test_gradients_add_up_without_sync():
    def body(rank, world):
        model = DistributedDataParallel(network(), bucket_cap_mb=0.002)
        x, y = batch()
        for i in range(3):
            part = slice(rank + 2 * i, rank + 2 * i + 1)
            context = model.no_sync() if i < 2 else tessera.enable_grad()
            with context:
                nn.functional.mse_loss(model(x[part]), y[part], reduction="sum").backward()
        return [p.grad.clone() for p in model.parameters()]

    first, second = run(body)
    reference = network()
    x, y = batch()
    (nn.functional.mse_loss(reference(x[:6]), y[:6], reduction="sum") / 2).backward()
    for a, b, p in zip(first, second, reference.parameters()):
        assert tessera.equal(a, b) and tessera.allclose(a, p.grad, atol=1e-6)


@pytest.mark.parametrize("kind", list(DDPCommHookType), ids=lambda kind: kind.name)
def test_every_hook_trains(kind):
    def body(rank, world):
        model = DistributedDataParallel(network())
        if "POWER" in kind.name:
            rank_of = 2 if kind.name.endswith("2") else 1
            state = powerSGD_hook.PowerSGDState(None, rank_of, start_powerSGD_iter=2)
            model.register_comm_hook(state, getattr(powerSGD_hook, kind.value[1]))
        else:
            register_ddp_comm_hook(kind, model)
        x, y = batch()
        before = nn.functional.mse_loss(model.module(x), y).item()
        weights = train(model, rank, world, steps=8)
        return before, nn.functional.mse_loss(model.module(x), y).item(), weights

    (before, after, a), (_, _, b) = run(body)
    if kind.name == "NOOP":  # each went its own way
        assert not tessera.equal(a, b)
        return
    assert after < before
    assert tessera.equal(a, b)


@pytest.mark.parametrize("way", [ddp_zero_hook.hook_with_zero_step, ddp_zero_hook.hook_with_zero_step_interleaved])
def test_an_optimizer_that_steps_in_backward(way):
    def body(rank, world):
        model = DistributedDataParallel(network(), bucket_cap_mb=0.002)
        zero = ZeroRedundancyOptimizer(model.parameters(), SGD, overlap_with_ddp=True, lr=0.1)
        model.register_comm_hook(None, way(default_hooks.allreduce_hook, model, zero))
        return train(model, rank, world, steps=5, optimizer=zero)

    first, second = run(body)
    assert tessera.equal(first, second)
    reference = network()
    # the first two iterations, in which buckets form, do not step
    assert tessera.allclose(
        first, train(reference, 0, 1, steps=3, optimizer=SGD(reference.parameters(), lr=0.1)), atol=1e-6
    )


def test_mixed_precision_keeps_full_precision_weights():
    def body(rank, world):
        settings = _MixedPrecision(param_dtype=tessera.bfloat16, reduce_dtype=tessera.float32)
        model = DistributedDataParallel(network(), mixed_precision=settings)
        x, y = batch()
        out = model(x[rank::2])
        seen = out.dtype
        nn.functional.mse_loss(out.float(), y[rank::2]).backward()
        return seen, {p.dtype for p in model.parameters()}, [p.grad for p in model.parameters()]

    (seen, dtypes, first), (_, _, second) = run(body)
    assert seen == tessera.bfloat16 and dtypes == {tessera.float32}
    reference = network()
    x, y = batch()
    nn.functional.mse_loss(reference(x), y).backward()
    for a, b, p in zip(first, second, reference.parameters()):
        assert tessera.equal(a, b) and tessera.allclose(a, p.grad, atol=3e-2)


def test_replicas_that_differ_are_an_error():
    def body(rank, world):
        with pytest.raises(RuntimeError, match="have to be alike"):
            DistributedDataParallel(nn.Linear(2, 2 + rank))
        return True

    assert run(body) == [True, True]


def test_uneven_inputs_end_with_equal_weights():
    def body(rank, world):
        model = DistributedDataParallel(network(), bucket_cap_mb=0.002)
        optimizer = SGD(model.parameters(), lr=0.05)
        x, y = batch()
        with model.join(divide_by_initial_world_size=False):
            for i in range(2 + 2 * rank):
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x[i : i + 2]), y[i : i + 2]).backward()
                optimizer.step()
        return tessera.cat([p.detach().flatten() for p in model.parameters()])

    found = run(body, 3)
    assert all(tessera.equal(one, found[0]) for one in found)


def test_averages_over_groups_of_groups():
    def body(rank, world):
        averager = HierarchicalModelAverager({1: 2, 2: 4})
        weight = nn.Parameter(tessera.tensor([float(rank)]))
        seen = []
        for _ in range(3):
            weight.grad = tessera.ones(1)
            averager.average_parameters([weight])
            seen.append(weight.item())
            with tessera.no_grad():
                weight.add_(rank)
        return seen

    assert run(body, 4) == [[1.5, 2.0, 4.5]] * 2 + [[1.5, 4.0, 4.5]] * 2


def test_arguments_of_one_device():
    def body(rank, world):
        replica = DistributedDataParallel(tessera.nn.Linear(1, 1))
        x = tessera.ones(1)
        inputs, kwargs = replica.to_kwargs((x, [x, 3]), {"k": x}, None)
        return inputs[0][0] is x, inputs[0][1][1], kwargs[0]["k"].tolist()

    assert run(body) == [(True, 3, [1.0])] * 2


@pytest.mark.parametrize("options", [{}, {"find_unused_parameters": True}, {"static_graph": True}, {"hook": True}])
def test_sparse_gradients_of_replicas_stay_sparse(options):
    def body(rank, world):
        tessera.manual_seed(0)
        table = tessera.nn.Embedding(6, 2, sparse=True)
        model = tessera.nn.Sequential(table, tessera.nn.Flatten(), tessera.nn.Linear(4, 1))
        more = {key: value for key, value in options.items() if key != "hook"}
        replica = tessera.nn.parallel.DistributedDataParallel(copy.deepcopy(model), **more)
        shown = []
        if "hook" in options:

            def hook(state, bucket):
                buffer = bucket.buffer()
                shown.append(buffer.is_sparse)
                dist.all_reduce(buffer)
                done = tessera.futures.Future()
                done.set_result(buffer / world)
                return done

            replica.register_comm_hook(None, hook)
        for _ in range(3):
            model.zero_grad()
            replica.zero_grad()
            rows = tessera.tensor([[0, 1], [1, 3]])
            replica(rows[rank : rank + 1]).sum().backward()
            (model(rows).sum() / world).backward()
            for one, other in zip(replica.parameters(), model.parameters()):
                assert one.grad.is_sparse == other.grad.is_sparse
                tessera.testing.assert_close(one.grad.to_dense(), other.grad.to_dense())
        touched = replica.module[0].weight.grad.coalesce().indices().tolist()
        return touched, sorted(set(shown)) == ([False, True] if "hook" in options else [])

    assert run(body) == [([[0, 1, 3]], True)] * 2
