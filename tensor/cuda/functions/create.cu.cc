// Ranges, windows, indices of triangles: a thread for each number.
#include <cmath>
#include <numbers>

#include "tensor/cuda/support/convert.h"
#include "tensor/cuda/functions/engines.h"
#include "tensor/cuda/support/math.h"

namespace tessera::cuda {
namespace {

using cpu::Sequence;
using cpu::SequenceKind;
using cpu::TriangleRows;

// One dimension of kBetween.
__device__ double between(const Sequence& s, int64_t i, double first, double step, double end) {
  return i < s.count / 2 ? first + step * static_cast<double>(i) : end - step * static_cast<double>(s.count - 1 - i);
}

__device__ double real_number(const Sequence& s, int64_t i) {
  const double at = static_cast<double>(i);
  switch (s.kind) {
    case SequenceKind::kSteps:
      return s.a + s.b * at;
    case SequenceKind::kBetween:
      return between(s, i, s.a, s.b, s.end);
    case SequenceKind::kFloats: {
      const float step = static_cast<float>(s.b);
      return i < s.count / 2 ? std::fma(step, static_cast<float>(i), static_cast<float>(s.a))
                             : std::fma(-step, static_cast<float>(s.count - 1 - i), static_cast<float>(s.end));
    }
    case SequenceKind::kPowers:
      return std::pow(s.base, between(s, i, s.a, s.b, s.end));
    case SequenceKind::kCosine: {
      const double turn = 2 * std::numbers::pi * at / s.span;
      double sum = 0;
      for (int j = 0; j < s.num_terms; ++j) {
        const int64_t k = s.first + j;
        const double term = s.terms[j] * std::cos(static_cast<double>(k) * turn);
        sum += k % 2 ? -term : term;
      }
      return sum;
    }
    case SequenceKind::kTriangle:
      return 1 - std::abs(2 * at / s.span - 1);
    default: {
      const double x = 2 * at / s.span - 1;
      return math::i0(s.a * std::sqrt(math::at_least(1 - x * x, 0.0))) / math::i0(s.a);
    }
  }
}

struct WriteSequence {
  Sequence s;
  DType dtype;
  int64_t item;
  bool complex;
  char* out;
  __device__ void operator()(int64_t i) const {
    Number n{Number::kReal, 0, 0, 0};
    if (s.kind == SequenceKind::kIntegers) {
      n.kind = Number::kSigned;
      n.i = static_cast<int64_t>(static_cast<uint64_t>(s.first) +
                                 static_cast<uint64_t>(s.step) * static_cast<uint64_t>(i));
    } else {
      n.re = real_number(s, i);
      if (complex) {
        n.kind = Number::kComplex;
        if (s.kind == SequenceKind::kBetween) n.im = between(s, i, s.a_imag, s.b_imag, s.end_imag);
      }
    }
    write_number(out + i * item, dtype, n);
  }
};

struct WriteTriangle {
  TriangleRows t;
  DType dtype;
  int64_t item;
  char* out;

  // The columns of the rows from `begin` to `end`, where row r has c + r.
  __device__ static int64_t slope(int64_t begin, int64_t end, int64_t c) {
    return end <= begin ? 0 : (end - begin) * (2 * c + begin + end - 1) / 2;
  }
  // Elements of the rows [t.first_row, r).
  __device__ int64_t before(int64_t r) const {
    // Rows up to this one have all columns (upper), or all from it on (lower).
    int64_t turn = t.upper ? -t.offset : t.cols - t.offset - 1;
    turn = turn < t.first_row ? t.first_row : turn > r ? r : turn;
    if (t.upper) return (turn - t.first_row) * t.cols + (r - turn) * (t.cols - t.offset) - slope(turn, r, 0);
    return slope(t.first_row, turn, t.offset + 1) + (r - turn) * t.cols;
  }
  __device__ void write(int64_t at, int64_t v) const {
    write_number(out + at * item, dtype, Number{Number::kSigned, v, 0, 0});
  }
  __device__ void operator()(int64_t i) const {
    int64_t row = t.first_row;
    for (int64_t left = t.end_row - t.first_row; left > 1;) {
      const int64_t half = left / 2;
      if (before(row + half) <= i) row += half;
      left -= half;
    }
    const int64_t from = t.upper && row + t.offset > 0 ? row + t.offset : 0;
    write(i, row);
    write(t.count + i, from + i - before(row));
  }
};

}  // namespace

void run_sequence(const Sequence& s, DType dtype, void* out) {
  for_each(s.count, WriteSequence{s, dtype, item_size(dtype), is_complex(dtype), static_cast<char*>(out)});
}
void run_triangle_indices(const TriangleRows& t, DType dtype, void* out) {
  for_each(t.count, WriteTriangle{t, dtype, item_size(dtype), static_cast<char*>(out)});
}

}  // namespace tessera::cuda
