// What a scripted program computes with besides numbers, strings and tensors: lists, dicts, tuples and instances,
// shared by reference as in Python. They stand in a Value as objects; which of them one is follows from its type.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "jit/type.h"

namespace tessera::jit {

enum class ObjectKind : uint8_t { kList, kDict, kTuple, kInstance, kEnumItem, kFuture, kHost, kFunction, kForeign };

struct Object : RefCounted {
  ObjectKind kind;
  explicit Object(ObjectKind k) : kind(k) {}
};

struct List : Object {
  TypePtr elem;
  std::vector<Value> items;
  explicit List(TypePtr e, std::vector<Value> v = {}) : Object(ObjectKind::kList), elem(e), items(std::move(v)) {}
};
struct Tuple : Object {
  TypePtr type;  // of the tuple
  std::vector<Value> items;
  Tuple(TypePtr t, std::vector<Value> v) : Object(ObjectKind::kTuple), type(t), items(std::move(v)) {}
};
// Keeps the order of insertion.
struct Dict : Object {
  TypePtr key, value;
  std::vector<std::pair<Value, Value>> items;
  Dict(TypePtr k, TypePtr v) : Object(ObjectKind::kDict), key(k), value(v) {}
  const Value* find(const Value& k) const;
  void set(const Value& k, Value v);
  bool erase(const Value& k);
  void clear();

 private:
  size_t place(const Value& k) const;  // items.size() if it is not there
  void reindex();
  std::unordered_multimap<size_t, size_t> index_;  // hash -> place, once there are more than a few
};
struct Instance : Object {
  ClassDef* def;
  IntrusivePtr<Unit> unit;  // outlives what it is made of
  std::vector<Value> slots;
  explicit Instance(ClassDef* d);
  Value& at(std::string_view name);  // AttributeError as Error
};
struct EnumItem : Object {
  ClassDef* def;
  size_t index;
  EnumItem(ClassDef* d, size_t i) : Object(ObjectKind::kEnumItem), def(d), index(i) {}
  const ConstantAttribute& item() const { return def->items[index]; }
};
class Task;
// A value that is there already, or the task that gives it (tasks.h).
struct FutureObject : Object {
  TypePtr elem;
  Value value;
  IntrusivePtr<Task> task;
  explicit FutureObject(TypePtr e);
  ~FutureObject() override;
  Value wait() const;
};

struct Sugar;
// Something that only the host of the compiler knows: a Python function, module or object.
struct HostObject : Object {
  HostObject() : Object(ObjectKind::kHost) {}
  virtual std::string describe() const = 0;
  // What an attribute of it is to the compiler; false: there is none.
  virtual bool attribute(const std::string& name, const Range& where, Sugar* out) = 0;
  // Runs it: for functions that stay with the host.
  virtual Value call(const Value* args, size_t n, TypePtr result) = 0;
};

inline Value wrap(IntrusivePtr<RefCounted> o) { return Value::object(std::move(o)); }
template <class O, class... X>
Value make_value(X&&... x) {
  return Value::object(make_intrusive<O>(std::forward<X>(x)...));
}
template <class O>
O& as(const Value& v) {
  return *static_cast<O*>(v.object());
}
inline Object* object_of(const Value& v) { return dynamic_cast<Object*>(v.object()); }

bool equal(const Value& a, const Value& b);
size_t hash_of(const Value& v);
// As Python's str() and repr() write it.
std::string to_text(const Value& v, bool quoted = false);
std::string quote(std::string_view s);
std::string number_text(double d);
// The type that a value has by itself (of a None: NoneType).
TypePtr type_of(const Value& v);
// Whether it is one of a type; looks at elements.
bool is_instance(const Value& v, TypePtr t);
Value deep_copy(const Value& v);
// The registry's dtypes as the integers of the documents, and back.
int64_t dtype_number(DType t);
DType dtype_of_number(int64_t n);

}  // namespace tessera::jit
