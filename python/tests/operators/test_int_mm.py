"""torch._int_mm: products of bytes in int32."""

import numpy as np
import pytest
import tessera as torch


def bytes_of(rng, dtype, *shape):
    info = torch.iinfo(dtype)
    return torch.tensor(rng.integers(info.min, info.max + 1, shape), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize(
    "m, k, n", [(1, 1, 1), (3, 4, 5), (17, 65, 33), (70, 300, 40), (2, 1000, 1), (4, 0, 3), (0, 3, 2)]
)
def test_against_numpy(dtype, m, k, n):
    rng = np.random.default_rng(m * k + n)
    a, b = bytes_of(rng, dtype, m, k), bytes_of(rng, torch.int8, k, n)
    expected = a.numpy().astype(np.int32) @ b.numpy().astype(np.int32)
    result = torch._int_mm(a, b)
    assert result.dtype == torch.int32 and np.array_equal(result.numpy(), expected)
    out = torch.full((m, n), 7, dtype=torch.int32)
    assert torch._int_mm(a, b, out=out) is out and np.array_equal(out.numpy(), expected)
    transposed = torch._int_mm(a.t().contiguous().t(), b.t().contiguous().t())
    assert np.array_equal(transposed.numpy(), expected)


def test_refuses_other_arguments():
    a, b = torch.zeros(3, 4, dtype=torch.int8), torch.zeros(4, 5, dtype=torch.int8)
    for x, y in [(a[0], b), (a, b[0]), (a, a), (a.float(), b), (a, b.to(torch.uint8))]:
        with pytest.raises(RuntimeError):
            torch._int_mm(x, y)
    assert torch._int_mm(a.to("meta"), b.to("meta")).shape == (3, 5)
