// Counting integers, and finding the distinct ones, by tables.
#include "tensor/cpu/index/distinct.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/index/index_simd.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kBlock = 1024;  // numbers whose range is looked at while they are in cache, next to the tables
constexpr int64_t kSmallTable =
    4096;  // up to here four tables take turns, so that equal neighbours do not wait for each other
constexpr int64_t kPiece = 65536, kMaxPieces = 16;

// Counts of 0 ... size - 1 among at most 2^32 - 1 numbers, in one or four interleaved tables.
class Table {
 public:
  // Counts n numbers. False, and the counts mean nothing, if one is at or above `limit`.
  bool count(const int64_t* x, int64_t n, int64_t limit, const char* if_negative) {
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t len = std::min(kBlock, n - i);
      const IndexRange r = range_of(x + i, len);
      TESSERA_CHECK(r.least >= 0, if_negative);
      if (r.greatest >= limit) return false;
      greatest_ = std::max(greatest_, r.greatest);
      grow(greatest_ + 1, n);
      add(x + i, len);
    }
    return true;
  }
  int64_t size() const { return greatest_ + 1; }
  int64_t of(int64_t i) const {
    int64_t sum = 0;
    for (int w = 0; w < ways_; ++w) sum += counts_[static_cast<size_t>(i * ways_ + w)];
    return sum;
  }

 private:
  void grow(int64_t size, int64_t n) {
    if (size <= room_) return;
    const int64_t wanted = std::max(size, 2 * room_);
    const int ways = wanted <= kSmallTable && 8 * wanted <= n ? 4 : 1;  // few numbers are not worth four tables
    std::vector<uint32_t> next(static_cast<size_t>(wanted * ways), 0);
    for (int64_t i = 0; i < room_; ++i) next[static_cast<size_t>(i * ways)] = static_cast<uint32_t>(of(i));
    counts_.swap(next);
    room_ = wanted;
    ways_ = ways;
  }
  void add(const int64_t* x, int64_t n) {
    uint32_t* c = counts_.data();
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

  std::vector<uint32_t> counts_;
  int64_t room_ = 0, greatest_ = -1;
  int ways_ = 1;
};

// Counts of pieces of the numbers, added up; false if they spread so widely that tables for all pieces are not worth
// it.
bool count_in_pieces(const int64_t* x, int64_t n, const char* if_negative, std::vector<int64_t>& result) {
  const int64_t grain = std::max(kPiece, (n + kMaxPieces - 1) / kMaxPieces), pieces = (n + grain - 1) / grain;
  if (grain > int64_t{UINT32_MAX}) return false;
  std::vector<Table> tables(static_cast<size_t>(pieces));
  std::vector<uint8_t> good(static_cast<size_t>(pieces));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    const auto piece = static_cast<size_t>(begin / grain);
    good[piece] = tables[piece].count(x + begin, end - begin, grain / 4, if_negative);
  });
  int64_t size = 0;
  for (size_t p = 0; p < tables.size(); ++p) {
    if (!good[p]) return false;
    size = std::max(size, tables[p].size());
  }
  result.assign(static_cast<size_t>(size), 0);
  for (const Table& t : tables)
    for (int64_t i = 0; i < t.size(); ++i) result[static_cast<size_t>(i)] += t.of(i);
  return true;
}

}  // namespace

std::vector<int64_t> count_integers(const int64_t* x, int64_t n, const char* if_negative) {
  std::vector<int64_t> result;
  if (n <= kPiece) {
    Table table;
    table.count(x, n, INT64_MAX, if_negative);
    result.resize(static_cast<size_t>(table.size()));
    for (int64_t i = 0; i < table.size(); ++i) result[static_cast<size_t>(i)] = table.of(i);
    return result;
  }
  if (count_in_pieces(x, n, if_negative, result)) return result;
  const IndexRange r = range_of(x, n);
  TESSERA_CHECK(r.least >= 0, if_negative);
  result.assign(static_cast<size_t>(r.greatest) + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++result[static_cast<size_t>(x[i])];
  return result;
}

std::vector<int64_t> count_bytes(const uint8_t* x, int64_t n) {
  constexpr int64_t kValues = 256, kWord = 8, kLongest = int64_t{1} << 31;
  const int64_t grain = std::min(kLongest, std::max(kPiece, (n + kMaxPieces - 1) / kMaxPieces));
  std::vector<uint32_t> counts(static_cast<size_t>((n + grain - 1) / grain * kValues));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    uint32_t* const c = counts.data() + begin / grain * kValues;
    int64_t i = begin;
    for (; i + kWord <= end; i += kWord) {
      uint64_t word;
      std::memcpy(&word, x + i, sizeof word);
      if (word == std::rotl(word, 8)) {  // of a run: its counts would wait for each other
        c[x[i]] += kWord;
        continue;
      }
      for (int64_t k = 0; k < kWord; ++k) ++c[x[i + k]];
    }
    for (; i < end; ++i) ++c[x[i]];
  });
  std::vector<int64_t> result(kValues, 0);
  for (size_t k = 0; k < counts.size(); ++k) result[k % kValues] += counts[k];
  while (!result.empty() && result.back() == 0) result.pop_back();
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
