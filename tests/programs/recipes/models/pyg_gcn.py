"""Graph networks of five kinds train; graphs are collated and pooled."""

from recipe import run, torch, train
import torch_geometric as pg
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, GATConv, SAGEConv, GINConv, global_mean_pool, TransformerConv
from torch_geometric.loader import DataLoader


PACKAGES = {"torch-geometric": "2.8.1"}


def it():
    N = 40
    ei = torch.randint(0, N, (2, 160))
    x = torch.randn(N, 8)
    y = torch.randint(0, 3, (N,))
    d = Data(x=x, edge_index=pg.utils.to_undirected(ei), y=y)
    d = pg.transforms.NormalizeFeatures()(d)
    for C in (
        lambda i, o: GCNConv(i, o),
        lambda i, o: GATConv(i, o, heads=2, concat=False),
        lambda i, o: SAGEConv(i, o),
        lambda i, o: GINConv(torch.nn.Linear(i, o)),
        lambda i, o: TransformerConv(i, o),
    ):
        torch.manual_seed(0)
        c1, c2 = C(8, 16), C(16, 3)
        m = torch.nn.ModuleList([c1, c2])
        yield from train(
            m,
            lambda i: d,
            lambda m, d: torch.nn.functional.cross_entropy(
                m[1](torch.nn.functional.dropout(m[0](d.x, d.edge_index).relu(), 0.5, m.training), d.edge_index), d.y
            ),
            lr=1e-2,
            steps=20,
        )
    ds = [
        Data(x=torch.randn(n, 4), edge_index=torch.randint(0, n, (2, 3 * n)), y=torch.tensor([float(n)]))
        for n in range(4, 24)
    ]
    for b in DataLoader(ds, batch_size=5, shuffle=True):
        yield float(global_mean_pool(b.x, b.batch).sum())
        yield str(b)


run(it())
