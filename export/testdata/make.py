"""Writes the programs beside this file, and what they give for their example inputs: python make.py"""

import pathlib

import tessera as torch
from tessera._higher_order_ops import map as map_rows
from tessera._higher_order_ops import scan, while_loop
from tessera.export import Dim, export, save

HERE = pathlib.Path(__file__).resolve().parent


class Mixed(torch.nn.Module):
    """Dicts, keywords, several results, a branch, a buffer that is written to, sizes that are computed with."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(2))
        self.shift = torch.ones(3)

    def forward(self, x, d, k=2.5):
        self.calls.add_(1)
        z = torch.cat([self.norm(self.linear(x)) * k + self.shift, d["a"]])
        first, last = z.split([z.shape[0] - 1, 1])
        top = torch.topk(z, 2, dim=0)
        w = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v + 1, (z,))
        return {
            "flat": z.view(-1),
            "list": [w, first[:, None], last, top.values, top.indices],
            "rows": z[torch.tensor([0, 1])],
            "twice": x.shape[0] * 2,
            "half": (x.shape[0] + 1) // 2,
        }


class Loops(torch.nn.Module):
    """Control flow over rows and while a condition holds."""

    def forward(self, x, n):
        def step(i, y):
            return i + 1, y * 1.5

        i, y = while_loop(lambda i, y: i < 3, step, (n, x))
        rows = map_rows(lambda row, c: row * c + 1, x, torch.tensor(2.0))
        carry, sums = scan(lambda c, row: (c + row, c * row), torch.zeros(x.shape[1]), x)
        return i, y, rows, carry, sums


class Net(torch.nn.Module):
    """A net in training mode: its running statistics are written to."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.end = torch.nn.Linear(4, 5)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.end(x.mean((2, 3)))


class Makers(torch.nn.Module):
    """Dtypes, devices, layouts, numbers of all kinds; an argument that is written to; sizes that data decide."""

    def forward(self, x, y):
        n = x.shape[1]
        y.add_(x.sum(1).to(torch.int64))
        found = torch.nonzero(x > 0)
        made = torch.arange(n, dtype=torch.float32, device="cpu") * float("inf")
        full = torch.full((n, 2), 7, dtype=torch.int32)
        z = torch.complex(x, x) * (1 + 2j)
        wide = x.to(torch.float64, memory_format=torch.contiguous_format).clamp(min=-0.5)
        padded = torch.nn.functional.pad(x, (1, n - 1), value=0.25)
        rest = torch.std(x, dim=1, correction=0), x.new_zeros(n, 1), torch.flip(x, [0, 1])
        count = found.shape[0] + n
        return (found, made, full, z, wide, padded, torch.logsumexp(x, [0, 1]), torch.roll(x, 1, 0), count, *rest)


class Sparse(torch.nn.Module):
    """Sparse tensors among buffers, constants and arguments."""

    def __init__(self):
        super().__init__()
        entries = torch.tensor([[0, 2, 2], [1, 0, 2]]), torch.tensor([1.0, -2.0, 3.0])
        self.register_buffer("edges", torch.sparse_coo_tensor(*entries, (3, 4)).coalesce())
        self.register_buffer("rows", torch.eye(4).to_sparse_csr())
        self.twice = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.ones(2), (3,))

    def forward(self, x, graph):
        edges = torch.sparse.mm(self.edges, x)
        return edges, self.rows.to_dense(), self.twice.to_dense(), torch.sparse.mm(graph, edges)


def write(name, program, count):
    """The program and its results; count: of its arguments, which are copied since some are written to. Of sparse
    tensors it keeps none.
    """
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # where this file lies is not part of the programs
    save(program, HERE / f"{name}.pt2")
    args, kwargs = program.example_inputs
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    assert len(args) == count
    leaves = torch.utils._pytree.tree_leaves(program.module()(*args, **kwargs))
    state = {f"state.{key}": value for key, value in program.state_dict.items()}
    given = {f"input.{i}": leaf for i, leaf in enumerate(args) if isinstance(leaf, torch.Tensor)}
    results = {f"result.{i}": torch.as_tensor(leaf) for i, leaf in enumerate(leaves)}
    known = {key: t for key, t in {**results, **given, **state}.items() if t.layout is torch.strided}
    torch.save(known, HERE / f"{name}_results.pt")


def main():
    torch.manual_seed(0)
    batch = Dim("batch", min=2, max=64)
    inputs = (torch.randn(5, 4), {"a": torch.randn(5, 3)})
    shapes = {"x": {0: batch}, "d": {"a": {0: batch}}, "k": None}
    write("mixed", export(Mixed().eval(), inputs, {"k": 2.5}, dynamic_shapes=shapes), 2)
    rows = {"x": {0: Dim("rows", min=2)}, "n": None}
    write("loops", export(Loops(), (torch.randn(4, 3), torch.tensor(0)), dynamic_shapes=rows), 2)
    net = export(Net(), (torch.randn(5, 3, 9, 9),), dynamic_shapes=({0: batch},))
    write("net", net.run_decompositions(), 1)
    inputs = (torch.randn(3, 4), torch.zeros(3, dtype=torch.int64))
    write("makers", export(Makers(), inputs, dynamic_shapes=({1: Dim("n", min=2)}, None)), 2)
    write("sparse", export(Sparse(), (torch.randn(4, 2), torch.eye(3).to_sparse_csr())), 2)


if __name__ == "__main__":
    main()
