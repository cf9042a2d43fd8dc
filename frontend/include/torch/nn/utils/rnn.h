// Sequences of different lengths: packed, and padded to one length.
#pragma once

#include <algorithm>
#include <vector>

#include <torch/nn/functional/options.h>

namespace torch::nn::utils::rnn {

inline Tensor invert_permutation(const Tensor& permutation) {
  if (!permutation.defined()) return {};
  return at::argsort(permutation);
}

// data: (sum of lengths, *), step by step; batch_sizes: how many sequences have a step; sorted_indices: the order by
// falling length in which they are packed, unsorted_indices its inverse, undefined if they came in that order.
class PackedSequence {
 public:
  explicit PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {}, Tensor unsorted_indices = {})
      : data_(std::move(data)),
        batch_sizes_(std::move(batch_sizes)),
        sorted_indices_(std::move(sorted_indices)),
        unsorted_indices_(unsorted_indices.defined() ? std::move(unsorted_indices)
                                                     : invert_permutation(sorted_indices_)) {
    TORCH_CHECK(batch_sizes_.is_cpu(),
                "batch_sizes should always be on CPU. Instances of PackedSequence should never "
                "be created manually. They should be instantiated by functions like "
                "pack_sequence and pack_padded_sequences in nn::utils::rnn.");
  }
  const Tensor& data() const { return data_; }
  const Tensor& batch_sizes() const { return batch_sizes_; }
  const Tensor& sorted_indices() const { return sorted_indices_; }
  const Tensor& unsorted_indices() const { return unsorted_indices_; }
  bool is_cuda() const { return data_.is_cuda(); }
  PackedSequence to(at::Device device, at::ScalarType dtype) const {
    const auto moved = [&](const Tensor& t) { return t.defined() ? t.to(device, t.scalar_type()) : t; };
    return PackedSequence(data_.to(device, dtype), batch_sizes_, moved(sorted_indices_), moved(unsorted_indices_));
  }
  PackedSequence to(at::TensorOptions o) const {
    return to(o.has_device() ? o.device() : at::Device(data_.device()),
              o.scalar_type_opt().value_or(data_.scalar_type()));
  }
  PackedSequence cpu() const { return to(at::Device(at::kCPU)); }
  PackedSequence cuda() const { return to(at::Device(at::kCUDA)); }

 private:
  Tensor data_, batch_sizes_, sorted_indices_, unsorted_indices_;
};

namespace detail {
using Raw = at::Tensor;
inline std::vector<int64_t> numbers(const Raw& t) {
  const Raw list = at::contiguous(t.to(at::kCPU, at::kInt64));
  return {list.data<int64_t>(), list.data<int64_t>() + list.numel()};
}
inline Raw from_numbers(const std::vector<int64_t>& list) {
  const Raw t = at::empty({static_cast<int64_t>(list.size())}, at::kLong);
  std::copy(list.begin(), list.end(), t.data<int64_t>());
  return t;
}
// The rows of a padded batch (T, N, *), flattened, that packed data has.
inline Raw packed_rows(const std::vector<int64_t>& batch_sizes, int64_t n, const Raw& like) {
  std::vector<int64_t> rows;
  for (size_t t = 0; t < batch_sizes.size(); ++t)
    for (int64_t i = 0; i < batch_sizes[t]; ++i) rows.push_back(static_cast<int64_t>(t) * n + i);
  return at::to(from_numbers(rows), like.device(), at::kLong);
}
}  // namespace detail

// input (T, N, *), or (N, T, *) with batch_first; lengths (N): of falling length if enforce_sorted, else in any order.
inline PackedSequence pack_padded_sequence(Tensor input, const Tensor& lengths, bool batch_first = false,
                                           bool enforce_sorted = true) {
  auto length = detail::numbers(lengths);
  Tensor order;
  detail::Raw x = input;
  if (!enforce_sorted) {
    std::vector<int64_t> places(length.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
      return length[static_cast<size_t>(a)] > length[static_cast<size_t>(b)];
    });
    std::sort(length.begin(), length.end(), std::greater<>());
    order = at::to(detail::from_numbers(places), x.device(), at::kLong);
    x = at::index_select(x, batch_first ? 0 : 1, order);
  }
  if (batch_first) x = at::transpose(x, 0, 1);
  const int64_t n = x.size(1);
  TORCH_CHECK(static_cast<int64_t>(length.size()) == n, "Expected `len(lengths)` to be equal to batch_size, but got ",
              length.size(), " (batch_size=", n, ")");
  TORCH_CHECK(n > 0 && length.back() > 0, "Length of all samples has to be greater than 0");
  TORCH_CHECK(std::is_sorted(length.rbegin(), length.rend()),
              "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
              "`enforce_sorted=False` to have it sorted.");
  TORCH_CHECK(length[0] <= x.size(0), "Expected lengths of at most ", x.size(0), ", but got ", length[0]);
  std::vector<int64_t> sizes;
  for (int64_t t = 0; t < length[0]; ++t)
    sizes.push_back(std::count_if(length.begin(), length.end(), [&](int64_t l) { return l > t; }));
  const auto rows = detail::packed_rows(sizes, n, x);
  return PackedSequence(at::index_select(at::flatten(x, 0, 1), 0, rows), detail::from_numbers(sizes), order);
}

// (T, N, *) and the lengths; total_length: a T of at least the longest.
inline std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false,
                                                      double padding_value = 0.0,
                                                      std::optional<int64_t> total_length = std::nullopt) {
  const auto sizes = detail::numbers(sequence.batch_sizes());
  int64_t steps = static_cast<int64_t>(sizes.size());
  const int64_t n = sizes.at(0);
  TORCH_CHECK(!total_length || *total_length >= steps,
              "Expected total_length to be at least the length of the longest sequence in input, but got total_length=",
              total_length.value_or(0), " and max sequence length being ", steps);
  steps = total_length.value_or(steps);
  const detail::Raw data = sequence.data();
  std::vector<int64_t> shape(data.sizes().begin(), data.sizes().end()), lengths;
  shape[0] = steps * n;
  const auto ints = [](const std::vector<int64_t>& v) { return at::IntArrayRef(v.data(), v.size()); };
  detail::Raw x = at::full(ints(shape), padding_value, data.options());
  x = at::index_copy(x, 0, detail::packed_rows(sizes, n, data), data);
  shape[0] = n;
  shape.insert(shape.begin(), steps);
  x = at::view(x, ints(shape));
  for (int64_t i = 0; i < n; ++i)
    lengths.push_back(std::count_if(sizes.begin(), sizes.end(), [&](int64_t s) { return s > i; }));
  detail::Raw length = detail::from_numbers(lengths);
  if (batch_first) x = at::transpose(x, 0, 1);
  if (const Tensor& order = sequence.unsorted_indices(); order.defined()) {
    x = at::index_select(x, batch_first ? 0 : 1, order);
    length = at::index_select(length, 0, order.to(at::kCPU, at::kInt64));
  }
  return {x, length};
}

// Sequences (L, *) as (T, N, *), or (N, T, *) with batch_first, filled up at their end (or "left").
inline Tensor pad_sequence(at::ArrayRef<Tensor> sequences, bool batch_first = false, double padding_value = 0.0,
                           std::string_view padding_side = "right") {
  TORCH_CHECK(!sequences.empty(), "received an empty list of sequences");
  TORCH_CHECK(padding_side == "right" || padding_side == "left", "padding_side must be 'right' or 'left', but got '",
              padding_side, "'");
  int64_t longest = 0;
  for (const Tensor& s : sequences) longest = std::max(longest, s.size(0));
  std::vector<Tensor> padded;
  for (const Tensor& s : sequences) {
    std::vector<int64_t> pad(static_cast<size_t>(2 * s.dim()), 0);
    pad[pad.size() - (padding_side == "left" ? 2 : 1)] = longest - s.size(0);
    padded.push_back(at::constant_pad_nd(s, at::IntArrayRef(pad.data(), pad.size()), padding_value));
  }
  return at::stack(padded, batch_first ? 0 : 1);
}

inline PackedSequence pack_sequence(at::ArrayRef<Tensor> sequences, bool enforce_sorted = true) {
  std::vector<int64_t> lengths;
  for (const Tensor& s : sequences) lengths.push_back(s.size(0));
  return pack_padded_sequence(pad_sequence(sequences), detail::from_numbers(lengths), false, enforce_sorted);
}

}  // namespace torch::nn::utils::rnn
