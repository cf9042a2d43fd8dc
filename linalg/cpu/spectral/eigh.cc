// Eigenvalues and eigenvectors of Hermitian matrices.
#include <numeric>

#include "linalg/cpu/spectral/lockstep_batch.h"
#include "linalg/cpu/spectral/matrix_io.h"
#include "linalg/cpu/spectral/spectral.h"
#include "linalg/cpu/spectral/tridiagonal.h"

namespace tessera::cpu {
namespace {

using namespace internal;

// Up to this size QR serves for vectors as well.
constexpr int64_t kSmall = 32;

template <class T>
class Eigh {
 public:
  using R = Real<T>;

  Eigh(const Matrix<T>& a, int64_t n, bool lower, R scale)
      : n_(n), ld_(columns::padded_rows<T>(n)), scale_(scale), rows_(n * ld_), tau_(n), d_(n), e_(n) {
    // Row i holds column i of the lower triangle.
    T* const rows = rows_.get();
    constexpr int64_t kBand = 64;
    for (int64_t i = 0; i < n; i += kBand) {  // from the diagonal on
      const int64_t band = std::min(kBand, n - i);
      T* const to = rows + i * (ld_ + 1);
      if (lower)
        read_rows<T>(a.at(i, i).transposed(), band, n - i, to, ld_, [scale](T x) { return x * scale; });
      else
        read_rows<T>(a.at(i, i), band, n - i, to, ld_, [scale](T x) { return conjugate(x * scale); });
    }
    for (int64_t i = 0; i < n; ++i) rows[i * (ld_ + 1)] = real_part(rows[i * (ld_ + 1)]);
    reduce_to_tridiagonal(rows, ld_, n, d_.get(), e_.get(), tau_.get());
  }

  bool values(R* to) {
    if (!tridiagonal_values<R>(d_.get(), e_.get(), n_)) return false;
    put_values(to);
    return true;
  }

  bool vectors(R* to, const Matrix<T>& v) {
    // Vectors in rows; those of large real matrices where they are to be in the end, if that is in columns.
    constexpr bool kReal = !kIsComplex<T>;
    const bool in_place = kReal && n_ > kSmall && v.row_stride == 1;
    const ScratchArray<R> memory(in_place ? 0 : n_ * n_);
    R* z = memory.get();
    int64_t stride = n_;
    if constexpr (kReal)
      if (in_place) z = v.data, stride = v.col_stride;
    std::vector<int64_t> order(n_);
    std::iota(order.begin(), order.end(), 0);
    if (n_ <= kSmall) {
      std::fill_n(z, n_ * n_, R{0});
      for (int64_t i = 0; i < n_; ++i) z[i * (n_ + 1)] = 1;
      if (!tridiagonal_qr(d_.get(), e_.get(), n_, z, n_, n_)) return false;
      normalize_rows(z, n_, n_, n_);
      std::sort(order.begin(), order.end(),
                [&](int64_t i, int64_t j) { return d_[i] != d_[j] ? d_[i] < d_[j] : i < j; });
    } else if (!tridiagonal_eigenvectors(d_.get(), e_.get(), n_, z, stride)) {
      return false;
    }
    if constexpr (kReal) {
      turn_back(z, stride);
      if (!in_place) put(z, order, v);
    } else {
      ScratchArray<T> wide(n_ * n_);
      std::copy_n(z, n_ * n_, wide.get());
      turn_back(wide.get(), n_);
      put(wide.get(), order, v);
    }
    for (int64_t i = 0; i < n_; ++i) to[i] = static_cast<R>(d_[order[i]]) / scale_;
    return true;
  }

 private:
  void put_values(R* to) const {
    for (int64_t i = 0; i < n_; ++i) to[i] = static_cast<R>(d_[i]) / scale_;
  }
  // Eigenvectors of A out of those of the tridiagonal matrix, in rows.
  void turn_back(T* z, int64_t stride) const {
    apply_reflectors<T>(rows_.get(), ld_, n_ - 1, 1, n_, tau_.get(), z, stride, n_);
  }
  void put(const T* z, const std::vector<int64_t>& order, const Matrix<T>& v) const {
    if (std::is_sorted(order.begin(), order.end()))
      return write_rows(z, n_, n_, n_, v.transposed(), [](T x) { return x; });
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j < n_; ++j) v(j, i) = z[order[i] * n_ + j];
  }

  int64_t n_, ld_;
  R scale_;
  ScratchArray<T> rows_, tau_;
  ScratchArray<double> d_, e_;
};

template <class T>
bool one(const MatrixBatch& a, int64_t k, bool lower, Real<T> scale, Real<T>* values, const MatrixBatch* vectors) {
  Eigh<T> work(matrix_of<T>(a, k), a.rows, lower, scale);
  Real<T>* const to = values + k * a.rows;
  return vectors ? work.vectors(to, matrix_of<T>(*vectors, k)) : work.values(to);
}

// A group of small matrices.
template <class R>
void together(const LaneGroup<R>& group, const MatrixBatch& a, bool lower, R* values, const MatrixBatch* vectors,
              int32_t* info) {
  const int64_t n = a.rows, lanes = group.lanes, size = n * lockstep_pitch(n) * lanes;
  ScratchArray<R> rows(size), d(n * lanes), v(vectors ? size : 0), room(lockstep_room(n, n) * lanes), scale(lanes);
  const numbers::Group<const R> from = numbers::source_of<R>(lower ? numbers::transposed(a) : a, group.first);
  lockstep<R>().load(group.used, n, n, from, true, rows.get(), scale.get());
  if (!are_finite(group, scale.get(), info)) return;
  const uint32_t failed = lockstep<R>().eigh(rows.get(), n, d.get(), vectors ? v.get() : nullptr, room.get());
  const std::vector<int64_t> places = places_of(group, d.get(), n, std::less<>());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t lane = 0; lane < group.used; ++lane)
      values[(group.first + lane) * n + places[i * lanes + lane]] = d[i * lanes + lane] / scale[lane];
  if (vectors)
    put_rows(group, v.get(), n, n, places, numbers::transposed(*vectors), [](int64_t, int64_t) { return R{1}; });
  for (int64_t lane = 0; lane < group.used; ++lane) {
    const int64_t k = group.first + lane;
    if (failed >> lane & 1 && !one<R>(a, k, lower, scale[lane], values, vectors)) info[k] = 1;
  }
}

template <class T>
void eigh(const MatrixBatch& a, bool lower, Real<T>* values, const MatrixBatch* vectors, int32_t* info) {
  using R = Real<T>;
  const int64_t n = a.rows;
  if constexpr (!kIsComplex<T>)
    if (goes_together<T>(a.count, n, n))
      return for_lane_groups<R>(lockstep<R>().lanes(), a.count,
                                [&](const LaneGroup<R>& group) { together(group, a, lower, values, vectors, info); });
  std::vector<R> largest(a.count);
  const double size = static_cast<double>(n);
  for_matrices(a.count, size * size, [&](int64_t k) {
    largest[k] = largest_part_of_triangle(matrix_of<T>(a, k), n, lower);
    info[k] = std::isfinite(largest[k]) ? 0 : -1;
  });
  if (std::any_of(info, info + a.count, [](int32_t i) { return i != 0; })) return;
  std::vector<R>& scales = largest;
  for (R& x : scales) x = scale_for(x);
  for_matrices(a.count, 4 * size * size * size, [&](int64_t k) {
    if (!one<T>(a, k, lower, scales[k], values, vectors)) info[k] = 1;
  });
}

}  // namespace

void run_eigh(DType dtype, const MatrixBatch& a, bool lower, void* values, const MatrixBatch* vectors, int32_t* info) {
  if (a.rows == 0) {
    std::fill_n(info, a.count, 0);
    return;
  }
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    eigh<T>(a, lower, static_cast<Real<T>*>(values), vectors, info);
  });
}

}  // namespace tessera::cpu
