"""A loop with accumulation, clipping, saved states, and a model without data."""

from recipe import run, torch
from accelerate import Accelerator, init_empty_weights, load_checkpoint_and_dispatch
import tempfile


PACKAGES = {"accelerate": "1.15.0"}

a = Accelerator(cpu=True, gradient_accumulation_steps=2)
# No bias before the normalization: its gradient is rounding, of which AdamW makes steps of full length.
m = torch.nn.Sequential(
    torch.nn.Linear(6, 16, bias=False), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
)
o = torch.optim.AdamW(m.parameters(), 1e-2)
s = torch.optim.lr_scheduler.CosineAnnealingLR(o, 50)
x = torch.randn(200, 6)
dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 4, shuffle=True)
m, o, dl, s = a.prepare(m, o, dl, s)


def it():
    for b in dl:
        with a.accumulate(m):
            l = (m(b[0]) - b[1]).square().mean()
            a.backward(l)
            a.clip_grad_norm_(m.parameters(), 1.0)
            o.step()
            s.step()
            o.zero_grad()
            yield float(l.detach())
    with tempfile.TemporaryDirectory() as d:
        a.save_state(d)
        a.load_state(d)
        yield float(a.unwrap_model(m)[0].weight.sum().detach())
        a.save_model(m, d + "/m")
        with init_empty_weights():
            e = torch.nn.Sequential(
                torch.nn.Linear(6, 16, bias=False), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
            )
        yield str(e[0].weight.device)
        e = load_checkpoint_and_dispatch(e, d + "/m")
        e.eval()
        yield float(e(x).sum().detach())


run(it())
