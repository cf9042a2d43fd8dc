"""What packages with extensions compute, beside plain formulas; extensions.py runs it for one that it has built.

Run by `python -m tessera`, with the package on the path: prints "k values equal", or fails with the first that differs.
"""

import sys

import torch


def gradients(value, *inputs):
    """The gradients of a weighted sum of a value."""
    weights = torch.arange(value.numel(), dtype=value.dtype).reshape(value.shape) / value.numel()
    return list(torch.autograd.grad((value * weights).sum(), inputs))


def fast_transformers():
    from fast_transformers.aggregate import aggregate
    from fast_transformers.causal_product import causal_dot_product

    q, k, v = (torch.randn(2, 3, 7, 4, requires_grad=True) for _ in range(3))
    plain = torch.einsum("nhld,nhsd->nhls", q, k).tril() @ v
    ours = causal_dot_product(q, k, v)
    yield ours, plain
    yield from zip(gradients(ours, q, k, v), gradients(plain, q, k, v), strict=True)
    x, groups = torch.randn(1, 2, 6, 5), torch.tensor([0, 2, 1, 1, 0, 2], dtype=torch.int32)
    weights = torch.rand(1, 2, 3)
    rows = torch.stack([x[:, :, groups == g].sum(2) for g in range(3)], 2)
    yield aggregate(x, groups.expand(1, 2, 6).contiguous(), weights), rows * weights.unsqueeze(-1)


def pytorch_scatter():
    from torch_scatter import gather_csr, scatter, segment_csr

    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    index, pointer = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([0, 2, 3, 6])
    parts = [x[:2], x[2:3], x[3:]]
    for reduce, function in {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}.items():
        plain = torch.stack([function(p, 0) for p in parts])
        for ours in (scatter(x, index, 0, reduce=reduce), segment_csr(x, pointer, reduce=reduce)):
            yield ours, plain
            yield gradients(ours, x)[0], gradients(plain, x)[0]
    yield gather_csr(x[:3], pointer), x[:3][index]


def pytorch_spline_conv():
    from torch_spline_conv import spline_conv

    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    edges, u = torch.tensor([[0, 0, 1, 3], [1, 2, 3, 0]]), torch.rand(4, dtype=torch.float64)
    ours = spline_conv(x, edges, u, weight, torch.tensor([2]), torch.tensor([1], dtype=torch.uint8), norm=False)
    between = (1 - u).view(-1, 1, 1) * weight[0] + u.view(-1, 1, 1) * weight[1]
    messages = (x[edges[1]].unsqueeze(1) @ between).squeeze(1)
    plain = torch.zeros(4, 5, dtype=torch.float64).index_add(0, edges[0], messages)
    yield ours, plain
    yield from zip(gradients(ours, x, weight), gradients(plain, x, weight), strict=True)


def pytorch_cluster():
    from torch_cluster import fps, grid_cluster, knn, nearest, radius

    x, y = torch.rand(40, 3, dtype=torch.float64), torch.rand(9, 3, dtype=torch.float64)
    distance = torch.cdist(y, x)
    row, column = knn(x, y, 4)
    yield row, torch.arange(9).repeat_interleave(4)
    yield column.view(9, 4).sort()[0], distance.topk(4, largest=False)[1].sort()[0]
    row, column = radius(x, y, 0.4, max_num_neighbors=40)
    within = torch.zeros(9, 40, dtype=torch.bool)
    within[row, column] = True
    yield within, distance <= 0.4
    yield nearest(x, y), distance.argmin(0)
    chosen = fps(x, ratio=0.1, random_start=False)
    expected = [0]
    while len(expected) < 4:
        expected.append(int(torch.cdist(x, x[expected]).amin(1).argmax()))
    yield chosen, torch.tensor(expected)
    size, start = torch.full((3,), 0.5, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    cells = grid_cluster(x, size, start, start + 1)
    yield cells, (x / size).floor().long() @ torch.tensor([1, 3, 9])  # 1 / 0.5 + 1 along a side


def pytorch_sparse():
    from torch_sparse import SparseTensor, matmul, spspmm

    dense = torch.randn(5, 6, dtype=torch.float64) * (torch.rand(5, 6) > 0.5)
    other = torch.randn(6, 4, dtype=torch.float64)
    sparse = SparseTensor.from_dense(dense)
    yield sparse.to_dense(), dense
    yield sparse.t().to_dense(), dense.t()
    value = sparse.storage.value().requires_grad_()
    x = other.clone().requires_grad_()
    ours = matmul(sparse.set_value(value, layout="coo"), x, reduce="sum")
    row, column, _ = sparse.coo()
    plain = torch.zeros(5, 6, dtype=torch.float64).index_put((row, column), value) @ x
    yield ours, plain
    yield from zip(gradients(ours, value, x), gradients(plain, value, x), strict=True)
    found = matmul(sparse, other, reduce="max")
    terms = (dense.unsqueeze(2) * other).masked_fill((dense == 0).unsqueeze(2), float("-inf"))
    yield found, terms.amax(1).masked_fill((dense == 0).all(1, keepdim=True), 0)
    a, b = torch.tensor([[0, 1, 2], [1, 0, 2]]), torch.tensor([[0, 1, 2], [2, 1, 0]])
    numbers = torch.tensor([2.0, 3.0, 4.0])
    index, product = spspmm(a, numbers, b, numbers, 3, 3, 3)
    full = lambda i, v: torch.zeros(3, 3).index_put((i[0], i[1]), v)
    yield full(index, product), full(a, numbers) @ full(b, numbers)


def extension_cpp():
    import extension_cpp

    a, b = (torch.randn(3, 5, requires_grad=True) for _ in range(2))
    ours, plain = extension_cpp.ops.mymuladd(a, b, 1.5), a * b + 1.5
    yield ours, plain
    yield from zip(gradients(ours, a, b), gradients(plain, a, b), strict=True)
    out = torch.empty(3, 5)
    extension_cpp.ops.myadd_out(a.detach(), b.detach(), out)
    yield out, a + b


def main():
    torch.manual_seed(0)
    compared = 0
    for ours, plain in globals()[sys.argv[1].replace("-", "_")]():
        torch.testing.assert_close(ours, plain)
        compared += ours.numel()
    print(f"{compared} values equal")


if __name__ == "__main__":
    main()
