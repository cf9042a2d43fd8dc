"""An engine with events and metrics trains a classifier."""

from recipe import run, torch
from ignite.engine import Events, create_supervised_trainer, create_supervised_evaluator
from ignite.metrics import Accuracy, Loss


PACKAGES = {"pytorch-ignite": "0.5.5"}

m = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
x = torch.randn(80, 6)
y = x[:, :3].argmax(1)
dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 8, shuffle=True)
L = torch.nn.CrossEntropyLoss()
tr = create_supervised_trainer(m, o, L)
ev = create_supervised_evaluator(m, metrics={"a": Accuracy(), "l": Loss(L)})
out = []
tr.add_event_handler(Events.ITERATION_COMPLETED, lambda e: out.append(float(e.state.output)))


@tr.on(Events.EPOCH_COMPLETED)
def _(e):
    ev.run(dl)
    out.append(float(ev.state.metrics["a"]))
    out.append(float(ev.state.metrics["l"]))


def it():
    tr.run(dl, 5)
    yield from out


run(it())
