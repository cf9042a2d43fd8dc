// Singular values and vectors.
#include <numeric>
#include <utility>

#include "linalg/cpu/spectral/bidiagonal.h"
#include "linalg/cpu/spectral/lockstep_batch.h"
#include "linalg/cpu/spectral/matrix_io.h"
#include "linalg/cpu/spectral/spectral.h"

namespace tessera::cpu {
namespace {

using namespace internal;

// Up to this size QR serves for vectors as well.
constexpr int64_t kSmall = 32;

// The decomposition of a matrix with at least as many rows as columns: A, or where A is wide A^H, whose U and V are
// those of A exchanged.
template <class T>
class Svd {
 public:
  using R = Real<T>;

  Svd(const MatrixBatch& batch, int64_t k, R scale)
      : wide_(batch.rows < batch.cols),
        m_(std::max(batch.rows, batch.cols)),
        n_(std::min(batch.rows, batch.cols)),
        ld_(columns::padded_rows<T>(m_)),
        scale_(scale),
        columns_(ld_ * n_),
        right_ld_(columns::padded_rows<T>(n_)),
        right_(right_ld_ * n_),
        tau_left_(n_),
        tau_right_(n_),
        d_(n_),
        e_(n_),
        order_(n_) {
    const Matrix<T> a = matrix_of<T>(batch, k);
    if (wide_)
      read_rows<T>(a, n_, m_, columns_.get(), ld_, [scale](T x) { return conjugate(x * scale); });
    else
      read_rows<T>(a.transposed(), n_, m_, columns_.get(), ld_, [scale](T x) { return x * scale; });
    reduce_to_bidiagonal(columns_.get(), ld_, m_, n_, d_.get(), e_.get(), tau_left_.get(), right_.get(), right_ld_,
                         tau_right_.get());
    std::iota(order_.begin(), order_.end(), 0);
  }

  bool values(R* to) {
    if (!bidiagonal_values<R>(d_.get(), e_.get(), n_)) return false;
    put_values(to);
    return true;
  }

  bool vectors(const MatrixBatch& u, R* to, const MatrixBatch& vh, int64_t k) {
    const int64_t long_count = wide_ ? vh.rows : u.cols;  // how many vectors of m elements are asked for
    // Singular vectors in rows.
    ScratchArray<T> long_rows(long_count * m_), short_rows(n_ * n_);
    if (!kIsComplex<T> && n_ > kSmall) {
      if (!bidiagonal_vectors(d_.get(), e_.get(), n_, reals(long_rows.get()), m_, reals(short_rows.get()), n_))
        return false;
      for (int64_t i = 0; i < long_count; ++i) put_zeros(long_rows.get(), i);
    } else {
      ScratchArray<R> left(n_ * n_), right(n_ * n_);
      if (!real_vectors(left.get(), right.get())) return false;
      for (int64_t i = 0; i < long_count; ++i) put_zeros(long_rows.get(), i);
      for (int64_t i = 0; i < n_; ++i) std::copy_n(left.get() + order_[i] * n_, n_, long_rows.get() + i * m_);
      for (int64_t i = 0; i < n_; ++i) std::copy_n(right.get() + order_[i] * n_, n_, short_rows.get() + i * n_);
    }
    apply_reflectors<T>(columns_.get(), ld_, n_, 0, m_, tau_left_.get(), long_rows.get(), m_, long_count);
    apply_reflectors<T>(right_.get(), right_ld_, n_ - 1, 1, n_, tau_right_.get(), short_rows.get(), n_, n_);
    put(long_rows.get(), long_count, m_, short_rows.get(), matrix_of<T>(u, k), matrix_of<T>(vh, k));
    put_values(to);
    return true;
  }

 private:
  static R* reals(T* x) { return reinterpret_cast<R*>(x); }
  // What row i has behind the vectors of the bidiagonal matrix, and those rows that are there for size alone.
  void put_zeros(T* rows, int64_t i) const {
    T* const row = rows + i * m_;
    std::fill(row + (i < n_ ? n_ : 0), row + m_, T{});
    if (i >= n_) row[i] = 1;
  }
  bool real_vectors(R* left, R* right) {
    if (n_ > kSmall) return bidiagonal_vectors(d_.get(), e_.get(), n_, left, n_, right, n_);
    for (R* rows : {left, right}) {
      std::fill_n(rows, n_ * n_, R{0});
      for (int64_t i = 0; i < n_; ++i) rows[i * (n_ + 1)] = 1;
    }
    if (!bidiagonal_qr(d_.get(), e_.get(), n_, 0, left, n_, n_, right, n_, n_)) return false;
    for (R* rows : {left, right}) normalize_rows(rows, n_, n_, n_);
    std::sort(order_.begin(), order_.end(),
              [&](int64_t i, int64_t j) { return d_[i] != d_[j] ? d_[i] > d_[j] : i < j; });
    return true;
  }
  void put_values(R* to) const {
    for (int64_t i = 0; i < n_; ++i) to[i] = static_cast<R>(d_[order_[i]]) / scale_;
  }
  void put(const T* long_rows, int64_t long_count, int64_t m, const T* short_rows, Matrix<T> u, Matrix<T> vh) const {
    const auto same = [](T x) { return x; };
    const auto turned = [](T x) { return conjugate(x); };
    const Matrix<T> u_columns = u.transposed();
    if (wide_) {
      write_rows(short_rows, n_, n_, n_, u_columns, same);
      write_rows(long_rows, m, long_count, m, vh, turned);
    } else {
      write_rows(long_rows, m, long_count, m, u_columns, same);
      write_rows(short_rows, n_, n_, n_, vh, turned);
    }
  }

  bool wide_;
  int64_t m_, n_, ld_;
  R scale_;
  ScratchArray<T> columns_;
  int64_t right_ld_;
  ScratchArray<T> right_, tau_left_, tau_right_;
  ScratchArray<double> d_, e_;
  std::vector<int64_t> order_;
};

template <class T>
bool one(const MatrixBatch& a, int64_t k, Real<T> scale, const MatrixBatch* u, Real<T>* values, const MatrixBatch* vh) {
  Svd<T> work(a, k, scale);
  Real<T>* const to = values + k * std::min(a.rows, a.cols);
  return u ? work.vectors(*u, to, *vh, k) : work.values(to);
}

// A group of small matrices: the transposed ones, where they are wide.
template <class R>
void together(const LaneGroup<R>& group, const MatrixBatch& a, const MatrixBatch* u, R* values, const MatrixBatch* vh,
              int32_t* info) {
  const bool wide = a.rows < a.cols;
  const int64_t m = std::max(a.rows, a.cols), n = std::min(a.rows, a.cols), lanes = group.lanes,
                long_count = u ? (wide ? vh->rows : u->cols) : 0, pitch = lockstep_pitch(m) * lanes;
  ScratchArray<R> columns(n * pitch), d(n * lanes), left(long_count * pitch),
      right(u ? n * lockstep_pitch(n) * lanes : 0), room(lockstep_room(m, n) * lanes), scale(lanes);
  const numbers::Group<const R> from = numbers::source_of<R>(wide ? a : numbers::transposed(a), group.first);
  lockstep<R>().load(group.used, n, m, from, false, columns.get(), scale.get());
  if (!are_finite(group, scale.get(), info)) return;
  const uint32_t failed =
      lockstep<R>().svd(columns.get(), m, n, d.get(), u ? left.get() : nullptr, long_count, right.get(), room.get());
  const std::vector<int64_t> places = places_of(group, d.get(), n, [](R x, R y) { return std::abs(x) > std::abs(y); });
  for (int64_t i = 0; i < n; ++i)
    for (int64_t lane = 0; lane < group.used; ++lane)
      values[(group.first + lane) * n + places[i * lanes + lane]] = std::abs(d[i * lanes + lane]) / scale[lane];
  if (u) {
    const MatrixBatch u_rows = numbers::transposed(*u);
    put_rows(group, left.get(), long_count, m, places, wide ? *vh : u_rows, [](int64_t, int64_t) { return R{1}; });
    put_rows(group, right.get(), n, n, places, wide ? u_rows : *vh,
             [&](int64_t lane, int64_t i) { return d[i * lanes + lane] < 0 ? R{-1} : R{1}; });
  }
  for (int64_t lane = 0; lane < group.used; ++lane) {
    const int64_t k = group.first + lane;
    if (failed >> lane & 1 && !one<R>(a, k, scale[lane], u, values, vh)) info[k] = 1;
  }
}

// The identity, where there is no singular value.
template <class T>
void put_identity(const MatrixBatch& to) {
  for (int64_t k = 0; k < to.count; ++k) {
    const Matrix<T> m = matrix_of<T>(to, k);
    for (int64_t i = 0; i < to.rows; ++i)
      for (int64_t j = 0; j < to.cols; ++j) m(i, j) = static_cast<T>(i == j ? 1 : 0);
  }
}

template <class T>
void svd(const MatrixBatch& a, const MatrixBatch* u, Real<T>* values, const MatrixBatch* vh, int32_t* info) {
  using R = Real<T>;
  const int64_t n = std::min(a.rows, a.cols);
  if (n == 0) {
    std::fill_n(info, a.count, 0);
    if (!u) return;
    put_identity<T>(*u);
    put_identity<T>(*vh);
    return;
  }
  if constexpr (!kIsComplex<T>)
    if (goes_together<T>(a.count, std::max(a.rows, a.cols), n))
      return for_lane_groups<R>(lockstep<R>().lanes(), a.count,
                                [&](const LaneGroup<R>& group) { together(group, a, u, values, vh, info); });
  std::vector<R> largest(a.count);
  const double m = static_cast<double>(std::max(a.rows, a.cols)), size = static_cast<double>(n);
  for_matrices(a.count, m * size, [&](int64_t k) {
    largest[k] = largest_part(matrix_of<T>(a, k), a.rows, a.cols);
    info[k] = std::isfinite(largest[k]) ? 0 : -1;
  });
  if (std::any_of(info, info + a.count, [](int32_t i) { return i != 0; })) return;
  std::vector<R>& scales = largest;
  for (R& x : scales) x = scale_for(x);
  for_matrices(a.count, 8 * m * size * size, [&](int64_t k) {
    if (!one<T>(a, k, scales[k], u, values, vh)) info[k] = 1;
  });
}

}  // namespace

void run_svd(DType dtype, const MatrixBatch& a, const MatrixBatch* u, void* values, const MatrixBatch* vh,
             int32_t* info) {
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    svd<T>(a, u, static_cast<Real<T>*>(values), vh, info);
  });
}

}  // namespace tessera::cpu
