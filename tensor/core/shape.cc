// Arithmetic on sizes and strides: broadcasting, views, memory formats, overlap.
#include <algorithm>
#include <numeric>

#include "tensor/core/tensor.h"

namespace tessera {

int64_t wrap_dim(int64_t dim, int64_t ndim, bool wrap_scalar) {
  if (ndim == 0) {
    TESSERA_CHECK_INDEX(wrap_scalar, "Dimension specified as ", dim, " but tensor has no dimensions");
    ndim = 1;
  }
  TESSERA_CHECK_INDEX(dim >= -ndim && dim < ndim, "Dimension out of range (expected to be in range of [", -ndim, ", ",
                      ndim - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + ndim : dim;
}

IntVector contiguous_strides(IntList sizes) {
  IntVector s(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    s[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return s;
}

IntVector channels_last_strides(IntList sizes) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  IntVector s(sizes.size());
  int64_t stride = 1;
  for (int64_t step = 0; step < rank; ++step) {
    const int64_t d = step == 0 ? 1 : step < rank - 1 ? rank - step : 0;
    s[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return s;
}

int64_t checked_numel(IntList sizes) {
  int64_t n = 1;
  bool overflow = false, zero = false;
  for (int64_t s : sizes) {
    TESSERA_CHECK(s >= 0, "Trying to create tensor with negative dimension ", s, ": ", shape_string(sizes));
    zero |= s == 0;
    overflow |= __builtin_mul_overflow(n, s, &n);
  }
  TESSERA_CHECK(zero || !overflow, "Storage size calculation overflowed with sizes=", shape_string(sizes));
  return zero ? 0 : n;
}

IntVector infer_broadcast(IntList a, IntList b) {
  const size_t n = std::max(a.size(), b.size());
  IntVector r(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t x = i < n - a.size() ? 1 : a[i - (n - a.size())];
    const int64_t y = i < n - b.size() ? 1 : b[i - (n - b.size())];
    TESSERA_CHECK(x == y || x == 1 || y == 1, "The size of tensor a (", x, ") must match the size of tensor b (", y,
                  ") at non-singleton dimension ", i);
    r[i] = x == 1 ? y : x;
  }
  return r;
}

IntVector infer_size(IntList shape, int64_t numel) {
  IntVector r(shape.begin(), shape.end());
  int64_t known = 1, free_dim = -1;
  bool overflow = false;
  for (size_t i = 0; i < r.size(); ++i) {
    if (r[i] == -1) {
      TESSERA_CHECK(free_dim < 0, "only one dimension can be inferred");
      free_dim = static_cast<int64_t>(i);
    } else {
      TESSERA_CHECK(r[i] >= 0, "invalid shape dimension ", r[i]);
      overflow |= __builtin_mul_overflow(known, r[i], &known);
    }
  }
  const bool fits = !overflow && (free_dim < 0 ? known == numel : known == 0 ? numel == 0 : numel % known == 0);
  TESSERA_CHECK(fits, "shape '", shape_string(shape), "' is invalid for input of size ", numel);
  if (free_dim >= 0) {
    TESSERA_CHECK(known != 0, "cannot reshape tensor of 0 elements into shape ", shape_string(shape),
                  " because the unspecified dimension size -1 can be any value and is ambiguous");
    r[free_dim] = numel / known;
  }
  return r;
}

std::optional<IntVector> compute_view_strides(IntList old_sizes, IntList old_strides, IntList new_sizes) {
  IntVector out(new_sizes.size());
  if (old_sizes.empty()) return IntVector(new_sizes.size(), 1);
  const bool empty = std::find(old_sizes.begin(), old_sizes.end(), 0) != old_sizes.end();
  if (empty) {
    if (std::equal(old_sizes.begin(), old_sizes.end(), new_sizes.begin(), new_sizes.end()))
      return IntVector(old_strides.begin(), old_strides.end());
    return contiguous_strides(new_sizes);
  }
  // Walk both shapes from the back: each run of old dimensions that lies evenly in memory must be filled exactly by new
  // dimensions.
  int64_t view_d = static_cast<int64_t>(new_sizes.size()) - 1;
  int64_t chunk_stride = old_strides.back(), old_n = 1, new_n = 1;
  for (int64_t d = static_cast<int64_t>(old_sizes.size()) - 1; d >= 0; --d) {
    old_n *= old_sizes[d];
    const bool chunk_ends = d == 0 || (old_sizes[d - 1] != 1 && old_strides[d - 1] != old_n * chunk_stride);
    if (!chunk_ends) continue;
    while (view_d >= 0 && (new_n < old_n || new_sizes[view_d] == 1)) {
      out[view_d] = new_n * chunk_stride;
      new_n *= new_sizes[view_d];
      --view_d;
    }
    if (new_n != old_n) return std::nullopt;
    if (d > 0) {
      chunk_stride = old_strides[d - 1];
      old_n = new_n = 1;
    }
  }
  return view_d == -1 ? std::optional(std::move(out)) : std::nullopt;
}

IntVector preserved_strides(const Tensor& t) {
  if (t.is_contiguous() || !t.is_non_overlapping_and_dense())
    return t.is_contiguous() && t.numel() ? to_vector(t.strides()) : contiguous_strides(t.sizes());
  return to_vector(t.strides());
}

Overlap internal_overlap(const Tensor& t) {
  if (t.is_non_overlapping_and_dense()) return Overlap::kNo;
  for (int64_t i = 0; i < t.dim(); ++i)
    if (t.strides()[i] == 0 && t.sizes()[i] > 1) return Overlap::kYes;
  return Overlap::kTooHard;
}

namespace {

// One distance by which elements lie apart: so often one tensor goes forward by it, and the other. What all smaller
// distances and the elements' own bytes can make up for is between low and high.
struct Step {
  int64_t stride, forward, back, low, high;
};

// Whether `distance` is a sum of steps, largest first; the last one has the stride 0. True where it takes long to know.
bool is_reached(const Step* step, int64_t distance, int* budget) {
  if (--*budget < 0) return true;
  if (step->stride == 0) return step->low <= distance && distance <= step->high;
  auto floor_div = [](int64_t n, int64_t d) { return n / d - (n % d < 0); };
  const int64_t first = std::max(-step->back, -floor_div(step->high - distance, step->stride));
  const int64_t last = std::min(step->forward, floor_div(distance - step->low, step->stride));
  for (int64_t k = first; k <= last; ++k)
    if (is_reached(step + 1, distance - k * step->stride, budget)) return true;
  return false;
}

// Whether any byte belongs to both.
bool meet(const Tensor& a, const Tensor& b, int64_t distance) {
  std::vector<Step> steps{{0, 0, 0, 1 - b.item_size(), a.item_size() - 1}};
  auto add = [&](const Tensor& t, int64_t Step::*count) {
    for (int64_t i = 0; i < t.dim(); ++i) {
      const int64_t stride = t.strides()[i] * t.item_size();
      if (t.sizes()[i] == 1 || stride == 0) continue;
      auto at = std::ranges::find_if(steps, [&](const Step& s) { return s.stride <= stride; });
      if (at->stride != stride) at = steps.insert(at, {stride, 0, 0, 0, 0});
      (*at).*count += t.sizes()[i] - 1;
    }
  };
  add(a, &Step::forward);
  add(b, &Step::back);
  for (size_t i = steps.size() - 1; i-- > 0;) {
    const Step& below = steps[i + 1];
    steps[i].low = below.low - below.stride * below.back;
    steps[i].high = below.high + below.stride * below.forward;
  }
  int budget = 200;
  return is_reached(steps.data(), distance, &budget);
}

}  // namespace

Sharing memory_sharing(const Tensor& a, const Tensor& b) {
  if (a.impl() == b.impl()) return Sharing::kFull;
  if (a.numel() == 0 || b.numel() == 0 || !a.storage() || !(a.storage() == b.storage()) || !a.storage()->data())
    return Sharing::kNone;
  const int64_t distance = static_cast<const char*>(b.data_ptr()) - static_cast<const char*>(a.data_ptr());
  const bool same = distance == 0 && a.dtype() == b.dtype() && std::ranges::equal(a.sizes(), b.sizes()) &&
                    std::ranges::equal(a.strides(), b.strides());
  if (same) return Sharing::kFull;
  return meet(a, b, distance) ? Sharing::kPartial : Sharing::kNone;
}

std::string shape_string(IntList sizes) {
  std::string s = "[";
  for (size_t i = 0; i < sizes.size(); ++i) s += (i ? ", " : "") + std::to_string(sizes[i]);
  return s + "]";
}

}  // namespace tessera
