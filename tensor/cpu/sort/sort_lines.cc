// Lines are sorted as words: an order-preserving key in the upper bits, the position below. Words are all different, so
// any sort of them is stable.
//
// Keys of 32 bits fill the upper half of 64-bit words. Keys of 64 bits do so when the line's keys lie within 2^32 of
// each other; else words hold the upper halves of the keys, and runs of equal halves are sorted again by the lower
// ones. Integers with little range get words of 32 bits.
#include "tensor/cpu/sort/sort_lines.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/sort/sort_lines.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/sort/sort_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
using KeyOf = hwy::MakeSigned<T>;
template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;
template <class T>
constexpr KeyOf<T> kMagnitude = std::numeric_limits<KeyOf<T>>::max();
template <class T>
constexpr KeyOf<T> kInfinity = sizeof(T) == 4 ? KeyOf<T>(0x7f800000)
                                              : KeyOf<T>(INT64_C(0x7ff0) << (sizeof(T) == 4 ? 0 : 48));

// Signed keys in the order of the public API: NaN above all and equal, zeros equal. Descending: flip is -1, else 0.
template <class T>
HWY_INLINE KeyOf<T> Key(T x, KeyOf<T> flip) {
  const KeyOf<T> b = std::bit_cast<KeyOf<T>>(x);
  if constexpr (std::is_unsigned_v<T>) return static_cast<KeyOf<T>>(b ^ std::numeric_limits<KeyOf<T>>::min() ^ flip);
  if constexpr (!kIsFloat<T>) return b ^ flip;
  const KeyOf<T> magnitude = b & kMagnitude<T>;
  const KeyOf<T> key = magnitude > kInfinity<T> ? kMagnitude<T> : magnitude == 0 ? 0 : b < 0 ? b ^ kMagnitude<T> : b;
  return key ^ flip;
}
// NaN and zeros are not to be had from their key.
template <class T>
HWY_INLINE T Value(KeyOf<T> key, KeyOf<T> flip, const T* x, int64_t at) {
  const KeyOf<T> k = key ^ flip;
  if constexpr (std::is_unsigned_v<T>) return static_cast<T>(k ^ std::numeric_limits<KeyOf<T>>::min());
  if constexpr (!kIsFloat<T>) return std::bit_cast<T>(k);
  if (k == 0 || k == kMagnitude<T>) return x[at];
  return std::bit_cast<T>(k < 0 ? k ^ kMagnitude<T> : k);
}

template <class T>
HWY_INLINE WordVec<KeyOf<T>> Keys(const T* x, WordVec<KeyOf<T>> flip) {
  const Words<KeyOf<T>> d;
  const auto b = hn::BitCast(d, hn::LoadU(hn::ScalableTag<T>(), x));
  if constexpr (std::is_unsigned_v<T>) return hn::Xor3(b, hn::Set(d, std::numeric_limits<KeyOf<T>>::min()), flip);
  if constexpr (!kIsFloat<T>) return hn::Xor(b, flip);
  const auto most = hn::Set(d, kMagnitude<T>), magnitude = hn::And(b, most);
  auto key = hn::Xor(b, hn::And(hn::BroadcastSignBit(b), most));
  key = hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(d)), key);
  return hn::Xor(hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, kInfinity<T>)), most, key), flip);
}

constexpr int64_t kSignBit = std::numeric_limits<int64_t>::min();
HWY_INLINE int64_t Word(int64_t key, int64_t at) { return static_cast<int64_t>(static_cast<uint64_t>(key) << 32) | at; }
HWY_INLINE int64_t Place(int64_t word) { return word & INT64_C(0xffffffff); }

// How a line becomes words.
enum class Form : uint8_t {
  kDirect,   // 64 bits: the 32-bit key
  kNarrow,   // 64 bits: the difference to the least key
  kWide,     // 64 bits: the upper half of the key
  kCompact,  // 32 bits: the difference to the least key
};
template <class T>
struct Plan {
  Form form;
  int place_bits;  // of compact words
  KeyOf<T> flip, least;
};

template <class T>
Plan<T> MakePlan(const T* x, int64_t n, KeyOf<T> flip) {
  Plan<T> plan{Form::kDirect, 0, flip, 0};
  if constexpr (sizeof(T) == 4 && kIsFloat<T>) return plan;
  const Words<KeyOf<T>> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  const auto f = hn::Set(d, flip);
  KeyOf<T> least = Key<T>(x[0], flip), greatest = least;
  int64_t i = 0;
  auto lo = hn::Set(d, least), hi = lo;
  for (; i + kLanes <= n; i += kLanes) {
    const auto k = Keys<T>(x + i, f);
    lo = hn::Min(lo, k);
    hi = hn::Max(hi, k);
  }
  HWY_ALIGN KeyOf<T> l[kLanes], h[kLanes];
  hn::Store(lo, d, l);
  hn::Store(hi, d, h);
  for (int64_t j = 0; j < kLanes; ++j) least = std::min(least, l[j]), greatest = std::max(greatest, h[j]);
  for (; i < n; ++i) {
    const KeyOf<T> k = Key<T>(x[i], flip);
    least = std::min(least, k);
    greatest = std::max(greatest, k);
  }
  plan.least = least;
  const uint64_t span = static_cast<uint64_t>(greatest) - static_cast<uint64_t>(least);
  plan.place_bits = 64 - std::countl_zero(static_cast<uint64_t>(n - 1) | 1);
  if (span < uint64_t{1} << (31 - plan.place_bits)) {
    plan.form = Form::kCompact;
  } else if constexpr (sizeof(T) == 8) {
    plan.form = span <= UINT32_MAX ? Form::kNarrow : Form::kWide;
  }
  return plan;
}

template <class T>
HWY_INLINE int64_t WordOf(const Plan<T>& plan, T x, int64_t at) {
  const int64_t k = Key<T>(x, plan.flip);
  if (plan.form == Form::kDirect) return Word(k, at);
  if (plan.form == Form::kNarrow)
    return Word(static_cast<int64_t>(static_cast<uint64_t>(k) - static_cast<uint64_t>(plan.least)), at) ^ kSignBit;
  return (k & ~INT64_C(0xffffffff)) | at;
}

// Two vectors of words.
HWY_INLINE void StoreWords(WordVec<int32_t> keys, WordVec<int32_t> at, int64_t* words) {
  const Words<int64_t> d;
  const hn::Half<Words<int32_t>> dh;
  const auto low = hn::Set(d, INT64_C(0xffffffff));
  hn::StoreU(hn::Or(hn::ShiftLeft<32>(hn::PromoteTo(d, hn::LowerHalf(dh, keys))),
                    hn::And(hn::PromoteTo(d, hn::LowerHalf(dh, at)), low)),
             d, words);
  hn::StoreU(hn::Or(hn::ShiftLeft<32>(hn::PromoteTo(d, hn::UpperHalf(dh, keys))),
                    hn::And(hn::PromoteTo(d, hn::UpperHalf(dh, at)), low)),
             d, words + HWY_LANES(int64_t));
}
// Words of x[0], ..., x[n - 1]. The last vector may overlap the one before it.
template <class T>
void FillWords(const Plan<T>& plan, const T* x, int64_t n, int64_t* words) {
  const Words<KeyOf<T>> d;
  const Words<int64_t> dw;
  constexpr int64_t kLanes = HWY_LANES(T);
  const auto flip = hn::Set(d, plan.flip);
  const auto vector = [&](int64_t i) HWY_ATTR {
    const auto k = Keys<T>(x + i, flip), at = hn::Iota(d, static_cast<KeyOf<T>>(i));
    if constexpr (sizeof(T) == 4) {
      StoreWords(k, at, words + i);
    } else if (plan.form == Form::kNarrow) {
      hn::StoreU(hn::Xor(hn::Or(hn::ShiftLeft<32>(hn::Sub(k, hn::Set(d, plan.least))), at), hn::Set(d, kSignBit)), dw,
                 words + i);
    } else {
      hn::StoreU(hn::Or(hn::And(k, hn::Set(d, ~INT64_C(0xffffffff))), at), dw, words + i);
    }
  };
  if (n < kLanes) {
    for (int64_t i = 0; i < n; ++i) words[i] = WordOf(plan, x[i], i);
    return;
  }
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) vector(i);
  if (n % kLanes != 0) vector(n - kLanes);
}
template <class T>
void FillCompact(const Plan<T>& plan, const T* x, int64_t n, int32_t* words) {
  const Words<KeyOf<T>> d;
  const hn::Rebind<int32_t, decltype(d)> dw;
  constexpr int64_t kLanes = HWY_LANES(T);
  const auto flip = hn::Set(d, plan.flip), least = hn::Set(d, plan.least);
  const auto vector = [&](int64_t i) HWY_ATTR {
    const auto word = hn::Or(hn::ShiftLeftSame(hn::Sub(Keys<T>(x + i, flip), least), plan.place_bits),
                             hn::Iota(d, static_cast<KeyOf<T>>(i)));
    if constexpr (sizeof(T) == 4) {
      hn::StoreU(word, dw, words + i);
    } else {
      const hn::Rebind<uint32_t, decltype(d)> dn;
      hn::StoreU(hn::BitCast(dw, hn::TruncateTo(dn, hn::BitCast(hn::RebindToUnsigned<decltype(d)>(), word))), dw,
                 words + i);
    }
  };
  if (n < kLanes) {
    for (int64_t i = 0; i < n; ++i) {
      const KeyOf<T> above =
          static_cast<KeyOf<T>>(static_cast<uint64_t>(Key<T>(x[i], plan.flip)) - static_cast<uint64_t>(plan.least));
      words[i] = static_cast<int32_t>(above << plan.place_bits | static_cast<KeyOf<T>>(i));
    }
    return;
  }
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) vector(i);
  if (n % kLanes != 0) vector(n - kLanes);
}

template <class T>
void WriteCompact(const Plan<T>& plan, const int32_t* words, int64_t n, const T* x, T* values, int64_t* indices) {
  const Words<int64_t> d;
  const hn::Rebind<int32_t, decltype(d)> dw;
  constexpr int64_t kLanes = HWY_LANES(int64_t);
  const int32_t mask = static_cast<int32_t>((int64_t{1} << plan.place_bits) - 1);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto w = hn::LoadU(dw, words + i);
    if (indices) hn::StoreU(hn::PromoteTo(d, hn::And(w, hn::Set(dw, mask))), d, indices + i);
    if (!values) continue;
    if constexpr (std::is_same_v<T, int64_t>) {
      const auto key = hn::Add(hn::PromoteTo(d, hn::ShiftRightSame(w, plan.place_bits)), hn::Set(d, plan.least));
      hn::StoreU(hn::Xor(key, hn::Set(d, plan.flip)), d, values + i);
    } else {
      for (int64_t j = i; j < i + kLanes; ++j)
        values[j] =
            Value<T>(static_cast<KeyOf<T>>(plan.least + (words[j] >> plan.place_bits)), plan.flip, x, words[j] & mask);
    }
  }
  for (; i < n; ++i) {
    if (values)
      values[i] =
          Value<T>(static_cast<KeyOf<T>>(plan.least + (words[i] >> plan.place_bits)), plan.flip, x, words[i] & mask);
    if (indices) indices[i] = words[i] & mask;
  }
}
template <class T>
HWY_INLINE T ValueOf(const Plan<T>& plan, int64_t word, const T* x) {
  const int64_t at = Place(word);
  if (plan.form == Form::kWide) return x[at];
  if (plan.form == Form::kDirect) return Value<T>(static_cast<KeyOf<T>>(word >> 32), plan.flip, x, at);
  const uint64_t above = static_cast<uint64_t>(word ^ kSignBit) >> 32;
  return Value<T>(static_cast<KeyOf<T>>(static_cast<uint64_t>(plan.least) + above), plan.flip, x, at);
}
// A vector of values from direct words; false if some need a look at x.
template <class T>
HWY_INLINE bool WriteDirect(const Plan<T>& plan, const int64_t* words, T* values) {
  const hn::Repartition<uint64_t, Words<int64_t>> du;
  const hn::Rebind<uint32_t, decltype(du)> dn;
  const hn::RebindToSigned<decltype(dn)> dk;
  auto k = hn::BitCast(dk, hn::TruncateTo(dn, hn::ShiftRight<32>(hn::BitCast(du, hn::LoadU(Words<int64_t>(), words)))));
  k = hn::Xor(k, hn::Set(dk, static_cast<int32_t>(plan.flip)));
  if constexpr (kIsFloat<T>) {
    const auto most = hn::Set(dk, static_cast<int32_t>(kMagnitude<T>));
    if (!hn::AllFalse(dk, hn::Or(hn::Eq(k, hn::Zero(dk)), hn::Eq(k, most)))) return false;
    k = hn::Xor(k, hn::And(hn::BroadcastSignBit(k), most));
  }
  hn::StoreU(hn::BitCast(hn::Rebind<T, decltype(dk)>(), k), hn::Rebind<T, decltype(dk)>(), values);
  return true;
}
template <class T>
void WriteWords(const Plan<T>& plan, const int64_t* words, int64_t n, const T* x, T* values, int64_t* indices) {
  const Words<int64_t> d;
  constexpr int64_t kLanes = HWY_LANES(int64_t);
  const auto vector = [&](int64_t i) HWY_ATTR {
    if (indices) hn::StoreU(hn::And(hn::LoadU(d, words + i), hn::Set(d, INT64_C(0xffffffff))), d, indices + i);
    if (!values) return;
    if constexpr (sizeof(T) == 4) {
      if (WriteDirect<T>(plan, words + i, values + i)) return;
    }
    for (int64_t j = i; j < i + kLanes; ++j) values[j] = ValueOf(plan, words[j], x);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vector(i);
  if (i < n && n >= kLanes) return vector(n - kLanes);
  for (; i < n; ++i) {
    if (values) values[i] = ValueOf(plan, words[i], x);
    if (indices) indices[i] = Place(words[i]);
  }
}

// Longer arrays are first cut into buckets that fit a cache: so many words are read and written once instead of at each
// level of a partition.
constexpr int64_t kSplitFrom = 2000000;
constexpr int kBucketBits = 11;

struct Extremes {
  int64_t least, greatest;
};
Extremes ExtremesOf(const int64_t* words, int64_t n) {
  const Words<int64_t> d;
  constexpr int64_t kLanes = HWY_LANES(int64_t);
  auto lo = hn::Set(d, words[0]), hi = lo;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto v = hn::LoadU(d, words + i);
    lo = hn::Min(lo, v);
    hi = hn::Max(hi, v);
  }
  HWY_ALIGN int64_t l[kLanes], h[kLanes];
  hn::Store(lo, d, l);
  hn::Store(hi, d, h);
  Extremes e{words[0], words[0]};
  for (int64_t k = 0; k < kLanes; ++k) e = {std::min(e.least, l[k]), std::max(e.greatest, h[k])};
  for (; i < n; ++i) e = {std::min(e.least, words[i]), std::max(e.greatest, words[i])};
  return e;
}

// Sorts the words, which come to lie in spare.
void SortBySplitting(int64_t* words, int64_t n, int64_t* spare) {
  constexpr int64_t kBuckets = 1 << kBucketBits;
  const Extremes e = ExtremesOf(words, n);
  const uint64_t least = static_cast<uint64_t>(e.least), span = static_cast<uint64_t>(e.greatest) - least;
  const int shift = std::max(0, 64 - std::countl_zero(span | 1) - kBucketBits);
  const auto bucket = [&](int64_t word) {
    return static_cast<int64_t>((static_cast<uint64_t>(word) - least) >> shift);
  };
  const internal::ScratchArray<uint32_t> ends(kBuckets);
  std::fill(ends.get(), ends.get() + kBuckets, 0u);
  for (int64_t i = 0; i < n; ++i) ++ends[bucket(words[i])];
  uint32_t start = 0;
  for (int64_t k = 0; k < kBuckets; ++k) start += std::exchange(ends[k], start);
  for (int64_t i = 0; i < n; ++i) spare[ends[bucket(words[i])]++] = words[i];
  // Where a bucket began, the one before it has ended.
  for (int64_t k = 0, from = 0; k < kBuckets; from = ends[k++]) SortWords(spare + from, ends[k] - from, words);
}
int64_t* SortAll(int64_t* words, int64_t n, int64_t* spare) {
  if (n >= kSplitFrom) {
    SortBySplitting(words, n, spare);
    return spare;
  }
  SortWords(words, n, spare);
  return words;
}

constexpr int64_t kSlack = 16;  // words behind an array, of which vectors may be loaded or stored

// Sorts runs of words with equal upper halves by the lower halves of their keys.
template <class T>
void SortRuns(const Plan<T>& plan, int64_t* words, int64_t n, const T* x) {
  for (int64_t i = 0; i + 1 < n;) {
    int64_t end = i + 1;
    while (end < n && (words[end] ^ words[i]) >> 32 == 0) ++end;
    if (end - i > 1) {
      const internal::ScratchArray<int64_t> run(2 * (end - i + kSlack));
      for (int64_t j = i; j < end; ++j) {
        const int64_t at = Place(words[j]);
        run[j - i] = Word(static_cast<int64_t>(Key<T>(x[at], plan.flip)) ^ INT64_C(0x80000000), at);
      }
      SortWords(run.get(), end - i, run.get() + (end - i) + kSlack);
      std::memcpy(words + i, run.get(), (end - i) * sizeof(int64_t));
    }
    i = end;
  }
}

template <class T>
void SortLine(const T* x, int64_t n, KeyOf<T> flip, int64_t* words, int64_t* spare, T* values, int64_t* indices) {
  const Plan<T> plan = MakePlan<T>(x, n, flip);
  if (plan.form == Form::kCompact) {
    int32_t* compact = reinterpret_cast<int32_t*>(words);
    FillCompact(plan, x, n, compact);
    SortWords(compact, n, reinterpret_cast<int32_t*>(spare));
    WriteCompact(plan, compact, n, x, values, indices);
    return;
  }
  FillWords(plan, x, n, words);
  int64_t* sorted = SortAll(words, n, spare);
  if (plan.form == Form::kWide) SortRuns(plan, sorted, n, x);
  WriteWords(plan, sorted, n, x, values, indices);
}

template <class T>
void SortLinesOf(const Lines& lines, int64_t n, bool descending) {
  const internal::ScratchArray<int64_t> storage(2 * (n + kSlack));
  for (int64_t r = 0; r < lines.rows; ++r) {
    SortLine<T>(lines.row<T>(2, r), n, descending ? KeyOf<T>{-1} : KeyOf<T>{0}, storage.get(),
                storage.get() + n + kSlack, lines.data[0] ? lines.row<T>(0, r) : nullptr,
                lines.data[1] ? lines.row<int64_t>(1, r) : nullptr);
  }
}

// ---- the first k

// Adds words for those of a vector of keys that are below the limit; returns how many.
HWY_INLINE int64_t AddBelow(WordVec<int32_t> keys, WordVec<int32_t> at, hn::Mask<Words<int32_t>> below,
                            int64_t* words) {
  StoreWords(SetLanesFirst<int32_t>(keys, below), SetLanesFirst<int32_t>(at, below), words);
  return static_cast<int64_t>(hn::CountTrue(Words<int32_t>(), below));
}

// Words below that of the k-th so far are collected; when the room is full, the first k of them stay. capacity >= k + a
// vector. Returns how many words there are, at least k.
template <class T>
int64_t CollectFirst(const Plan<T>& plan, const T* x, int64_t n, int64_t k, int64_t capacity, int64_t* words,
                     int64_t* spare) {
  const Words<int32_t> d;
  constexpr int64_t kLanes = HWY_LANES(int32_t);
  int64_t held = std::min(n, capacity), i = held;
  FillWords(plan, x, held, words);
  const auto flip = hn::Set(d, plan.flip);
  while (i < n) {
    SelectWord(words, held, k - 1, spare);
    held = k;
    const int32_t limit = static_cast<int32_t>(words[k - 1] >> 32);
    const auto v = hn::Set(d, limit);
    // What comes later loses against an equal key.
    while (i + kLanes <= n && held + kLanes <= capacity) {
      const auto keys = Keys<T>(x + i, flip);
      const auto below = hn::Lt(keys, v);
      if (!hn::AllFalse(d, below)) held += AddBelow(keys, hn::Iota(d, static_cast<int32_t>(i)), below, words + held);
      i += kLanes;
    }
    for (; i < n && i + kLanes > n && held < capacity; ++i) {
      const int32_t key = Key<T>(x[i], plan.flip);
      words[held] = Word(key, i);
      held += key < limit;
    }
  }
  return held;
}

template <class T>
void TopkLinesOf(const Lines& lines, int64_t n, int64_t k, bool largest) {
  const Plan<T> plan{Form::kDirect, 0, largest ? KeyOf<T>{-1} : KeyOf<T>{0}, 0};
  const int64_t capacity =
      k > n / 4 ? n : std::min(n, std::max<int64_t>(2 * k, 64) + static_cast<int64_t>(HWY_LANES(int32_t)));
  const internal::ScratchArray<int64_t> storage(2 * (capacity + 2 * kSlack));
  int64_t *words = storage.get(), *spare = words + capacity + 2 * kSlack;
  for (int64_t r = 0; r < lines.rows; ++r) {
    const T* x = lines.row<T>(2, r);
    const int64_t held = CollectFirst(plan, x, n, k, capacity, words, spare);
    if (held > kSmall<int64_t>) SelectWord(words, held, k - 1, spare);
    SortWords(words, held > kSmall<int64_t> ? k : held, spare);
    WriteWords(plan, words, k, x, lines.data[0] ? lines.row<T>(0, r) : nullptr,
               lines.data[1] ? lines.row<int64_t>(1, r) : nullptr);
  }
}

// ---- one of them

template <class T>
int64_t CountNan(const T* x, int64_t n) {
  int64_t count = 0;
  if constexpr (kIsFloat<T>) {
    const hn::ScalableTag<T> d;
    constexpr int64_t kLanes = HWY_LANES(T);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const auto nan = hn::IsNaN(hn::LoadU(d, x + i));
      if (HWY_UNLIKELY(!hn::AllFalse(d, nan))) count += static_cast<int64_t>(hn::CountTrue(d, nan));
    }
    for (; i < n; ++i) count += x[i] != x[i];
  }
  return count;
}

// The words' upper halves are those of keys: which of the words with the half of words[k] is meant? Gives its place.
template <class T>
int64_t PlaceAmongEqual(const Plan<T>& plan, const T* x, int64_t n, int64_t k, const int64_t* words) {
  const int64_t half = words[k] >> 32;
  int64_t before = 0, equal = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t h = static_cast<int64_t>(Key<T>(x[i], plan.flip)) >> 32;
    before += h < half;
    equal += h == half;
  }
  const internal::ScratchArray<int64_t> storage(2 * (equal + kSlack));
  int64_t* run = storage.get();
  int64_t held = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t key = Key<T>(x[i], plan.flip);
    if (key >> 32 == half) run[held++] = Word(key ^ INT64_C(0x80000000), i);
  }
  SelectWord(run, equal, k - before, run + equal + kSlack);
  return Place(run[k - before]);
}

template <class T>
int64_t SelectPlace(const T* x, int64_t n, int64_t k, int64_t* words, int64_t* spare) {
  const Plan<T> plan = MakePlan<T>(x, n, 0);
  if (plan.form == Form::kCompact) {
    int32_t* compact = reinterpret_cast<int32_t*>(words);
    FillCompact(plan, x, n, compact);
    SelectWord(compact, n, k, reinterpret_cast<int32_t*>(spare));
    return compact[k] & ((int64_t{1} << plan.place_bits) - 1);
  }
  FillWords(plan, x, n, words);
  SelectWord(words, n, k, spare);
  return plan.form == Form::kWide ? PlaceAmongEqual(plan, x, n, k, words) : Place(words[k]);
}

template <class T>
void SelectLinesOf(SelectKind kind, const Lines& lines, int64_t n, int64_t k) {
  const internal::ScratchArray<int64_t> storage(2 * (n + kSlack));
  for (int64_t r = 0; r < lines.rows; ++r) {
    const T* x = lines.row<T>(2, r);
    int64_t which = k;
    if (kind != SelectKind::kNth) {
      const int64_t numbers = n - CountNan(x, n);
      which = kind == SelectKind::kNanMedian ? std::max<int64_t>(numbers - 1, 0) / 2
              : numbers == n                 ? (n - 1) / 2
                                             : numbers;
    }
    const int64_t at = SelectPlace(x, n, which, storage.get(), storage.get() + n + kSlack);
    if (lines.data[0]) *lines.row<T>(0, r) = x[at];
    if (lines.data[1]) *lines.row<int64_t>(1, r) = at;
  }
}

}  // namespace

void SortLines(DType load, const Lines& lines, int64_t n, bool descending) {
  switch (load) {
    case DType::kFloat32:
      return SortLinesOf<float>(lines, n, descending);
    case DType::kFloat64:
      return SortLinesOf<double>(lines, n, descending);
    case DType::kInt32:
      return SortLinesOf<int32_t>(lines, n, descending);
    case DType::kUInt64:
      return SortLinesOf<uint64_t>(lines, n, descending);
    default:
      return SortLinesOf<int64_t>(lines, n, descending);
  }
}
void TopkLines(DType load, const Lines& lines, int64_t n, int64_t k, bool largest) {
  load == DType::kFloat32 ? TopkLinesOf<float>(lines, n, k, largest) : TopkLinesOf<int32_t>(lines, n, k, largest);
}
void SelectLines(DType load, SelectKind kind, const Lines& lines, int64_t n, int64_t k) {
  switch (load) {
    case DType::kFloat32:
      return SelectLinesOf<float>(kind, lines, n, k);
    case DType::kFloat64:
      return SelectLinesOf<double>(kind, lines, n, k);
    case DType::kInt32:
      return SelectLinesOf<int32_t>(kind, lines, n, k);
    case DType::kUInt64:
      return SelectLinesOf<uint64_t>(kind, lines, n, k);
    default:
      return SelectLinesOf<int64_t>(kind, lines, n, k);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {

TESSERA_SIMD_TABLE(SortLines);
TESSERA_SIMD_TABLE(TopkLines);
TESSERA_SIMD_TABLE(SelectLines);

void sort_word_lines(DType load, const Lines& lines, int64_t n, bool descending) {
  TESSERA_SIMD(SortLines)(load, lines, n, descending);
}
void topk_word_lines(DType load, const Lines& lines, int64_t n, int64_t k, bool largest) {
  TESSERA_SIMD(TopkLines)(load, lines, n, k, largest);
}
void select_word_lines(DType load, SelectKind kind, const Lines& lines, int64_t n, int64_t k) {
  TESSERA_SIMD(SelectLines)(load, kind, lines, n, k);
}

}  // namespace tessera::cpu
#endif
