"""Functions of `tessera.functional` and of low-rank factorizations as programs (see _definitions).

Programs call lobpcg as it is (STAYS_PYTHON): only its arguments and results are declared, and its body never runs.
"""

FUNCTIONS = """
def tensordot(a: Tensor, b: Tensor, dims: Union[int, Tensor, List[List[int]], Tuple[List[int], List[int]]] = 2,
        out: Optional[Tensor] = None) -> Tensor:
    if isinstance(dims, int):
        left, right = [i - dims for i in range(dims)], [i for i in range(dims)]
    elif isinstance(dims, Tensor):
        given: List[List[int]] = dims.tolist()
        left, right = given[0], given[1]
    elif isinstance(dims, List[List[int]]):
        left, right = dims[0], dims[1]
    else:
        left, right = dims[0], dims[1]
    if out is None:
        return torch._C._tensordot(a, b, left, right)
    return torch._C._tensordot(a, b, left, right, out=out)
def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    if input.dim() > 1 or input.is_floating_point() or input.is_complex():
        raise RuntimeError("Input is supposed to be a vector of integers")
    rows = torch.arange(size + 1, dtype=input.dtype, device=input.device)
    return torch.searchsorted(input.contiguous(), rows, out_int32=out_int32)
def _convert_indices_from_csr_to_coo(crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False,
        transpose: bool = False) -> Tensor:
    counts = crow_indices.diff()
    places = torch.ones_like(counts).nonzero().repeat_interleave(counts.flatten(), 0).t()
    row, column = places[-1:], col_indices.reshape(1, -1)
    found = torch.cat([places[:-1], column, row] if transpose else [places[:-1], row, column])
    return found.to(torch.int32 if out_int32 else torch.int64)
def _unique_parts(input: Tensor, sorted: bool, inverse: bool, counts: bool,
        dim: Optional[int]) -> Tuple[Tensor, Tensor, Tensor]:
    if dim is None:
        return torch._unique2(input, sorted, inverse, counts)
    return torch.unique_dim(input, dim, sorted, inverse, counts)
def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
        dim: Optional[int] = None) -> Tensor:
    return _unique_parts(input, sorted, False, False, dim)[0]
def _unique_inverse(input: Tensor, sorted: bool = True, return_inverse: bool = True, return_counts: bool = False,
        dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    return _unique_parts(input, sorted, True, False, dim)[:2]
def _unique_counts(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = True,
        dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    values, inverse, counts = _unique_parts(input, sorted, False, True, dim)
    return values, counts
def _unique_all(input: Tensor, sorted: bool = True, return_inverse: bool = True, return_counts: bool = True,
        dim: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    return _unique_parts(input, sorted, True, True, dim)
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
        dim: Optional[int] = None) -> Tensor:
    return torch.ops.aten.unique_consecutive(input, False, False, dim)[0]
def _consecutive_inverse(input: Tensor, return_inverse: bool = True, return_counts: bool = False,
        dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    return torch.ops.aten.unique_consecutive(input, True, False, dim)[:2]
def _consecutive_counts(input: Tensor, return_inverse: bool = False, return_counts: bool = True,
        dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    values, inverse, counts = torch.ops.aten.unique_consecutive(input, False, True, dim)
    return values, counts
def _consecutive_all(input: Tensor, return_inverse: bool = True, return_counts: bool = True,
        dim: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.ops.aten.unique_consecutive(input, True, True, dim)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    at = [torch.arange(input.size(0), device=input.device) for i in range(r)]
    at = torch.meshgrid(at, indexing="ij")
    keep = torch.ones_like(at[0], dtype=torch.bool)
    for i in range(r - 1):
        keep = keep & (at[i] <= at[i + 1] if with_replacement else at[i] < at[i + 1])
    return torch.stack([input[x[keep]] for x in at], 1)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0,
        compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    if compute_mode == "use_mm_for_euclid_dist_if_necessary":
        return torch._C._VariableFunctions.cdist(x1, x2, p, None)
    if compute_mode == "use_mm_for_euclid_dist":
        return torch._C._VariableFunctions.cdist(x1, x2, p, 1)
    if compute_mode == "donot_use_mm_for_euclid_dist":
        return torch._C._VariableFunctions.cdist(x1, x2, p, 2)
    raise ValueError("{} is not a valid value for compute_mode".format(compute_mode))
def _norm_of_number(input: Tensor, p: Optional[number], dim: Optional[BroadcastingList1[int]] = None,
        keepdim: bool = False, out: Optional[Tensor] = None, dtype: Optional[int] = None) -> Tensor:
    order = 2.0 if p is None else p
    if out is None:
        return torch.linalg.vector_norm(input, order, dim, keepdim, dtype=dtype)
    return torch.linalg.vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)
def norm(input: Tensor, p: str = "fro", dim: Optional[BroadcastingList1[int]] = None, keepdim: bool = False,
        out: Optional[Tensor] = None, dtype: Optional[int] = None) -> Tensor:
    if p != "nuc":
        if p != "fro":
            raise RuntimeError("only valid string values are 'fro' and 'nuc', found {}".format(p))
        return _norm_of_number(input, 2.0, dim, keepdim, out, dtype)
    both = [i for i in range(input.dim())] if dim is None else dim
    if out is None:
        return torch.linalg.matrix_norm(input, p, both, keepdim, dtype=dtype)
    return torch.linalg.matrix_norm(input, p, both, keepdim, dtype=dtype, out=out)
def _lu_with_infos(A: Tensor, pivot: bool = True, get_infos: bool = True,
        out: Optional[Tuple[Tensor, Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor, Tensor]:
    parts = torch._C._lu_with_info(A, pivot)
    if out is not None:
        for given, part in zip(out, parts):
            given.resize_(part.size()).copy_(part)
        return out
    return parts
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False,
        out: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
    parts = torch._C._lu_with_info(A, pivot)
    if out is not None:
        out[0].resize_(parts[0].size()).copy_(parts[0])
        out[1].resize_(parts[1].size()).copy_(parts[1])
        return out
    return parts[:2]
def svd_lowrank(A: Tensor, q: Optional[int] = 6, niter: Optional[int] = 2,
        M: Optional[Tensor] = None) -> Tuple[Tensor, Tensor, Tensor]:
    x = A if M is None else A - M
    wide = x.size(-2) < x.size(-1)
    if wide:
        x = x.mH
    n = x.size(-1)
    sketch = torch.randn([n, min(6 if q is None else q, n)], dtype=x.dtype, device=x.device)
    basis = torch.linalg.qr(torch.matmul(x, sketch))[0]
    for i in range(2 if niter is None else niter):
        basis = torch.linalg.qr(torch.matmul(x.mH, basis))[0]
        basis = torch.linalg.qr(torch.matmul(x, basis))[0]
    U, S, Vh = torch.linalg.svd(torch.matmul(x.mH, basis).mH, False)
    U, V = torch.matmul(basis, U), Vh.mH
    return (V, S, U) if wide else (U, S, V)
def pca_lowrank(A: Tensor, q: Optional[int] = None, center: bool = True,
        niter: int = 2) -> Tuple[Tensor, Tensor, Tensor]:
    most = min(A.size(-2), A.size(-1))
    count = min(6, most) if q is None else q
    if count < 0 or count > most:
        raise ValueError("q(={}) must be non-negative integer and not greater than min(m, n)={}".format(count, most))
    if niter < 0:
        raise ValueError("niter(={}) must be non-negative integer".format(niter))
    return torch.svd_lowrank(A, count, niter, A.mean([-2], True) if center else None)
def lobpcg(A: Tensor, k: Optional[int] = None, B: Optional[Tensor] = None, X: Optional[Tensor] = None,
        n: Optional[int] = None, iK: Optional[Tensor] = None, niter: Optional[int] = None, tol: Optional[float] = None,
        largest: Optional[bool] = None, method: Optional[str] = None, tracker: Optional[Tensor] = None,
        ortho_iparams: Optional[Dict[str, int]] = None, ortho_fparams: Optional[Dict[str, float]] = None,
        ortho_bparams: Optional[Dict[str, bool]] = None) -> Tuple[Tensor, Tensor]:
    return A, A
"""
