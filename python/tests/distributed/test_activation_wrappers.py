"""Modules that compute again, or keep on the host, what they save for backward."""

import copy
import functools

import pytest
import tessera
from ranks import run
from tessera import nn
from tessera.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    OffloadWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)
from tessera.distributed.checkpoint.state_dict import get_model_state_dict
from tessera.distributed.fsdp.wrap import ModuleWrapPolicy
from tessera.nn.parallel import DistributedDataParallel


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls, self.kind = nn.Linear(3, 3), 0, "counted"

    def forward(self, x, *, factor=1.0):
        self.calls += 1
        return self.layer(x).sin() * factor


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("wrap", [functools.partial(checkpoint_wrapper, checkpoint_impl=i) for i in CheckpointImpl])
def test_checkpointed_layers_run_twice_and_give_the_same_gradients(wrap):
    plain = Counted()
    wrapped = wrap(copy.deepcopy(plain))
    x, y = (tessera.arange(6.0).view(2, 3).requires_grad_() for _ in range(2))
    plain(x, factor=2.0).sum().backward()
    wrapped(y, factor=2.0).sum().backward()
    assert plain.calls == 1 and wrapped.calls == 2
    assert all(map(tessera.equal, gradients(plain), gradients(wrapped))) and tessera.equal(x.grad, y.grad)


def test_offloaded_layers_run_once():
    plain = Counted()
    wrapped = offload_wrapper(copy.deepcopy(plain))
    assert isinstance(wrapped, OffloadWrapper)
    x = tessera.ones(2, 3)
    plain(x).sum().backward()
    wrapped(x).sum().backward()
    assert wrapped.calls == 1 and all(map(tessera.equal, gradients(plain), gradients(wrapped)))


def test_names_are_those_of_the_inner_module():
    plain = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    wrapped = checkpoint_wrapper(copy.deepcopy(plain))
    model = nn.Sequential(wrapped)
    assert list(wrapped.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in wrapped.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert list(model.state_dict()) == ["0." + name for name in plain.state_dict()]
    assert list(get_model_state_dict(model)) == list(model.state_dict())
    nn.init.ones_(plain[0].weight)
    wrapped.load_state_dict(plain.state_dict())
    assert wrapped[0].weight.sum() == 4 and len(list(model.parameters())) == 4
    with pytest.raises(RuntimeError, match="Missing key"):
        wrapped.load_state_dict({})


def test_attributes_and_another_function():
    seen = []

    def record(module, *args, **kwargs):
        seen.append((len(args), kwargs))
        return module(*args)

    wrapped = checkpoint_wrapper(Counted(), checkpoint_fn=record, note=3)
    wrapped(tessera.ones(1, 3))
    assert seen == [(1, {"note": 3})] and wrapped.kind == "counted" and wrapped.calls == 1
    with pytest.raises(AttributeError, match="nothing"):
        wrapped.nothing  # noqa: B018
    with pytest.raises(TypeError, match="CheckpointImpl"):
        checkpoint_wrapper(Counted(), checkpoint_impl="reentrant")


def test_what_is_wrapped():
    def model():
        return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 2)))

    def kinds(module):
        return [type(module[0]), type(module[1]), type(module[2]), type(module[2][0])]

    some, every, by_policy = model(), model(), model()
    apply_activation_checkpointing(some, check_fn=lambda module: isinstance(module, nn.Linear))
    assert kinds(some) == [CheckpointWrapper, nn.ReLU, nn.Sequential, CheckpointWrapper]
    apply_activation_checkpointing(every)
    assert kinds(every) == [CheckpointWrapper] * 4
    policy = ModuleWrapPolicy({nn.Linear})
    apply_activation_checkpointing(by_policy, offload_wrapper, auto_wrap_policy=policy)
    assert kinds(by_policy) == [OffloadWrapper, nn.ReLU, nn.Sequential, OffloadWrapper]
    assert list(some.state_dict()) == list(every.state_dict()) == list(model().state_dict())


def test_replicas_of_checkpointed_layers():
    def body(rank, world):
        tessera.manual_seed(0)
        plain = nn.Sequential(Counted(), nn.Linear(3, 1))
        whole, part = copy.deepcopy(plain), plain
        apply_activation_checkpointing(part, check_fn=lambda module: isinstance(module, Counted))
        data = tessera.arange(12.0).view(4, 3)
        whole(data).mean().backward()
        DistributedDataParallel(part)(data.chunk(world)[rank]).mean().backward()
        return all(map(tessera.allclose, gradients(whole), gradients(part)))

    assert run(body) == [True, True]
