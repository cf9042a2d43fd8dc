// What the files of this library share.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tensor/core/layouts/sparse.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_extra.h"

namespace tessera::kernels {

using sparse::by_rows;
using sparse::has_blocks;
using sparse::is_compressed;
using sparse::is_coo;
using sparse::is_sparse;
using sparse::make_compressed;
using sparse::make_coo;
using sparse::members;
using sparse::Members;

// "Sparse", "SparseCsr", "Strided": as messages name layouts.
const char* shown(Layout l);
// Error unless t is of that layout: "coalesce expected sparse coordinate tensor layout but got Strided".
void check_coo(const Tensor& t, const char* function);

// --- Making (create.cc)
Tensor coo_of_size(SymIntList size, std::optional<DType>, std::optional<Layout>, std::optional<Device>,
                   std::optional<bool>);
Tensor coo_inferred(const Tensor& indices, const Tensor& values, std::optional<DType>, std::optional<Layout>,
                    std::optional<Device>, std::optional<bool>, std::optional<bool>);
Tensor coo_checked(const Tensor& indices, const Tensor& values, SymIntList size, std::optional<DType>,
                   std::optional<Layout>, std::optional<Device>, std::optional<bool>, std::optional<bool>);
Tensor coo_unchecked(const Tensor& indices, const Tensor& values, SymIntList size, std::optional<DType>,
                     std::optional<Layout>, std::optional<Device>, std::optional<bool>, std::optional<bool>);
Tensor compressed_checked(const Tensor& compressed, const Tensor& plain, const Tensor& values, SymIntList size,
                          std::optional<DType>, std::optional<Layout>, std::optional<Device>, std::optional<bool>);
Tensor compressed_inferred(const Tensor& compressed, const Tensor& plain, const Tensor& values, std::optional<DType>,
                           std::optional<Layout>, std::optional<Device>, std::optional<bool>);
Tensor compressed_unchecked(const Tensor& compressed, const Tensor& plain, const Tensor& values, SymIntList size,
                            std::optional<DType>, std::optional<Layout>, std::optional<Device>, std::optional<bool>);
Tensor spdiags(const Tensor& diagonals, const Tensor& offsets, SymIntList shape, std::optional<Layout> layout);
// Without elements; COO with `sparse_dim` sparse dimensions (-1: all of them).
Tensor empty_sparse(Layout layout, IntList sizes, DType dtype, Device device, int64_t sparse_dim = -1,
                    IntList blocks = {}, DType index_dtype = DType::kInt64);
Tensor coo_zeros(std::initializer_list<int64_t> sizes, const Tensor& like);
// t's pattern with other values.
Tensor with_values(const Tensor& t, const Tensor& values);
int64_t nnz_of(const Tensor& self);
int64_t sparse_dim_of(const Tensor& self);
int64_t dense_dim_of(const Tensor& self);
bool coalesced_flag(const Tensor& self);
void validate_coo(const Tensor& indices, const Tensor& values, IntList size, std::optional<bool> is_coalesced,
                  std::optional<bool>);
void validate_compressed(const Tensor& compressed, const Tensor& plain, const Tensor& values, IntList size,
                         Layout layout, std::optional<bool>);
bool switch_invariants(std::optional<bool> check);
// (height, width) of the blocks of a BSR or BSC tensor, (1, 1) of others.
std::array<int64_t, 2> blocks_of(const Tensor& t);
int64_t batch_dims(const Tensor& compressed);

// --- Conversions (convert.cc)
Tensor to_sparse_dims(const Tensor& self, int64_t sparse_dim);
Tensor to_sparse_any(const Tensor& self, std::optional<Layout> layout, std::optional<IntList> blocksize,
                     std::optional<int64_t> dense_dim);
Tensor to_dense_any(const Tensor& self, std::optional<DType> dtype, std::optional<bool> masked_grad);
Tensor coalesced_or_self(const Tensor& self);
// The same without history, of the core's members.
Tensor dense_of(const Tensor& t);
Tensor coalesced(const Tensor& t);
Tensor in_layout(const Tensor& t, Layout layout, IntList blocks = {});  // from any sparse layout; sparse_dim 2
// Places in a tensor of `sizes` of the elements that the columns of `indices` name, row-major, checked: IndexError for
// one outside.
Tensor flat_places(const Tensor& indices, IntList sizes);
// The other way round.
Tensor indices_of_places(const Tensor& places, IntList sizes);
// (n, rest...) -> (total, rest...): rows at their places, zeros elsewhere. Places are distinct and checked.
Tensor scattered_rows(const Tensor& rows, const Tensor& places, int64_t total);
// The groups of equal keys, in order: distinct keys, and rows with those of a group added.
struct Grouped {
  Tensor keys, rows;
};
Grouped grouped(const Tensor& keys, int64_t range, const Tensor& rows);
// Row numbers of a compressed layout's elements, as (nnz) of one matrix, from checked pointers.
Tensor expanded_pointers(const Tensor& pointers, int64_t nnz);

// The sum of two tensors of one compressed layout and block size.
Tensor added_compressed(const Tensor& a, const Tensor& b);
// The elements of a strided tensor, broadcast to the pattern's size, at the pattern's elements: shaped as its values.
Tensor gathered(const Tensor& dense, const Tensor& pattern);

// A matrix in rows: what products work on. Checked: pointers ascend, and every column is inside where `columns_too`.
struct Rows {
  Tensor pointers, columns, values;  // int64, contiguous
  int64_t height = 0, width = 0;
};
Rows rows_of(const Tensor& matrix, bool transposed = false, bool columns_too = true);
// IndexError unless `inside`: what was found of the numbers along a dimension.
void check_places(bool inside, int64_t size);

// --- The rest
Tensor sparse_product(const Tensor& a, const Tensor& b);
Tensor solved_sparse(const Tensor& a, const Tensor& b, bool left);
Tensor sum_all_values(const Tensor& self, std::optional<DType> dtype);
Tensor sspaddmm_kernel(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                       const Scalar& alpha);
Tensor hspmm_kernel(const Tensor& mat1, const Tensor& mat2);
Tensor sparse_sampled_addmm_kernel(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                                   const Scalar& alpha);
// out= and in-place forms: the target becomes the result, in its own dtype. A dense target takes dense results.
void write_sparse(const Tensor& target, const Tensor& result);

// Products and sums of any two layouts, without history (arithmetic.cc, product.cc): what the rules call.
Tensor add_any(const Tensor& a, const Tensor& b, const Scalar& alpha, const char* name);
const Tensor& add_to_dense(const Tensor& self, const Tensor& other, const Scalar& alpha);
Tensor multiply_any(const Tensor& a, const Tensor& b);
Tensor product_any(const Tensor& a, const Tensor& b);
Tensor masked_by(const Tensor& self, const Tensor& mask);
Tensor sum_dims(const Tensor& self, IntList dims, bool keepdim, std::optional<DType> dtype);
Tensor transposed_any(const Tensor& self, int64_t a, int64_t b);
Tensor permuted(const Tensor& self, IntList order);
Tensor unsqueezed(const Tensor& self, int64_t dim);
Tensor selected(const Tensor& self, int64_t dim, int64_t index);
Tensor rows_selected(const Tensor& self, int64_t dim, const Tensor& index);
Tensor narrowed(const Tensor& self, int64_t dim, int64_t start, int64_t length);
Tensor joined(TensorList tensors, int64_t dim);
Tensor copied(const Tensor& self);

inline IntVector part(IntList l, int64_t begin, int64_t end) { return {l.begin() + begin, l.begin() + end}; }
inline int64_t product(IntList l) {
  int64_t n = 1;
  for (int64_t x : l) n *= x;
  return n;
}
inline IntVector joined_sizes(IntList a, IntList b) {
  IntVector r(a.begin(), a.end());
  r.insert(r.end(), b.begin(), b.end());
  return r;
}
// int64, contiguous, without history, in host memory.
Tensor numbers(const Tensor& indices);

}  // namespace tessera::kernels
