// Vectors of two halves, in rows, and how those of the whole are made of them: what divide and conquer for eigenvalues
// and singular values has in common.
#pragma once

#include <algorithm>
#include <vector>

#include "linalg/cpu/spectral/vectors.h"

namespace tessera::cpu::internal {

// Rows of a square block: those of the first half are 0 in the right columns, those of the second in the left ones,
// unless rotations have mixed them.
template <class R>
class RowJoin {
 public:
  enum Part : uint8_t { kLeft = 1, kRight = 2, kBoth = 3 };

  // room: as many elements as the block has.
  RowJoin(R* rows, int64_t stride, int64_t left, int64_t right, R* room)
      : rows_(rows), stride_(stride), left_(left), right_(right), room_(room) {}

  R* row(int64_t i) const { return rows_ + i * stride_; }

  // Rows a and b become c a + s b and c b - s a.
  void rotate(int64_t a, int64_t b, double c, double s) const {
    const R cs = static_cast<R>(c), sn = static_cast<R>(s);
    rotate_rows(row(a), (b - a) * stride_, left_ + right_, 1, &cs, &sn);
  }

  // The positions in `kept` in the order in which join() wants the coefficients: by part.
  static std::vector<int64_t> order(const std::vector<int64_t>& kept, const std::vector<uint8_t>& part) {
    std::vector<int64_t> places;
    for (uint8_t p : {kLeft, kBoth, kRight})
      for (size_t i = 0; i < kept.size(); ++i)
        if (part[kept[i]] == p) places.push_back(static_cast<int64_t>(i));
    return places;
  }

  // Row i becomes the sum of s[i][p] times the p-th row of those kept, in the order above; the rows in `others` follow.
  void join(const std::vector<int64_t>& kept, const std::vector<uint8_t>& part, const std::vector<int64_t>& places,
            const R* s, const std::vector<int64_t>& others) const {
    const int64_t count = static_cast<int64_t>(kept.size());
    int64_t to_left = 0, from_right = 0;
    for (int64_t k : kept) {
      if (part[k] != kRight) ++to_left;
      if (part[k] == kLeft) ++from_right;
    }
    R *const left = room_, *const right = left + to_left * left_, *const rest = right + (count - from_right) * right_;
    for (int64_t p = 0; p < count; ++p) {
      const R* from = row(kept[places[p]]);
      if (p < to_left) std::copy_n(from, left_, left + p * left_);
      if (p >= from_right) std::copy_n(from + left_, right_, right + (p - from_right) * right_);
    }
    const int64_t n = left_ + right_;
    for (size_t i = 0; i < others.size(); ++i) std::copy_n(row(others[i]), n, rest + static_cast<int64_t>(i) * n);
    for (size_t i = 0; i < others.size(); ++i)
      std::copy_n(rest + static_cast<int64_t>(i) * n, n, row(count + static_cast<int64_t>(i)));
    multiply(count, left_, to_left, s, count, left, row(0));
    multiply(count, right_, count - from_right, s + from_right, count, right, row(0) + left_);
  }

 private:
  void multiply(int64_t m, int64_t n, int64_t k, const R* s, int64_t s_stride, R* rows, R* to) const {
    numbers::multiply(m, n, k, R(1), in_rows(const_cast<R*>(s), s_stride), in_rows(rows, n), R(0),
                      in_rows(to, stride_));
  }

  R* rows_;
  int64_t stride_, left_, right_;
  R* room_;
};

}  // namespace tessera::cpu::internal
