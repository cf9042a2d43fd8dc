// Lists and dictionaries of one type, by reference: copies share their elements.
#pragma once

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "c10/util/ArrayRef.h"

namespace c10 {

template <class T>
class List {
 public:
  using value_type = T;
  using size_type = size_t;
  using internal_reference_type = typename std::vector<T>::reference;
  using iterator = typename std::vector<T>::iterator;
  List() : items_(std::make_shared<std::vector<T>>()) {}
  List(std::initializer_list<T> l) : items_(std::make_shared<std::vector<T>>(l)) {}
  explicit List(ArrayRef<T> l) : items_(std::make_shared<std::vector<T>>(l.begin(), l.end())) {}
  explicit List(std::vector<T> l) : items_(std::make_shared<std::vector<T>>(std::move(l))) {}
  List copy() const { return List(*items_); }
  T get(size_t i) const { return at(i); }
  decltype(auto) operator[](size_t i) { return at(i); }
  T operator[](size_t i) const { return at(i); }
  T extract(size_t i) const { return std::move(at(i)); }
  void set(size_t i, T v) const { at(i) = std::move(v); }
  iterator begin() const { return items_->begin(); }
  iterator end() const { return items_->end(); }
  bool empty() const { return items_->empty(); }
  size_t size() const { return items_->size(); }
  void reserve(size_t n) const { items_->reserve(n); }
  void clear() const { items_->clear(); }
  void push_back(T v) const { items_->push_back(std::move(v)); }
  template <class... A>
  void emplace_back(A&&... a) const {
    items_->emplace_back(std::forward<A>(a)...);
  }
  iterator insert(iterator at, T v) const { return items_->insert(at, std::move(v)); }
  iterator erase(iterator at) const { return items_->erase(at); }
  iterator erase(iterator from, iterator to) const { return items_->erase(from, to); }
  void append(List other) const { items_->insert(items_->end(), other.begin(), other.end()); }
  void pop_back() const { items_->pop_back(); }
  void resize(size_t n) const { items_->resize(n); }
  void resize(size_t n, const T& v) const { items_->resize(n, v); }
  std::vector<T> vec() const { return *items_; }
  size_t use_count() const { return static_cast<size_t>(items_.use_count()); }
  bool is(const List& o) const { return items_ == o.items_; }
  friend bool operator==(const List& a, const List& b) requires std::equality_comparable<T> {
    return *a.items_ == *b.items_;
  }

 private:
  decltype(auto) at(size_t i) const {
    TORCH_CHECK_INDEX(i < items_->size(), "list index ", i, " out of range of ", items_->size(), " elements");
    return (*items_)[i];
  }
  std::shared_ptr<std::vector<T>> items_;
};

// In the order of insertion.
template <class Key, class V>
class Dict {
  struct Entry {
    std::pair<Key, V> item;
    const Key& key() const { return item.first; }
    V& value() { return item.second; }
    const V& value() const { return item.second; }
    template <class U>
    void setValue(U&& v) {
      item.second = std::forward<U>(v);
    }
  };

 public:
  using key_type = Key;
  using mapped_type = V;
  using iterator = typename std::vector<Entry>::iterator;
  Dict() : items_(std::make_shared<std::vector<Entry>>()) {}
  Dict copy() const {
    Dict d;
    *d.items_ = *items_;
    return d;
  }
  iterator begin() const { return items_->begin(); }
  iterator end() const { return items_->end(); }
  bool empty() const { return items_->empty(); }
  size_t size() const { return items_->size(); }
  void clear() const { items_->clear(); }
  void reserve(size_t n) const { items_->reserve(n); }
  iterator find(const Key& key) const {
    auto i = begin();
    while (i != end() && !(i->key() == key)) ++i;
    return i;
  }
  bool contains(const Key& key) const { return find(key) != end(); }
  const V& at(const Key& key) const {
    const auto i = find(key);
    TORCH_CHECK_INDEX(i != end(), "Argument passed to at() was not in the map.");
    return i->value();
  }
  template <class K, class U>
  std::pair<iterator, bool> insert(K&& key, U&& value) const {
    const auto i = find(key);
    if (i != end()) return {i, false};
    items_->push_back({{Key(std::forward<K>(key)), V(std::forward<U>(value))}});
    return {end() - 1, true};
  }
  template <class K, class U>
  std::pair<iterator, bool> insert_or_assign(K&& key, U&& value) const {
    const auto i = find(key);
    if (i == end()) return insert(std::forward<K>(key), std::forward<U>(value));
    i->setValue(std::forward<U>(value));
    return {i, false};
  }
  size_t erase(const Key& key) const {
    const auto i = find(key);
    if (i == end()) return 0;
    items_->erase(i);
    return 1;
  }
  void erase(iterator i) const { items_->erase(i); }
  bool is(const Dict& o) const { return items_ == o.items_; }

 private:
  std::shared_ptr<std::vector<Entry>> items_;
};

}  // namespace c10

namespace torch {
using c10::Dict;
using c10::List;
}  // namespace torch
