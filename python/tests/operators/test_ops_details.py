"""Details of operators that no table of cases covers: scalars of other kinds, out= of compositions."""

import pytest

import tessera as torch


def test_products_of_integers_drop_the_fractions_of_factors():
    a, b, start = torch.full((2, 2), 3), torch.ones(2, 2, dtype=torch.int64), torch.full((2, 2), 5)
    for add, left, right in ((torch.addmm, a, b), (torch.addbmm, a[None], b[None])):
        assert add(start, left, right, beta=0.6).tolist() == [[6, 6], [6, 6]]
        assert add(start, left, right, alpha=1.6, beta=1.6).tolist() == [[11, 11], [11, 11]]
    with pytest.raises(RuntimeError, match="complex"):
        torch.addmm(start, a, b, beta=1j)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "half", "bfloat16", "float", "double"]
)
def test_distinct_rows_are_in_the_order_of_tuples(dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-3 if dtype[0] not in "bu" or dtype == "bfloat16" else 0, 3, (400, 3), generator=generator)
    x = (x * (40 if dtype != "bool" else 1)).to(getattr(torch, dtype))
    rows, inverse, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    expected = sorted(set(map(tuple, x.tolist())))
    assert list(map(tuple, rows.tolist())) == expected and len(expected) > 7
    assert torch.equal(rows[inverse], x)
    assert counts.tolist() == [x.tolist().count(list(row)) for row in expected]


def test_rows_with_zeros_and_nans_are_ordered_as_numbers_are():
    nan, inf = float("nan"), float("inf")
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x = torch.tensor([[nan, 1], [0.0, 2], [-0.0, 2], [inf, 0], [-inf, 3], [-1e-3, 5], [-nan, -4]], dtype=dtype)
        rows = torch.unique(x, dim=0)
        assert rows[:, 1].tolist() == [3, 5, 2, 0, -4, 1]
        assert rows[:4, 0].isnan().sum() == 0 and rows[4:, 0].isnan().all()


def test_addbmm_in_place_lets_self_grow():
    left, right = torch.rand(2, 3, 4), torch.rand(2, 4, 5)
    for start in (torch.ones(1), torch.rand(5), torch.rand(3, 5)):
        want = torch.addbmm(start, left, right)
        assert start.addbmm_(left, right) is start
        assert torch.equal(start, want)


def test_out_of_factories_and_copies():
    out = torch.empty(0)
    assert torch.logspace(0, 3, 4, out=out) is out and out.tolist() == [1, 10, 100, 1000]
    assert torch.logspace(torch.tensor(4.3), 1.2, 4, base=5, dtype=torch.int64).tolist() == [625, 125, 25, 5]
    with pytest.raises(RuntimeError):
        torch.logspace(torch.ones(2), 3, 4)
    x = torch.arange(6.0)
    assert torch.diff(x * x, out=out).tolist() == [1, 3, 5, 7, 9]
    assert torch.narrow_copy(x, 0, 2, 3, out=out).tolist() == [2, 3, 4]
    with pytest.raises(RuntimeError, match="Double but got scalar type Float"):
        torch.polar(torch.ones(2, dtype=torch.float64), torch.ones(2))


@pytest.mark.parametrize("n", [100, 100_000])
def test_a_wrong_index_leaves_out_as_it_was(n):
    x, index, out = torch.arange(10.0), torch.zeros(n, dtype=torch.int64), torch.full((n,), -1.0)
    index[-1] = 99
    for call in (
        lambda: torch.gather(x, 0, index, out=out),
        lambda: torch.index_select(x, 0, index, out=out),
        lambda: torch.take(x, index, out=out),
    ):
        with pytest.raises((RuntimeError, IndexError), match="99|out of range"):
            call()
        assert torch.equal(out, torch.full((n,), -1.0))


def test_the_gradient_of_as_strided_scatter():
    """What src replaces has no part in the result: self's gradient is zero there, and src's is what lies there."""
    x, src = torch.arange(6.0, requires_grad=True), torch.ones(2, 2, requires_grad=True)
    (x.as_strided_scatter(src, (2, 2), (2, 1), 1) * torch.arange(1.0, 7.0)).sum().backward()
    assert x.grad.tolist() == [1, 0, 0, 0, 0, 6] and src.grad.tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize("name", ["index_add", "index_reduce"])
def test_the_slices_of_index_add_and_index_reduce(name):
    """One set of checks, and one set of errors, for both."""
    t, more = torch.zeros(3, 2), ["amax"] if name == "index_reduce" else []
    for index, source, error, text in [
        ([0], torch.ones(()), RuntimeError, "must match self tensor shape"),
        ([0], torch.ones(2), RuntimeError, "Number of indices"),
        ([0], torch.ones(1, 3), RuntimeError, "must match self tensor shape"),
        ([0, 1], torch.ones(1, 2), RuntimeError, "Number of indices"),
        ([[0]], torch.ones(1, 2), IndexError, "supposed to be a vector"),
        ([0.0], torch.ones(1, 2), RuntimeError, "Expected dtype int32/int64"),
        ([0], torch.ones(1, 2, dtype=torch.float64), RuntimeError, "same scalar type"),
    ]:
        with pytest.raises(error, match=text) as caught:
            getattr(t, name)(0, torch.tensor(index), source, *more)
        assert type(caught.value) is error and (name + "_" in str(caught.value) or "source" in str(caught.value))


def test_narrow_copy_refuses_what_narrow_refuses():
    t = torch.ones(3, 4)
    for arguments in [(5, 0, 1), (0, -5, 1), (0, 2, 2), (0, 0, -1), (0, 4, 0)]:
        errors = []
        for method in (t.narrow, t.narrow_copy):
            with pytest.raises((RuntimeError, IndexError)) as caught:
                method(*arguments)
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]


def test_parts_of_one_tensor_meet_only_where_they_do():
    y = torch.arange(24.0).view(2, 3, 4)
    a, b = y.chunk(2, 2)
    b += a
    assert b.tolist() == (torch.arange(24.0).view(2, 3, 4)[..., 2:] + a).tolist()
    y[..., 1::2].add_(y[..., ::2])
    square = torch.arange(64.0).view(8, 8)
    square[:3, :3].add_(square[:3, 5:].t())
    for written, read in (
        (square[:, 1:4], square[:, :3]), (square[:3, :3], square[:3, :3].t()),
        (square[::2, ::3], square.view(-1)[2:14].view(4, 3)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="single memory location"):
            written.add_(read)


def test_equal_promotes():
    """The example of the documents, and numbers that only one of two dtypes has."""
    ints = torch.tensor([1, 2, 3], dtype=torch.int32)
    assert torch.equal(ints, ints.float()) and ints.double().equal(ints)
    assert not torch.equal(torch.tensor([257], dtype=torch.int32), torch.tensor([1], dtype=torch.int8))
    assert not torch.equal(torch.tensor([1.5]), torch.tensor([1]))
    assert not torch.equal(ints, ints[None].float())


def test_numbers_before_tensors():
    """Forms of old programs: the number that scales comes first, with one warning for each form."""
    x, a, b = torch.full((2, 2), 3.0), torch.full((2, 2), 5.0), torch.full((2, 2), 7.0)
    with pytest.warns(UserWarning, match=r"This overload of add is deprecated:\n\tadd\(Number alpha, Tensor other\)"):
        assert x.add(2, a).tolist() == torch.add(x, a, alpha=2).tolist()
    assert torch.sub(x, 2, a).tolist() == torch.sub(x, a, alpha=2).tolist()
    assert x.clone().addcmul_(0.5, a, b).tolist() == torch.addcmul(x, a, b, value=0.5).tolist()
    assert torch.addmm(2, x, 0.5, a, b).tolist() == torch.addmm(x, a, b, beta=2, alpha=0.5).tolist()
    assert x.addmm(0.5, a, b).tolist() == torch.addmm(x, a, b, beta=0.5).tolist()
    scale = torch.tensor(2.0)
    assert x.add(scale, a).tolist() == torch.add(x, a, alpha=2).tolist()
    assert torch.addmm(scale, x, scale, a, b).tolist() == torch.addmm(x, a, b, beta=2, alpha=2).tolist()
    assert torch.add(scale, 3, scale).item() == 8
    for refused in (lambda: x.add(2, 3, a), lambda: x.mul(2, a), lambda: x.add(2, a, alpha=3), lambda: x.add("2", a)):
        with pytest.raises(TypeError):
            refused()


def test_masks_of_bytes_warn_and_select():
    x, mask = torch.arange(3), torch.tensor([1, 0, 1], dtype=torch.uint8)
    with pytest.warns(UserWarning, match="dtype torch.uint8 is now deprecated"):
        assert x[mask].tolist() == [0, 2]
    with pytest.warns(UserWarning, match="dtype torch.uint8 is now deprecated"):
        x[mask] = 7
    assert x.tolist() == [7, 1, 7]


def test_values_of_another_shape_are_refused_before_their_dtype():
    x = torch.arange(4)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[x > -1] = torch.tensor([])
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[x > -1] = torch.ones(4)
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("include_self", [True, False])
def test_scatters_of_no_index_change_nothing(include_self):
    x, none, src = torch.rand(2, 2, requires_grad=True), torch.tensor([], dtype=torch.int64), torch.rand(2, 2)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        result = x.scatter_reduce(0, none, src, reduce, include_self=include_self)
        assert torch.equal(result, x)
        assert torch.autograd.grad(result.sum(), x)[0].tolist() == [[1, 1], [1, 1]]
        assert result.detach().data_ptr() != x.data_ptr()


def test_differences_of_order_zero_are_the_input():
    x = torch.tensor([1.0, 4.0])
    assert torch.diff(x, 0, prepend=x, append=x).tolist() == [1, 4]


def test_numbers_alone_are_of_the_default_dtype():
    assert torch.mul(1j, 2j).dtype is torch.complex64 and torch.div(1j, 2).dtype is torch.complex64
    assert torch.add(1, 2.5).dtype is torch.float32 and torch.add(1, 2).dtype is torch.int64


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.int64])
def test_coordinates_are_int64(dtype):
    assert [c.tolist() for c in torch.unravel_index(torch.tensor([5], dtype=dtype), (2, 3))] == [[1], [2]]
    assert all(c.dtype is torch.int64 for c in torch.unravel_index(torch.tensor([5], dtype=dtype), (2, 3)))
    with pytest.raises(TypeError, match="to only contain ints"):
        torch.unravel_index(torch.tensor([1]), (2, 2.0))


def test_sizes_that_overflow():
    for sizes, message in (
        ([8, 8, 2**29, 2**29], "Storage size calculation overflowed"),
        ([2, 4, 2**29, 2**29], "overflowed"),
        ([0, 4, 2**61], "Stride calculation overflowed"),
    ):
        for make in (torch.empty, torch.empty(()).resize_):
            with pytest.raises(RuntimeError, match=message if make is not torch.empty else "overflow|too large|memory"):
                make(sizes)


def test_rotations_of_dimensions_that_are_not_there():
    for dims in ([0, -3], [5, 0]):
        with pytest.raises(RuntimeError, match="Rotation dim"):
            torch.rot90(torch.rand(2, 3), 1, dims)


def test_pieces_with_lengths_of_either_kind():
    x = torch.tensor([1.0, 2.0, 5.0])
    for dtype in (torch.int32, torch.int64):
        assert torch.segment_reduce(x, "max", lengths=torch.tensor([2, 1], dtype=dtype)).tolist() == [2, 5]
        assert torch.segment_reduce(x, "sum", offsets=torch.tensor([0, 2, 3], dtype=dtype)).tolist() == [3, 5]


def test_numbers_for_tensors_by_keyword():
    """Arithmetic takes a number for its first tensor by name as well."""
    x = torch.tensor([1.0, 2.0])
    assert torch.sub(input=2, other=x, alpha=2).tolist() == [0.0, -2.0]
    assert torch.add(other=x, input=2).tolist() == [3.0, 4.0]
    for name in ("mul", "multiply", "div", "divide", "true_divide", "floor_divide", "subtract"):
        function = getattr(torch, name)
        assert function(input=2, other=x).tolist() == function(2, x).tolist() == function(2, other=x).tolist()
    assert torch.add(input=2, other=3).item() == 5 and torch.mul(input=1.5, other=2).dtype == torch.float32
    with pytest.raises(TypeError):
        torch.pow(2, other=x)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu])
def test_numbers_of_eight_bits_are_told_apart(dtype):
    """All pairs of them compare as what they stand for; they have no order and no arithmetic."""
    x = torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype)
    wide = x.float()
    assert torch.equal(x[:, None] == x, wide[:, None] == wide) and torch.equal(x[:, None] != x, wide[:, None] != wide)
    assert torch.equal(x.isnan(), wide.isnan()) and x.isnan().any()
    assert (x == 1).sum() == 1
    for refused in (lambda: x < x, lambda: x + x):
        with pytest.raises(NotImplementedError):
            refused()


def test_products_refuse_factors_that_their_numbers_cannot_hold():
    x, v = torch.ones(3, 3), torch.ones(3)
    for call in (
        lambda f: torch.addmv(v, x, v, alpha=f),
        lambda f: torch.baddbmm(x[None], x[None], x[None], beta=f),
        lambda f: torch.addr(x, v, v, alpha=f),
        lambda f: torch.addcmul(v, v, v, value=f),
        lambda f: torch.lerp(v, v, f),
    ):
        with pytest.raises(RuntimeError, match="complex"):
            call(1j)
    assert torch.addcmul(v, v, v, value=2 + 0j).tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="Boolean beta"):
        torch.addr(x, v, v, beta=True)
    assert torch.addr(x.bool(), v.bool(), v.bool(), beta=True).all()
    assert torch.full((2,), 1j, dtype=torch.bool).all()


def test_sums_of_products_without_rows():
    for n, k, p in ((0, 3, 4), (2, 3, 0), (2, 0, 4)):
        a, b = torch.ones(5, n, k), torch.ones(5, k, p)
        assert torch.addbmm(torch.ones(n, p), a, b, beta=2).tolist() == torch.full((n, p), 2.0 + 5 * k).tolist()
    one = torch.ones(2, 3)
    assert torch.chain_matmul(one) is not None and torch.equal(torch.chain_matmul(one), one)
    for matrices in ((), (torch.ones(3),), (torch.ones(3, 3), torch.ones(3))):
        with pytest.raises(RuntimeError, match="chain_matmul"):
            torch.chain_matmul(*matrices)


def test_indices_out_of_range_are_index_errors():
    x, one = torch.zeros(3), torch.ones(1)
    for bad in (5, -4):
        i = torch.tensor([bad])
        for call in (
            lambda i: x.index_fill(0, i, 1.0),
            lambda i: x.clone().index_fill_(0, i, 1.0),
            lambda i: x.index_copy(0, i, one),
            lambda i: x.index_reduce(0, i, one, "amax"),
        ):
            with pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
                call(i)
    assert x.index_fill(0, torch.tensor([-1]), 1.0).tolist() == [0, 0, 1]
    with pytest.raises(NotImplementedError, match="complex"):
        one.cfloat().clamp(0, 1)
    with pytest.raises(ValueError, match="at least one operand"):
        torch.einsum("", [])


def test_formats_of_resized_tensors():
    last = torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert torch.zeros(1).resize_as_(last, memory_format=torch.preserve_format).stride() == last.stride()
    assert last.clone().resize_(2, 3, 4, 5, memory_format=torch.contiguous_format).is_contiguous()
    with pytest.raises(RuntimeError, match="memory format"):
        last.resize_(2, 3, 4, 5, memory_format=torch.preserve_format)


def test_copies_of_parts_into_given_tensors():
    x = torch.arange(9.0).view(3, 3)
    for copy, args, sizes in (
        (torch.split_copy, (2,), (2, 1)),
        (torch.split_with_sizes_copy, ([1, 2],), (1, 2)),
        (torch.unbind_copy, (), (None,) * 3),
    ):
        out = [torch.empty((3,) if n is None else (n, 3)) for n in sizes]
        assert copy(x, *args, out=out) is None
        assert all(map(torch.equal, out, copy(x, *args)))
        with pytest.raises(RuntimeError, match="size"):
            copy(x, *args, out=out[:1])
        with pytest.raises(RuntimeError, match="dtype"):
            copy(x, *args, out=[t.int() for t in out])


def test_a_nan_takes_the_gradient_of_its_segment():
    x = torch.tensor([1, torch.nan, 3, torch.nan, torch.nan, 5, 5], requires_grad=True)
    for kind in ("max", "min"):
        (grad,) = torch.autograd.grad(torch.segment_reduce(x, kind, lengths=torch.tensor([3, 2, 2])).sum(), x)
        assert grad.tolist() == [0, 1, 0, 0.5, 0.5, 0.5, 0.5]
    (grad,) = torch.autograd.grad(torch.segment_reduce(x, "prod", lengths=torch.tensor([3, 2, 2])).sum(), x)
    assert grad.nan_to_num(-1.0).tolist() == [-1, 3, -1, -1, -1, 5, 5]


def test_a_row_of_scores_has_the_losses_of_its_targets_shape():
    x, f = torch.tensor([0.1, 0.2, 0.4]), torch.nn.functional.multi_margin_loss
    assert f(x, torch.tensor(2), reduction="none").shape == f(x, torch.tensor([2])).shape == ()
    assert f(x, torch.tensor([2]), reduction="none").tolist() == [f(x, torch.tensor(2)).item()]


def test_reductions_of_nothing_have_a_history():
    x, i = torch.zeros(0, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    for found in (
        torch.ones(2).scatter_reduce(0, i, x, "prod"),
        torch.ones(2).scatter_reduce(0, i[:0], torch.ones(3, requires_grad=True), "sum"),
        torch.segment_reduce(x, "sum", lengths=torch.tensor([0, 0])),
    ):
        assert found.requires_grad
    found.sum().backward()
    assert x.grad.shape == (0,)


def test_a_sum_with_a_product_has_the_dtype_of_the_product():
    x = torch.ones(3, dtype=torch.double, requires_grad=True)
    m = torch.ones(3, 3)
    found = torch.addmv(x, m, m[0], beta=2)
    assert found.dtype is torch.float32 and found.tolist() == [5, 5, 5]
    found.sum().backward()
    assert x.grad.dtype is torch.double and x.grad.tolist() == [2, 2, 2]
    assert torch.addmv(x, m.cfloat(), m[0].cfloat()).dtype is torch.complex64


def test_truth_values_are_floats_where_those_are_wanted():
    x = torch.tensor([0.5, 1.5])
    assert torch.dropout(x, True, True).tolist() == [0, 0] and torch.quantile(x, True) == 1.5
    assert torch.fft.fftfreq(4, True).tolist() == [0, 0.25, -0.5, -0.25]
    assert torch.linalg.matrix_rank(torch.eye(2), atol=True) == 0
    with pytest.raises(TypeError, match="must be bool"):
        torch.dropout(x, 0.5, 1)


def test_integrals_over_nothing_have_the_dtype_of_others():
    y = torch.ones(2, 0, dtype=torch.int64)
    for more in ({}, {"dx": 2.0}, {"x": torch.ones(0)}):
        assert torch.cumulative_trapezoid(y, **more).dtype == torch.float32
        assert torch.cumulative_trapezoid(y, **more).shape == (2, 0)
    assert torch.trapezoid(y).tolist() == [0, 0] and torch.trapezoid(y).dtype == torch.int64
