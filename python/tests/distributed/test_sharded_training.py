"""Training with parameters cut over processes: the same numbers as one process, and what state dicts hold."""

import functools

import pytest
import ranks
import tessera
import tessera.distributed as dist
from tessera import nn
from tessera.distributed.fsdp import (
    BackwardPrefetch,
    FSDPModule,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from tessera.distributed.fsdp.wrap import ModuleWrapPolicy, enable_wrap, size_based_auto_wrap_policy, wrap
from tessera.distributed.tensor import DTensor, Shard
from tessera.utils.checkpoint import checkpoint

wrapped = functools.partial(FullyShardedDataParallel, device_id=tessera.device("cpu"))


class Block(nn.Module):
    """Tied weights, an in-place first operation, a parameter without gradient, several outputs."""

    def __init__(self, width):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.up, self.down = nn.Linear(width, 2 * width + 1), nn.Linear(2 * width + 1, width)
        self.scale = nn.Parameter(tessera.full((3,), 0.5))
        self.frozen = nn.Parameter(tessera.ones(width), requires_grad=False)
        self.register_buffer("count", tessera.zeros(1))

    def forward(self, x, skip=None):
        out = self.down(self.up(self.relu(x)).tanh()) * self.frozen * self.scale.sum()
        return {"out": out + (skip if skip is not None else 0), "mean": out.mean()}


class Model(nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.blocks = nn.ModuleList([Block(5) for _ in range(3)])
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight
        self.recompute = recompute
        for block in self.blocks:
            block.relu.inplace = not recompute  # what changes its inputs cannot be computed again

    def forward(self, ids):
        x, extra = self.embed(ids) * 1, 0
        for block in self.blocks:
            call = functools.partial(checkpoint, block, use_reentrant=False) if self.recompute else block
            found = call(x, skip=x * 1)
            x, extra = found["out"], extra + found["mean"]
        return self.head(x), extra


def batch(rank, step):
    return (tessera.arange(6).view(2, 3) + rank * 2 + step) % 7


def loss_of(model, ids):
    out, extra = model(ids)
    return nn.functional.cross_entropy(out.float().view(-1, 7), (ids.view(-1) + 1) % 7) + extra.float() * 0.1


def trained_alone(world, make_optimizer, steps, accumulate=1):
    tessera.manual_seed(1)
    model = Model()
    optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad])
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(accumulate):
            (sum(loss_of(model, batch(r, step + 10 * part)) for r in range(world)) / world).backward()
        optimizer.step()
    return model


def steps_of(model, optimizer, rank, steps, accumulate=1, quiet=None):
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(accumulate):
            with quiet(part < accumulate - 1):
                loss_of(model, batch(rank, step + 10 * part)).backward()
        optimizer.step()


ADAM = functools.partial(tessera.optim.AdamW, lr=0.02)


def check(found, alone, tolerance=1e-6):
    wanted = dict(alone.named_parameters(remove_duplicate=False))
    assert {name for name, _ in alone.named_parameters()} <= set(found) <= set(wanted)
    for name, value in found.items():
        tessera.testing.assert_close(value, wanted[name].detach(), atol=tolerance, rtol=tolerance, msg=name)


def in_place(rank, world):
    alone, accumulated = trained_alone(world, ADAM, 3), trained_alone(world, ADAM, 2, 2)
    shapes = {2: [(2,)], 4: [(4,), (2, 2)]}[world]
    for shape in shapes:
        mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("copies", "parts")[-len(shape) :])
        for reshard in (None, True, False) + ((2,) if shape == (4,) else ()):
            for recompute in (False, True) if reshard is None else (False,):
                model = cut(mesh, reshard, recompute)
                steps_of(model, ADAM([p for p in model.parameters() if p.requires_grad]), rank, 3, quiet=nothing)
                check({name: p.full_tensor() for name, p in model.state_dict().items() if "count" not in name}, alone)
        model = cut(mesh, None, False)

        def quiet(is_quiet, model=model):
            model.set_requires_gradient_sync(not is_quiet)
            return nothing(is_quiet)

        steps_of(model, ADAM([p for p in model.parameters() if p.requires_grad]), rank, 2, 2, quiet)
        check({name: p.full_tensor() for name, p in model.state_dict().items() if "count" not in name}, accumulated)
    return True


def nothing(_):
    return tessera.enable_grad()


def cut(mesh, reshard, recompute, **options):
    tessera.manual_seed(1)
    model = Model(recompute)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard, **options)
    return fully_shard(model, mesh=mesh, reshard_after_forward=reshard, **options)


@pytest.mark.parametrize("world", [2, 4])
def test_fully_shard_trains_as_one_process(world):
    assert all(ranks.run(in_place, world=world))


def flat(rank, world):
    alone, accumulated = trained_alone(world, ADAM, 3), trained_alone(world, ADAM, 2, 2)
    policy = ModuleWrapPolicy({Block})
    cases = [(strategy, True, False) for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD")]
    cases += [("FULL_SHARD", True, True), ("HYBRID_SHARD", True, False), ("_HYBRID_SHARD_ZERO2", True, False)]
    mesh = dist.init_device_mesh("cpu", (1, world), mesh_dim_names=("copies", "parts"))
    for name, original, recompute in cases:
        for steps, accumulate, wanted in ((3, 1, alone), (2, 2, accumulated)):
            tessera.manual_seed(1)
            model = wrapped(
                Model(recompute),
                sharding_strategy=ShardingStrategy[name],
                auto_wrap_policy=policy,
                use_orig_params=original,
                backward_prefetch=BackwardPrefetch.BACKWARD_POST if recompute else BackwardPrefetch.BACKWARD_PRE,
                forward_prefetch=recompute,
                device_mesh=mesh if "HYBRID" in name else None,
            )

            def quiet(is_quiet, model=model):
                return model.no_sync() if is_quiet else nothing(is_quiet)

            optimizer = ADAM([p for p in model.parameters() if p.requires_grad])
            steps_of(model, optimizer, rank, steps, accumulate, quiet)
            with FullyShardedDataParallel.summon_full_params(model):
                check({key: p.detach().clone() for key, p in model.named_parameters()}, wanted)
            state = model.state_dict()
            assert list(state) == list(wanted.state_dict())
    return True


def test_the_wrapper_trains_as_one_process():
    assert all(ranks.run(flat))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 5), nn.Linear(5, 2)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        return self.b(self.norm(self.a(x)))


FULL = (StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig(offload_to_cpu=False))


def stored(rank, world):
    mesh = dist.init_device_mesh("cpu", (world,))
    x = tessera.arange(12.0).view(4, 3) / 12 + rank
    layers = ModuleWrapPolicy({nn.Linear})
    make = lambda **kw: wrapped(Plain(), auto_wrap_policy=layers, device_mesh=mesh, **kw)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    for original in (False, True):
        for kind in (FULL, (StateDictType.SHARDED_STATE_DICT,)):
            model, other = make(use_orig_params=original), make(use_orig_params=not original)
            optimizer, optimizer2 = (tessera.optim.Adam(m.parameters(), lr=0.1) for m in (model, other))
            step(model, optimizer)
            with (
                FullyShardedDataParallel.state_dict_type(model, *kind),
                FullyShardedDataParallel.state_dict_type(other, *kind),
            ):
                state = model.state_dict()
                sharded = kind is not FULL
                assert [isinstance(v, DTensor) for k, v in state.items() if k.startswith("a.")] == [sharded] * 2
                missing, unexpected = other.load_state_dict(state)
                assert not missing and not unexpected
                osd = FullyShardedDataParallel.optim_state_dict(model, optimizer)
                assert sorted(osd["state"]) == sorted(name for name, _ in Plain().named_parameters())
                FullyShardedDataParallel.optim_state_dict_to_load(other, optimizer2, osd, load_directly=True)
            for one, opt in ((model, optimizer), (other, optimizer2)):
                step(one, opt)
            with FullyShardedDataParallel.summon_full_params(model):
                wanted = {k: v.detach().clone() for k, v in model.named_parameters()}
            with FullyShardedDataParallel.summon_full_params(other):
                for name, value in other.named_parameters():
                    tessera.testing.assert_close(value.detach(), wanted[name])
    with pytest.raises(RuntimeError, match="norm.weight"):
        other.load_state_dict({k: v for k, v in other.state_dict().items() if k != "norm.weight"})
    local = wrapped(Plain())
    with FullyShardedDataParallel.state_dict_type(local, StateDictType.LOCAL_STATE_DICT):
        state = {name: value.clone() for name, value in local.state_dict().items()}
        before = local.module._flat_param.detach().clone()
        local.module._flat_param.data.zero_()
        local.load_state_dict(state)
    assert "_flat_param" in state and before.abs().sum() > 0
    return tessera.equal(before, local.module._flat_param)


def test_state_dicts_go_between_forms():
    assert all(ranks.run(stored))


def precise(rank, world):
    mesh = dist.init_device_mesh("cpu", (world,))
    low = MixedPrecisionPolicy(param_dtype=tessera.bfloat16, reduce_dtype=tessera.float32)
    model = cut(mesh, None, False, mp_policy=low)
    seen = []
    model.blocks[0].up.register_forward_hook(lambda module, args, out: seen.append((module.weight.dtype, out.dtype)))
    loss_of(model, batch(rank, 0)).backward()
    assert seen == [(tessera.bfloat16, tessera.bfloat16)]
    assert {p.grad.dtype for p in model.parameters() if p.requires_grad} == {tessera.float32}
    mixed = MixedPrecision(param_dtype=tessera.bfloat16, reduce_dtype=tessera.float32, buffer_dtype=tessera.float16)
    flat_model = wrapped(Plain(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), mixed_precision=mixed)
    assert isinstance(flat_model.module.norm, FullyShardedDataParallel)
    out = flat_model(tessera.ones(4, 3) + rank)
    out.sum().backward()
    assert out.dtype == tessera.bfloat16 and {p.grad.dtype for p in flat_model.parameters()} == {tessera.float32}
    assert flat_model.state_dict()["norm.running_mean"].dtype == tessera.float32
    return True


def test_precision_of_parameters_reductions_and_buffers():
    assert all(ranks.run(precise))


def made(rank, world):
    """What is made of modules, and what is refused."""
    mesh = dist.init_device_mesh("cpu", (world,))
    sequence = fully_shard(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), mesh=mesh)
    assert isinstance(sequence, FSDPModule) and type(sequence[:1]) is nn.Sequential
    with pytest.raises(AssertionError, match="deepcopy"):
        __import__("copy").deepcopy(sequence)
    with pytest.raises(ValueError, match="scalar"):
        scalar = nn.Module()
        scalar.p = nn.Parameter(tessera.tensor(1.0))
        fully_shard(scalar, mesh=mesh)
    with tessera.device("meta"):
        meta = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 4))
    fully_shard(meta, mesh=mesh)
    with pytest.raises(RuntimeError, match="meta device"):
        meta(tessera.ones(1, 4))
    meta.to_empty(device="cpu")
    for layer in meta:
        layer.reset_parameters()
    meta(tessera.ones(1, 4)).sum().backward()
    assert meta[0].weight.placements == (Shard(0),) and meta[0].weight.grad.shape == (3, 4)
    meta.double()
    assert meta[0].weight.dtype == tessera.float64 and isinstance(meta[0].weight, DTensor)
    gathered = []

    class Gather:
        def allocate(self, size, *, dtype, device):
            return tessera.empty(*size, dtype=dtype, device=device)

        def __call__(self, output, input, group, async_op=False):
            gathered.append(input.numel())
            return dist.all_gather_into_tensor(output, input, group=group, async_op=async_op)

    custom = fully_shard(nn.Linear(4, 4), mesh=mesh)
    custom.set_custom_all_gather(Gather())
    custom(tessera.ones(1, 4))
    assert gathered == [20 // world]
    with enable_wrap(wrapper_cls=FullyShardedDataParallel, device_id=tessera.device("cpu")):
        one = wrap(nn.Linear(2, 2), use_orig_params=True)
    assert isinstance(one, FullyShardedDataParallel) and type(wrap(nn.Linear(2, 2))) is nn.Linear
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=20)
    nested = wrapped(nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Linear(2, 2)), auto_wrap_policy=policy)
    assert len(FullyShardedDataParallel.fsdp_modules(nested)) == 2
    with pytest.raises(ValueError, match="auto_wrap_policy"):
        wrapped(nested, auto_wrap_policy=policy)
    nested.check_is_root()
    for call in (nested.module[0][0].no_sync().__enter__, lambda: nested.module[0][0].clip_grad_norm_(1.0)):
        with pytest.raises(RuntimeError, match="outermost"):
            call()
    one.to(tessera.float64)
    one(tessera.ones(1, 2, dtype=tessera.float64)).sum().backward()
    assert {p.dtype for p in one.parameters()} == {tessera.float64}
    return True


def test_what_is_made_and_what_is_refused():
    assert all(ranks.run(made))
