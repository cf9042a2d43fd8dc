// torch::OrderedDict: items in the order of insertion, found by key.
#pragma once

#include <unordered_map>
#include <vector>

#include "c10/util/ArrayRef.h"

namespace torch {

template <class Key, class Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    Value& operator*() { return value(); }
    const Value& operator*() const { return value(); }
    Value* operator->() { return &value(); }
    const Value* operator->() const { return &value(); }
    const Key& key() const noexcept { return pair_.first; }
    Value& value() noexcept { return pair_.second; }
    const Value& value() const noexcept { return pair_.second; }
    const std::pair<Key, Value>& pair() const noexcept { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };
  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  explicit OrderedDict(std::string subject = "Key") : subject_(std::move(subject)) {}
  OrderedDict(std::initializer_list<Item> items) : subject_("Key") {
    for (const Item& i : items) insert(i.key(), i.value());
  }
  const std::string& key_description() const noexcept { return subject_; }
  Item& front() {
    TORCH_CHECK(!is_empty(), "Called front() on an empty OrderedDict");
    return items_.front();
  }
  const Item& front() const { return const_cast<OrderedDict&>(*this).front(); }
  Item& back() {
    TORCH_CHECK(!is_empty(), "Called back() on an empty OrderedDict");
    return items_.back();
  }
  const Item& back() const { return const_cast<OrderedDict&>(*this).back(); }
  Item& operator[](size_t i) {
    TORCH_CHECK(i < size(), "Index ", i, " is out of bounds");
    return items_[i];
  }
  const Item& operator[](size_t i) const { return const_cast<OrderedDict&>(*this)[i]; }
  // KeyError's place: c10::Error for a key that is not there.
  Value& operator[](const Key& key) {
    if (Value* v = find(key)) return *v;
    AT_ERROR(subject_, " '", key, "' is not defined");
  }
  const Value& operator[](const Key& key) const { return const_cast<OrderedDict&>(*this)[key]; }
  Value* find(const Key& key) noexcept {
    const auto i = index_.find(key);
    return i == index_.end() ? nullptr : &items_[i->second].value();
  }
  const Value* find(const Key& key) const noexcept { return const_cast<OrderedDict&>(*this).find(key); }
  bool contains(const Key& key) const noexcept { return find(key) != nullptr; }
  Iterator begin() { return items_.begin(); }
  ConstIterator begin() const { return items_.begin(); }
  Iterator end() { return items_.end(); }
  ConstIterator end() const { return items_.end(); }
  size_t size() const noexcept { return items_.size(); }
  bool is_empty() const noexcept { return items_.empty(); }
  void reserve(size_t n) { items_.reserve(n); }
  template <class K, class V>
  Value& insert(K&& key, V&& value) {
    TORCH_CHECK(!contains(key), subject_, " '", key, "' already defined");
    items_.emplace_back(Key(std::forward<K>(key)), Value(std::forward<V>(value)));
    index_.emplace(items_.back().key(), items_.size() - 1);
    return items_.back().value();
  }
  Value& insert(Key key, Value&& value) { return insert<Key, Value>(std::move(key), std::move(value)); }
  void update(const OrderedDict& other) {
    for (const Item& i : other) insert(i.key(), i.value());
  }
  void update(OrderedDict&& other) {
    for (Item& i : other) insert(i.key(), std::move(i.value()));
  }
  void erase(const Key& key) {
    const auto i = index_.find(key);
    TORCH_CHECK(i != index_.end(), "Key '", key, "' doesn't exist");
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(i->second));
    index_.clear();
    for (size_t k = 0; k < items_.size(); ++k) index_.emplace(items_[k].key(), k);
  }
  void clear() {
    items_.clear();
    index_.clear();
  }
  const std::vector<Item>& items() const noexcept { return items_; }
  std::vector<Key> keys() const {
    std::vector<Key> r;
    for (const Item& i : items_) r.push_back(i.key());
    return r;
  }
  std::vector<Value> values() const {
    std::vector<Value> r;
    for (const Item& i : items_) r.push_back(i.value());
    return r;
  }
  std::vector<std::pair<Key, Value>> pairs() const {
    std::vector<std::pair<Key, Value>> r;
    for (const Item& i : items_) r.push_back(i.pair());
    return r;
  }

 private:
  std::unordered_map<Key, size_t> index_;
  std::vector<Item> items_;
  std::string subject_;
};

}  // namespace torch
