"""Proximal policy optimization learns CartPole."""

from recipe import run, torch
from stable_baselines3 import A2C, PPO

PACKAGES = {"stable-baselines3": "2.9.2", "gymnasium": "1.4.0"}


def it():
    for algorithm, steps in ((PPO, 512), (A2C, 400)):
        model = algorithm(
            "MlpPolicy", "CartPole-v1", seed=0, device="cpu", **({"n_steps": 128} if algorithm is PPO else {})
        )
        model.learn(steps)
        yield float(sum(p.detach().square().sum() for p in model.policy.parameters()))
        yield float(model.logger.name_to_value["train/value_loss"])
        yield float(torch.as_tensor(model.ep_info_buffer[-1]["r"]))
        observation = model.env.reset()
        yield str([int(model.predict(observation, deterministic=True)[0][0]) for _ in range(5)])


run(it())
