"""TensorDict's operations, modules over it, a tensorclass, functional calls."""

from recipe import run, torch, train
from tensordict import TensorDict, tensorclass
from tensordict.nn import TensorDictModule as TM, TensorDictSequential as TS


PACKAGES = {"tensordict": "0.14.3"}


def it():
    td = TensorDict({"a": torch.randn(4, 3), "b": {"c": torch.arange(4.0)}}, batch_size=[4])
    yield str(td)
    yield str(td[1:3].shape)
    yield float(torch.stack([td, td], 0)["b", "c"].sum())
    yield str(torch.cat([td, td], 0).shape)
    yield float(td.apply(lambda x: x * 2)["a"].sum())
    yield str(sorted(map(str, td.flatten_keys(".").keys())))
    yield str(td.reshape(2, 2).shape)
    yield str([x.shape for x in td.unbind(0)][:1])
    m = TS(TM(torch.nn.Linear(3, 8), ["a"], ["h"]), TM(torch.nn.Linear(8, 1), ["h"], ["o"]))
    yield from train(
        m, lambda i: TensorDict({"a": torch.randn(4, 3)}, [4]), lambda m, b: m(b)["o"].square().mean(), steps=20
    )

    @tensorclass
    class D:
        x: torch.Tensor
        y: torch.Tensor

    d = D(x=torch.ones(3, 2), y=torch.zeros(3), batch_size=[3])
    yield str(d[0].x.shape)
    p = TensorDict.from_module(m)
    yield float(sum(v.sum() for v in p.values(True, True)))
    with p.apply(lambda x: x * 0).to_module(m):
        yield float(m(TensorDict({"a": torch.ones(1, 3)}, [1]))["o"].sum())
    yield float((td + 1)["a"].sum())


run(it())
