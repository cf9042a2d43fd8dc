#include "tensor/cpu/random/random_walk.h"

namespace tessera::cpu::random_internal {
namespace {

// Which of two dimensions is the outer one: > 0 when a is, < 0 when b is, 0 when the strides do not tell.
int compare_dims(std::span<const int64_t> shape, std::span<const Operand> operands, int a, int b) {
  for (const Operand& x : operands) {
    const int64_t sa = x.strides[a], sb = x.strides[b];
    if (sa == 0 || sb == 0) continue;
    if (sa != sb) return sa < sb ? -1 : 1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

}  // namespace

Walk::Walk(std::span<const int64_t> shape, std::span<const Operand> operands)
    : count_(static_cast<int>(operands.size())) {
  const int rank = static_cast<int>(shape.size());
  TESSERA_CHECK(rank <= kMaxRank, "tensors have at most ", kMaxRank, " dimensions, got ", rank);
  int order[kMaxRank];
  for (int i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  // Insertion sort that stops at the first clear answer, because "does not tell" is not transitive.
  for (int i = 1; i < rank; ++i) {
    int at = i;
    for (int j = i - 1; j >= 0; --j) {
      const int c = compare_dims(shape, operands, order[j], order[at]);
      if (c > 0)
        std::swap(order[j], order[at]), at = j;
      else if (c < 0)
        break;
    }
  }
  for (int k = 0; k < count_; ++k) base_[k] = static_cast<char*>(operands[k].data);
  for (int i = 0; i < rank; ++i) {
    const int d = order[i];
    numel_ *= shape[d];
    if (shape[d] == 1) continue;
    bool merge = rank_ > 0;
    for (int k = 0; k < count_ && merge; ++k)
      merge = strides_[k][rank_ - 1] * sizes_[rank_ - 1] == operands[k].strides[d];
    if (merge) {
      sizes_[rank_ - 1] *= shape[d];
      continue;
    }
    sizes_[rank_] = shape[d];
    for (int k = 0; k < count_; ++k) strides_[k][rank_] = operands[k].strides[d];
    ++rank_;
  }
  if (rank_ == 0) {
    sizes_[0] = 1;
    for (int k = 0; k < count_; ++k) strides_[k][0] = item_size(operands[k].dtype);
    rank_ = 1;
  }
}

bool is_contiguous(std::span<const int64_t> shape, const Operand& x) {
  int64_t expected = item_size(x.dtype);
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (x.strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

void not_implemented(const char* kernel, DType t) {
  internal::raise<NotImplementedError>('"', kernel, "\" not implemented for '", type_name_of(t), "'");
}

void check_floating(const char* kernel, DType t) {
  if (t < DType::kFloat16 || t > DType::kFloat64) not_implemented(kernel, t);
}

}  // namespace tessera::cpu::random_internal
