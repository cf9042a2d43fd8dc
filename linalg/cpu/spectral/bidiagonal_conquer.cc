// Singular vectors of bidiagonal matrices by divide and conquer: a row joins two halves, and the squares of the
// singular values of the whole are roots of a secular equation.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "linalg/cpu/spectral/bidiagonal.h"
#include "linalg/cpu/spectral/conquest.h"
#include "linalg/cpu/spectral/row_join.h"

namespace tessera::cpu::internal {
namespace {

template <class R>
class SingularConquest : private Conquest<R> {
  using Base = Conquest<R>;
  using Base::coefficients_, Base::d_, Base::e_, Base::is_narrow_, Base::kRoots, Base::largest_, Base::n_, Base::room_,
      Base::width_;
  using typename Base::Block;

 public:
  // narrow: values alone, with the ends of right vectors.
  SingularConquest(double* d, double* e, int64_t n, bool narrow)
      : Base(d, e, n, 1, narrow),
        memory_(narrow ? 2 * n : 2 * n * n),
        left_(narrow ? nullptr : memory_.get() + n * n),
        right_(memory_.get()) {}

  // Where the rows go; or null.
  bool run(R* left, int64_t left_stride, R* right, int64_t right_stride) {
    if (left_) std::fill_n(left_, n_ * n_, R{0});
    std::fill_n(right_, n_ * width_, R{0});
    if (largest_ == 0) {
      for (int64_t i = 0; left && i < n_; ++i)
        for (int64_t j = 0; j < n_; ++j) left[i * left_stride + j] = right[i * right_stride + j] = i == j;
      return true;
    }
    if (!this->climb([this](const Block& b) { return leaf(b); },
                     [this](const Block& b, int64_t middle) { return merge(b, middle); }))
      return false;
    this->sort_values(true);
    if (!left) return true;
    this->sort_rows(left_, left, left_stride);
    this->sort_rows(right_, right, right_stride);
    return true;
  }

 private:
  // A block of B is as wide as it is tall, or has one column more: all but the last ones of each level do.
  int64_t extra(const Block& b) const { return b.begin + b.size < n_ ? 1 : 0; }

  bool leaf(const Block& b) {
    R *const left = this->corner(left_, b), *const right = this->corner(right_, b);
    const int64_t more = extra(b);
    if (left) this->put_ones(left, b.size);
    this->put_ones(right, b.size + more);
    const int64_t width = is_narrow_ ? 2 : b.size + more;
    if (!bidiagonal_qr(d_ + b.begin, e_ + b.begin, b.size, more, left, n_, b.size, right, width_, width)) return false;
    if (is_narrow_) return true;
    normalize_rows(left, n_, b.size, b.size);
    normalize_rows(right, n_, width, width);
    return true;
  }

  // What a merge works on: the poles d[i] with z[i], where i = middle is the row between the halves with d = 0, and
  // which of them take part (`kept`, the middle first, then ascending).
  struct Joint {
    RowJoin<R> left, right;
    int64_t middle;
    double* d;
    std::vector<double> z;
    std::vector<uint8_t> left_part, right_part;
    std::vector<int64_t> kept, others;
  };

  bool merge(const Block& b, int64_t middle) {
    const int64_t n = b.size, more = extra(b);
    R* const room = room_.get() + b.begin * width_;
    Joint j{
        {this->corner(left_, b), n_, middle + 1, n - middle - 1, room},
        {this->corner(right_, b), width_, is_narrow_ ? 1 : middle + 1, is_narrow_ ? 1 : n - middle - 1 + more, room},
        middle,
        d_ + b.begin,
        std::vector<double>(n),
        std::vector<uint8_t>(n),
        std::vector<uint8_t>(n),
        {},
        {}};
    const double above = j.d[middle], below = e_[b.begin + middle];
    // What of a vector is beside the row between the halves, times that; the other end stays.
    const auto end_of = [&](int64_t i) {
      const bool is_first = i <= middle;
      R& end = j.right.row(i)[is_narrow_ ? is_first : is_first ? middle : middle + 1];
      const double z = (is_first ? above : below) * static_cast<double>(end);
      if (is_narrow_) end = 0;
      return z;
    };
    for (int64_t i = 0; i < n; ++i) {
      j.z[i] = end_of(i);
      j.left_part[i] = j.right_part[i] = i <= middle ? RowJoin<R>::kLeft : RowJoin<R>::kRight;
    }
    if (left_) j.left.row(middle)[middle] = 1;
    if (more) {
      // Two vectors to which the halves give nothing: one of them is left.
      const double x = j.z[middle], y = end_of(n), r = std::hypot(x, y);
      if (r > 0) j.right.rotate(middle, n, x / r, y / r);
      j.z[middle] = r;
      j.right_part[middle] = RowJoin<R>::kBoth;
    }
    j.d[middle] = 0;

    const std::vector<int64_t> sorted = this->merged_order(b, middle);
    const double most = std::max({std::abs(above), std::abs(below), sorted.empty() ? 0 : j.d[sorted.back()]});
    deflate(j, sorted, std::max(4 * static_cast<double>(std::numeric_limits<R>::epsilon()) * most, 1e-140 * largest_));
    std::vector<double> values(n);
    if (!solve(j, coefficients_.get() + b.begin * n_, values, !is_narrow_, !is_narrow_ || n < n_)) return false;
    for (size_t i = 0; i < j.others.size(); ++i) values[j.kept.size() + i] = j.d[j.others[i]];
    std::copy(values.begin(), values.end(), j.d);
    return true;
  }

  // Others than those that are kept are singular values already, or are after a rotation with their neighbour.
  void deflate(Joint& j, const std::vector<int64_t>& sorted, double tolerance) const {
    if (!(std::abs(j.z[j.middle]) > tolerance))
      j.z[j.middle] = std::copysign(std::max(tolerance, 1e-300), j.z[j.middle]);
    j.kept.push_back(j.middle);
    int64_t last = -1;  // the pole before, which may still be rotated away
    for (int64_t i : sorted) {
      if (!(std::abs(j.z[i]) > tolerance)) {
        j.others.push_back(i);
        continue;
      }
      if (last >= 0 && j.d[i] - j.d[last] <= tolerance) {
        const double length = std::hypot(j.z[i], j.z[last]), c = j.z[i] / length, s = -j.z[last] / length;
        j.z[i] = length;
        if (left_) j.left.rotate(last, i, c, s);
        j.right.rotate(last, i, c, s);
        j.left_part[i] = j.left_part[last] = j.left_part[i] | j.left_part[last];
        j.right_part[i] = j.right_part[last] = j.right_part[i] | j.right_part[last];
        j.others.push_back(last);
      } else if (last >= 0) {
        j.kept.push_back(last);
      }
      last = i;
    }
    if (last >= 0) j.kept.push_back(last);
    if (j.kept.size() > 1) j.d[j.kept[1]] = std::max(j.d[j.kept[1]], tolerance / 2);
  }

  static bool solve(const Joint& j, R* coefficients, std::vector<double>& values, bool with_left, bool with_right) {
    const int64_t n = static_cast<int64_t>(j.kept.size());
    ScratchArray<double> memory(6 * n);
    double *const poles = memory.get(), *const weights = poles + n, *const ends = weights + n, *const origin = ends + n,
                  *const offset = origin + n, *const exact = offset + n;
    double total = 0, largest = j.d[j.kept.back()];
    for (int64_t i : j.kept) largest = std::max(largest, std::abs(j.z[i]));
    const double unit = normal_scale(largest);
    for (int64_t i = 0; i < n; ++i) {
      poles[i] = j.d[j.kept[i]] * unit;
      ends[i] = j.z[j.kept[i]] * unit;
      weights[i] = ends[i] * ends[i];
      total += weights[i];
    }
    const Secular secular{n, true, poles, weights, total, root_precision<R>()};
    const SecularRoots roots{origin, offset};
    if (!Base::find_roots(secular, roots)) return false;
    for (int64_t i = 0; i < n; ++i) {
      const double root = std::sqrt(origin[i] * origin[i] + offset[i]);
      values[i] = (origin[i] + offset[i] / (origin[i] + root)) / unit;
    }
    if (!with_right) return true;
    secular_weights(secular, roots, ends, exact);
    join(j.right, j.kept, j.right_part, j.others, secular, roots, exact, false, coefficients);
    if (!with_left) return true;
    for (int64_t i = 0; i < n; ++i) exact[i] *= poles[i];
    join(j.left, j.kept, j.left_part, j.others, secular, roots, exact, true, coefficients);
    return true;
  }

  // Vectors with components numerator[p] / (d_p^2 - x); of left ones the first, the middle's, is -1.
  static void join(const RowJoin<R>& rows, const std::vector<int64_t>& kept, const std::vector<uint8_t>& part,
                   const std::vector<int64_t>& others, const Secular& secular, SecularRoots roots,
                   const double* numerator, bool is_left, R* coefficients) {
    const int64_t n = secular.n;
    const std::vector<int64_t> places = RowJoin<R>::order(kept, part);
    const int64_t middle = std::find(places.begin(), places.end(), 0) - places.begin();
    ScratchArray<double> memory(2 * n);
    double *const poles = memory.get(), *const above = poles + n;
    for (int64_t p = 0; p < n; ++p) {
      poles[p] = secular.d[places[p]];
      above[p] = numerator[places[p]];
    }
    parallel_for(n, kRoots, [&](int64_t begin, int64_t end) {
      ScratchArray<double> room(n);
      const SecularVector vector{n, true, poles, above, is_left ? middle : -1, room.get()};
      for (int64_t i = begin; i < end; ++i)
        secular_vector(vector, roots.origin[i], roots.offset[i], coefficients + i * n);
    });
    rows.join(kept, part, places, coefficients, others);
  }

  ScratchArray<R> memory_;
  R *left_, *right_;
};

}  // namespace

template <class R>
bool bidiagonal_vectors(double* d, double* e, int64_t n, R* left, int64_t left_stride, R* right, int64_t right_stride) {
  return n == 0 || SingularConquest<R>(d, e, n, false).run(left, left_stride, right, right_stride);
}
template <class R>
bool bidiagonal_values(double* d, double* e, int64_t n) {
  constexpr int64_t kSmall = 20;  // up to here QR is faster
  if (n > kSmall) return SingularConquest<R>(d, e, n, true).run(nullptr, 0, nullptr, 0);
  if (!bidiagonal_qr<R>(d, e, n, 0, nullptr, 0, 0, nullptr, 0, 0)) return false;
  std::sort(d, d + n, std::greater<>());
  return true;
}

template bool bidiagonal_values<float>(double*, double*, int64_t);
template bool bidiagonal_values<double>(double*, double*, int64_t);
template bool bidiagonal_vectors<float>(double*, double*, int64_t, float*, int64_t, float*, int64_t);
template bool bidiagonal_vectors<double>(double*, double*, int64_t, double*, int64_t, double*, int64_t);

}  // namespace tessera::cpu::internal
