// What a checkpoint holds: numbers, strings, tensors, and lists, tuples and dicts of such.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::serialization {

// Names and tensors in order: what nn::Module::state_dict gives and load_state_dict takes.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

enum class Kind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kBytes,
  kTensor,
  kDType,
  kList,
  kTuple,
  kDict,
  kOpaque
};
const char* kind_name(Kind k);  // "dict"

// A handle, as in Python: copies of a list or dict are the same list or dict.
class Object {
 public:
  using Items = std::vector<Object>;
  using Entries = std::vector<std::pair<Object, Object>>;

  Object() = default;  // None
  Object(bool b) : kind_(Kind::kBool), int_(b) {}
  Object(int i) : kind_(Kind::kInt), int_(i) {}
  Object(int64_t i) : kind_(Kind::kInt), int_(i) {}
  Object(double d) : kind_(Kind::kFloat), double_(d) {}
  Object(DType t) : kind_(Kind::kDType), int_(static_cast<int64_t>(t)) {}
  Object(std::string s) : Object(Kind::kString, std::move(s)) {}
  Object(const char* s) : Object(std::string(s)) {}
  Object(const Tensor& t) : kind_(t.defined() ? Kind::kTensor : Kind::kNone), node_(t.impl_ptr()) {}
  explicit Object(const StateDict& tensors);  // an OrderedDict
  static Object bytes(std::string b) { return Object(Kind::kBytes, std::move(b)); }
  static Object list(Items items = {}) { return Object(Kind::kList, std::move(items)); }
  static Object tuple(Items items) { return Object(Kind::kTuple, std::move(items)); }
  static Object dict(Entries entries = {}, bool ordered = false);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::kNone; }
  // Each throws TypeError if the object is of another kind.
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;  // a float or an int
  DType as_dtype() const;
  const std::string& as_string() const;
  const std::string& as_bytes() const;
  Tensor as_tensor() const;
  const Items& items() const;      // of a list or tuple
  const Entries& entries() const;  // of a dict, in order
  bool is_ordered_dict() const;    // collections.OrderedDict rather than dict
  // The tensors of a dict whose keys are all strings and whose values are all tensors: TypeError; ValueError for a name
  // that is there twice.
  StateDict as_state_dict() const;

  // The value under a key, or null.
  const Object* find(std::string_view key) const;
  const Object* find(int64_t key) const;
  // KeyError does not exist in C++: IndexError "no key 'epoch'".
  const Object& at(std::string_view key) const;
  // Replaces or appends.
  void set(Object key, Object value);
  void append(Object item);

  // For the reader and the writer.
  struct Node : RefCounted {};
  struct StringNode : Node {
    std::string value;
  };
  struct ListNode : Node {
    Items items;
  };
  struct DictNode : Node {
    Entries entries;
    bool ordered = false;
  };
  static Object opaque(IntrusivePtr<RefCounted> node) {
    Object o;
    o.kind_ = Kind::kOpaque;
    o.node_ = std::move(node);
    return o;
  }
  const IntrusivePtr<RefCounted>& node() const { return node_; }
  ListNode& list_node() const { return static_cast<ListNode&>(*node_); }
  DictNode& dict_node() const { return static_cast<DictNode&>(*node_); }

 private:
  Object(Kind k, std::string s);
  Object(Kind k, Items items);
  void expect(Kind k) const;

  Kind kind_ = Kind::kNone;
  union {
    int64_t int_ = 0;
    double double_;
  };
  IntrusivePtr<RefCounted> node_;
};

// What a sparse tensor in a file is made of: indices and values (sparse_coo), or compressed indices, plain indices and
// values. This library makes none of it: who reads such files says what does.
struct SparseParts {
  std::string layout;  // "torch.sparse_coo"
  std::vector<Tensor> tensors;
  IntVector sizes;
  bool is_coalesced = false;
};

}  // namespace tessera::serialization
