// A size in signatures that may be called with symbols. Tessera's symbols go around C++, which computes with the
// numbers of the trace, so it is a number; it converts to one and back without a word.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <ostream>
#include <type_traits>

namespace c10 {

class SymInt {
 public:
  constexpr SymInt(int64_t v = 0) : v_(v) {}
  constexpr operator int64_t() const { return v_; }
  constexpr int64_t guard_int(const char*, int64_t) const { return v_; }
  constexpr int64_t expect_int() const { return v_; }
  constexpr int64_t as_int_unchecked() const { return v_; }
  constexpr std::optional<int64_t> maybe_as_int() const { return v_; }
  constexpr bool is_symbolic() const { return false; }
  constexpr bool is_heap_allocated() const { return false; }
  constexpr bool has_hint() const { return true; }
  SymInt clone() const { return *this; }

  // Whether both are sizes and one of them is this class.
  template <class A, class B>
  static constexpr bool is_other_form = (std::is_same_v<A, SymInt> && std::is_same_v<B, int64_t>) ||
                                        (std::is_same_v<A, int64_t> && std::is_same_v<B, SymInt>);

#define TESSERA_SIZE(op)                                                           \
  friend constexpr SymInt operator op(SymInt a, SymInt b) { return a.v_ op b.v_; } \
  template <std::integral T>                                                       \
  friend constexpr SymInt operator op(SymInt a, T b) {                             \
    return a.v_ op static_cast<int64_t>(b);                                        \
  }                                                                                \
  template <std::integral T>                                                       \
  friend constexpr SymInt operator op(T a, SymInt b) {                             \
    return static_cast<int64_t>(a) op b.v_;                                        \
  }                                                                                \
  constexpr SymInt& operator op##=(SymInt b) {                                     \
    v_ = v_ op b.v_;                                                               \
    return *this;                                                                  \
  }
  TESSERA_SIZE(+)
  TESSERA_SIZE(-)
  TESSERA_SIZE(*)
  TESSERA_SIZE(/)
  TESSERA_SIZE(%)
#undef TESSERA_SIZE
  constexpr SymInt operator-() const { return -v_; }
  constexpr SymInt min(SymInt o) const { return v_ < o.v_ ? *this : o; }
  constexpr SymInt max(SymInt o) const { return v_ < o.v_ ? o : *this; }
#define TESSERA_SIZE(name, op) \
  constexpr bool name(SymInt o) const { return v_ op o.v_; }
  TESSERA_SIZE(sym_eq, ==)
  TESSERA_SIZE(sym_ne, !=)
  TESSERA_SIZE(sym_lt, <)
  TESSERA_SIZE(sym_le, <=)
  TESSERA_SIZE(sym_gt, >)
  TESSERA_SIZE(sym_ge, >=)
#undef TESSERA_SIZE
  friend std::ostream& operator<<(std::ostream& out, SymInt n) { return out << n.v_; }

 private:
  int64_t v_;
};
static_assert(sizeof(SymInt) == sizeof(int64_t), "lists of both are the same bytes");

}  // namespace c10
