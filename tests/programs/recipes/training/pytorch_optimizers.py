"""All optimizers of the library that need no closure, schedules and losses."""

from recipe import run, torch
import pytorch_optimizer

PACKAGES = {"pytorch-optimizer": "4.1.0"}


def it():
    skipped = {"alig", "lomo", "adalomo", "bsam", "sophiah", "adahessian", "demo", "muon", "adamuon", "distributedmuon"}
    for name in sorted(pytorch_optimizer.get_supported_optimizers()):
        if name in skipped:
            continue
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        try:
            optimizer = pytorch_optimizer.load_optimizer(name)(model.parameters(), lr=1e-3)
        except Exception as error:
            yield f"{name}: {type(error).__name__}"
            continue
        try:
            for _ in range(6):
                x = torch.randn(8, 4)
                loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
                optimizer.zero_grad()
                loss.backward(create_graph=name in ("adahessian", "sophiah"))
                optimizer.step()
        except Exception as error:
            yield f"{name}: {type(error).__name__}"
            continue
        yield float(loss)


run(it())
