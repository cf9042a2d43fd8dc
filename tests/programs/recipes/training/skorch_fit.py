"""A classifier and a regressor of scikit-learn's kind, with callbacks and a grid search."""

from recipe import run, torch
import numpy as np
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping, LRScheduler

PACKAGES = {"skorch": "1.4.0"}


class Net(torch.nn.Module):
    def __init__(self, hidden=10, out=2, softmax=True):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(5, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, out))
        self.softmax = softmax

    def forward(self, x):
        x = self.layers(x)
        return x.softmax(-1) if self.softmax else x


def it():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5)).astype("float32")
    net = NeuralNetClassifier(
        Net, max_epochs=20, lr=0.1, verbose=0, iterator_train__shuffle=True,
        callbacks=[LRScheduler(policy="StepLR", step_size=5), EarlyStopping(patience=20)],
    )  # fmt: skip
    net.fit(x, (x.sum(1) > 0).astype("int64"))
    for key in ("train_loss", "valid_loss", "valid_acc"):
        yield from map(float, net.history[:, key])
    y = x[:, :1] * 2
    net = NeuralNetRegressor(Net, module__out=1, module__softmax=False, optimizer=torch.optim.Adam, lr=0.01, verbose=0)
    net.fit(x, y)
    yield from map(float, net.history[:, "train_loss"])
    net = NeuralNetClassifier(Net, max_epochs=3, verbose=0, train_split=None)
    search = GridSearchCV(net, {"lr": [0.01, 0.1], "module__hidden": [5, 10]}, cv=2, scoring="accuracy", refit=False)
    search.fit(x, (x[:, 0] > 0).astype("int64"))
    yield from map(float, search.cv_results_["mean_test_score"])


run(it())
