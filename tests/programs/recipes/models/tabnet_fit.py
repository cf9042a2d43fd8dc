"""Classification and regression of tables, and pretraining."""

from recipe import run
import numpy as np
from pytorch_tabnet.pretraining import TabNetPretrainer
from pytorch_tabnet.tab_model import TabNetClassifier, TabNetRegressor

PACKAGES = {"pytorch-tabnet": "4.1.0"}


def it():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 6)).astype("float32")
    common = dict(n_d=4, n_a=4, n_steps=2, verbose=0, seed=0, device_name="cpu")
    fit = dict(max_epochs=5, batch_size=64, virtual_batch_size=32, drop_last=False)
    for model, y in (
        (TabNetClassifier(**common), (x[:, 0] > 0).astype("int64")),
        (TabNetRegressor(**common), x[:, :1]),
    ):
        model.fit(x, y, eval_set=[(x, y)], **fit)
        yield from map(float, model.history["loss"])
        yield from map(float, model.feature_importances_)
    model = TabNetPretrainer(**common)
    model.fit(x, pretraining_ratio=0.5, **fit)
    yield from map(float, model.history["loss"])


run(it())
