"""Losses and advantages of reinforcement learning over dictionaries of tensors."""

from recipe import run, torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.modules.distributions import NormalParamExtractor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

PACKAGES = {"torchrl": "0.14.1", "tensordict": "0.14.3"}


def it():
    actor = ProbabilisticActor(
        TensorDictModule(
            torch.nn.Sequential(MLP(in_features=4, out_features=4, num_cells=[16]), NormalParamExtractor()),
            in_keys=["observation"], out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True,
    )  # fmt: skip
    critic = ValueOperator(MLP(in_features=4, out_features=1, num_cells=[16]), in_keys=["observation"])
    loss, advantage = ClipPPOLoss(actor, critic), GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    optimizer = torch.optim.Adam(loss.parameters(), 1e-2)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(64), batch_size=16)
    for _ in range(8):
        data = TensorDict({"observation": torch.randn(8, 4, 4)}, [8, 4])
        with torch.no_grad():
            data = actor(data)
        done = torch.zeros(8, 4, 1, dtype=torch.bool)
        data["next"] = TensorDict(
            {"observation": torch.randn(8, 4, 4), "reward": torch.randn(8, 4, 1), "done": done, "terminated": done},
            [8, 4],
        )
        advantage(data)
        buffer.extend(data.reshape(-1))
        losses = loss(buffer.sample())
        total = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        yield float(total.detach())


run(it())
