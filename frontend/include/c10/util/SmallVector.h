// A vector; room for N elements is taken at once.
#pragma once

#include <vector>

#include "c10/util/ArrayRef.h"

namespace c10 {

template <class T, unsigned N = 5>
class SmallVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  SmallVector() { this->reserve(N); }
  explicit SmallVector(ArrayRef<T> l) : std::vector<T>(l.begin(), l.end()) {}
  template <class It>
  void append(It begin, It end) {
    this->insert(this->end(), begin, end);
  }
  void append(size_t n, const T& v) { this->insert(this->end(), n, v); }
  void append(std::initializer_list<T> l) { append(l.begin(), l.end()); }
  T pop_back_val() {
    T v = std::move(this->back());
    this->pop_back();
    return v;
  }
  void truncate(size_t n) { this->resize(n); }
};
template <class T>
using SmallVectorImpl = SmallVector<T>;
constexpr unsigned kDimVectorStaticSize = 5;
using DimVector = SmallVector<int64_t, kDimVectorStaticSize>;

}  // namespace c10
namespace at {
using c10::DimVector;
}
