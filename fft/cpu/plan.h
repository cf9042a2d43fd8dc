// What a transform of a length needs to know: factors, twiddle factors, which way it goes. Made once a length and kept.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace tessera::cpu::internal {

// Columns are worked on in groups of 64 bytes of real parts and as many of imaginary ones.
template <class T>
inline constexpr int64_t kFftWidth = 64 / sizeof(T);

// The largest prime factor that has a butterfly. Its work grows with the square of the prime, which vectors full of
// columns bear longer than the few columns of one line.
inline constexpr int kMaxRadix = 127, kMaxRadixOfLines = 31;

// Vectors of a table are not parts of two lines of memory.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};
template <class T>
using Table = std::vector<T, LineAllocator<T>>;

// exp(-2 pi i k / n), each part rounded once or nearly so.
std::complex<double> unit_root(int64_t k, int64_t n);

// The passes of a transform of n numbers that stand one under the other, many such columns side by side. A pass of
// radix r over s blocks of r * m numbers takes numbers p + m k, k < r, of each block to p + m j, j < r, times w^(p j),
// w = exp(-2 pi i / (r m)): in place, so that half as much memory is gone through as by passes from here to there. The
// order is natural before the first pass; after the last one result k is number order[k].
struct ColumnPasses {
  struct Pass {
    int radix;
    int64_t m, s;
    int64_t begin = 0;  // of the blocks that are gone over
    int64_t step;       // of the last pass: rows between results
    int64_t twiddles;   // in ColumnPlan's numbers: w^(p j) for p < m, 0 < j < r; re, im
    int64_t roots;      // there, too: cos and sin of 2 pi t / r, t < r, for odd radices
  };
  int64_t n = 1;
  std::vector<Pass> passes;
  std::vector<int32_t> order, backwards, in_line;  // of n + 1; backwards: of the transform with the other sign
  std::vector<int32_t> first;                      // of the last pass: what the first number of each block belongs to

  ColumnPasses() = default;
  ColumnPasses(int64_t n, std::vector<double>* numbers);
  // From now on the last pass leaves results where they are: result k in row [k] of what is returned.
  std::vector<int32_t> leave();
  // call(f, pass, whether it is the last one) for passes from `at` on: the first ones over all rows, then, block by
  // block of at most `most` rows, the others.
  void walk(int64_t at, int64_t most, void (*call)(const void*, const Pass&, bool), const void* f) const;
  // Whether all prime factors have a butterfly, and none is above `largest`.
  static bool serves(int64_t n, int largest = kMaxRadix);
  // Whether others may be convolutions: those that the second cache holds.
  static bool convolves(int64_t n);
};

// A plan that is used, whatever becomes of it in the cache. What lets go of one is code that is there once.
class AnyHeld {
 public:
  AnyHeld() = default;
  AnyHeld(std::shared_ptr<const void> plan);
  AnyHeld(AnyHeld&&) = default;
  AnyHeld& operator=(AnyHeld&& other);
  ~AnyHeld();
  const void* get() const { return plan_.get(); }

 private:
  std::shared_ptr<const void> plan_;
};
template <class Plan>
struct Held : AnyHeld {
  using AnyHeld::AnyHeld;
  const Plan* operator->() const { return static_cast<const Plan*>(get()); }
  const Plan& operator*() const { return *operator->(); }
  explicit operator bool() const { return get() != nullptr; }
};

// Where n has a prime factor of no butterfly, or of a long one, the transform may be a convolution by two transforms of
// m numbers: Rader's, where numbers 1 to n - 1 stand in the order of a root's powers, and number 0 in a row behind
// them, or Bluestein's (see LinePlan).
template <class T>
struct ColumnPlan : ColumnPasses {
  Table<T> numbers;
  int64_t height = 2;      // rows of memory: one more than numbers, for what real signals have besides
  Held<ColumnPlan> inner;  // of m numbers, if it is one
  Table<T> chirp, filter;  // as those of LinePlan
  int64_t results = 0;     // the first row of results

  ColumnPlan() = default;
  explicit ColumnPlan(int64_t n);
  // Whether there is one.
  static bool serves(int64_t n) { return ColumnPasses::serves(n) || convolves(n); }

 private:
  void convolve(bool chirps, int64_t m);
};

template <class T>
struct ShortPlan;

// A transform of n numbers that lie one after the other: n = rows * columns, columns of length `rows` first, a twiddle
// factor for each number, then the rows.
template <class T>
struct LinePlan {
  int64_t n = 1;
  ColumnPlan<T> first, second;  // of n1 and n2 numbers
  // w^(k1 n2), w = exp(-2 pi i / n), planar in groups of kFftWidth columns: [group][k1][re, im][lane]. Long transforms
  // keep those of k1 < kFftWidth, and in `coarse` those of k1 a multiple of kFftWidth, whose products the others are:
  // [k1 / kFftWidth][n2, up to whole groups][re, im].
  bool two_levels = false;
  Table<T> fine, coarse;

  // Where n has a prime factor without butterfly, the transform is a convolution, by transforms of length m. Rader's
  // algorithm for primes n whose m = n - 1 has none: of the numbers 1 to n - 1 in the order of the powers of a root
  // that has them all. Bluestein's for all others: with a chirp.
  Held<LinePlan> inner;
  Held<ShortPlan<T>> brief;     // of m, too, if there is one
  std::vector<int32_t> powers;  // Rader's: those of a root mod n
  Table<T> chirp;               // Bluestein's: exp(-pi i k^2 / n), re, im
  Table<T> filter;              // transform of exp(-2 pi i / (n root^k)), or of the conjugate chirp, over m

  explicit LinePlan(int64_t n);
};

// A line of n = m width numbers, m from 4 to some thousand: columns of m, then rows across the lanes of vectors.
template <class T>
struct ShortPlan {
  bool pairs;  // lines of four long vectors, by twos: floats in eight rows of half a vector of each
  ColumnPlan<T> first;
  std::vector<int32_t> where;  // the row of each result of a column
  Table<T> fine;               // as that of LinePlan, in the order of rows and groups of `width`
  // exp(-2 pi i e k / 16), 0 < k < 4, planar, of floats; e: the place of a lane in its 16 bytes. Of whole groups alone.
  Table<T> across;

  explicit ShortPlan(int64_t n);
  static int64_t width();  // lanes of the machine's vectors
  // Whether it is one, and the machine's vectors are long enough.
  static bool serves(int64_t n);
};

// What joins the two halves of a transform of an even number n of real numbers, made by one of n / 2 complex ones.
template <class T>
struct RealPlan {
  int64_t half;    // n / 2
  int64_t stride;  // n / 4 and a vector's lanes more, in whole lines
  Table<T> roots;  // exp(-2 pi i k / n) / 2, k < stride: real parts, then imaginary ones

  explicit RealPlan(int64_t n);
};

// A line of n = 2 rows width real numbers, where vectors are long: see ShortReal.
template <class T>
struct ShortRealPlan {
  int64_t rows;                    // 4 (of float64), 7 or 8
  RealPlan<T> columns, multiples;  // of 2 rows and of 2 width numbers
  Table<T> odd;                    // roots of a butterfly of an odd number of rows
  Table<T> fine;                   // exp(-2 pi i k l / n), 0 < k < rows, l < width, planar
  Table<T> across;                 // as that of ShortPlan

  explicit ShortRealPlan(int64_t n);
  static bool serves(int64_t n);
};

// From a cache of the plans that were used last; safe to call from any thread.
template <class T>
Held<LinePlan<T>> line_plan(int64_t n);
template <class T>
Held<ColumnPlan<T>> column_plan(int64_t n);
template <class T>
Held<RealPlan<T>> real_plan(int64_t n);  // n even
template <class T>
Held<ShortPlan<T>> short_plan(int64_t n);
template <class T>
Held<ShortRealPlan<T>> short_real_plan(int64_t n);

}  // namespace tessera::cpu::internal
