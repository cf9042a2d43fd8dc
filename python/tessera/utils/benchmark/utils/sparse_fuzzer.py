"""Random sparse tensors for benchmarks."""

import tessera
from tessera._lazy import require
from tessera.utils.benchmark.utils.fuzzer import FuzzedTensor

__all__ = ["FuzzedSparseTensor"]


class FuzzedSparseTensor(FuzzedTensor):
    """A random sparse tensor in coordinates.

    Args:
        name, size, min_elements, max_elements, dim_parameter, dtype, cuda: as of `FuzzedTensor`.
        sparse_dim: a parameter: how many dimensions are sparse.
        nnz: a parameter: the number of entries. Or density: a parameter: their share of all.
        coalesced: a parameter: whether entries are in order and each place has one.

    Raises: NotImplementedError where tensors have no sparse layout.
    """

    def __init__(
        self,
        name,
        size,
        min_elements=None,
        max_elements=None,
        dim_parameter=None,
        sparse_dim=None,
        nnz=None,
        density=None,
        coalesced=None,
        dtype=tessera.float32,
        cuda=False,
    ):
        super().__init__(
            name=name,
            size=size,
            min_elements=min_elements,
            max_elements=max_elements,
            dim_parameter=dim_parameter,
            dtype=dtype,
            cuda=cuda,
        )
        self._sparse_dim, self._nnz, self._density, self._coalesced = sparse_dim, nnz, density, coalesced

    @staticmethod
    def sparse_tensor_constructor(size, dtype, sparse_dim, nnz, is_coalesced):
        """A sparse tensor with nnz random entries; if not is_coalesced, some of them at the same place."""
        make = require("sparse_coo_tensor", "FuzzedSparseTensor")
        extents = tessera.tensor(size[:sparse_dim], dtype=tessera.float64).unsqueeze(1)
        indices = (tessera.rand(sparse_dim, nnz, dtype=tessera.float64) * extents).long()
        values = FuzzedTensor.default_tensor_constructor((nnz, *size[sparse_dim:]), dtype)
        tensor = make(indices, values, size)
        return tensor.coalesce() if is_coalesced else tensor

    def _make(self, params, state):
        size, _, _ = self._sizes(params)
        sparse_dim = min(params[self._sparse_dim] if self._sparse_dim else len(size), len(size))
        places = 1
        for n in size[:sparse_dim]:
            places *= n
        nnz = params[self._nnz] if self._nnz else int(places * params[self._density]) if self._density else places // 10
        coalesced = bool(params[self._coalesced]) if self._coalesced else state.rand() > 0.5
        tensor = self.sparse_tensor_constructor(size, self._dtype, sparse_dim, nnz, coalesced)
        tensor = tensor.cuda() if self._cuda else tensor
        known = {
            "numel": tensor.numel(),
            "shape": tensor.size(),
            "is_coalesced": tensor.is_coalesced(),
            "density": nnz / max(places, 1),
            "sparsity": 1 - nnz / max(places, 1),
            "sparse_dim": sparse_dim,
            "dense_dim": len(size) - sparse_dim,
            "is_hybrid": sparse_dim < len(size),
            "dtype": str(self._dtype),
        }
        return tensor, known
