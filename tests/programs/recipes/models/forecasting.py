"""A temporal fusion transformer and N-BEATS forecast series."""

from recipe import run
import logging
import numpy as np
import pandas as pd
from lightning.pytorch import Trainer, seed_everything
from pytorch_forecasting import NBeats, TemporalFusionTransformer, TimeSeriesDataSet

PACKAGES = {"pytorch-forecasting": "1.8.0", "lightning": "2.6.6"}


def it():
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    seed_everything(0, verbose=False)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"time": np.tile(np.arange(40), 4), "group": np.repeat(list("abcd"), 40)})
    frame["value"] = np.sin(frame["time"] / 4) + rng.normal(0, 0.1, 160) + 3
    common = dict(time_idx="time", target="value", group_ids=["group"], max_encoder_length=12, max_prediction_length=4)
    for kind, more, options in (
        (TemporalFusionTransformer, {}, dict(hidden_size=8, attention_head_size=2, hidden_continuous_size=4)),
        (NBeats, dict(min_encoder_length=12, min_prediction_length=4), dict(widths=[8, 16])),
    ):
        data = TimeSeriesDataSet(frame, time_varying_unknown_reals=["value"], **more, **common)
        model = kind.from_dataset(data, learning_rate=1e-2, **options)
        loader = data.to_dataloader(train=True, batch_size=16, num_workers=0)
        trainer = Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
        )
        trainer.fit(model, loader)
        yield float(trainer.callback_metrics["train_loss_epoch"])
        yield float(sum(p.detach().square().sum() for p in model.parameters()))


run(it())
