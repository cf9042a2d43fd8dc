// What the expressions of index.textproto call besides operators.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// Checks what index_add and index_reduce take: an index for each place of source along dim, slices of self's shape,
// self's dtype.
// IndexError unless the elements of a contiguous int64 tensor are in [low, size); one on a device reports them itself.
void check_places(const Tensor& index, int64_t dim, int64_t low, int64_t size);
void check_slices(const char* name, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source);
Tensor stack_impl(TensorList tensors, char kind);  // h, v, d or c(olumn)
std::vector<Tensor> meshgrid_impl(TensorList tensors, std::optional<std::string_view> indexing);
Tensor scatter_named(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce);
const Tensor& scatter_named_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                             std::string_view reduce);
Tensor value_of(const Tensor& self, const Tensor& index, const Scalar& value);
Tensor index_fill_tensor(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value);
Tensor take_impl(const Tensor& self, const Tensor& index);
Tensor put_impl(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate);
Tensor take_along_impl(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim);
const Tensor& index_put_inplace(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate);
const Tensor& masked_scatter_inplace(const Tensor& self, const Tensor& mask, const Tensor& source);
void triangle_into(bool upper, const Tensor& self, int64_t diagonal, const Tensor& out);
template <bool kUpper>
void triangle_kernel(const Tensor& self, int64_t diagonal, const Tensor& out) {
  triangle_into(kUpper, self, diagonal, out);
}
Tensor flip_checked(const Tensor& self, int64_t dim);
Tensor roll_impl(const Tensor& self, IntList shifts, IntList dims);
Tensor rot90_impl(const Tensor& self, int64_t k, IntList dims);
Tensor repeat_impl(const Tensor& self, IntList repeats);
Tensor tile_impl(const Tensor& self, IntList dims);
Tensor interleave_indices(const Tensor& repeats, std::optional<SymInt> output_size);
Tensor interleave(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                  std::optional<SymInt> output_size);
Tensor interleave_fixed(const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                        const std::optional<SymInt>& output_size);
Tensor diag_impl(const Tensor& self, int64_t diagonal);
Tensor diag_embed_impl(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2);
Tensor trace_impl(const Tensor& self);
Tensor diff_impl(const Tensor& self, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append);
Tensor bincount_kernel(const Tensor& self, const Tensor& weights, SymInt minlength);

}  // namespace tessera::kernels
