// Hashes of several values together.
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

namespace c10 {

inline size_t hash_combine(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b9 + (seed << 6) + (seed >> 2));
}
template <class T>
struct hash {
  size_t operator()(const T& v) const { return std::hash<T>()(v); }
};
template <class... T>
size_t get_hash(const T&... values) {
  size_t seed = 0;
  ((seed = hash_combine(seed, hash<T>()(values))), ...);
  return seed;
}
template <class A, class B>
struct hash<std::pair<A, B>> {
  size_t operator()(const std::pair<A, B>& p) const { return get_hash(p.first, p.second); }
};
template <class... T>
struct hash<std::tuple<T...>> {
  size_t operator()(const std::tuple<T...>& t) const {
    return std::apply([](const auto&... e) { return get_hash(e...); }, t);
  }
};
template <class T>
struct hash<std::vector<T>> {
  size_t operator()(const std::vector<T>& v) const {
    size_t seed = 0;
    for (const T& e : v) seed = hash_combine(seed, hash<T>()(e));
    return seed;
  }
};

}  // namespace c10
