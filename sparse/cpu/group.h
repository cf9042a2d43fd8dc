// Equal keys brought together: what adding the values of duplicates, and changes between layouts, are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

struct Groups {
  bool ordered = false;               // the keys were ascending: element i is number i
  std::unique_ptr<uint32_t[]> order;  // else which element stands at each place; equal keys keep their order
  std::vector<int64_t> keys;          // distinct ones, ascending
  std::vector<int64_t> begins;        // where the group of each key begins; one more at the end
};

// n keys in [0, range); n < 2^32.
Groups group_keys(const int64_t* keys, int64_t n, int64_t range);

// out[g] = the sum of rows of `width` elements of group g, first to last. Half types are added in float.
void add_groups(DType t, const Groups& g, const void* rows, int64_t width, void* out);

// Many float elements, each with a key in [0, range), n < 2^32: the sum for each distinct key, first element to last.
// The sums go along with the keys through the buckets, so that memory is read and written in order.
class KeySums {
 public:
  // Whether it is made for such numbers of elements: enough of them, and keys that fill their range.
  static bool fits(int64_t n, int64_t range);
  KeySums(const int64_t* keys, int64_t n, int64_t range, const float* values);
  ~KeySums();
  int64_t size() const { return begins_.back(); }  // distinct keys
  void write(int64_t* keys, float* sums) const;    // ascending

 private:
  struct Entry {
    uint32_t low;
    float value;
  };
  Entry* entries_;
  int64_t n_;
  int shift_;
  std::vector<int64_t> from_;    // where each bucket's entries are
  std::vector<int64_t> begins_;  // where each bucket's results go
};

}  // namespace tessera::cpu
