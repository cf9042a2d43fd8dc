#include "serialization/object.h"

#include <algorithm>

namespace tessera::serialization {

const char* kind_name(Kind k) {
  static constexpr const char* kNames[] = {"None",   "bool",  "int",  "float", "str",  "bytes",
                                           "Tensor", "dtype", "list", "tuple", "dict", "global"};
  return kNames[static_cast<int>(k)];
}

Object::Object(Kind k, std::string s) : kind_(k) {
  auto node = make_intrusive<StringNode>();
  node->value = std::move(s);
  node_ = std::move(node);
}

Object::Object(Kind k, Items items) : kind_(k) {
  auto node = make_intrusive<ListNode>();
  node->items = std::move(items);
  node_ = std::move(node);
}

Object Object::dict(Entries entries, bool ordered) {
  auto node = make_intrusive<DictNode>();
  node->entries = std::move(entries);
  node->ordered = ordered;
  Object result;
  result.kind_ = Kind::kDict;
  result.node_ = std::move(node);
  return result;
}

Object::Object(const StateDict& tensors) {
  Entries entries;
  entries.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) entries.emplace_back(name, tensor);
  *this = dict(std::move(entries), true);
}

void Object::expect(Kind k) const {
  TESSERA_CHECK_TYPE(kind_ == k, "expected ", kind_name(k), ", but the checkpoint has ", kind_name(kind_));
}

bool Object::as_bool() const {
  expect(Kind::kBool);
  return int_ != 0;
}
int64_t Object::as_int() const {
  expect(Kind::kInt);
  return int_;
}
double Object::as_double() const {
  if (kind_ == Kind::kInt) return static_cast<double>(int_);
  expect(Kind::kFloat);
  return double_;
}
DType Object::as_dtype() const {
  expect(Kind::kDType);
  return static_cast<DType>(int_);
}
const std::string& Object::as_string() const {
  expect(Kind::kString);
  return static_cast<const StringNode&>(*node_).value;
}
const std::string& Object::as_bytes() const {
  expect(Kind::kBytes);
  return static_cast<const StringNode&>(*node_).value;
}
Tensor Object::as_tensor() const {
  expect(Kind::kTensor);
  return Tensor(IntrusivePtr<TensorImpl>::share(static_cast<TensorImpl*>(node_.get())));
}
const Object::Items& Object::items() const {
  if (kind_ != Kind::kTuple) expect(Kind::kList);
  return list_node().items;
}
const Object::Entries& Object::entries() const {
  expect(Kind::kDict);
  return dict_node().entries;
}
bool Object::is_ordered_dict() const { return kind_ == Kind::kDict && dict_node().ordered; }

StateDict Object::as_state_dict() const {
  StateDict result;
  for (const auto& [key, value] : entries()) result.emplace_back(key.as_string(), value.as_tensor());
  std::vector<std::string_view> names;
  for (const auto& entry : result) names.push_back(entry.first);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  TESSERA_CHECK_VALUE(twice == names.end(), "the name '", *twice, "' is there twice");
  return result;
}

const Object* Object::find(std::string_view key) const {
  for (const auto& [k, v] : entries())
    if (k.kind_ == Kind::kString && k.as_string() == key) return &v;
  return nullptr;
}

const Object* Object::find(int64_t key) const {
  for (const auto& [k, v] : entries())
    if (k.kind_ == Kind::kInt && k.int_ == key) return &v;
  return nullptr;
}

const Object& Object::at(std::string_view key) const {
  const Object* found = find(key);
  TESSERA_CHECK_INDEX(found, "no key '", key, "' in the dict");
  return *found;
}

void Object::set(Object key, Object value) {
  expect(Kind::kDict);
  const Object* found = key.kind_ == Kind::kString ? find(std::string_view(key.as_string()))
                        : key.kind_ == Kind::kInt  ? find(key.int_)
                                                   : nullptr;
  if (found)
    *const_cast<Object*>(found) = std::move(value);
  else
    dict_node().entries.emplace_back(std::move(key), std::move(value));
}

void Object::append(Object item) {
  expect(Kind::kList);
  list_node().items.push_back(std::move(item));
}

}  // namespace tessera::serialization
