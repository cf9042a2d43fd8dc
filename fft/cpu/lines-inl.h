// Transforms of many lines in strided memory: which lines are worked on together, and how they come into rows. Included
// once per SIMD target.
#include <cmath>
#include <vector>

#include "fft/cpu/fft.h"
#include "fft/cpu/real-inl.h"

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
  HWY_NOINLINE explicit Places(const FftLines& lines) : dims_(lines.dims.begin(), lines.dims.end()) {
    for (const FftDim& d : dims_) count_ *= d.size;
  }
  int64_t count() const { return count_; }
  std::pair<int64_t, int64_t> operator()(int64_t i) const {
    std::pair<int64_t, int64_t> at{0, 0};
    for (auto d = dims_.rbegin(); d != dims_.rend(); ++d) {
      const bool last = d + 1 == dims_.rend();
      const int64_t outer = last ? 0 : i / d->size, here = last ? i : i - outer * d->size;
      at.first += here * d->in_stride;
      at.second += here * d->out_stride;
      i = outer;
    }
    return at;
  }
  // Lines from i on, up to `end`, that lie at one distance.
  FftDim row(int64_t i, int64_t end) const {
    if (dims_.empty()) return {1, 0, 0};
    const FftDim& d = dims_.back();
    return {std::min(end - i, d.size - i % d.size), d.in_stride, d.out_stride};
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

  void complex() const {
    if (ColumnPlan<T>::serves(n_))
      for (const FftDim& d : lines_.dims)
        if (d.in_stride == 1 && d.out_stride == 1 && d.size >= kWidth / 2) return side_by_side(d);
    complex_alone_or_together();
  }
  // Real signals, and (kBack) back to them. Functions of one direction name none of the other: programs that go one way
  // have code for that one alone.
  template <bool kBack>
  void real() const {
    const Places places(lines_);
    if (n_ % 2) {
      const bool many = fills(places.count(), n_) && n_ <= kLong;  // each alone would cost twice as much
      return many && ColumnPlan<T>::serves(n_) ? odd_real_together<kBack>(places) : odd_real_lines<kBack>(places);
    }
#if HWY_TARGET != HWY_SSE4
#if HWY_TARGET == HWY_AVX3
    if (!kBack && dense() && ShortRealPlan<T>::serves(n_)) return real_short(places);
#endif
    // Halves of real signals that are many are joined faster together where their columns are odd and brief.
    const int64_t rows = n_ / 2 / ShortPlan<T>::width();
    if (in_registers(n_ / 2) && (rows == 4 || rows == 8 || rows >= 16 || places.count() < kWidth / 2)) {
      const auto plan = short_plan<T>(n_ / 2);
      return even_real_short<kBack>(places, ShortLines<T>(*plan, half_form()));
    }
#endif
    if (together(places.count(), n_ / 2, 1)) return even_real_together<kBack>(places);
    const auto plan = line_plan<T>(n_ / 2);
    even_real_lines<kBack>(places, Line<T>(*plan, half_form()));
  }

 private:
  static constexpr int64_t kWidth = kFftWidth<T>;
  static constexpr int64_t kRow = 2 * kWidth;
  static constexpr int64_t kShort = 256, kLong = 4096, kAlone = 64 * sizeof(T);
  static constexpr int64_t kPiece = int64_t{1} << 15;

  bool real_in() const { return lines_.kind == FftKind::kRealToHalf; }
  bool real_out() const { return lines_.kind == FftKind::kHalfToReal; }
  int64_t grain(int64_t numbers) const { return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, numbers)); }

  bool dense() const { return lines_.in_stride == 1 && lines_.out_stride == 1; }
  bool in_registers(int64_t length) const { return dense() && ShortPlan<T>::serves(length); }

  void complex_alone_or_together() const {
    const Places places(lines_);
    const bool brief = ShortPlan<T>::serves(n_);
    if (!(brief && dense()) && together(places.count(), n_, 2)) return complex_together(places);
#if HWY_TARGET != HWY_SSE4
    if (brief) {
      const auto plan = short_plan<T>(n_);
      const ShortLines<T> lines(*plan, form_);
      return dense() ? complex_short(places, lines) : complex_lines(places, lines);
    }
#endif
    const auto plan = line_plan<T>(n_);
    complex_lines(places, Line<T>(*plan, form_));
  }
  // Whether `count` lines are enough for columns, some of which may be idle.
  static bool fills(int64_t count, int64_t length) {
    return count >= kWidth / 2 && (count >= kWidth || ColumnPasses::serves(length));
  }
  // Whether `count` lines are transformed kWidth at a time, by columns of `length`: short ones; longer ones only where
  // they leave work for several threads, and not those that push each other out of the first cache, since they lie a
  // multiple of 4 KiB apart, and more of them than it has ways. A line that fills vectors by itself needs no company;
  // one that is a convolution jumps about in memory, or is twice as long.
  bool together(int64_t count, int64_t length, int64_t parts) const {
    if (!fills(count, length) || length > kLong || !ColumnPlan<T>::serves(length)) return false;
    if (parts == 2 && length >= kAlone && length % (kWidth * kWidth) == 0) return false;
    if (length <= kShort || !ColumnPasses::serves(length, kMaxRadixOfLines)) return true;
    return count >= 4 * kWidth && (kWidth <= 8 || n_ * parts * sizeof(T) % 4096 != 0);
  }

  // Dimension `inner` is dense in both memories: its elements are columns as they lie there. A few that are left over
  // go together with those of other rows.
  void side_by_side(const FftDim& inner) const {
    std::vector<FftDim> others;
    for (const FftDim& d : lines_.dims)
      if (&d != &inner) others.push_back(d);
    FftLines outer = lines_;
    outer.dims = others;
    const Places places(outer);
    const auto plan = column_plan<T>(n_);
    const int64_t rest = inner.size % kWidth, groups = inner.size / kWidth + (2 * rest >= kWidth);
    parallel_for(places.count() * groups, grain(n_ * kWidth), [&](int64_t begin, int64_t end) HWY_ATTR {
      ScratchArray<T> scratch(plan->height * kRow), part(2 * rest >= kWidth ? n_ * kRow : 0);
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
          transform_columns(d, *plan, interleaved(d, x + 2 * l, 2 * lines_.in_stride, form_),
                            interleaved(d, y + 2 * l, 2 * lines_.out_stride, form_), scratch.get());
      }
    });
    const int64_t done = groups * kWidth;
    if (done >= inner.size) return;
    others.push_back({inner.size - done, 1, true});
    outer.dims = others;
    Transform(outer, in_ + 2 * done, out_ + 2 * done).complex_alone_or_together();
  }

  // Where lines begin. A second half of them may be worked on with the first.
  struct Group {
    const T* from[2 * kWidth];
    T* to[2 * kWidth];
    int64_t count;
  };
  // `each` lines (kWidth or twice as many) at a time. work(group, rows): `height` planar rows.
  template <class Work>
  void in_groups(const Places& places, int64_t each, int64_t height, const Work& work) const {
    in_groups(places, each, height, &call<Work, const Group&, T*>, &work);
  }
  // What is the same for all work is there once.
  template <class Work, class... Arguments>
  static void call(const void* work, Arguments... arguments) {
    (*static_cast<const Work*>(work))(arguments...);
  }
  HWY_NOINLINE void in_groups(const Places& places, int64_t each, int64_t height,
                              void (*call)(const void*, const Group&, T*), const void* work) const {
    const int64_t tasks = (places.count() + each - 1) / each;
    parallel_for(tasks, grain(height * kWidth), [&](int64_t begin, int64_t end) {
      ScratchArray<T> rows(height * kRow);
      Group group;
      for (int64_t t = begin; t < end; ++t) {
        group.count = std::min(each, places.count() - t * each);
        for (int64_t l = 0; l < group.count; ++l) {
          const auto [from, to] = places(t * each + l);
          group.from[l] = in_ + (real_in() ? 1 : 2) * from;
          group.to[l] = out_ + (real_out() ? 1 : 2) * to;
        }
        call(work, group, rows.get());
      }
    });
  }
  // Whether kWidth lines lie at one distance, so that tiles can be turned where they are.
  template <class P>
  static bool evenly(P const* at, int64_t lanes) {
    for (int64_t l = 2; l < lanes; ++l)
      if (at[l] - at[l - 1] != at[1] - at[0]) return false;
    return lanes == kWidth;
  }
  // Other lines go by pieces of kPart numbers through a buffer. work(piece of the buffer, first number, numbers).
  static constexpr int64_t kPart = 128, kPartStride = kPart + 64 / static_cast<int64_t>(sizeof(T));
  template <class Work>
  static void by_parts(int64_t count, const Work& work) {
    alignas(64) T buffer[kWidth * kPartStride];
    for (int64_t j = 0; j < count; j += kPart) work(buffer, j, std::min(kPart, count - j));
  }

  // `lanes` lines (if more: kWidth) of `count` numbers (two for a complex element) to rows: number j to row(j), a lane
  // for each line.
  HWY_NOINLINE void gather(const T* const* from, int64_t lanes, int64_t count, const Rows<T>& row) const {
    lanes = std::min(lanes, kWidth);
    const int64_t stride = lines_.in_stride;
    if (stride == 1 && evenly(from, lanes)) return lines_to_rows(from[0], from[1] - from[0], count, row);
    by_parts(count, [&](T* buffer, int64_t first, int64_t numbers) HWY_ATTR {
      for (int64_t l = 0; l < kWidth; ++l) {
        T* const to = buffer + l * kPartStride;
        if (l >= lanes)
          std::memset(to, 0, static_cast<size_t>(numbers) * sizeof(T));
        else if (real_in())
          take<1>(to, from[l] + first * stride, numbers, stride);
        else
          take<2>(to, from[l] + first * stride, numbers / 2, stride);
      }
      lines_to_rows(buffer, kPartStride, numbers, row.from(first));
    });
  }
  HWY_NOINLINE void scatter(T* const* to, int64_t lanes, int64_t count, const Rows<T>& row) const {
    lanes = std::min(lanes, kWidth);
    const int64_t stride = lines_.out_stride;
    if (stride == 1 && evenly(to, lanes)) return rows_to_lines(to[0], to[1] - to[0], count, row);
    by_parts(count, [&](T* buffer, int64_t first, int64_t numbers) HWY_ATTR {
      rows_to_lines(buffer, kPartStride, numbers, row.from(first));
      for (int64_t l = 0; l < lanes; ++l) {
        if (real_out())
          put<1>(to[l] + first * stride, buffer + l * kPartStride, numbers, stride);
        else
          put<2>(to[l] + first * stride, buffer + l * kPartStride, numbers / 2, stride);
      }
    });
  }
  // Elements of `kParts` numbers (1 or 2); steps count elements.
  template <int kParts>
  HWY_INLINE static void move(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t count) {
    if (to_step == 1 && from_step == 1) {
      std::memcpy(to, from, static_cast<size_t>(kParts * count) * sizeof(T));
      return;
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t p = 0; p < kParts; ++p) to[kParts * i * to_step + p] = from[kParts * i * from_step + p];
  }
  // Between dense memory and a line.
  template <int kParts>
  static void take(T* to, const T* from, int64_t count, int64_t stride) {
    move<kParts>(to, 1, from, stride, count);
  }
  template <int kParts>
  static void put(T* to, const T* from, int64_t count, int64_t stride) {
    move<kParts>(to, stride, from, 1, count);
  }
  static void transform_group(const ColumnPlan<T>& plan, T* rows, Ahead ahead = {}) {
    const Lanes<T> d;
    for (int64_t l = 0; l < kWidth; l += static_cast<int64_t>(hn::Lanes(d)))
      transform_rows(d, plan, Planar<Lanes<T>>{d, rows + lane_begin<T>(l, plan.height), &ahead});
  }
  // Where lines lie one after the other: the group behind this one, and what this one's results are written to.
  Ahead behind(const Group& group, const ColumnPlan<T>& plan, int64_t numbers) const {
    const T* const from = group.from[0];
    if (!dense() || group.count < kWidth || group.from[1] - from != numbers) return {};
    int64_t butterflies = 0;
    for (const auto& pass : (plan.inner ? *plan.inner : plan).passes) butterflies += plan.n / pass.radix;
    return {from + kWidth * numbers, group.to[0], kWidth * numbers * static_cast<int64_t>(sizeof(T)),
            butterflies * kWidth / static_cast<int64_t>(hn::Lanes(Lanes<T>()))};
  }
  // The results.
  static void scale_group(T* rows, const ColumnPlan<T>& plan, T scale) {
    const Lanes<T> d;
    constexpr int64_t kAll = 2 * kPlanarWidth<Lanes<T>>;
    if (scale != T{1})
      for (int64_t l = 0; l < kWidth; l += kAll / 2) {
        T* const at = rows + lane_begin<T>(l, plan.height);
        for (int64_t i = plan.results * kAll; i < (plan.height - 1) * kAll; i += static_cast<int64_t>(hn::Lanes(d)))
          hn::StoreU(hn::Mul(hn::LoadU(d, at + i), hn::Set(d, scale)), d, at + i);
      }
  }

  // Each line is a column of rows that are gathered.
  void complex_together(const Places& places) const {
    const auto plan = column_plan<T>(n_);
    const int32_t* const results = (form_.conjugate ? plan->backwards : plan->order).data();
    in_groups(places, kWidth, plan->height, [&](const Group& group, T* rows) HWY_ATTR {
      gather(group.from, group.count, 2 * n_, {rows, plan->in_line.data(), plan->height, true});
      transform_group(*plan, rows, behind(group, *plan, 2 * n_));
      scale_group(rows, *plan, form_.scale);
      scatter(group.to, group.count, 2 * n_, {rows, results, plan->height, true});
    });
  }

  // The same for halves of real signals: two neighbours are a complex number.
  template <bool kBack>
  void even_real_together(const Places& places) const {
    const auto plan = real_plan<T>(n_);
    const auto columns = column_plan<T>(n_ / 2);
    const int32_t *const order = columns->order.data(), *const in_line = columns->in_line.data();
    const int64_t height = columns->height;
    in_groups(places, kWidth, height, [&](const Group& group, T* rows) HWY_ATTR {
      gather(group.from, group.count, kBack ? 2 * half_ : n_, {rows, in_line, height, true});
      if (kBack) join_rows<true>(*plan, in_line, height, rows, conjugate_, form_.scale);
      transform_group(*columns, rows, behind(group, *columns, kBack ? 2 * half_ : n_));
      if (!kBack) join_rows<false>(*plan, order, height, rows, conjugate_, form_.scale);
      scatter(group.to, group.count, kBack ? n_ : 2 * half_,
              {rows, kBack ? columns->backwards.data() : order, height, true});
    });
  }

  // Real signals of odd length, twice as many: the second half of them takes the place of the imaginary parts.
  template <bool kBack>
  void odd_real_together(const Places& places) const {
    const auto plan = column_plan<T>(n_);
    // Where the second half's spectra are: see split_rows.
    std::vector<int32_t> mirrored = plan->backwards;
    if (kBack) std::reverse_copy(plan->in_line.begin(), plan->in_line.end(), mirrored.begin());
    mirrored[0] = (kBack ? plan->in_line : plan->order)[n_];
    in_groups(places, 2 * kWidth, plan->height, [&](const Group& group, T* rows) HWY_ATTR {
      if (!odd_real_group<kBack>(*plan, mirrored.data(), group, rows, true, group.count > kWidth)) {
        odd_real_group<kBack>(*plan, mirrored.data(), group, rows, true, false);
        odd_real_group<kBack>(*plan, mirrored.data(), group, rows, false, true);
      }
    });
  }
  // The first and the second half of a group, or only one of them. False, and nothing done, if there are numbers that
  // are not finite, in which a signal would infect the one that shares its columns.
  template <bool kBack>
  HWY_NOINLINE bool odd_real_group(const ColumnPlan<T>& plan, const int32_t* mirrored, const Group& group, T* rows,
                                   bool first, bool second) const {
    const int32_t *const order = plan.order.data(), *const in_line = plan.in_line.data();
    const int64_t height = plan.height;
    const auto take = [&](bool half, int64_t count, const Rows<T>& row) {
      gather(group.from + half * kWidth, group.count - half * kWidth, count, row);
    };
    const auto put = [&](bool half, int64_t count, const Rows<T>& row) {
      scatter(group.to + half * kWidth, group.count - half * kWidth, count, row);
    };
    T* const imaginary = rows + kPlanarWidth<Lanes<T>>;
    if (!first || !second) std::memset(rows, 0, static_cast<size_t>(height * kRow) * sizeof(T));
    if (!kBack) {
      if (first) take(false, n_, {rows, in_line, height, false});
      if (second) take(true, n_, {imaginary, in_line, height, false});
    } else {
      if (first) take(false, 2 * half_, {rows, in_line, height, true});
      if (second) take(true, 2 * half_, {rows, mirrored, height, true});
      split_rows<true>(n_, in_line, height, rows, conjugate_, form_.scale);
    }
    transform_group(plan, rows);
    // Number 0 is the sum of all.
    for (int64_t l = 0; first && second && l < kWidth; ++l)
      for (const T* part : {rows, imaginary})
        if (!std::isfinite(part[lane_begin<T>(l, height) + order[0] * (2 * kPlanarWidth<Lanes<T>>)])) return false;
    if (!kBack) {
      split_rows<false>(n_, order, height, rows, conjugate_, form_.scale);
      if (first) put(false, 2 * half_, {rows, order, height, true});
      if (second) put(true, 2 * half_, {rows, mirrored, height, true});
    } else {
      if (first) put(false, n_, {rows, plan.backwards.data(), height, false});
      if (second) put(true, n_, {imaginary, plan.backwards.data(), height, false});
    }
    return true;
  }

  // Long lines, one after the other. each(number of the line, scratch); `extra` numbers of scratch, and the line's.
  template <class Engine, class Each>
  void for_lines(int64_t count, const Engine& line, int64_t extra, const Each& each) const {
    for_lines(count, line.scratch(), extra, &call<Each, int64_t, T*, T*>, &each);
  }
  HWY_NOINLINE void for_lines(int64_t count, int64_t scratch, int64_t extra, void (*call)(const void*, int64_t, T*, T*),
                              const void* each) const {
    parallel_for(count, grain(n_), [&](int64_t begin, int64_t end) {
      const int64_t own = (extra + kRow - 1) / kRow * kRow;
      ScratchArray<T> memory(own + scratch);
      for (int64_t i = begin; i < end; ++i) call(each, i, memory.get(), memory.get() + own);
    });
  }

#if HWY_TARGET != HWY_SSE4
  // Short lines: `most` or fewer at a time, which lie at one distance. each(lines, scratch)
  template <class Each>
  void for_short_lines(const Places& places, int64_t most, int64_t scratch, const Each& each) const {
    for_short_lines(places, most, scratch, &call<Each, const typename ShortLines<T>::Some&, T*>, &each);
  }
  HWY_NOINLINE void for_short_lines(const Places& places, int64_t most, int64_t scratch,
                                    void (*call)(const void*, const typename ShortLines<T>::Some&, T*),
                                    const void* each) const {
    const int64_t in = real_in() ? 1 : 2, out = real_out() ? 1 : 2;
    parallel_for(places.count(), grain(n_), [&](int64_t begin, int64_t end) {
      ScratchArray<T> memory(scratch);
      for (int64_t i = begin; i < end;) {
        const auto [from, to] = places(i);
        const auto [count, in_step, out_step] = places.row(i, std::min(end, i + most));
        call(each, {count, in_ + in * from, in * in_step, out_ + out * to, out * out_step}, memory.get());
        i += count;
      }
    });
  }
  void complex_short(const Places& places, const ShortLines<T>& lines) const {
    for_short_lines(places, places.count(), lines.scratch(),
                    [&](const typename ShortLines<T>::Some& some, T* scratch) { lines.run(some, scratch); });
  }
#if HWY_TARGET == HWY_AVX3
  void real_short(const Places& places) const {
    const auto plan = short_real_plan<T>(n_);
    const ShortReal<T> real(*plan, conjugate_, form_.scale);
    for_short_lines(places, places.count(), real.scratch(),
                    [&](const typename ShortLines<T>::Some& some, T* scratch) { real.run(some, scratch); });
  }
#endif
  template <bool kBack>
  void even_real_short(const Places& places, const ShortLines<T>& lines) const {
    const auto plan = real_plan<T>(n_);
    // Lines that the first cache holds beside what others need; where it is read last, it should still hold it all.
    constexpr int64_t kBytes = kBack ? 8192 : 2048;
    const int64_t most = std::max<int64_t>(1, kBytes / static_cast<int64_t>(sizeof(T)) / n_), own = most * n_;
    for_short_lines(places, most, own + lines.scratch(), [&](const typename ShortLines<T>::Some& some, T* z) {
      const auto [count, in, in_step, out, out_step] = some;
      if (kBack) {
        join_lines<true>(*plan, count, in, in_step, z, n_, conjugate_, T{1});
        lines.run({count, z, n_, out, out_step}, z + own);
      } else {
        lines.run({count, in, in_step, z, n_}, z + own);
        join_lines<false>(*plan, count, z, n_, out, out_step, conjugate_, form_.scale);
      }
    });
  }
#endif
  template <class Engine>
  void complex_lines(const Places& places, const Engine& line) const {
    const auto run = [](const void* line, const T* in, T* out, T* scratch)
                         HWY_ATTR { static_cast<const Engine*>(line)->run(in, out, scratch); };
    complex_lines(places, line.scratch(), run, &line);
  }
  HWY_NOINLINE void complex_lines(const Places& places, int64_t scratch, void (*run)(const void*, const T*, T*, T*),
                                  const void* line) const {
    const auto each = [&](int64_t i, T* copy, T* scratch) HWY_ATTR {
      const auto [from, to] = places(i);
      const T* x = in_ + 2 * from;
      T* y = out_ + 2 * to;
      if (dense()) return run(line, x, y, scratch);
      take<2>(copy, x, n_, lines_.in_stride);
      run(line, copy, copy, scratch);
      put<2>(y, copy, n_, lines_.out_stride);
    };
    for_lines(places.count(), scratch, dense() ? 0 : 2 * n_, &call<decltype(each), int64_t, T*, T*>, &each);
  }

  // Of the complex numbers that neighbours are.
  Form<T> half_form() const { return {real_out(), real_out() ? form_.scale : T{1}}; }
  template <bool kBack, class Engine>
  void even_real_lines(const Places& places, const Engine& line) const {
    const auto plan = real_plan<T>(n_);
    const int64_t whole = (n_ + 2 + kRow - 1) / kRow * kRow;
    for_lines(places.count(), line, dense() ? whole : 2 * whole, [&](int64_t i, T* z, T* scratch) HWY_ATTR {
      constexpr int kIn = kBack ? 2 : 1, kOut = kBack ? 1 : 2;
      const auto [from, to] = places(i);
      const T* x = in_ + kIn * from;
      T* y = dense() ? out_ + kOut * to : z + whole;
      if (!dense()) {
        take<kIn>(z + whole, x, kBack ? half_ : n_, lines_.in_stride);
        x = z + whole;
      }
      if (kBack) {
        join_lines<true>(*plan, 1, x, 0, z, 0, conjugate_, T{1});
        line.run(z, y, scratch);
      } else {
        line.run(x, z, scratch);
        join_lines<false>(*plan, 1, z, 0, y, 0, conjugate_, form_.scale);
      }
      if (!dense()) put<kOut>(out_ + kOut * to, y, kBack ? n_ : half_, lines_.out_stride);
    });
  }

  // Two at a time: the second takes the place of the imaginary parts, as in odd_real_group.
  template <bool kBack>
  void odd_real_lines(const Places& places) const {
    const auto plan = line_plan<T>(n_);
    const Line<T> line(*plan, form_);
    for_lines((places.count() + 1) / 2, line, 2 * n_, [&](int64_t task, T* z, T* scratch) HWY_ATTR {
      const auto first = places(2 * task);
      const bool pair = 2 * task + 1 < places.count();
      const auto second = pair ? places(2 * task + 1) : first;
      if (odd_real_pair<kBack>(line, first, second, pair, z, scratch)) return;
      odd_real_pair<kBack>(line, first, first, false, z, scratch);
      odd_real_pair<kBack>(line, second, second, false, z, scratch);
    });
  }
  template <bool kBack>
  HWY_NOINLINE bool odd_real_pair(const Line<T>& line, std::pair<int64_t, int64_t> first,
                                  std::pair<int64_t, int64_t> second, bool pair, T* z, T* scratch) const {
    const auto [from0, to0] = first;
    const auto [from1, to1] = second;
    const T sign = conjugate_ ? T{-1} : T{1}, f = T{0.5};
    if (!kBack) {
      for (int64_t i = 0; i < n_; ++i) {
        z[2 * i] = in_[from0 + i * lines_.in_stride];
        z[2 * i + 1] = pair ? in_[from1 + i * lines_.in_stride] : T{0};
      }
    } else {
      for (int64_t k = 0; k < half_; ++k) {
        const T *a = in_ + 2 * (from0 + k * lines_.in_stride), *b = in_ + 2 * (from1 + k * lines_.in_stride);
        const T ar = a[0], ai = k ? a[1] * sign : T{0}, br = pair ? b[0] : T{0}, bi = pair && k ? b[1] * sign : T{0};
        T* mirror = &z[2 * ((n_ - k) % n_)];
        mirror[0] = ar + bi;
        mirror[1] = br - ai;
        z[2 * k] = ar - bi;
        z[2 * k + 1] = ai + br;
      }
    }
    line.run(z, z, scratch);
    if (pair && !(std::isfinite(z[0]) && std::isfinite(z[1]))) return false;
    if (kBack) {
      for (int64_t i = 0; i < n_; ++i) {
        out_[to0 + i * lines_.out_stride] = z[2 * i];
        if (pair) out_[to1 + i * lines_.out_stride] = z[2 * i + 1];
      }
      return true;
    }
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
    return true;
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
