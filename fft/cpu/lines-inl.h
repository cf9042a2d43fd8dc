// Transforms of many lines in strided memory: which lines are worked on together, and how they come into rows. Included
// once per SIMD target.
#include <vector>

#include "fft/cpu/fft.h"
#include "fft/cpu/line-inl.h"

#if defined(TESSERA_FFT_LINES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_FFT_LINES_INL
#undef TESSERA_FFT_LINES_INL
#else
#define TESSERA_FFT_LINES_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

// Where line i begins in both memories, in elements.
class Places {
 public:
  explicit Places(const FftLines& lines) : dims_(lines.dims.begin(), lines.dims.end()) {
    for (const FftDim& d : dims_) count_ *= d.size;
  }
  int64_t count() const { return count_; }
  std::pair<int64_t, int64_t> operator()(int64_t i) const {
    std::pair<int64_t, int64_t> at{0, 0};
    for (auto d = dims_.rbegin(); d != dims_.rend(); ++d) {
      at.first += i % d->size * d->in_stride;
      at.second += i % d->size * d->out_stride;
      i /= d->size;
    }
    return at;
  }

 private:
  std::vector<FftDim> dims_;
  int64_t count_ = 1;
};

template <class T>
class Transform {
 public:
  Transform(const FftLines& lines, const void* in, void* out)
      : lines_(lines),
        in_(static_cast<const T*>(in)),
        out_(static_cast<T*>(out)),
        n_(lines.n),
        half_(lines.n / 2 + 1),
        // Real signals are transformed forwards, and their spectra backwards; the other signs are conjugates.
        conjugate_(lines.kind == FftKind::kRealToHalf ? !lines.forward : lines.forward),
        form_{lines.kind == FftKind::kComplex ? !lines.forward : lines.kind == FftKind::kHalfToReal,
              static_cast<T>(lines.scale)} {}

  void run() const {
    if (lines_.kind == FftKind::kComplex && ColumnPlan<T>::serves(n_))
      for (const FftDim& d : lines_.dims)
        if (d.in_stride == 1 && d.out_stride == 1 && d.size >= kWidth / 2) return side_by_side(d);
    const Places places(lines_);
    const bool complex = lines_.kind == FftKind::kComplex, odd = n_ % 2, many = places.count() >= kWidth / 2;
    if (complex) {
      if (many && n_ <= kShort && ColumnPlan<T>::serves(n_)) return complex_together(places);
      return complex_lines(places);
    }
    if (odd) {
      if (many && n_ <= kLongest && ColumnPlan<T>::serves(n_)) return odd_real_together(places);
      return odd_real_lines(places);
    }
    if (many && n_ <= 2 * kShort && ColumnPlan<T>::serves(n_ / 2)) return even_real_together(places);
    return even_real_lines(places);
  }

 private:
  static constexpr int64_t kWidth = kFftWidth<T>;
  static constexpr int64_t kRow = 2 * kWidth;
  static constexpr int64_t kShort = 256;  // lines of at most so many numbers are transformed kWidth at a time
  static constexpr int64_t kLongest =
      4096;  // real ones of odd length: up to this, as each alone would cost twice as much
  static constexpr int64_t kPiece = int64_t{1} << 15;

  bool real_in() const { return lines_.kind == FftKind::kRealToHalf; }
  bool real_out() const { return lines_.kind == FftKind::kHalfToReal; }
  int64_t grain(int64_t numbers) const { return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, numbers)); }

  // Dimension `inner` is dense in both memories: its elements are columns as they lie there.
  void side_by_side(const FftDim& inner) const {
    std::vector<FftDim> others;
    for (const FftDim& d : lines_.dims)
      if (&d != &inner) others.push_back(d);
    FftLines outer = lines_;
    outer.dims = others;
    const Places places(outer);
    const auto plan = column_plan<T>(n_);
    const int64_t groups = (inner.size + kWidth - 1) / kWidth;
    parallel_for(places.count() * groups, grain(n_ * kWidth), [&](int64_t begin, int64_t end) HWY_ATTR {
      ScratchArray<T> scratch(4 * n_ * kWidth), part(n_ * kRow);
      const Lanes<T> d;
      for (int64_t i = begin; i < end; ++i) {
        const auto [from, to] = places(i / groups);
        const int64_t first = i % groups * kWidth, lanes = std::min(kWidth, inner.size - first);
        const T* x = in_ + 2 * (from + first);
        T* y = out_ + 2 * (to + first);
        if (lanes < kWidth) {
          std::memset(part.get(), 0, static_cast<size_t>(n_ * kRow) * sizeof(T));
          copy_lanes(part.get(), kRow, x, 2 * lines_.in_stride, n_, lanes);
          columns_in_place(*plan, part.get(), kRow, lanes, form_, scratch.get());
          copy_lanes(y, 2 * lines_.out_stride, part.get(), kRow, n_, lanes);
          continue;
        }
        for (int64_t l = 0; l < lanes; l += static_cast<int64_t>(hn::Lanes(d)))
          transform_columns(d, *plan, interleaved(d, x + 2 * l, 2 * lines_.in_stride, Form<T>{form_.exchange, T{1}}),
                            interleaved(d, y + 2 * l, 2 * lines_.out_stride, form_), scratch.get());
      }
    });
  }

  // `each` lines at a time. work(from, to, count, rows, scratch): rows for `length` + 1 numbers of kWidth columns.
  template <class Work>
  void in_groups(const Places& places, int64_t each, int64_t length, const Work& work) const {
    const int64_t tasks = (places.count() + each - 1) / each;
    parallel_for(tasks, grain(length * kWidth), [&](int64_t begin, int64_t end) HWY_ATTR {
      ScratchArray<T> scratch(4 * length * kWidth), rows((length + 1) * kRow);
      int64_t from[2 * kWidth], to[2 * kWidth];
      for (int64_t t = begin; t < end; ++t) {
        const int64_t count = std::min(each, places.count() - t * each);
        for (int64_t l = 0; l < count; ++l) std::tie(from[l], to[l]) = places(t * each + l);
        if (count < each) std::memset(rows.get(), 0, static_cast<size_t>((length + 1) * kRow) * sizeof(T));
        work(from, to, count, rows.get(), scratch.get());
      }
    });
  }

  // Each line is a column of rows that are gathered.
  void complex_together(const Places& places) const {
    const auto plan = column_plan<T>(n_);
    in_groups(places, kWidth, n_,
              [&](const int64_t* from, const int64_t* to, int64_t count, T* rows, T* scratch) HWY_ATTR {
                gather(rows, n_, from, count, 2, 2 * lines_.in_stride, 1);
                columns_in_place(*plan, rows, kRow, count, form_, scratch);
                scatter(rows, n_, to, count, 2, 2 * lines_.out_stride, 1);
              });
  }

  // The same for halves of real signals: two neighbours are a complex number.
  void even_real_together(const Places& places) const {
    const auto plan = real_plan<T>(n_);
    const auto columns = column_plan<T>(n_ / 2);
    in_groups(places, kWidth, n_ / 2,
              [&](const int64_t* from, const int64_t* to, int64_t count, T* rows, T* scratch) HWY_ATTR {
                if (real_in()) {
                  gather(rows, n_ / 2, from, count, 1, 2 * lines_.in_stride, lines_.in_stride);
                  columns_in_place(*columns, rows, kRow, count, form_, scratch);
                  join_rows<false>(*plan, rows, conjugate_);
                  scatter(rows, half_, to, count, 2, 2 * lines_.out_stride, 1);
                } else {
                  gather(rows, half_, from, count, 2, 2 * lines_.in_stride, 1);
                  join_rows<true>(*plan, rows, conjugate_);
                  columns_in_place(*columns, rows, kRow, count, form_, scratch);
                  scatter(rows, n_ / 2, to, count, 1, 2 * lines_.out_stride, lines_.out_stride);
                }
              });
  }

  // Real signals of odd length, twice as many: the second half of them takes the place of the imaginary parts.
  void odd_real_together(const Places& places) const {
    const auto plan = column_plan<T>(n_);
    in_groups(places, 2 * kWidth, n_,
              [&](const int64_t* from, const int64_t* to, int64_t count, T* rows, T* scratch) HWY_ATTR {
                if (real_in())
                  gather_real(rows, from, count);
                else
                  gather_half(rows, from, count);
                columns_in_place(*plan, rows, kRow, std::min(count, kWidth), form_, scratch);
                if (real_in())
                  scatter_half(rows, to, count);
                else
                  scatter_real(rows, to, count);
              });
  }

  // Whether lines lie one behind the other at one distance, so that whole tiles can be turned.
  static bool evenly(const int64_t* at, int64_t lanes) {
    for (int64_t l = 2; l < lanes; ++l)
      if (at[l] - at[l - 1] != at[1] - at[0]) return false;
    return lanes == kWidth;
  }
  // Lines at in_ + parts from[l], `step` numbers from element to element, `apart` from real to imaginary part.
  void gather(T* rows, int64_t count, const int64_t* from, int64_t lanes, int64_t parts, int64_t step,
              int64_t apart) const {
    int64_t i = 0;
    if (sizeof(T) == 4 && step == 2 && apart == 1 && evenly(from, lanes))
      for (; i + 8 <= count; i += 8)
        transpose_tiles8(reinterpret_cast<char*>(rows + i * kRow), kRow * sizeof(T),
                         reinterpret_cast<const char*>(in_ + parts * from[0] + 2 * i),
                         (from[1] - from[0]) * parts * static_cast<int64_t>(sizeof(T)), kWidth / 8);
    for (; i < count; ++i)
      for (int64_t l = 0; l < lanes; ++l) {
        const T* x = in_ + parts * from[l] + i * step;
        rows[i * kRow + 2 * l] = x[0];
        rows[i * kRow + 2 * l + 1] = x[apart];
      }
  }
  void scatter(const T* rows, int64_t count, const int64_t* to, int64_t lanes, int64_t parts, int64_t step,
               int64_t apart) const {
    int64_t i = 0;
    if (sizeof(T) == 4 && step == 2 && apart == 1 && evenly(to, lanes) && count >= 8) {
      i = count / 8 * 8;
      const int64_t line = (to[1] - to[0]) * parts * static_cast<int64_t>(sizeof(T));
      for (int64_t l = 0; l < lanes; l += 8)
        transpose_tiles8(reinterpret_cast<char*>(out_ + parts * to[l]), line,
                         reinterpret_cast<const char*>(rows + 2 * l), kRow * sizeof(T), i / 8);
    }
    for (; i < count; ++i)
      for (int64_t l = 0; l < lanes; ++l) {
        T* y = out_ + parts * to[l] + i * step;
        y[0] = rows[i * kRow + 2 * l];
        y[apart] = rows[i * kRow + 2 * l + 1];
      }
  }
  // Line l < kWidth is the real part of column l, line kWidth + l its imaginary part.
  void gather_real(T* rows, const int64_t* from, int64_t count) const {
    for (int64_t l = 0; l < count; ++l) {
      T* to = rows + 2 * (l % kWidth) + l / kWidth;
      const T* x = in_ + from[l];
      for (int64_t i = 0; i < n_; ++i) to[i * kRow] = x[i * lines_.in_stride];
    }
    clear_missing(rows, count);
  }
  // The last task may have real parts without imaginary ones.
  void clear_missing(T* rows, int64_t count) const {
    if (count == 2 * kWidth) return;
    for (int64_t l = std::max<int64_t>(0, count - kWidth); l < std::min(count, kWidth); ++l)
      for (int64_t i = 0; i < n_; ++i) rows[i * kRow + 2 * l + 1] = T{0};
  }
  void scatter_real(const T* rows, const int64_t* to, int64_t count) const {
    for (int64_t l = 0; l < count; ++l) {
      const T* from = rows + 2 * (l % kWidth) + l / kWidth;
      T* y = out_ + to[l];
      for (int64_t i = 0; i < n_; ++i) y[i * lines_.out_stride] = from[i * kRow];
    }
  }
  // The transform z of a + i b (a, b real) holds theirs: A[k] = (z[k] + conj z[n - k]) / 2, B[k] = -i (z[k] - conj z[n
  // - k]) / 2.
  void scatter_half(const T* rows, const int64_t* to, int64_t count) const {
    const T sign = conjugate_ ? T{-1} : T{1}, f = T{0.5};
    for (int64_t k = 0; k < half_; ++k) {
      const T *z = rows + k * kRow, *mirror = rows + (n_ - k) % n_ * kRow;
      for (int64_t l = 0; l < std::min(count, kWidth); ++l) {
        T* y = out_ + 2 * (to[l] + k * lines_.out_stride);
        y[0] = (z[2 * l] + mirror[2 * l]) * f;
        y[1] = (z[2 * l + 1] - mirror[2 * l + 1]) * f * sign;
      }
      for (int64_t l = 0; l + kWidth < count; ++l) {
        T* y = out_ + 2 * (to[l + kWidth] + k * lines_.out_stride);
        y[0] = (z[2 * l + 1] + mirror[2 * l + 1]) * f;
        y[1] = (mirror[2 * l] - z[2 * l]) * f * sign;
      }
    }
  }
  // Back: z[k] = A[k] + i B[k], z[n - k] = conj A[k] + i conj B[k].
  void gather_half(T* rows, const int64_t* from, int64_t count) const {
    const T sign = conjugate_ ? T{-1} : T{1};
    for (int64_t k = 0; k < half_; ++k) {
      T *z = rows + k * kRow, *mirror = rows + (n_ - k) % n_ * kRow;
      const bool real = k == 0 || 2 * k == n_;
      for (int64_t l = 0; l < std::min(count, kWidth); ++l) {
        const T* a = in_ + 2 * (from[l] + k * lines_.in_stride);
        const T* b = l + kWidth < count ? in_ + 2 * (from[l + kWidth] + k * lines_.in_stride) : nullptr;
        const T ar = a[0], ai = real ? T{0} : a[1] * sign, br = b ? b[0] : T{0}, bi = b && !real ? b[1] * sign : T{0};
        z[2 * l] = ar - bi;
        z[2 * l + 1] = ai + br;
        mirror[2 * l] = ar + bi;
        mirror[2 * l + 1] = br - ai;
      }
    }
  }

  // Long lines, one after the other.
  template <class Each>
  void for_lines(int64_t count, const Each& each) const {
    parallel_for(count, grain(n_), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i) each(i);
    });
  }
  // `parts` numbers (1 or 2) an element, between dense memory and a line.
  static void take(T* to, const T* from, int64_t count, int64_t stride, int64_t parts) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t p = 0; p < parts; ++p) to[parts * i + p] = from[parts * i * stride + p];
  }
  static void put(T* to, const T* from, int64_t count, int64_t stride, int64_t parts) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t p = 0; p < parts; ++p) to[parts * i * stride + p] = from[parts * i + p];
  }

  void complex_lines(const Places& places) const {
    const auto plan = line_plan<T>(n_);
    const Line<T> line(*plan, form_);
    for_lines(places.count(), [&](int64_t i) HWY_ATTR {
      const auto [from, to] = places(i);
      const T* x = in_ + 2 * from;
      T* y = out_ + 2 * to;
      if (lines_.in_stride == 1 && lines_.out_stride == 1) return line.run(x, y);
      ScratchArray<T> dense(2 * n_);
      take(dense.get(), x, n_, lines_.in_stride, 2);
      line.run(dense.get(), dense.get());
      put(y, dense.get(), n_, lines_.out_stride, 2);
    });
  }

  void even_real_lines(const Places& places) const {
    const auto plan = real_plan<T>(n_);
    const bool straight = lines_.in_stride == 1 && lines_.out_stride == 1;
    for_lines(places.count(), [&](int64_t i) HWY_ATTR {
      const auto [from, to] = places(i);
      ScratchArray<T> z(n_ + 2), dense(straight ? 0 : n_ + 2);
      if (real_in()) {
        const T* x = in_ + from;
        if (!straight) take(dense.get(), x, n_, lines_.in_stride, 1);
        Line<T>(*plan->line, {false, T{1}}).run(straight ? x : dense.get(), z.get());
        T* y = straight ? out_ + 2 * to : dense.get();
        join_line<false>(*plan, z.get(), y, conjugate_, form_.scale);
        if (!straight) put(out_ + 2 * to, y, half_, lines_.out_stride, 2);
      } else {
        const T* x = in_ + 2 * from;
        if (!straight) take(dense.get(), x, half_, lines_.in_stride, 2);
        join_line<true>(*plan, straight ? x : dense.get(), z.get(), conjugate_, T{1});
        T* y = straight ? out_ + to : dense.get();
        Line<T>(*plan->line, {true, form_.scale}).run(z.get(), y);
        if (!straight) put(out_ + to, y, n_, lines_.out_stride, 1);
      }
    });
  }

  // Two at a time: the second takes the place of the imaginary parts, as in `together`.
  void odd_real_lines(const Places& places) const {
    const auto plan = line_plan<T>(n_);
    const Line<T> line(*plan, form_);
    for_lines((places.count() + 1) / 2, [&](int64_t task) HWY_ATTR {
      const bool pair = 2 * task + 1 < places.count();
      const auto [from0, to0] = places(2 * task);
      const auto [from1, to1] = pair ? places(2 * task + 1) : std::pair(from0, to0);
      ScratchArray<T> z(2 * n_);
      const T sign = conjugate_ ? T{-1} : T{1}, f = T{0.5};
      if (real_in()) {
        for (int64_t i = 0; i < n_; ++i) {
          z[2 * i] = in_[from0 + i * lines_.in_stride];
          z[2 * i + 1] = pair ? in_[from1 + i * lines_.in_stride] : T{0};
        }
        line.run(z.get(), z.get());
        for (int64_t k = 0; k < half_; ++k) {
          const T *a = &z[2 * k], *b = &z[2 * ((n_ - k) % n_)];
          T* y = out_ + 2 * (to0 + k * lines_.out_stride);
          y[0] = (a[0] + b[0]) * f;
          y[1] = (a[1] - b[1]) * f * sign;
          if (!pair) continue;
          y = out_ + 2 * (to1 + k * lines_.out_stride);
          y[0] = (a[1] + b[1]) * f;
          y[1] = (b[0] - a[0]) * f * sign;
        }
        return;
      }
      for (int64_t k = 0; k < half_; ++k) {
        const T *a = in_ + 2 * (from0 + k * lines_.in_stride), *b = in_ + 2 * (from1 + k * lines_.in_stride);
        const T ar = a[0], ai = k ? a[1] * sign : T{0}, br = pair ? b[0] : T{0}, bi = pair && k ? b[1] * sign : T{0};
        T* mirror = &z[2 * ((n_ - k) % n_)];
        mirror[0] = ar + bi;
        mirror[1] = br - ai;
        z[2 * k] = ar - bi;
        z[2 * k + 1] = ai + br;
      }
      line.run(z.get(), z.get());
      for (int64_t i = 0; i < n_; ++i) {
        out_[to0 + i * lines_.out_stride] = z[2 * i];
        if (pair) out_[to1 + i * lines_.out_stride] = z[2 * i + 1];
      }
    });
  }

  const FftLines& lines_;
  const T* in_;
  T* out_;
  int64_t n_, half_;
  bool conjugate_;
  Form<T> form_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();
#endif
