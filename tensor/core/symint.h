// Sizes that may one day be symbolic. Today a SymInt always holds a plain integer; every signature that must carry a
// symbol already takes one.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace tessera {

using IntList = std::span<const int64_t>;
using IntVector = std::vector<int64_t>;

class SymInt {
 public:
  constexpr SymInt() = default;
  constexpr SymInt(int64_t v) : v_(v) {}  // implicit: every integer is a size
  constexpr bool is_symbolic() const { return false; }
  // The plain value; with a symbol inside it would record a guard.
  constexpr int64_t guard_int() const { return v_; }
  constexpr explicit operator int64_t() const { return v_; }
#define TESSERA_SYMINT_OP(op) \
  friend constexpr SymInt operator op(SymInt a, SymInt b) { return SymInt(a.v_ op b.v_); }
  // clang-format off
  TESSERA_SYMINT_OP(+)
  TESSERA_SYMINT_OP(-)
  TESSERA_SYMINT_OP(*)
  TESSERA_SYMINT_OP(/)
  TESSERA_SYMINT_OP(%)
  // clang-format on
#undef TESSERA_SYMINT_OP
  friend constexpr auto operator<=>(SymInt a, SymInt b) = default;

 private:
  int64_t v_ = 0;
};
static_assert(sizeof(SymInt) == sizeof(int64_t));

// A view of sizes: from braces, vectors, spans of integers.
class SymIntList {
 public:
  constexpr SymIntList() = default;
  SymIntList(std::initializer_list<int64_t> l) : p_(reinterpret_cast<const SymInt*>(l.begin())), n_(l.size()) {}
  SymIntList(IntList l) : p_(reinterpret_cast<const SymInt*>(l.data())), n_(l.size()) {}
  SymIntList(const IntVector& l) : SymIntList(IntList(l)) {}
  SymIntList(const std::vector<SymInt>& l) : p_(l.data()), n_(l.size()) {}
  SymIntList(const SymInt* p, size_t n) : p_(p), n_(n) {}
  size_t size() const { return n_; }
  bool empty() const { return n_ == 0; }
  SymInt operator[](size_t i) const { return p_[i]; }
  const SymInt* begin() const { return p_; }
  const SymInt* end() const { return p_ + n_; }
  // All plain (a symbol would be guarded).
  IntList ints() const { return IntList(reinterpret_cast<const int64_t*>(p_), n_); }

 private:
  const SymInt* p_ = nullptr;
  size_t n_ = 0;
};

inline IntVector to_vector(IntList l) { return IntVector(l.begin(), l.end()); }

}  // namespace tessera
