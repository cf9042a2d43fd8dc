"""Deep Q-learning on CartPole; soft actor-critic, TD3 and DDPG on Pendulum."""

from recipe import run
from stable_baselines3 import DDPG, DQN, SAC, TD3

PACKAGES = {"stable-baselines3": "2.9.2", "gymnasium": "1.4.0"}


def it():
    model = DQN("MlpPolicy", "CartPole-v1", seed=0, device="cpu", learning_starts=50)
    model.learn(300)
    yield float(sum(p.detach().square().sum() for p in model.policy.parameters()))
    yield float(model.logger.name_to_value["train/loss"])
    for algorithm in (SAC, TD3, DDPG):
        model = algorithm("MlpPolicy", "Pendulum-v1", seed=0, device="cpu", learning_starts=100, batch_size=32)
        model.learn(160)
        yield float(sum(p.detach().square().sum() for p in model.policy.parameters()))
        yield float(model.logger.name_to_value["train/critic_loss"])
        yield float(model.predict(model.env.reset(), deterministic=True)[0][0, 0])


run(it())
