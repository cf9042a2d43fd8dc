"""Graph networks train on sparse adjacency matrices (CSR, CSC, COO) and on lists of edges, which are scattered."""

from recipe import run, torch
from torch_geometric.nn import APPNP, GCNConv, GINConv, SAGEConv, SGConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import spmm, to_edge_index, to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor
from torch_geometric.utils import to_undirected

PACKAGES = {"torch-geometric": "2.8.1"}
NODES, FEATURES, CLASSES = 120, 16, 4


def graph():
    """Nodes whose neighbours mostly are of their own class."""
    y = torch.randint(0, CLASSES, (NODES,))
    edges = torch.randint(0, NODES, (2, 1500))
    alike = (y[edges[0]] == y[edges[1]]) | (torch.rand(edges.shape[1]) < 0.1)
    x = torch.nn.functional.one_hot(y, FEATURES).float() + torch.randn(NODES, FEATURES)
    return x, to_undirected(edges[:, alike]), y


class Net(torch.nn.Module):
    def __init__(self, make):
        super().__init__()
        self.first, self.second = make(FEATURES, 16), make(16, CLASSES)

    def forward(self, x, edges):
        return self.second(torch.relu(self.first(x, edges)), edges)


def curve(make, x, edges, y, steps=50):
    torch.manual_seed(1)
    net = Net(make)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x, edges), y)
        loss.backward()
        optimizer.step()
        yield float(loss.detach())
    yield float((net(x, edges).argmax(1) == y).float().mean())


def it():
    x, edges, y = graph()
    # The graph is undirected, and its matrix is its own transpose, which layers expect.
    csr, csc, coo = (
        form(edges, size=(NODES, NODES)) for form in (to_torch_csr_tensor, to_torch_csc_tensor, to_torch_coo_tensor)
    )
    for make in (GCNConv, SAGEConv, lambda i, o: GINConv(torch.nn.Linear(i, o)), lambda i, o: SGConv(i, o, K=2)):
        for form in (edges, csr, coo):
            yield from curve(make, x, form, y)
    yield from curve(SAGEConv, x, csc, y)
    yield from curve(lambda i, o: GCNConv(i, o, cached=True, improved=True), x, csr, y)
    indices, weights = gcn_norm(edges, num_nodes=NODES)
    matrix = to_torch_csr_tensor(indices, weights, size=(NODES, NODES))
    spread = APPNP(K=5, alpha=0.1, normalize=False)
    yield float(spread(x, indices, weights).square().sum())
    yield float(spread(x, matrix).square().sum())
    for how in ("sum", "mean", "min", "max"):
        yield float(spmm(matrix, x, reduce=how).square().sum())
    back, values = to_edge_index(matrix)
    yield back.shape[1]
    yield float(values.sum())
    weighted = values.clone().requires_grad_()
    learned = torch.sparse_coo_tensor(back, weighted, (NODES, NODES))
    (learned @ x).square().sum().backward()
    yield float(weighted.grad.abs().sum())


run(it())
