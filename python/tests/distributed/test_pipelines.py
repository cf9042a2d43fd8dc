"""Pipelines of every schedule give the gradients of the whole model."""

import pytest
import tessera
import tessera.distributed as dist
from ranks import run
from tessera import nn
from tessera.distributed.pipelining import PipelineStage, SplitPoint, pipe_split, pipeline
from tessera.distributed.pipelining.microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks
from tessera.distributed.pipelining.schedules import get_schedule_class


def layers(count):
    tessera.manual_seed(7)
    return [nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(count)]


def batch():
    generator = tessera.Generator().manual_seed(2)
    return tessera.randn(12, 5, generator=generator), tessera.randn(12, 5, generator=generator)


def gradients(modules):
    return [param.grad.clone() for module in modules for param in module.parameters()]


def loss_of(outputs, target):
    return nn.functional.mse_loss(outputs, target)


SCHEDULES = [
    ("GPipe", 1),
    ("1F1B", 1),
    ("LoopedBFS", 2),
    ("Interleaved1F1B", 2),
    ("InterleavedZeroBubble", 2),
    ("ZBVZeroBubble", 2),
    ("DualPipeV", 2),
]


@pytest.mark.parametrize("name, each", SCHEDULES, ids=[name for name, _ in SCHEDULES])
@pytest.mark.parametrize("parts", [1, 4, 6])
def test_gradients_are_those_of_the_whole_model(name, each, parts):
    parts = max(parts, 2) if name == "1F1B" else parts  # which needs one for each stage

    def body(rank, world):
        count = each * world
        own = [rank, 2 * world - 1 - rank] if name in ("ZBVZeroBubble", "DualPipeV") else range(rank, count, world)
        modules = layers(count)
        stages = [PipelineStage(modules[i], i, count, tessera.device("cpu")) for i in own]
        schedule = get_schedule_class(name)(stages if each > 1 else stages[0], parts, loss_of)
        x, y = batch()
        losses, out = [], None
        for _ in range(2):
            for module in modules:
                module.zero_grad()
            first, last = 0 in own, count - 1 in own
            out = schedule.step(*([x] if first else []), **({"target": y, "losses": losses} if last else {}))
        held = schedule.eval(*([x] if 0 in own else []))
        return {i: gradients([modules[i]]) for i in own}, out, [one.item() for one in losses], held

    found = run(body)
    whole = layers(2 * each)
    x, y = batch()
    out = nn.Sequential(*whole)(x)
    loss_of(out, y).backward()
    got = {index: values for one in found for index, values in one[0].items()}
    for index, module in enumerate(whole):
        for a, b in zip(got[index], gradients([module])):
            assert tessera.allclose(a, b, atol=1e-6)
    outputs = [one for one in found if one[1] is not None]
    assert len(outputs) == 1 and tessera.allclose(outputs[0][1], out, atol=1e-6) and len(outputs[0][2]) == parts
    assert tessera.allclose(outputs[0][3], out, atol=1e-6)


def test_parts_of_batches():
    args, kwargs = split_args_kwargs_into_chunks(
        (tessera.arange(6).view(2, 3), 5), {"y": tessera.arange(3)}, 3, (TensorChunkSpec(1), None)
    )
    assert [one[0].flatten().tolist() for one in args] == [[0, 3], [1, 4], [2, 5]] and [one[1] for one in args] == [
        5
    ] * 3
    assert [one["y"].tolist() for one in kwargs] == [[0], [1], [2]]
    assert merge_chunks([one[0] for one in args], TensorChunkSpec(1)).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(RuntimeError, match="cannot be cut in 4"):
        split_args_kwargs_into_chunks((tessera.ones(3),), None, 4)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="no schedule 'Fast'"):
        get_schedule_class("Fast")
    assert not dist.is_initialized()


class Whole(nn.Module):
    """Three layers; what the first one gets and gives goes past the second."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = layers(3)
        self.scale = nn.Parameter(tessera.full((5,), 2.0))

    def forward(self, x, factor=2.0):
        first = self.a(x) * self.scale
        return self.c(self.b(first)) * factor + first + x * self.scale


def test_a_model_that_is_cut_trains_as_the_whole_one():
    x, y = batch()
    cuts = {"b": SplitPoint.BEGINNING, "c": SplitPoint.BEGINNING}
    plain = Whole()
    loss_of(plain(x), y).backward()

    def body(rank, world):
        model = Whole()
        pipe = pipeline(model, (x[:3],), split_spec=cuts)
        assert pipe.num_stages == pipe.info().num_stages == 3 and tessera.equal(pipe(x)[0], model(x))
        stage = pipe.build_stage(rank, tessera.device("cpu"))
        schedule = get_schedule_class("GPipe")(stage, 4, loss_of)
        schedule.step(*([x] if rank == 0 else []), **({"target": y} if rank == world - 1 else {}))
        return {name: p.grad.clone() for name, p in stage.submod.named_parameters()}

    found = run(body, world=3)
    assert [sorted(one) for one in found] == [
        ["a.0.bias", "a.0.weight", "scale"],
        ["b.0.bias", "b.0.weight"],
        ["c.0.bias", "c.0.weight", "scale"],
    ]
    for name, p in plain.named_parameters():
        total = sum(one[name] for one in found if name in one)
        assert tessera.allclose(total, p.grad, atol=1e-5), name


def test_cuts_in_forward_and_by_policy():
    class Marked(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = layers(2)

        def forward(self, x):
            x = self.a(x)
            pipe_split()
            return self.b(x)

    model, (x, _) = Marked(), batch()
    pipe = pipeline(model, (x,))
    assert pipe.num_stages == 2 and tessera.equal(pipe(x)[0], model(x))
    assert pipeline(model, (x,), split_spec={"b.0": SplitPoint.END}).num_stages == 3
    with pytest.raises(AttributeError):
        pipeline(model, (x,), split_spec={"z": SplitPoint.END})
    with pytest.raises(ValueError, match="only one"):
        pipeline(model, (x,), split_spec={}, split_policy=lambda traced: traced)
    with pytest.raises(ValueError, match="stages 0 to 1"):
        pipe.get_stage_module(2)


def test_one_part_is_too_few_for_one_forward_one_backward():
    def body(rank, world):
        stage = PipelineStage(layers(world)[rank], rank, world, tessera.device("cpu"))
        with pytest.raises(ValueError, match="fewer than 2 stages"):
            get_schedule_class("1F1B")(stage, 1, loss_of)

    run(body)


def test_parts_of_other_sizes_are_refused_before_they_are_sent():
    def body(rank, world):
        stage = PipelineStage(layers(2)[rank], rank, 2, tessera.device("cpu"))
        schedule = get_schedule_class("GPipe")(stage, 5, loss_of)  # parts of 3 and of 2
        x, y = batch()
        if rank == 0:
            with pytest.raises(RuntimeError, match="parts of a batch have equal sizes") as caught:
                schedule.step(x)
            assert type(caught.value).__name__ == "PipeliningShapeError"
        return True

    assert run(body) == [True, True]


def test_arguments_go_to_all_parts_where_told_so():
    from tessera.distributed.pipelining.microbatch import _Replicate

    _, kwargs = split_args_kwargs_into_chunks((), {"scale": tessera.ones(1, 4)}, 3, None, {"scale": _Replicate()})
    assert [tuple(one["scale"].shape) for one in kwargs] == [(1, 4)] * 3


class Shifted(nn.Module):
    """A model with a tensor as default of an argument."""

    def __init__(self):
        super().__init__()
        self.first, self.second = layers(2)

    def forward(self, x, y=tessera.zeros(3, 5)):
        x = self.first(x + y)
        pipe_split()
        return self.second(x - y)


def test_arguments_that_are_given_have_no_default():
    model, (x, y) = Shifted(), batch()
    pipe = pipeline(model, (x[:3],), {"y": y[:3]})
    assert tessera.equal(pipe(x, y)[0], model(x, y))
