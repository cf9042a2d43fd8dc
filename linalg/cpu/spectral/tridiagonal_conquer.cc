// Eigenvectors of symmetric tridiagonal matrices by divide and conquer: two halves and a correction of rank one, whose
// eigenvalues are roots of the secular equation.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "linalg/cpu/spectral/row_join.h"
#include "linalg/cpu/spectral/secular.h"
#include "linalg/cpu/spectral/tridiagonal.h"

namespace tessera::cpu::internal {
namespace {

// With all vectors in rows; or, where only values are asked for, with the first and the last element of each vector of
// a block, which is all that a merge needs to know.
template <class R>
class Conquest {
 public:
  // rows: n x n; or null: values alone.
  Conquest(double* d, double* e, int64_t n, R* rows)
      : d_(d),
        e_(e),
        n_(n),
        is_narrow_(!rows),
        width_(rows ? n : 2),
        ends_(rows ? 0 : 2 * n),
        rows_(rows ? rows : ends_.get()),
        room_(n * width_),
        coefficients_(n * n),
        order_(n) {}

  bool run() {
    std::fill_n(rows_, n_ * width_, R{0});
    drop_nothings(d_, e_, n_);
    const Halves halves(n_, kLeaf, 0);
    const auto& leaves = halves.levels.front();
    // Each cut takes what joins the halves out of the two numbers beside it.
    for (size_t i = 1; i < leaves.size(); ++i) {
      const int64_t cut = leaves[i].begin;
      d_[cut - 1] -= std::abs(e_[cut - 1]);
      d_[cut] -= std::abs(e_[cut - 1]);
    }
    if (!for_blocks(static_cast<int64_t>(leaves.size()), [&](int64_t i) { return leaf(leaves[i]); })) return false;
    for (size_t level = 1; level < halves.levels.size(); ++level) {
      const auto &whole = halves.levels[level], &parts = halves.levels[level - 1];
      if (!for_blocks(static_cast<int64_t>(whole.size()),
                      [&](int64_t i) { return merge(whole[i], parts[2 * i].size); }))
        return false;
    }
    sort();
    return true;
  }

 private:
  static constexpr int64_t kLeaf = 32;

  R* corner(const Halves::Block& b) const { return rows_ + b.begin * (is_narrow_ ? 2 : n_ + 1); }

  void sort_block(const Halves::Block& b) {
    int64_t* const order = order_.data() + b.begin;
    std::iota(order, order + b.size, 0);
    const double* const d = d_ + b.begin;
    std::sort(order, order + b.size, [d](int64_t i, int64_t j) { return d[i] != d[j] ? d[i] < d[j] : i < j; });
  }

  bool leaf(const Halves::Block& b) {
    R* const rows = corner(b);
    if (is_narrow_)
      rows[0] = rows[2 * b.size - 1] = 1;
    else
      for (int64_t i = 0; i < b.size; ++i) rows[i * (n_ + 1)] = 1;
    if (!tridiagonal_qr(d_ + b.begin, e_ + b.begin, b.size, rows, width_, is_narrow_ ? 2 : b.size)) return false;
    sort_block(b);
    return true;
  }

  bool merge(const Halves::Block& b, int64_t left) {
    const int64_t n = b.size, right = n - left;
    double *const d = d_ + b.begin, cut = e_[b.begin + left - 1];
    const RowJoin<R> join(corner(b), width_, is_narrow_ ? 1 : left, is_narrow_ ? 1 : right,
                          room_.get() + b.begin * width_);
    std::vector<double> z(n);
    for (int64_t i = 0; i < n; ++i) {
      // What of a vector is beside the cut; the other end stays.
      R& end = join.row(i)[is_narrow_ ? i < left : i < left ? left - 1 : left];
      z[i] = std::sqrt(0.5) * static_cast<double>(end) * (i >= left && cut < 0 ? -1 : 1);
      if (is_narrow_) end = 0;
    }
    const double rho = 2 * std::abs(cut);
    std::vector<int64_t> sorted(n), kept, others;
    for (int64_t i = left; i < n; ++i) order_[b.begin + i] += left;
    const int64_t* const order = order_.data() + b.begin;
    std::merge(order, order + left, order + left, order + n, sorted.begin(),
               [d](int64_t i, int64_t j) { return d[i] < d[j]; });
    std::vector<uint8_t> part(n);
    for (int64_t i = 0; i < n; ++i) part[i] = i < left ? RowJoin<R>::kLeft : RowJoin<R>::kRight;
    deflate(join, d, z, rho, sorted, part, kept, others);

    const int64_t count = static_cast<int64_t>(kept.size());
    std::vector<double> values(n);
    if (count > 0) {
      R* const coefficients = is_narrow_ && n == n_ ? nullptr : coefficients_.get() + b.begin * n_;
      if (!solve(join, d, z, rho, kept, part, others, coefficients, values)) return false;
    } else {
      join.join(kept, part, {}, nullptr, others);
    }
    for (int64_t i = count; i < n; ++i) values[i] = d[others[i - count]];
    std::copy(values.begin(), values.end(), d);
    sort_block(b);
    return true;
  }

  // Which poles take part; others are eigenvalues already, or are after a rotation with their neighbour.
  static void deflate(const RowJoin<R>& join, double* d, std::vector<double>& z, double rho,
                      const std::vector<int64_t>& sorted, std::vector<uint8_t>& part, std::vector<int64_t>& kept,
                      std::vector<int64_t>& others) {
    double largest = 0;
    for (size_t i = 0; i < z.size(); ++i) largest = std::max({largest, std::abs(d[i]), rho * std::abs(z[i])});
    const double tolerance = 4 * static_cast<double>(std::numeric_limits<R>::epsilon()) * largest;
    int64_t last = -1;  // the pole before, which may still be rotated away
    for (int64_t i : sorted) {
      if (rho * std::abs(z[i]) <= tolerance) {
        others.push_back(i);
        continue;
      }
      if (last >= 0) {
        const double length = std::hypot(z[i], z[last]), c = z[i] / length, s = -z[last] / length,
                     apart = d[i] - d[last];
        if (std::abs(apart * c * s) <= tolerance) {
          z[i] = length;
          join.rotate(last, i, c, s);
          part[i] = part[last] = part[i] | part[last];
          const double moved = d[last] * c * c + d[i] * s * s;
          d[i] = d[last] * s * s + d[i] * c * c;
          d[last] = moved;
          others.push_back(last);
          last = i;
          continue;
        }
        kept.push_back(last);
      }
      last = i;
    }
    if (last >= 0) kept.push_back(last);
  }

  // coefficients: room for them; or null: the vectors are not needed any more.
  static bool solve(const RowJoin<R>& join, const double* d, const std::vector<double>& z, double rho,
                    const std::vector<int64_t>& kept, const std::vector<uint8_t>& part,
                    const std::vector<int64_t>& others, R* coefficients, std::vector<double>& values) {
    const int64_t n = static_cast<int64_t>(kept.size());
    ScratchArray<double> memory(7 * n);
    double *const poles = memory.get(), *const weights = poles + n, *const ends = weights + n, *const origin = ends + n,
                  *const offset = origin + n, *const ordered = offset + n, *const exact = ordered + n;
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      poles[i] = d[kept[i]];
      ends[i] = z[kept[i]];
      weights[i] = rho * ends[i] * ends[i];
      total += weights[i];
    }
    const Secular secular{n, false, poles, weights, total};
    const SecularRoots roots{origin, offset};
    std::vector<char> good((n + kRoots - 1) / kRoots);
    parallel_for(n, kRoots,
                 [&](int64_t begin, int64_t end) { good[begin / kRoots] = secular_roots(secular, begin, end, roots); });
    if (std::find(good.begin(), good.end(), 0) != good.end()) return false;
    for (int64_t i = 0; i < n; ++i) values[i] = origin[i] + offset[i];
    if (!coefficients) return true;
    secular_weights(secular, roots, ends, weights);
    const std::vector<int64_t> places = RowJoin<R>::order(kept, part);
    for (int64_t p = 0; p < n; ++p) {
      ordered[p] = poles[places[p]];
      exact[p] = weights[places[p]];
    }
    parallel_for(n, kRoots, [&](int64_t begin, int64_t end) {
      ScratchArray<double> vector(n);
      for (int64_t i = begin; i < end; ++i) {
        const double scale = 1 / secular_vector(n, false, ordered, exact, origin[i], offset[i], vector.get());
        for (int64_t p = 0; p < n; ++p) coefficients[i * n + p] = static_cast<R>(vector[p] * scale);
      }
    });
    join.join(kept, part, places, coefficients, others);
    return true;
  }

  // Ascending, rows with their values.
  void sort() {
    ScratchArray<double> values(n_);
    for (int64_t i = 0; i < n_; ++i) {
      values[i] = d_[order_[i]];
      if (!is_narrow_) std::copy_n(rows_ + order_[i] * n_, n_, room_.get() + i * n_);
    }
    std::copy_n(values.get(), n_, d_);
    if (!is_narrow_) std::copy_n(room_.get(), n_ * n_, rows_);
  }

  static constexpr int64_t kRoots = 32;  // a piece of work
  double *d_, *e_;
  int64_t n_;
  bool is_narrow_;
  int64_t width_;
  ScratchArray<R> ends_;
  R* rows_;
  ScratchArray<R> room_, coefficients_;
  std::vector<int64_t> order_;  // of each block: its values ascending
};

}  // namespace

template <class R>
bool tridiagonal_eigenvectors(double* d, double* e, int64_t n, R* rows) {
  return n == 0 || Conquest<R>(d, e, n, rows).run();
}
template <class R>
bool tridiagonal_values(double* d, double* e, int64_t n) {
  constexpr int64_t kSmall = 40;  // up to here QR is faster
  if (n > kSmall) return Conquest<R>(d, e, n, nullptr).run();
  if (!tridiagonal_qr<R>(d, e, n, nullptr, 0, 0)) return false;
  std::sort(d, d + n);
  return true;
}

template bool tridiagonal_values<float>(double*, double*, int64_t);
template bool tridiagonal_values<double>(double*, double*, int64_t);
template bool tridiagonal_eigenvectors<float>(double*, double*, int64_t, float*);
template bool tridiagonal_eigenvectors<double>(double*, double*, int64_t, double*);

}  // namespace tessera::cpu::internal
