// Lines of any strides for cuFFT, whose plans know one batch of equally distant lines: the longest dimension is that
// batch, the others are calls; where these would be many, or numbers lie as cuFFT cannot read them, lines are copied.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fft/cuda/engines.h"
#include "fft/cuda/plans.h"
#include "tensor/cuda/support/walk.h"

namespace tessera::cuda {
namespace {

using cpu::FftDim;
using cpu::FftKind;
using cpu::FftLines;

constexpr int64_t kMostCalls = 16;

// Lines in memory. Distances in elements.
struct Lines {
  char* data;
  int parts;             // of an element: 2, or 1 of real numbers
  int64_t item, length;  // bytes of an element, elements of a line
  int64_t stride;
  std::vector<int64_t> distances;  // of each of FftLines::dims

  Lines(const void* memory, int n_parts, int64_t real_bytes, int64_t n, int64_t step)
      : data(static_cast<char*>(const_cast<void*>(memory))),
        parts(n_parts),
        item(real_bytes * n_parts),
        length(n),
        stride(n == 1 ? 1 : step) {}
  bool is_aligned(size_t batch) const {  // as complex numbers are, at the beginning of each call
    if (parts == 2) return true;
    bool even = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(2 * item) == 0;
    for (size_t d = 0; d < distances.size(); ++d) even = even && (d == batch || distances[d] % 2 == 0);
    return even;
  }
  // The same lines one behind the other, elsewhere.
  Lines dense(void* memory, const std::vector<FftDim>& dims) const {
    Lines l = *this;
    l.data = static_cast<char*>(memory);
    l.stride = 1;
    int64_t step = length + (parts == 1 ? length % 2 : 0);  // so that each begins as it must
    for (size_t d = dims.size(); d-- > 0; step *= dims[d].size) l.distances[d] = step;
    return l;
  }
  int64_t dense_bytes(const std::vector<FftDim>& dims) const {
    int64_t n = (length + 1) * item;
    for (const FftDim& d : dims) n *= d.size;
    return n;
  }
};

// Each number of the lines times a factor. What the target has no room for is dropped, what the source lacks is 0.
template <class T>
struct MoveLines {
  Walk<2> walk;
  char* to;
  const char* from;
  int to_parts, from_parts;
  int64_t length, whole;  // whole: of a spectrum of so many real numbers, whose first and middle numbers are real; or 0
  T factor;

  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    walk.offsets(i, at);
    T* const target = reinterpret_cast<T*>(to + at[0]);
    const T* const source = reinterpret_cast<const T*>(from + at[1]);
    const int64_t k = i % length;
    const bool real = from_parts == 1 || (whole > 0 && (k == 0 || 2 * k == whole));
    const T re = source[0] * factor, im = real ? T(0) : source[1] * factor;
    target[0] = re;
    if (to_parts == 2) target[1] = im;
  }
};
template <class T>
void move_lines_of(const Lines& to, const Lines& from, const std::vector<FftDim>& dims, int64_t whole, double factor) {
  std::vector<int64_t> shape, to_strides, from_strides;
  for (size_t d = 0; d < dims.size(); ++d) {
    shape.push_back(dims[d].size);
    to_strides.push_back(to.distances[d] * to.item);
    from_strides.push_back(from.distances[d] * from.item);
  }
  shape.push_back(to.length);
  to_strides.push_back(to.stride * to.item);
  from_strides.push_back(from.stride * from.item);
  const auto walk = make_walk<2>(shape, {to_strides.data(), from_strides.data()});
  const MoveLines<T> move{walk, to.data, from.data, to.parts, from.parts, to.length, whole, static_cast<T>(factor)};
  for_each(walk.numel, move);
}
void move_lines(DType real, const Lines& to, const Lines& from, const std::vector<FftDim>& dims, double factor,
                int64_t whole = 0) {
  if (real == DType::kFloat32)
    move_lines_of<float>(to, from, dims, whole, factor);
  else
    move_lines_of<double>(to, from, dims, whole, factor);
}

// One call for each combination of the dimensions other than `batch`.
void transform_lines(const FftLines& what, const Lines& from, const Lines& to, const std::vector<FftDim>& dims,
                     size_t batch) {
  const auto distance = [&](const Lines& l) {
    return dims[batch].size == 1 ? l.length * l.stride : l.distances[batch];
  };
  const FftPlanKey key{
      what.kind,   what.real == DType::kFloat32, what.n, dims[batch].size, from.stride, distance(from), to.stride,
      distance(to)};
  std::vector<int64_t> at(dims.size());
  for (;;) {
    char *in = from.data, *out = to.data;
    for (size_t d = 0; d < dims.size(); ++d) {
      in += at[d] * from.distances[d] * from.item;
      out += at[d] * to.distances[d] * to.item;
    }
    execute_fft(key, what.forward, in, out);
    size_t d = 0;
    for (; d < dims.size(); ++d) {
      if (d == batch) continue;
      if (++at[d] < dims[d].size) break;
      at[d] = 0;
    }
    if (d == dims.size()) return;
  }
}

}  // namespace

void run_fft(const FftLines& lines, const void* in, void* out) {
  cpu::check_fft_lines(lines);
  std::vector<FftDim> dims(lines.dims.begin(), lines.dims.end());
  int64_t count = 1;
  for (const FftDim& d : dims) count *= d.size;
  if (count == 0) return;
  if (dims.empty()) dims.push_back({1, 1, 1});
  const int64_t bytes = item_size(lines.real), half = lines.n / 2 + 1;
  const bool to_real = lines.kind == FftKind::kHalfToReal, of_real = lines.kind == FftKind::kRealToHalf;
  Lines from(in, of_real ? 1 : 2, bytes, to_real ? half : lines.n, lines.in_stride),
      to(out, to_real ? 1 : 2, bytes, of_real ? half : lines.n, lines.out_stride);
  for (const FftDim& d : dims) {
    from.distances.push_back(d.in_stride);
    to.distances.push_back(d.out_stride);
  }
  if (lines.n == 1) return move_lines(lines.real, to, from, dims, lines.scale);

  const auto longest = std::max_element(dims.begin(), dims.end(), [](auto& a, auto& b) { return a.size < b.size; });
  const auto batch = static_cast<size_t>(longest - dims.begin());
  const bool scattered = count / longest->size > kMostCalls;
  const bool repeats = from.stride == 0 || (longest->size > 1 && longest->in_stride == 0);
  const bool copies_out = scattered || !to.is_aligned(batch),
             copies_in = scattered || repeats || to_real || !from.is_aligned(batch);
  Buffer in_copy, out_copy;
  double factor = lines.scale;
  Lines source = from, target = to;
  if (copies_in) {
    in_copy = Buffer(static_cast<size_t>(from.dense_bytes(dims)));
    source = from.dense(in_copy.get(), dims);
    move_lines(lines.real, source, from, dims, factor, to_real ? lines.n : 0);
    factor = 1;
  }
  if (copies_out) {
    out_copy = Buffer(static_cast<size_t>(to.dense_bytes(dims)));
    target = to.dense(out_copy.get(), dims);
  }
  // Lines one behind the other are one batch.
  if (scattered) {
    const int64_t in_step = source.distances.back(), out_step = target.distances.back();
    const std::vector<FftDim> all{{count, in_step, out_step}};
    source.distances = {in_step};
    target.distances = {out_step};
    transform_lines(lines, source, target, all, 0);
    target = to.dense(out_copy.get(), dims);
  } else {
    transform_lines(lines, source, target, dims, batch);
  }
  if (copies_out || factor != 1) move_lines(lines.real, to, target, dims, factor);
}

}  // namespace tessera::cuda
