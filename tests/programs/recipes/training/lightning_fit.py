"""Trainer.fit with a schedule, clipping, validation and a checkpoint; Fabric."""

from recipe import run, torch
import lightning as L
import tempfile
import logging


PACKAGES = {"lightning": "2.6.6"}

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class M(L.LightningModule):
    def __init__(s):
        super().__init__()
        s.n = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
        s.losses = []

    def training_step(s, b, i):
        l = torch.nn.functional.mse_loss(s.n(b[0]), b[1])
        s.log("l", l)
        s.losses.append(float(l))
        return l

    def validation_step(s, b, i):
        s.log("v", torch.nn.functional.mse_loss(s.n(b[0]), b[1]))

    def configure_optimizers(s):
        o = torch.optim.Adam(s.parameters(), 1e-2)
        return {"optimizer": o, "lr_scheduler": torch.optim.lr_scheduler.StepLR(o, 2)}


L.seed_everything(0, verbose=False)
x = torch.randn(80, 10)
y = x.sum(1, keepdim=True)
dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8, shuffle=True)
m = M()
with tempfile.TemporaryDirectory() as d:

    def it():
        t = L.Trainer(
            max_epochs=5,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=d,
            gradient_clip_val=1.0,
        )
        t.fit(m, dl, dl)
        yield from m.losses
        yield float(t.callback_metrics["v"])
        p = d + "/c.ckpt"
        t.save_checkpoint(p)
        m2 = M.load_from_checkpoint(p, weights_only=False)
        yield float(m2.n(x).sum().detach())
        f = L.Fabric(accelerator="cpu", devices=1)
        mm, o = f.setup(m.n, torch.optim.SGD(m.n.parameters(), 1e-2))
        l = (mm(x) - y).square().mean()
        f.backward(l)
        o.step()
        yield float(l)

    run(it())
