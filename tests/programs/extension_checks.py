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
    for reduce, function in {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}.items():
        for ours in (scatter(x, index, 0, reduce=reduce), segment_csr(x, pointer, reduce=reduce)):
            plain = torch.stack([function(p, 0) for p in (x[:2], x[2:3], x[3:])])
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


def detectron2():
    import detectron2_C

    assert not detectron2_C.has_cuda() and detectron2_C.get_compiler_version().startswith("GCC")
    ops = torch.ops.detectron2
    boxes = torch.rand(30, 5) * torch.tensor([8.0, 8.0, 6.0, 6.0, 0.0]) + torch.tensor([0.0, 0.0, 2.0, 2.0, 0.0])
    low, high = boxes[:, :2] - boxes[:, 2:4] / 2, boxes[:, :2] + boxes[:, 2:4] / 2
    sides = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0)
    common, area = sides.prod(2), boxes[:, 2:4].prod(1)
    iou = common / (area[:, None] + area - common)
    yield ops.box_iou_rotated(boxes, boxes), iou
    turned = boxes[:, [0, 1, 3, 2, 4]] + torch.tensor([0.0, 0.0, 0.0, 0.0, 90.0])
    yield ops.box_iou_rotated(boxes, turned), iou
    scores, kept = torch.rand(30), []
    for i in scores.argsort(descending=True).tolist():
        if all(iou[i, k] <= 0.3 for k in kept):
            kept.append(i)
    yield ops.nms_rotated(turned, scores, 0.3), torch.tensor(kept)
    image = torch.randn(1, 2, 12, 12)
    x, y, w, h, bins, per_bin = 5.0, 6.0, 6.0, 4.0, 2, 3
    ours = ops.roi_align_rotated_forward(image, torch.tensor([[0.0, x, y, w, h, 0.0]]), 1.0, bins, bins, per_bin)
    steps = (torch.arange(bins * per_bin) + 0.5) / (bins * per_bin) - 0.5
    rows, columns = y - 0.5 + steps * h, x - 0.5 + steps * w
    grid = torch.stack([columns.expand(6, 6), rows[:, None].expand(6, 6)], 2) / 11 * 2 - 1
    sampled = torch.nn.functional.grid_sample(image, grid[None], align_corners=True)
    yield ours, torch.nn.functional.avg_pool2d(sampled, per_bin)


def fairseq():
    import libbase
    import libnat

    x, y = [[5, 6, 7, 8, 9], [4, 4, 3]], [[6, 7, 9, 2], [4, 3, 3, 1]]
    for one, other, found in zip(x, y, libnat.compute_ed2(x, y), strict=True):
        common = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]  # of beginnings: their longest subsequence
        for i, a in enumerate(one):
            for j, b in enumerate(other):
                common[i + 1][j + 1] = common[i][j] + 1 if a == b else max(common[i][j + 1], common[i + 1][j])
        yield torch.tensor(found), torch.tensor(len(one) + len(other) - 2 * common[-1][-1])
    # Jobs that one worker each can do best are given to them.
    best = torch.randperm(12) % 3
    scores = torch.rand(12, 3) + 10 * torch.nn.functional.one_hot(best, 3)
    given = libbase.balanced_assignment(scores)
    yield best[given], torch.arange(3).repeat_interleave(4)
    yield given.sort()[0], torch.arange(12)


def pytorch3d():
    import pytorch3d_C as ops

    p, q = torch.randn(2, 9, 3, requires_grad=True), torch.randn(2, 7, 3, requires_grad=True)
    lengths = [torch.full((2,), n) for n in (9, 7)]
    index, squared = ops.knn_points_idx(p.detach(), q.detach(), *lengths, 2, 3, -1)
    distance = (p[:, :, None] - q[:, None]).square().sum(3)
    plain, order = distance.topk(3, 2, largest=False)
    yield index, order
    yield squared, plain.detach()
    weights = torch.rand(2, 9, 3)
    ours = ops.knn_points_backward(p.detach(), q.detach(), *lengths, index, 2, weights)
    yield from zip(ours, torch.autograd.grad((plain * weights).sum(), (p, q)), strict=True)
    corners, faces = torch.randn(5, 3), torch.tensor([[0, 1, 2], [2, 3, 4]])
    areas, normals = ops.face_areas_normals_forward(corners, faces)
    a, b, c = (corners[faces[:, i]] for i in range(3))
    cross = torch.linalg.cross(b - a, c - a)
    yield areas, cross.norm(dim=1) / 2
    yield normals, torch.nn.functional.normalize(cross)
    packed = torch.randn(5, 2)
    padded = ops.packed_to_padded(packed, torch.tensor([0, 3]), 3)
    yield padded, torch.stack([packed[:3], torch.cat([packed[3:], torch.zeros(1, 2)])])
    yield ops.padded_to_packed(padded, torch.tensor([0, 3]), 5), packed
    alphas, features, points = torch.rand(1, 3, 4, 4), torch.randn(2, 6), torch.randint(6, (1, 3, 4, 4))
    shown = alphas * torch.cat([torch.ones(1, 1, 4, 4), (1 - alphas).cumprod(1)[:, :-1]], 1)
    yield ops.accum_alphacomposite(features, alphas, points), (features[:, points[0]] * shown[0]).sum(1)[None]


def sru():
    import sru

    for options in ({}, {"bidirectional": True}, {"use_tanh": True, "num_layers": 1}):
        net = sru.SRU(4, 5, **{"num_layers": 2, **options})
        x = torch.randn(7, 3, 4)
        plain = net(x)  # by operators one after the other, to be differentiated
        with torch.no_grad():
            yield from zip(net(x), plain, strict=True)


def apex():
    import apex_C

    parts = [torch.randn(2, 3).t(), torch.randn(()), torch.randn(4)]
    flat = apex_C.flatten(parts)
    yield flat, torch.cat([t.reshape(-1) for t in parts])
    yield from zip(apex_C.unflatten(flat, parts), parts, strict=True)


def torchdrug():
    import embedding
    import spmm

    dense = torch.randn(5, 6) * (torch.rand(5, 6) > 0.5)
    sparse, x = dense.to_sparse().coalesce(), torch.randn(6, 3)
    yield spmm.spmm_add_mul_forward_cpu(sparse, x), dense @ x
    sums = torch.where(dense[:, :, None] != 0, dense[:, :, None] + x, float("-inf")).amax(1)
    rows = (dense != 0).any(1)
    yield spmm.spmm_max_add_forward_cpu(sparse, x)[rows], sums[rows]
    value, weights = sparse.values().clone().requires_grad_(), torch.randn(5, 3)
    own = x.clone().requires_grad_()
    plain = torch.zeros(5, 6).index_put(tuple(sparse.indices()), value) @ own
    expected = torch.autograd.grad(plain, (value, own), weights)
    of_sparse, of_x = spmm.spmm_add_mul_backward_cpu(sparse, x, plain.detach(), weights)
    yield of_sparse.coalesce().values(), expected[0]
    yield of_x, expected[1]
    entity, relation = torch.randn(7, 4), torch.randn(3, 4)
    h, t, r = torch.randint(7, (2, 5)), torch.randint(7, (2, 5)), torch.randint(3, (2, 5))
    plain = (entity[h] * relation[r] * entity[t]).sum(-1)
    yield embedding.distmult_forward_cpu(entity, relation, h, t, r), plain
    plain = (entity[h] + relation[r] - entity[t]).abs().sum(-1)
    yield embedding.transe_forward_cpu(entity, relation, h, t, r), plain


def signatory():
    import signatory

    path = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    ours = signatory.signature(path, 2)
    steps = path[:, 1:] - path[:, :-1]
    before = torch.cat([torch.zeros_like(steps[:, :1]), steps.cumsum(1)[:, :-1]], 1) + steps / 2
    plain = torch.cat([steps.sum(1), torch.einsum("nti,ntj->nij", before, steps).flatten(1)], 1)
    yield ours, plain
    yield gradients(ours, path)[0], gradients(plain, path)[0]
    # A logarithm of depth 2: the same first level, and the antisymmetric part of the second.
    second = plain[:, 3:].view(2, 3, 3)
    areas = torch.stack([(second[:, i, j] - second[:, j, i]) / 2 for i, j in ((0, 1), (0, 2), (1, 2))], 1)
    yield signatory.logsignature(path, 2, mode="brackets"), torch.cat([plain[:, :3], areas], 1)


def warp_transducer():
    import warp_rnnt

    steps, labels, classes = 5, 3, 4
    scores = torch.randn(2, steps, labels + 1, classes, requires_grad=True)
    acts = scores.log_softmax(-1)
    target = torch.randint(1, classes, (2, labels), dtype=torch.int32)
    full = [torch.full((2,), n, dtype=torch.int32) for n in (steps, labels)]
    costs, grads = torch.zeros(2), torch.zeros_like(acts)
    warp_rnnt.cpu_rnnt(acts.detach(), target, *full, costs, grads, 0, 1)
    total = []
    for a, words in zip(acts, target.tolist(), strict=True):
        alpha = {(0, 0): a.new_zeros(())}
        for t in range(steps):
            for u in range(labels + 1):
                ways = [alpha[t - 1, u] + a[t - 1, u, 0]] if t else []
                ways += [alpha[t, u - 1] + a[t, u - 1, words[u - 1]]] if u else []
                if ways:
                    alpha[t, u] = torch.stack(ways).logsumexp(0)
        total.append(-(alpha[steps - 1, labels] + a[-1, -1, 0]))
    yield costs, torch.stack(total)
    yield grads, torch.autograd.grad(sum(total), acts)[0]


def torch_harmonics():
    from torch_harmonics import DiscreteContinuousConvS2

    for kind, shape in (("piecewise linear", (3, 3)), ("morlet", (2, 2))):
        nets = []
        for optimized in (True, False):
            torch.manual_seed(1)
            options = {"basis_type": kind, "optimized_kernel": optimized}
            nets.append(DiscreteContinuousConvS2(2, 4, (12, 24), (6, 12), shape, **options))
        x = torch.randn(2, 2, 12, 24, requires_grad=True)
        ours, plain = (net(x) for net in nets)
        yield ours, plain
        yield gradients(ours, x)[0], gradients(plain, x)[0]


def main():
    torch.manual_seed(0)
    compared = 0
    for ours, plain in globals()[sys.argv[1].replace("-", "_")]():
        torch.testing.assert_close(ours, plain)
        compared += ours.numel()
    print(f"{compared} values equal")


if __name__ == "__main__":
    main()
