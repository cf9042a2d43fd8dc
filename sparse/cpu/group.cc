#include "sparse/cpu/group.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <utility>

#include "tensor/core/allocator.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/core/visit.h"

namespace tessera::cpu {
namespace {

struct Entry {
  uint32_t low;  // of the key: what its bucket leaves open
  uint32_t at;
};

constexpr int64_t kPiece = int64_t{1} << 18;  // keys that one task counts and moves

bool is_ascending(const int64_t* keys, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    if (keys[i] < keys[i - 1]) return false;
  return true;
}

// The elements of a bucket in order: by counting if its keys are many for their range, else by comparing.
void order_bucket(Entry* e, int64_t n, int64_t range, std::vector<uint32_t>& counts, std::vector<Entry>& aside) {
  if (n < 2) return;
  if (n > 64 && range <= 4 * n) {
    counts.assign(static_cast<size_t>(range) + 1, 0);
    aside.assign(e, e + n);
    for (int64_t i = 0; i < n; ++i) ++counts[e[i].low + 1];
    for (int64_t k = 0; k < range; ++k) counts[static_cast<size_t>(k) + 1] += counts[static_cast<size_t>(k)];
    for (const Entry& x : aside) e[counts[x.low]++] = x;
    return;
  }
  std::sort(e, e + n, [](const Entry& a, const Entry& b) { return a.low != b.low ? a.low < b.low : a.at < b.at; });
}

// Where elements go when they are sorted into buckets by the high bits of their keys, and stay in order within each.
// begins: of the buckets. move(i, place) is called for every element.
template <class Move>
std::vector<int64_t> into_buckets(const int64_t* keys, int64_t n, int64_t range, int shift, Move move) {
  const int64_t buckets = ((range - 1) >> shift) + 1, pieces = (n + kPiece - 1) / kPiece;
  std::vector<int64_t> at(static_cast<size_t>(buckets * pieces), 0);
  parallel_for(n, kPiece, [&](int64_t begin, int64_t end) {
    int64_t* counts = at.data() + begin / kPiece * buckets;
    for (int64_t i = begin; i < end; ++i) ++counts[keys[i] >> shift];
  });
  std::vector<int64_t> begins(static_cast<size_t>(buckets) + 1);
  int64_t total = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    begins[static_cast<size_t>(b)] = total;
    for (int64_t p = 0; p < pieces; ++p) total += std::exchange(at[static_cast<size_t>(p * buckets + b)], total);
  }
  begins[static_cast<size_t>(buckets)] = total;
  parallel_for(n, kPiece, [&](int64_t begin, int64_t end) {
    int64_t* next = at.data() + begin / kPiece * buckets;
    for (int64_t i = begin; i < end; ++i) move(i, next[keys[i] >> shift]++);
  });
  return begins;
}

// Bits that the buckets leave open: some thousand elements, or keys, each.
int shift_for(int64_t n, int64_t range) {
  const int bits = 64 - std::countl_zero(static_cast<uint64_t>(range - 1));
  const int wanted = std::clamp(64 - std::countl_zero(static_cast<uint64_t>(n >> 12)), 0, 12);
  return std::max(0, bits - wanted);
}

template <class F>
void for_buckets(int64_t buckets, F f) {
  parallel_for(buckets, std::max<int64_t>(1, buckets / 64), f);
}

// First by the high bits, into buckets of some thousand elements, then within each of them.
void order_in_buckets(const int64_t* keys, int64_t n, int64_t range, int shift, uint32_t* order) {
  const std::unique_ptr<Entry[]> entries(new Entry[static_cast<size_t>(n)]);
  const int64_t mask = (int64_t{1} << shift) - 1;
  const std::vector<int64_t> begins = into_buckets(keys, n, range, shift, [&](int64_t i, int64_t place) {
    entries[static_cast<size_t>(place)] = {static_cast<uint32_t>(keys[i] & mask), static_cast<uint32_t>(i)};
  });
  for_buckets(static_cast<int64_t>(begins.size()) - 1, [&](int64_t first, int64_t last) {
    std::vector<uint32_t> counts;
    std::vector<Entry> aside;
    for (int64_t b = first; b < last; ++b) {
      Entry* e = entries.get() + begins[static_cast<size_t>(b)];
      const int64_t size = begins[static_cast<size_t>(b) + 1] - begins[static_cast<size_t>(b)];
      order_bucket(e, size, mask + 1, counts, aside);
      for (int64_t i = 0; i < size; ++i) order[begins[static_cast<size_t>(b)] + i] = e[i].at;
    }
  });
}

template <class T>
struct SumOf {
  using type = T;
};
template <>
struct SumOf<Half> {
  using type = float;
};
template <>
struct SumOf<BFloat16> {
  using type = float;
};

template <class T>
void add_typed(const Groups& g, const T* rows, int64_t width, T* out) {
  using Sum = typename SumOf<T>::type;
  const int64_t groups = static_cast<int64_t>(g.keys.size());
  parallel_for(groups, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, width)), [&](int64_t first, int64_t last) {
    std::vector<Sum> sums(static_cast<size_t>(width));
    for (int64_t k = first; k < last; ++k) {
      const int64_t begin = g.begins[static_cast<size_t>(k)], end = g.begins[static_cast<size_t>(k) + 1];
      const auto row = [&](int64_t i) { return rows + (g.ordered ? i : g.order[i]) * width; };
      if (width == 1) {
        Sum s = static_cast<Sum>(*row(begin));
        for (int64_t i = begin + 1; i < end; ++i) s = static_cast<Sum>(s + static_cast<Sum>(*row(i)));
        out[k] = static_cast<T>(s);
        continue;
      }
      if (end - begin == 1) {
        std::memcpy(static_cast<void*>(out + k * width), row(begin), static_cast<size_t>(width) * sizeof(T));
        continue;
      }
      std::fill(sums.begin(), sums.end(), Sum());
      for (int64_t i = begin; i < end; ++i) {
        const T* r = row(i);
        for (int64_t j = 0; j < width; ++j)
          sums[static_cast<size_t>(j)] = static_cast<Sum>(sums[static_cast<size_t>(j)] + static_cast<Sum>(r[j]));
      }
      for (int64_t j = 0; j < width; ++j) out[k * width + j] = static_cast<T>(sums[static_cast<size_t>(j)]);
    }
  });
}

}  // namespace

Groups group_keys(const int64_t* keys, int64_t n, int64_t range) {
  Groups g;
  g.ordered = is_ascending(keys, n);
  if (!g.ordered) {
    g.order.reset(new uint32_t[static_cast<size_t>(n)]);
    const int shift = shift_for(n, range);
    if (shift <= 32) {
      order_in_buckets(keys, n, range, shift, g.order.get());
    } else {
      for (int64_t i = 0; i < n; ++i) g.order[static_cast<size_t>(i)] = static_cast<uint32_t>(i);
      std::stable_sort(g.order.get(), g.order.get() + n, [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    }
  }
  g.keys.reserve(static_cast<size_t>(n));
  int64_t last = -1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t key = keys[g.ordered ? i : g.order[static_cast<size_t>(i)]];
    if (key == last) continue;
    g.keys.push_back(last = key);
    g.begins.push_back(i);
  }
  g.begins.push_back(n);
  return g;
}

bool KeySums::fits(int64_t n, int64_t range) { return n >= 4096 && range <= 16 * n && shift_for(n, range) <= 16; }

KeySums::KeySums(const int64_t* keys, int64_t n, int64_t range, const float* values)
    : entries_(static_cast<Entry*>(cpu_allocate(static_cast<size_t>(n) * sizeof(Entry)))),
      n_(n),
      shift_(shift_for(n, range)) {
  const int64_t mask = (int64_t{1} << shift_) - 1;
  from_ = into_buckets(keys, n, range, shift_, [&](int64_t i, int64_t place) {
    entries_[place] = {static_cast<uint32_t>(keys[i] & mask), values[i]};
  });
  const int64_t buckets = static_cast<int64_t>(from_.size()) - 1;
  begins_.assign(from_.size(), 0);
  // The sums of a bucket, in order, take the place of its first entries.
  for_buckets(buckets, [&](int64_t first, int64_t last) {
    std::vector<float> sums(static_cast<size_t>(mask) + 1);
    std::vector<uint64_t> there(static_cast<size_t>(mask >> 6) + 1, 0);
    for (int64_t b = first; b < last; ++b) {
      Entry *e = entries_ + from_[static_cast<size_t>(b)], *end = entries_ + from_[static_cast<size_t>(b) + 1], *to = e;
      for (Entry* x = e; x < end; ++x) {
        uint64_t& word = there[x->low >> 6];
        const uint64_t bit = uint64_t{1} << (x->low & 63);
        sums[x->low] = word & bit ? sums[x->low] + x->value : x->value;
        word |= bit;
      }
      for (size_t w = 0; w < there.size(); ++w)
        for (uint64_t word = std::exchange(there[w], 0); word; word &= word - 1) {
          const uint32_t low = static_cast<uint32_t>(w * 64 + static_cast<size_t>(std::countr_zero(word)));
          *to++ = {low, sums[low]};
        }
      begins_[static_cast<size_t>(b) + 1] = to - e;
    }
  });
  for (size_t b = 1; b < begins_.size(); ++b) begins_[b] += begins_[b - 1];
}
KeySums::~KeySums() { cpu_free(entries_, static_cast<size_t>(n_) * sizeof(Entry)); }

void KeySums::write(int64_t* keys, float* sums) const {
  for_buckets(static_cast<int64_t>(from_.size()) - 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const Entry* e = entries_ + from_[static_cast<size_t>(b)];
      for (int64_t k = begins_[static_cast<size_t>(b)]; k < begins_[static_cast<size_t>(b) + 1]; ++k, ++e) {
        keys[k] = b << shift_ | e->low;
        sums[k] = e->value;
      }
    }
  });
}

void add_groups(DType t, const Groups& g, const void* rows, int64_t width, void* out) {
  if (t == DType::kBool) t = DType::kUInt8;  // added as numbers below, and brought back to 0 and 1
  visit_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, float> ||
                  std::is_same_v<T, double> || std::is_same_v<T, std::complex<float>> ||
                  std::is_same_v<T, std::complex<double>> || (std::is_integral_v<T> && !std::is_same_v<T, bool>))
      add_typed(g, static_cast<const T*>(rows), width, static_cast<T*>(out));
    else
      internal::raise<NotImplementedError>("\"coalesce\" not implemented for '", name_of(t), "'");
  });
}

}  // namespace tessera::cpu
