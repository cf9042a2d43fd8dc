// Counting integers, and finding the distinct ones, by tables.
#include "tensor/cpu/distinct.h"

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/cpu/index_simd.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kBlock = 4096;      // numbers whose range is looked at while they are in cache
constexpr int64_t kSmallTable = 4096;  // up to here four tables take turns, so that equal neighbours do not wait for each other

// Counts of 0 ... size - 1 in one or four interleaved tables.
class Table {
 public:
  explicit Table(int64_t n) : n_(n) {}
  void grow(int64_t size) {
    if (size <= size_) return;
    const int64_t wanted = std::max(size, 2 * size_);
    const int ways = wanted <= kSmallTable && 8 * wanted <= n_ ? 4 : 1;  // few numbers are not worth four tables
    std::vector<int64_t> next(static_cast<size_t>(wanted * ways), 0);
    for (int64_t i = 0; i < size_; ++i) next[static_cast<size_t>(i * ways)] = count(i);
    counts_.swap(next);
    size_ = wanted;
    ways_ = ways;
  }
  void add(const int64_t* x, int64_t n) {
    int64_t* c = counts_.data();
    int64_t i = 0;
    if (ways_ == 4) {
      for (; i + 4 <= n; i += 4) {
        ++c[4 * x[i]];
        ++c[4 * x[i + 1] + 1];
        ++c[4 * x[i + 2] + 2];
        ++c[4 * x[i + 3] + 3];
      }
    }
    for (; i < n; ++i) ++c[ways_ * x[i]];
  }
  int64_t count(int64_t i) const {
    int64_t sum = 0;
    for (int w = 0; w < ways_; ++w) sum += counts_[static_cast<size_t>(i * ways_ + w)];
    return sum;
  }

 private:
  std::vector<int64_t> counts_;
  int64_t n_, size_ = 0;
  int ways_ = 1;
};

}  // namespace

std::vector<int64_t> count_integers(const int64_t* x, int64_t n, const char* if_negative) {
  Table table(n);
  int64_t size = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t len = std::min(kBlock, n - i);
    const IndexRange r = range_of(x + i, len);
    TESSERA_CHECK(r.least >= 0, if_negative);
    size = std::max(size, r.greatest + 1);
    table.grow(size);
    table.add(x + i, len);
  }
  std::vector<int64_t> result(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) result[static_cast<size_t>(i)] = table.count(i);
  return result;
}

bool distinct_integers(const int64_t* x, int64_t n, int64_t* inverse, bool want_counts, Distinct& result) {
  const IndexRange range = range_of(x, n);
  const uint64_t span = static_cast<uint64_t>(range.greatest) - static_cast<uint64_t>(range.least);
  if (span >= 2 * static_cast<uint64_t>(n) + 1024) return false;
  const size_t size = static_cast<size_t>(span) + 1;
  const auto place = [&](int64_t v) { return static_cast<size_t>(v - range.least); };
  if (inverse == nullptr && !want_counts) {
    std::vector<uint8_t> seen(size, 0);
    for (int64_t i = 0; i < n; ++i) seen[place(x[i])] = 1;
    result.values.resize(size);
    size_t held = 0;
    for (size_t v = 0; v < size; ++v) {
      result.values[held] = range.least + static_cast<int64_t>(v);
      held += seen[v];
    }
    result.values.resize(held);
    return true;
  }
  std::vector<int64_t> table(size, 0);
  for (int64_t i = 0; i < n; ++i) ++table[place(x[i])];
  for (size_t v = 0; v < size; ++v) {
    if (table[v] == 0) continue;
    if (want_counts) result.counts.push_back(table[v]);
    table[v] = static_cast<int64_t>(result.values.size());
    result.values.push_back(range.least + static_cast<int64_t>(v));
  }
  if (inverse != nullptr) {
    for (int64_t i = 0; i < n; ++i) inverse[i] = table[place(x[i])];
  }
  return true;
}

}  // namespace tessera::cpu
