"""Products of 8-bit floats with scales, products in groups: against float32. test_cuda.py runs the same on a device."""

import pytest

import tessera as torch
import tessera.nn.functional as F

E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
pytestmark = pytest.mark.parametrize("device", DEVICES)
TENSOR, ROW = F.ScalingType.TensorWise, F.ScalingType.RowWise


def operands(m, k, n, device, a=E4, b=E4):
    torch.manual_seed(m + k + n)
    return torch.randn(m, k).to(a).to(device), torch.randn(n, k).to(b).t().to(device)


def expected(a, b, scale_a, scale_b, bias=None):
    r = (a.cpu().float() @ b.cpu().float()) * (scale_a.cpu().float() * scale_b.cpu().float())
    return r if bias is None else r + bias.cpu().float()


def close(result, wanted, dtype):
    assert result.dtype == dtype and result.shape == wanted.shape and result.is_contiguous()
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3, E4: 0.08, E5: 0.15}[dtype]
    torch.testing.assert_close(result.cpu().float(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("m,k,n", [(16, 32, 48), (1, 16, 16), (3, 17, 5), (33, 64, 16), (0, 16, 16), (4, 0, 16)])
@pytest.mark.parametrize("a_dtype,b_dtype", [(E4, E4), (E5, E4), (E4, E5), (E5, E5)])
def test_one_scale(m, k, n, a_dtype, b_dtype, device):
    a, b = operands(m, k, n, device, a_dtype, b_dtype)
    x, y = torch.tensor(0.5, device=device), torch.tensor(0.25, device=device)
    for dtype in (torch.bfloat16, torch.float16, torch.float32, E4):
        close(torch._scaled_mm(a, b, x, y, out_dtype=dtype), expected(a, b, x, y), dtype)
    assert torch._scaled_mm(a, b, x, y).dtype == a_dtype


def test_layouts(device):
    a, b = operands(16, 32, 48, device)
    one = torch.ones((), device=device)
    wanted = expected(a, b, one, one)
    for left in (a, a.t().contiguous().t()):
        for right in (b, b.contiguous()):
            close(torch._scaled_mm(left, right, one, one, out_dtype=torch.float32), wanted, torch.float32)
    out = torch.empty(16, 48, dtype=torch.bfloat16, device=device)
    assert torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, out=out) is out
    close(out, wanted, torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_bias(dtype, device):
    a, b = operands(16, 32, 48, device)
    one = torch.ones(1, device=device)
    for bias_dtype in (torch.bfloat16, torch.float16, torch.float32):
        bias = torch.randn(48).to(bias_dtype).to(device)
        close(torch._scaled_mm(a, b, one, one, bias=bias, out_dtype=dtype), expected(a, b, one, one, bias), dtype)
    with pytest.raises(RuntimeError, match="Bias must be size 48 but got 4"):
        torch._scaled_mm(a, b, one, one, bias=torch.ones(4, device=device), out_dtype=dtype)


@pytest.mark.parametrize("m,k,n", [(16, 32, 48), (5, 18, 7)])
def test_scales_by_rows(m, k, n, device):
    a, b = operands(m, k, n, device)
    x, y = torch.rand(m, 1).to(device), torch.rand(1, n).to(device)
    for dtype in (torch.bfloat16, torch.float32):
        close(torch._scaled_mm(a, b, x, y, out_dtype=dtype), expected(a, b, x, y), dtype)
    close(F.scaled_mm(a, b, x, ROW, y, ROW), expected(a, b, x, y), torch.bfloat16)
    close(
        F.scaled_mm(a, b, [x], [ROW], [y], [ROW], output_dtype=torch.float32, contraction_dim=(-1, 0)),
        expected(a, b, x, y),
        torch.float32,
    )


def test_result_scale(device):
    a, b = operands(16, 32, 48, device)
    one, two = torch.ones((), device=device), torch.tensor(2.0, device=device)
    close(torch._scaled_mm(a, b, one, one, scale_result=two), 2 * expected(a, b, one, one), E4)


def test_what_is_refused(device):
    a, b = operands(16, 32, 48, device)
    one = torch.ones((), device=device)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a, b, torch.ones(1, 16, device=device), torch.ones(48, 1, device=device))
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a.bfloat16(), b, one, one)
    with pytest.raises(ValueError, match="expected scale_a of shape"):
        F.scaled_mm(a, b, one, F.ScalingType.BlockWise1x128, one, F.ScalingType.BlockWise1x128)
    with pytest.raises(ValueError, match="unsupported recipe"):
        F.scaled_mm(a, b, one, F.ScalingType.BlockWise1x16, one, F.ScalingType.BlockWise1x16)
    with pytest.raises(ValueError, match="unsupported recipe"):
        F.scaled_mm(a, b, torch.ones(16, 1, device=device), ROW, one, TENSOR)
    with pytest.raises(ValueError, match="contraction_dim"):
        F.scaled_mm(a, b, one, TENSOR, one, TENSOR, contraction_dim=(0, 1))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch._scaled_mm(a, a, one, one)


def test_groups(device):
    torch.manual_seed(0)
    x, w = torch.randn(20, 8).to(device), torch.randn(3, 8, 6).to(device)
    offs = torch.tensor([4, 4, 15], dtype=torch.int32, device=device)
    out = F.grouped_mm(x, w, offs=offs)
    assert torch.equal(out[:4], x[:4] @ w[0]) and torch.equal(out[4:15], x[4:15] @ w[2]) and not out[15:].any()
    assert torch.equal(F.grouped_mm(x.view(2, 10, 8), w[:2]), torch.bmm(x.view(2, 10, 8), w[:2]))
    sums = F.grouped_mm(x.t(), torch.ones(20, 6, device=device), offs=offs)
    torch.testing.assert_close(sums[2], x[4:15].t() @ torch.ones(11, 6, device=device))
    assert sums.shape == (3, 8, 6) and not sums[1].any()
    columns = F.grouped_mm(w.transpose(1, 2), x.t(), offs=offs)
    assert columns.shape == (6, 20) and torch.equal(columns[:, :4], w[0].t() @ x[:4].t())
    x.requires_grad_()
    F.grouped_mm(x, w, offs=offs).sum().backward()
    torch.testing.assert_close(x.grad[0], w[0].sum(1))
    with pytest.raises(RuntimeError, match="Have to provide offsets"):
        F.grouped_mm(x, w)


def test_scaled_groups(device):
    torch.manual_seed(0)
    x, w = torch.randn(32, 16).to(E4).to(device), torch.randn(2, 48, 16).to(E4).transpose(1, 2).to(device)
    sx, sw = torch.rand(32).to(device), torch.rand(2, 48).to(device)
    offs = torch.tensor([16, 32], dtype=torch.int32, device=device)
    out = F.scaled_grouped_mm(x, w, sx, ROW, sw, ROW, offs=offs)
    for g in range(2):
        rows = slice(16 * g, 16 * g + 16)
        close(out[rows], expected(x[rows], w[g], sx[rows, None], sw[g][None]), torch.bfloat16)
    batched = torch._scaled_grouped_mm(x.view(2, 16, 16), w, sx.view(2, 16), sw, out_dtype=torch.bfloat16)
    close(batched.view(32, 48), out.cpu().float(), torch.bfloat16)
    with pytest.raises(ValueError, match="unsupported recipe"):
        F.scaled_grouped_mm(x, w, sx, TENSOR, sw, TENSOR, offs=offs)


def test_bias_and_activation_in_one(device):
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        x, w, bias = (
            torch.randn(5, 8).to(dtype).to(device),
            torch.randn(8, 6).to(dtype).to(device),
            torch.randn(6).to(dtype).to(device),
        )
        wanted = torch.addmm(bias.cpu().double(), x.cpu().double(), w.cpu().double())
        tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-3
        for result, reference in (
            (torch.addmm(bias, x, w), wanted),
            (torch._addmm_activation(bias, x, w), wanted.relu()),
            (torch._addmm_activation(bias, x, w, use_gelu=True), F.gelu(wanted)),
            (
                torch.addmm(bias, x, w, alpha=0.5),
                torch.addmm(bias.cpu().double(), x.cpu().double(), w.cpu().double(), alpha=0.5),
            ),
            (F.linear(x, w.t().contiguous(), bias), wanted),
            (torch.addmm(bias, x.t().contiguous().t(), w.t().contiguous().t()), wanted),
        ):
            torch.testing.assert_close(result.cpu().double(), reference, rtol=tolerance, atol=tolerance)


def test_scales_of_blocks(device):
    block = F.ScalingType
    m, k, n = 40, 300, 130
    a, b = operands(m, k, n, device)
    wide, high = torch.rand(m, 3).to(device), torch.rand(1, 3).to(device)  # 1x128 and 128x128 of a
    lines, tiles = torch.rand(3, n).to(device), torch.rand(3, 2).to(device)

    def spread(scale, rows, cols, by_row, by_col):
        return scale.cpu().repeat_interleave(by_row, 0)[:rows].repeat_interleave(by_col, 1)[:, :cols]

    for scale_a, recipe_a, rows in ((wide, block.BlockWise1x128, 1), (high, block.BlockWise128x128, 128)):
        for scale_b, recipe_b, cols in ((lines, block.BlockWise1x128, 1), (tiles, block.BlockWise128x128, 128)):
            if rows == cols == 128:
                with pytest.raises(ValueError, match="unsupported recipe"):
                    F.scaled_mm(a, b, scale_a, recipe_a, scale_b, recipe_b)
                continue
            left = a.cpu().float() * spread(scale_a, m, k, rows, 128)
            right = b.cpu().float() * spread(scale_b, k, n, 128, cols)
            out = F.scaled_mm(a, b, scale_a, recipe_a, scale_b, recipe_b, output_dtype=torch.float32)
            close(out, left @ right, torch.float32)
    with pytest.raises(ValueError, match="scale_b of shape"):
        F.scaled_mm(a, b, wide, block.BlockWise1x128, tiles.t(), block.BlockWise128x128)


def test_powers_of_two_as_scales_of_blocks(device):
    block, swizzle = F.ScalingType.BlockWise1x32, F.SwizzleType
    m, k, n = 140, 160, 33
    a, b = operands(m, k, n, device)
    torch.manual_seed(1)
    scale_a = torch.exp2(torch.randint(-3, 3, (m, 5)).float())
    scale_b = torch.exp2(torch.randint(-3, 3, (n, 5)).float())
    wanted = (a.cpu().float() * scale_a.repeat_interleave(32, 1)) @ (
        b.cpu().t().float() * scale_b.repeat_interleave(32, 1)
    ).t()

    def exponents(s):
        return s.to(torch.float8_e8m0fnu).to(device)

    out = F.scaled_mm(a, b, exponents(scale_a), block, exponents(scale_b), block, output_dtype=torch.float32)
    close(out, wanted, torch.float32)

    def tiled(s):  # by the definition: line r of a tile lies at (r % 32) * 16 + r // 32 * 4
        rows, cols = -(-s.shape[0] // 128), -(-s.shape[1] // 4)
        flat = torch.ones(rows * cols * 512)
        for i in range(s.shape[0]):
            for j in range(s.shape[1]):
                tile, r, c = (i // 128) * cols + j // 4, i % 128, j % 4
                flat[tile * 512 + (r % 32) * 16 + r // 32 * 4 + c] = s[i, j]
        return exponents(flat)

    order = swizzle.SWIZZLE_32_4_4
    out = F.scaled_mm(a, b, tiled(scale_a), block, tiled(scale_b), block, order, order, output_dtype=torch.float32)
    close(out, wanted, torch.float32)
