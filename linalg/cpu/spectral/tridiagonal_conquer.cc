// Eigenvectors of symmetric tridiagonal matrices by divide and conquer: two halves and a correction of rank one, whose
// eigenvalues are roots of the secular equation.
#include <algorithm>
#include <cmath>

#include "linalg/cpu/spectral/conquest.h"
#include "linalg/cpu/spectral/row_join.h"
#include "linalg/cpu/spectral/tridiagonal.h"

namespace tessera::cpu::internal {
namespace {

template <class R>
class EigenConquest : private Conquest<R> {
  using Base = Conquest<R>;
  using Base::coefficients_, Base::d_, Base::e_, Base::is_narrow_, Base::kRoots, Base::n_, Base::room_, Base::width_;
  using typename Base::Block;

 public:
  EigenConquest(double* d, double* e, int64_t n, bool narrow)
      : Base(d, e, n, 0, narrow), memory_(n * width_), rows_(memory_.get()) {}

  // to: where the rows go, `stride` apart; or null.
  bool run(R* to, int64_t stride) {
    std::fill_n(rows_, n_ * width_, R{0});
    // Each cut takes what joins the halves out of the two numbers beside it.
    for (size_t i = 1; i < this->leaves().size(); ++i) {
      const int64_t cut = this->leaves()[i].begin;
      d_[cut - 1] -= std::abs(e_[cut - 1]);
      d_[cut] -= std::abs(e_[cut - 1]);
    }
    if (!this->climb([this](const Block& b) { return leaf(b); },
                     [this](const Block& b, int64_t left) { return merge(b, left); }))
      return false;
    this->sort_values(false);
    if (to) this->sort_rows(rows_, to, stride);
    return true;
  }

 private:
  bool leaf(const Block& b) {
    R* const rows = this->corner(rows_, b);
    this->put_ones(rows, b.size);
    if (!tridiagonal_qr(d_ + b.begin, e_ + b.begin, b.size, rows, width_, is_narrow_ ? 2 : b.size)) return false;
    if (!is_narrow_) normalize_rows(rows, n_, b.size, b.size);
    return true;
  }

  bool merge(const Block& b, int64_t left) {
    const int64_t n = b.size, right = n - left;
    double *const d = d_ + b.begin, cut = e_[b.begin + left - 1];
    const RowJoin<R> join(this->corner(rows_, b), width_, is_narrow_ ? 1 : left, is_narrow_ ? 1 : right,
                          room_.get() + b.begin * width_);
    std::vector<double> z(n);
    for (int64_t i = 0; i < n; ++i) {
      // What of a vector is beside the cut; the other end stays.
      R& end = join.row(i)[is_narrow_ ? i < left : i < left ? left - 1 : left];
      z[i] = std::sqrt(0.5) * static_cast<double>(end) * (i >= left && cut < 0 ? -1 : 1);
      if (is_narrow_) end = 0;
    }
    const double rho = 2 * std::abs(cut);
    const std::vector<int64_t> sorted = this->merged_order(b, left);
    std::vector<int64_t> kept, others;
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
      ends[i] = z[kept[i]];
      weights[i] = rho * ends[i] * ends[i];
      total += weights[i];
    }
    const double unit = normal_scale(std::max({std::abs(d[kept.front()]), std::abs(d[kept.back()]), total}));
    for (int64_t i = 0; i < n; ++i) {
      poles[i] = d[kept[i]] * unit;
      weights[i] *= unit;
    }
    const Secular secular{n, false, poles, weights, total * unit, root_precision<R>()};
    const SecularRoots roots{origin, offset};
    if (!Base::find_roots(secular, roots)) return false;
    for (int64_t i = 0; i < n; ++i) values[i] = (origin[i] + offset[i]) / unit;
    if (!coefficients) return true;
    secular_weights(secular, roots, ends, weights);
    const std::vector<int64_t> places = RowJoin<R>::order(kept, part);
    for (int64_t p = 0; p < n; ++p) {
      ordered[p] = poles[places[p]];
      exact[p] = weights[places[p]];
    }
    parallel_for(n, kRoots, [&](int64_t begin, int64_t end) {
      ScratchArray<double> room(n);
      const SecularVector vector{n, false, ordered, exact, -1, room.get()};
      for (int64_t i = begin; i < end; ++i) secular_vector(vector, origin[i], offset[i], coefficients + i * n);
    });
    join.join(kept, part, places, coefficients, others);
    return true;
  }

  ScratchArray<R> memory_;
  R* rows_;
};

}  // namespace

template <class R>
bool tridiagonal_eigenvectors(double* d, double* e, int64_t n, R* rows, int64_t stride) {
  return n == 0 || EigenConquest<R>(d, e, n, false).run(rows, stride);
}
template <class R>
bool tridiagonal_values(double* d, double* e, int64_t n) {
  constexpr int64_t kSmall = 20;  // up to here QR is faster
  if (n > kSmall) return EigenConquest<R>(d, e, n, true).run(nullptr, 0);
  if (!tridiagonal_qr<R>(d, e, n, nullptr, 0, 0)) return false;
  std::sort(d, d + n);
  return true;
}

template bool tridiagonal_values<float>(double*, double*, int64_t);
template bool tridiagonal_values<double>(double*, double*, int64_t);
template bool tridiagonal_eigenvectors<float>(double*, double*, int64_t, float*, int64_t);
template bool tridiagonal_eigenvectors<double>(double*, double*, int64_t, double*, int64_t);

}  // namespace tessera::cpu::internal
