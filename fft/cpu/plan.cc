#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")  // a plan is made once
#endif

#include "fft/cpu/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <numbers>
#include <numeric>
#include <utility>

#include "fft/cpu/fft.h"
#include "tensor/cpu/support/simd.h"

namespace tessera::cpu::internal {
namespace {

// Above this many numbers the twiddle factors between columns and rows are products of two.
constexpr int64_t kOneTable = 32768;

// Longer lines of a prime length jump about in more memory than the second cache has: a chirp is as fast. Columns are
// many at a time.
constexpr int64_t kMostOfPrimes = 65537, kMostOfPrimeColumns = 4096, kMostOfColumns = 1024;

// Radices of n in the order of the passes; empty if a prime factor has no butterfly.
std::vector<int> radices(int64_t n) {
  std::vector<int> r;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  // Eights, and fours for what does not fill an eight: a pass of radix 2 costs as much memory traffic as one of 8.
  // Fours alone where vectors are few: registers do not hold eight numbers and what becomes of them.
  if (simd_level() != SimdLevel::kAvx3) {
    if (twos % 2) r.push_back(2);
    r.insert(r.end(), twos / 2, 4);
  } else {
    if (twos == 1) r.push_back(2);
    if (twos % 3 == 1 && twos > 1) r.insert(r.end(), 2, 4);
    if (twos % 3 == 2) r.push_back(4);
    r.insert(r.begin(), twos % 3 == 1 ? (twos > 1 ? (twos - 4) / 3 : 0) : twos / 3, 8);
  }
  // Small primes at the end, larger ones in the middle: the first and the last pass read and write any memory only if
  // they are brief.
  for (int p = 3; p <= kMaxRadix && n > 1; p += 2)
    for (; n % p == 0; n /= p) r.insert(p <= 5 || r.size() < 2 ? r.end() : r.end() - 1, p);
  if (n > 1) r.clear();
  return r;
}

// A pass over one number: memory traffic, and arithmetic that grows with the radix.
double pass_cost(int radix) {
  switch (radix) {
    case 2:
      return 3;
    case 3:
      return 4;
    case 4:
      return 4;
    case 5:
      return 5.5;
    case 7:
      return 7.5;
    case 8:
      return 5.5;
    default:
      return 2 + 0.9 * radix;
  }
}

double smooth_cost(int64_t n) {
  double cost = 1;
  for (int r : radices(n)) cost += pass_cost(r);
  return cost * static_cast<double>(n);
}

int64_t groups(int64_t n, int64_t width) { return (n + width - 1) / width; }

// n1 of the cheapest n = n1 * n2. Lanes that a last, partly filled group of columns leaves idle are paid for.
int64_t split(int64_t n, int64_t width) {
  double best = HUGE_VAL;
  int64_t n1 = n;
  const auto consider = [&](int64_t a, int64_t b) {
    const auto wide = [&](int64_t x) { return static_cast<double>(groups(x, width) * width); };
    double cost = smooth_cost(a) * wide(b);
    if (b > 1) cost += smooth_cost(b) * wide(a) + 3 * wide(a) * wide(b);
    // Columns that do not fit the second cache are read and written once a pass.
    for (int64_t x : {a, b})
      if (x > 2048) cost += 2.0 * wide(a) * wide(b);
    if (cost < best) best = cost, n1 = a;
  };
  for (int64_t a = 1; a * a <= n; ++a)
    if (n % a == 0) {
      consider(a, n / a);
      consider(n / a, a);
    }
  return n1;
}

// The cheapest length for a circular convolution of at least `least` numbers.
int64_t convolution_length(int64_t least) {
  double best = HUGE_VAL;
  int64_t length = least;
  for (int64_t five = 1; five < 2 * least; five *= 5)
    for (int64_t three = five; three < 2 * least; three *= 3) {
      int64_t m = three;
      while (m < least) m *= 2;
      if (m % 64 && least > 256) continue;
      if (const double cost = smooth_cost(m); cost < best) best = cost, length = m;
    }
  return length;
}

// Of an angle of at most an eighth of the circle, by their series: the same bits on every machine, and a program of one
// transform does without the C library's functions, which are as long as the transform.
std::pair<double, double> cos_and_sin(double x) {
  constexpr int kTerms = 18;
  static constexpr auto kSteps = [] {  // from a term to the next one: the quotient of two factorials
    std::array<double, kTerms + 1> steps{};
    for (int k = 1; k <= kTerms; ++k) steps[k] = 1.0 / (k * (k + 1));
    return steps;
  }();
  const double square = x * x;
  double of_cos = 0, of_sin = 0;  // what follows the last term, divided by it
  for (int k = kTerms; k > 2; k -= 2) {
    of_cos = -square * (1 + of_cos) * kSteps[k - 1];
    of_sin = -square * (1 + of_sin) * kSteps[k];
  }
  of_sin = -square * (1 + of_sin) * kSteps[2];
  const double half = square / 2, first = 1 - half;
  return {first + (((1 - first) - half) - half * of_cos), x + x * of_sin};
}

void push(std::vector<double>* to, std::complex<double> z) {
  to->push_back(z.real());
  to->push_back(z.imag());
}

// Tables are made of doubles, which are rounded at the end.
template <class T>
Table<T> rounded(const std::vector<double>& x) {
  return Table<T>(x.begin(), x.end());
}

// lane_order of columns-inl.h, for vectors of `lanes`.
int64_t lane_order(int64_t i, int64_t lanes) {
  if (simd_level() != SimdLevel::kAvx2) return i;
  const int64_t high = lanes / 2, low = lanes / 4;
  return i - (i & (high + low)) + (i & high) / 2 + (i & low) * 2;
}

// w^(rows[i] * column) in groups of `width` columns, planar, in vectors of `lanes`.
std::vector<double> twiddle_table(int64_t n, const std::vector<int64_t>& rows, int64_t columns, int64_t width,
                                  int64_t lanes) {
  std::vector<double> table(groups(columns, width) * static_cast<int64_t>(rows.size()) * 2 * width);
  double* at = table.data();
  for (int64_t g = 0; g < groups(columns, width); ++g)
    for (const int64_t r : rows) {
      for (int64_t l = 0; l < width; ++l) {
        const auto w = unit_root(r * (g * width + lane_order(l, lanes)) % n, n);
        at[l] = w.real();
        at[width + l] = w.imag();
      }
      at += 2 * width;
    }
  return table;
}

// Each row of `columns` numbers as often as fills `width`.
std::vector<double> repeated(const std::vector<double>& table, int64_t columns, int64_t width) {
  std::vector<double> wide;
  for (auto row = table.begin(); row != table.end(); row += columns)
    for (int64_t l = 0; l < width; l += columns) wide.insert(wide.end(), row, row + columns);
  return wide;
}

// Of ShortPlan, of floats in long vectors.
std::vector<double> across_table() { return repeated(twiddle_table(16, {1, 2, 3}, 4, 4, 16), 4, 16); }

// Of LinePlan: w^(k1 n2) where k1 is a multiple of `width`.
std::vector<double> coarse_table(int64_t n, int64_t n1, int64_t n2, int64_t width) {
  std::vector<double> table;
  for (int64_t k1 = 0; k1 < n1; k1 += width)
    for (int64_t column = 0; column < groups(n2, width) * width; ++column) push(&table, unit_root(k1 * column % n, n));
  return table;
}

// Of a butterfly of an odd radix: cos and sin of 2 pi t / r, t < r.
void push_odd_roots(std::vector<double>* numbers, int64_t r) {
  for (int64_t t = 0; t < r; ++t) push(numbers, std::conj(unit_root(t, r)));
}

bool is_prime(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return false;
  return n > 1;
}

// The powers of a number mod n, n prime, that are all numbers from 1 to n - 1.
std::vector<int32_t> powers_of_root(int64_t n) {
  std::vector<int32_t> powers;
  for (int64_t root = 2; static_cast<int64_t>(powers.size()) < n - 1; ++root) {
    powers.clear();
    int64_t power = 1;
    do {
      powers.push_back(static_cast<int32_t>(power));
      power = power * root % n;
    } while (power != 1);
  }
  return powers;
}

// Rader's kernel: exp(-2 pi i / (n root^k)).
void make_kernel(int64_t n, const std::vector<int32_t>& powers, std::vector<double>* kernel) {
  for (size_t k = 0; k < powers.size(); ++k) push(kernel, unit_root(powers[k > 0 ? powers.size() - k : 0], n));
}

// Bluestein's chirp of n numbers, and its conjugate as a kernel of m.
void make_chirp(int64_t n, int64_t m, std::vector<double>* chirp, std::vector<double>* kernel) {
  kernel->resize(2 * m);
  for (int64_t k = 0; k < n; ++k) {
    // k^2 mod 2n, as the chirp has that period.
    const auto w = unit_root(static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n)), 2 * n);
    push(chirp, w);
    for (int64_t at : {k, (m - k) % m}) {
      (*kernel)[2 * at] = w.real();
      (*kernel)[2 * at + 1] = -w.imag();
    }
  }
}

template <class T>
int64_t bytes_of(const ColumnPlan<T>& p) {
  return static_cast<int64_t>((p.numbers.size() + p.chirp.size() + p.filter.size()) * sizeof(T) +
                              (3 * p.order.size() + p.first.size()) * sizeof(int32_t));
}
template <class T>
int64_t bytes_of(const LinePlan<T>& p) {
  return bytes_of(p.first) + bytes_of(p.second) +
         static_cast<int64_t>((p.fine.size() + p.coarse.size() + p.chirp.size() + p.filter.size()) * sizeof(T) +
                              p.powers.size() * sizeof(int32_t));
}
template <class T>
int64_t bytes_of(const ShortPlan<T>& p) {
  return bytes_of(p.first) +
         static_cast<int64_t>((p.fine.size() + p.across.size()) * sizeof(T) + p.where.size() * sizeof(int32_t));
}
template <class T>
int64_t bytes_of(const RealPlan<T>& p) {
  return static_cast<int64_t>(p.roots.size() * sizeof(T));
}
template <class T>
int64_t bytes_of(const ShortRealPlan<T>& p) {
  return bytes_of(p.columns) + bytes_of(p.multiples) +
         static_cast<int64_t>((p.odd.size() + p.fine.size() + p.across.size()) * sizeof(T));
}

// Plans by length: of those that were used last, at most kPlans, and not many more bytes than kBytes.
class Cache {
 public:
  struct Kept {
    int64_t n, bytes;
    std::shared_ptr<const void> plan;
    int64_t used = 0;  // when, by clock_
  };

  std::shared_ptr<const void> get(int64_t n, Kept (*make)(int64_t)) {
    {
      std::lock_guard lock(mutex_);
      if (const auto found = find(n); found != plans_.end() && found->n == n) return use(*found);
    }
    const Kept made = make(n);  // without the lock: a plan may need others
    std::lock_guard lock(mutex_);
    const auto found = find(n);
    if (found != plans_.end() && found->n == n) return use(*found);
    bytes_ += made.bytes;
    use(*plans_.insert(found, made));
    while (plans_.size() > 1 && (plans_.size() > kPlans || bytes_ > kBytes)) {
      const auto oldest =
          std::min_element(plans_.begin(), plans_.end(), [](auto& a, auto& b) { return a.used < b.used; });
      bytes_ -= oldest->bytes;
      plans_.erase(oldest);
    }
    return made.plan;
  }

 private:
  static constexpr size_t kPlans = 64;
  static constexpr int64_t kBytes = int64_t{64} << 20;

  std::vector<Kept>::iterator find(int64_t n) {
    return std::lower_bound(plans_.begin(), plans_.end(), n, [](const Kept& kept, int64_t n) { return kept.n < n; });
  }
  std::shared_ptr<const void> use(Kept& kept) {
    kept.used = ++clock_;
    return kept.plan;
  }

  std::mutex mutex_;
  int64_t bytes_ = 0, clock_ = 0;
  std::vector<Kept> plans_;  // shorter lengths first
};

template <class Plan>
Held<Plan> cached(int64_t n) {
  static Cache* const cache = new Cache;  // never destroyed: threads may outlive static objects
  return cache->get(n, [](int64_t n) {
    const auto plan = std::make_shared<const Plan>(n);
    return Cache::Kept{n, bytes_of(*plan), plan};
  });
}

}  // namespace

AnyHeld::AnyHeld(std::shared_ptr<const void> plan) : plan_(std::move(plan)) {}
AnyHeld& AnyHeld::operator=(AnyHeld&& other) = default;
AnyHeld::~AnyHeld() = default;

std::complex<double> unit_root(int64_t k, int64_t n) {
  // An angle of at most an eighth of the circle, in exact integers; the rest is symmetry.
  const auto quarter = static_cast<int>(static_cast<__int128>(k) * 4 / n);
  const auto rest = static_cast<int64_t>(static_cast<__int128>(k) * 4 - static_cast<__int128>(quarter) * n);
  const bool beyond = 2 * static_cast<__int128>(rest) > n;
  const double angle = std::numbers::pi / 2 * (static_cast<double>(beyond ? n - rest : rest) / static_cast<double>(n));
  auto [c, s] = cos_and_sin(angle);
  if (beyond) std::swap(c, s);
  switch (quarter & 3) {
    case 0:
      return {c, -s};
    case 1:
      return {-s, -c};
    case 2:
      return {-c, s};
    default:
      return {s, c};
  }
}

bool ColumnPasses::serves(int64_t n, int largest) {
  const std::vector<int> r = radices(n);
  return n == 1 || (!r.empty() && *std::max_element(r.begin(), r.end()) <= largest);
}

bool ColumnPasses::convolves(int64_t n) {
  return n <= kMostOfColumns || (n <= kMostOfPrimeColumns && serves(n - 1, kMaxRadixOfLines) && is_prime(n));
}

ColumnPasses::ColumnPasses(int64_t n, std::vector<double>* numbers) : n(n) {
  int64_t s = 1, left = n;
  for (const int r : radices(n)) {
    Pass pass{r, left / r, s, 0, s, static_cast<int64_t>(numbers->size()), 0};
    for (int64_t p = 0; p < pass.m; ++p)
      for (int j = 1; j < r; ++j) push(numbers, unit_root(p * j, left));
    pass.roots = static_cast<int64_t>(numbers->size());
    if (r % 2) push_odd_roots(numbers, r);
    passes.push_back(pass);
    s *= r;
    left /= r;
  }
  // Row j m + i of a pass is part of the transforms of i < m numbers whose results are j, j + r, j + 2 r ...
  order = {0};
  for (auto pass = passes.rbegin(); pass != passes.rend(); ++pass) {
    std::vector<int32_t> longer(order.size() * pass->radix);
    for (size_t k = 0; k < longer.size(); ++k)
      longer[k] = static_cast<int32_t>(k % pass->radix * order.size()) + order[k / pass->radix];
    order = std::move(longer);
  }
  for (int64_t k = 0; k < n; ++k) {
    backwards.push_back(order[k > 0 ? n - k : 0]);
    in_line.push_back(static_cast<int32_t>(k));
  }
  for (auto* rows : {&order, &backwards, &in_line}) rows->push_back(static_cast<int32_t>(n));
  if (passes.empty()) return;
  const int last = passes.back().radix;
  first.resize(n / last);
  for (int64_t k = 0; k < n; ++k)
    if (order[k] % last == 0) first[order[k] / last] = static_cast<int32_t>(k);
}

std::vector<int32_t> ColumnPasses::leave() {
  if (!passes.empty()) passes.back().step = 1;
  for (size_t b = 0; b < first.size(); ++b) first[b] = static_cast<int32_t>(b) * passes.back().radix;
  return std::exchange(order, in_line);
}

void ColumnPasses::walk(int64_t at, int64_t most, void (*call)(const void*, const Pass&, bool), const void* f) const {
  const Pass *p = passes.data() + at, *const end = passes.data() + passes.size();
  for (; p != end && (n <= most || p->m * p->radix > most); ++p) call(f, *p, p + 1 == end);
  const int64_t parts = p == end ? 0 : p->s;
  for (int64_t part = 0; part < parts; ++part)
    for (const Pass* i = p; i != end; ++i) {
      Pass some = *i;
      some.s /= parts;
      some.begin = part * some.s;
      some.s += some.begin;
      call(f, some, i + 1 == end);
    }
}

// The transform of a kernel, in order.
template <class T>
Table<T> filter_of(const std::vector<double>& kernel) {
  const Table<T> x = rounded<T>(kernel);
  Table<T> filter(x.size());
  const auto m = static_cast<int64_t>(x.size() / 2);
  const DType type = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
  run_fft({type, FftKind::kComplex, true, 1 / static_cast<double>(m), m, 1, 1, {}}, x.data(), filter.data());
  return filter;
}

template <class T>
ColumnPlan<T>::ColumnPlan(int64_t n) : height(n + 1) {
  const auto cost = [](int64_t m) { return 2 * smooth_cost(m) + 8 * static_cast<double>(m); };
  const bool direct = ColumnPasses::serves(n, kMaxRadixOfLines);  // those of lines have no other form
  const int64_t length = convolution_length(2 * n - 1);
  const double chirped = direct ? HUGE_VAL : cost(length);
  const bool has_powers = !direct && ColumnPasses::serves(n - 1) && is_prime(n) && !column_plan<T>(n - 1)->inner;
  const double by_powers = has_powers ? cost(n - 1) : HUGE_VAL;
  if (ColumnPasses::serves(n) && smooth_cost(n) <= std::min(chirped, by_powers)) {
    std::vector<double> made;
    static_cast<ColumnPasses&>(*this) = ColumnPasses(n, &made);
    numbers = rounded<T>(made);
    return;
  }
  this->n = n;
  convolve(chirped < by_powers, chirped < by_powers ? length : n - 1);
}

template <class T>
void ColumnPlan<T>::convolve(bool chirps, int64_t m) {
  std::vector<double> made, kernel;
  std::vector<int32_t> powers;
  if (chirps) {
    make_chirp(n, m, &made, &kernel);
  } else {
    powers = powers_of_root(n);
    make_kernel(n, powers, &kernel);
  }
  chirp = rounded<T>(made);
  filter = filter_of<T>(kernel);
  inner = column_plan<T>(m);
  results = chirps ? m : n - 1;  // Rader's begin with number 0
  height = results + m + (chirps ? 1 : 2);
  for (auto* rows : {&in_line, &order}) rows->assign(n + 1, static_cast<int32_t>(n - 1));
  for (int64_t k = 0; k < (chirps ? n : m); ++k) {
    const int64_t at = chirps ? k : powers[k], result = inner->order[chirps ? (m - k) % m : k];
    in_line[at] = static_cast<int32_t>(k);
    order[at] = static_cast<int32_t>(results + !chirps + result);
  }
  backwards = order;
  std::reverse(backwards.begin() + 1, backwards.begin() + n);
  for (auto* rows : {&in_line, &order, &backwards}) rows->back() = static_cast<int32_t>(height - 1);
}

template <class T>
LinePlan<T>::LinePlan(int64_t n) : n(n) {
  constexpr int64_t kWidth = kFftWidth<T>;
  if (ColumnPasses::serves(n, kMaxRadixOfLines)) {
    const int64_t n1 = split(n, kWidth), n2 = n / n1;
    first = ColumnPlan<T>(n1);
    second = ColumnPlan<T>(n2);
    if (n2 == 1) return;
    two_levels = n > kOneTable;
    std::vector<int64_t> rows(two_levels ? kWidth : n1);
    std::iota(rows.begin(), rows.end(), int64_t{0});
    fine = rounded<T>(twiddle_table(n, rows, n2, kWidth, ShortPlan<T>::width()));
    if (two_levels) coarse = rounded<T>(coarse_table(n, n1, n2, kWidth));
    return;
  }
  const bool chirps = n > kMostOfPrimes || !ColumnPasses::serves(n - 1, kMaxRadixOfLines) || !is_prime(n);
  if (!chirps) powers = powers_of_root(n);
  const int64_t m = chirps ? convolution_length(2 * n - 1) : n - 1;
  inner = line_plan<T>(m);
  if (ShortPlan<T>::serves(m)) brief = short_plan<T>(m);
  std::vector<double> made, numbers;
  if (chirps)
    make_chirp(n, m, &made, &numbers);
  else
    make_kernel(n, powers, &numbers);
  chirp = rounded<T>(made);
  filter = filter_of<T>(numbers);
}

template <class T>
RealPlan<T>::RealPlan(int64_t n) : half(n / 2), stride((n / 4 / kFftWidth<T> + 2) * kFftWidth<T>), roots(2 * stride) {
  for (int64_t k = 0; k < stride; ++k) {
    const auto w = unit_root(k % n, n) / 2.0;
    roots[k] = static_cast<T>(w.real());
    roots[stride + k] = static_cast<T>(w.imag());
  }
}

template <class T>
ShortPlan<T>::ShortPlan(int64_t n)
    : pairs(n == 4 * width()), first(pairs && sizeof(T) == 4 ? 8 : n / width()), where(first.leave()) {
  std::vector<int64_t> result(first.n);
  for (int64_t k = 0; k < first.n; ++k) result[where[k]] = k;
  const int64_t columns = n / first.n;
  fine = rounded<T>(repeated(twiddle_table(n, result, columns, columns, width()), columns, width()));
  if (sizeof(T) == 4) across = rounded<T>(across_table());
}

template <class T>
int64_t ShortPlan<T>::width() {
  return 16 / sizeof(T) << static_cast<int>(simd_level());
}

template <class T>
bool ShortPlan<T>::serves(int64_t n) {
  // Longer lines are worth several threads, or more groups of columns where a group is a small part of them.
  const bool long_vectors = simd_level() == SimdLevel::kAvx3;
  const int64_t most = long_vectors && sizeof(T) == 4 ? 4096 : 32768;
  const int64_t m = n / width(), least = long_vectors && sizeof(T) == 4 ? 4 : 8;
  return simd_level() != SimdLevel::kSse4 && n % width() == 0 && (m >= least || (long_vectors && m == 4)) &&
         n <= most && ColumnPasses::serves(m, kMaxRadixOfLines);
}

template <class T>
ShortRealPlan<T>::ShortRealPlan(int64_t n)
    : rows(n / (2 * kFftWidth<T>)), columns(2 * rows), multiples(2 * kFftWidth<T>) {
  std::vector<int64_t> results(rows - 1);
  std::iota(results.begin(), results.end(), int64_t{1});
  std::vector<double> roots;
  if (rows % 2) push_odd_roots(&roots, rows);
  odd = rounded<T>(roots);
  fine = rounded<T>(twiddle_table(n, results, kFftWidth<T>, kFftWidth<T>, kFftWidth<T>));
  if (sizeof(T) == 4) across = rounded<T>(across_table());
}

template <class T>
bool ShortRealPlan<T>::serves(int64_t n) {
  constexpr int64_t kRow = 2 * kFftWidth<T>;
  return simd_level() == SimdLevel::kAvx3 && ((n == 4 * kRow && sizeof(T) == 8) || n == 7 * kRow || n == 8 * kRow);
}

template <class T>
Held<LinePlan<T>> line_plan(int64_t n) {
  return cached<LinePlan<T>>(n);
}
template <class T>
Held<ColumnPlan<T>> column_plan(int64_t n) {
  return cached<ColumnPlan<T>>(n);
}
template <class T>
Held<RealPlan<T>> real_plan(int64_t n) {
  return cached<RealPlan<T>>(n);
}
template <class T>
Held<ShortPlan<T>> short_plan(int64_t n) {
  return cached<ShortPlan<T>>(n);
}
template <class T>
Held<ShortRealPlan<T>> short_real_plan(int64_t n) {
  return cached<ShortRealPlan<T>>(n);
}

template struct ColumnPlan<float>;
template struct ColumnPlan<double>;
template struct LinePlan<float>;
template struct LinePlan<double>;
template struct RealPlan<float>;
template struct RealPlan<double>;
template struct ShortPlan<float>;
template struct ShortPlan<double>;
template struct ShortRealPlan<float>;
template struct ShortRealPlan<double>;
template Held<LinePlan<float>> line_plan(int64_t);
template Held<LinePlan<double>> line_plan(int64_t);
template Held<ColumnPlan<float>> column_plan(int64_t);
template Held<ColumnPlan<double>> column_plan(int64_t);
template Held<RealPlan<float>> real_plan(int64_t);
template Held<RealPlan<double>> real_plan(int64_t);
template Held<ShortPlan<float>> short_plan(int64_t);
template Held<ShortPlan<double>> short_plan(int64_t);
template Held<ShortRealPlan<float>> short_real_plan(int64_t);
template Held<ShortRealPlan<double>> short_real_plan(int64_t);

}  // namespace tessera::cpu::internal
