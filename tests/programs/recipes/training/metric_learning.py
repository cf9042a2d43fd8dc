"""Embeddings train by eleven losses and two miners; nearest neighbours are counted."""

from recipe import run, torch, train
from pytorch_metric_learning import distances, losses, miners, reducers

PACKAGES = {"pytorch-metric-learning": "2.9.0"}


def it():
    for make in (
        lambda: losses.TripletMarginLoss(margin=0.2),
        lambda: losses.ContrastiveLoss(),
        lambda: losses.NTXentLoss(temperature=0.1),
        lambda: losses.ArcFaceLoss(4, 16),
        lambda: losses.CircleLoss(),
        lambda: losses.MultiSimilarityLoss(),
        lambda: losses.ProxyAnchorLoss(4, 16),
        lambda: losses.SupConLoss(),
        lambda: losses.FastAPLoss(),
        lambda: losses.LiftedStructureLoss(reducer=reducers.MeanReducer()),
        lambda: losses.NCALoss(distance=distances.LpDistance()),
    ):
        torch.manual_seed(0)
        criterion = make()
        model = torch.nn.ModuleList([torch.nn.Linear(8, 16), criterion])
        miner = miners.MultiSimilarityMiner() if isinstance(criterion, losses.TripletMarginLoss) else None

        def loss(m, batch):
            embedded = m[0](batch[0])
            return criterion(embedded, batch[1], miner(embedded, batch[1]) if miner else None)

        yield from train(model, lambda i: (torch.randn(24, 8), torch.randint(0, 4, (24,))), loss, steps=10, lr=1e-2)
    pairs = miners.BatchHardMiner()(torch.randn(12, 4), torch.arange(12) % 3)
    yield str([p.tolist() for p in pairs])


run(it())
