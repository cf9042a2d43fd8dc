// From Python call arguments to boxed values, by a plan compiled once from an op's schema.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "python/bindings/common.h"
#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/schema.h"

namespace tessera::jit {
class Tracer;
struct Type;
}  // namespace tessera::jit
namespace tessera::python {

inline constexpr int kMaxArgs = 32;

// What a parameter accepts; the kinds that a call meets most come first.
enum class ParamKind : uint8_t {
  kTensor,
  kScalar,
  kInt,
  kFloat,
  kBool,
  kIntList,
  kTensorList,
  kDType,
  kLayout,
  kMemoryFormat,
  kDevice,
  kGenerator,
  kString,
  kFloatList,
  kBoolList,
  kScalarList,
  kStorage,
  kObject,
};

struct Param {
  PyObject* name;              // interned: the documented one
  PyObject* method = nullptr;  // the method's, where the documents give it one of its own
  PyObject* alias = nullptr;   // NumPy's name for it (axis, keepdims, x1, x2)
  ParamKind kind;
  bool optional = false;  // T?
  bool kwarg_only = false;
  bool has_default = false;
  bool optional_elements = false;  // Tensor?[]
  bool is_out = false;             // part of out=
  int64_t list_size = -1;          // int[2]: one int stands for both
  Value default_value;
  const SchemaArgument* schema = nullptr;
  const jit::Type* type = nullptr;  // of an object: what scripts have it as
};

// One overload, ready to parse calls. `method`: the first parameter is the object itself.
class ParsePlan {
 public:
  explicit ParsePlan(const OpInfo& info);

  const OpInfo& info() const { return *info_; }
  const FunctionSchema& schema() const { return schema_; }
  const std::vector<Param>& params() const { return params_; }
  int num_outs() const { return num_outs_; }    // parameters that out= fills
  bool is_factory() const { return factory_; }  // accepts requires_grad=
  size_t num_returns() const { return schema_.returns.size(); }
  // Where f(2, 3) may stand for f([2, 3]); -1: nowhere.
  int varargs_position() const { return varargs_ ? num_positional_ - 1 : -1; }
  // The documented one-line signature: "(Tensor input, Tensor other, *, Number alpha)".
  std::string signature() const;
  // The same as Python writes it, "(input, other, *, alpha=1, out=None) -> Tensor"; a method's without the object
  // itself.
  std::string python_signature(bool method, bool has_out) const;
  // The parameter that a keyword names, -1: none. Documented names, those of the schema, NumPy's.
  int find(PyObject* name) const;

  // Arguments of a vectorcall. Returns false (no exception set) where the call does not fit; then values may be half
  // filled. extra_requires_grad: set to the requires_grad= of a factory call.
  bool parse(PyObject* const* args, Py_ssize_t num_positional, PyObject* kwnames, Value* values,
             bool* extra_requires_grad, std::string* why, bool outs_by_name = false) const;

 private:
  void note_sources(jit::Tracer& trace, std::span<PyObject* const> args, size_t used, PyObject* kwnames) const;
  bool parse_keywords(PyObject* const* values_given, PyObject* kwnames, Value* values, uint64_t* given,
                      bool* extra_requires_grad, bool outs_by_name) const;

  const OpInfo* info_;
  FunctionSchema schema_;
  std::vector<Param> params_;
  std::vector<Value> defaults_;  // borrowed from params_
  uint64_t required_ = 0;        // parameters without a default
  uint64_t outs_ = 0;            // those that out= fills
  int num_positional_ = 0;       // parameters that may be given by position
  int num_outs_ = 0;
  int first_out_ = -1;
  int pin_ = -1;
  bool varargs_ = false;  // the only positional parameter (besides self) is a list of ints: f(2, 3) means f([2, 3])
  bool factory_ = false;
};

// Room for the int lists of one call, so that a shape costs no allocation. While one is active on the thread, lists
// that fit are borrowed from it.
class IntScratch {
 public:
  IntScratch();
  ~IntScratch() { stop(); }
  void stop();                     // what was converted stays valid as long as this object
  static int64_t* take(size_t n);  // null: no room

 private:
  static constexpr size_t kRoom = 48;
  IntScratch* outer_;
  bool active_ = true;
  size_t used_ = 0;
  int64_t room_[kRoom];
};

// "tuple of ints": what messages call the type of a parameter.
const char* kind_name(ParamKind k);
// Converts one object for a parameter. False: it does not fit.
bool convert_arg(const Param& p, PyObject* o, Value* out);
// A boxed value as a Python object (new reference).
PyObject* to_python(const Value& v);
// Any Python object as a value, guided by nothing but itself (for boxed Python kernels); tensors, numbers, strings,
// lists.
Value to_value(PyObject* o);
// By a schema type.
Value to_value(PyObject* o, const SchemaType& type);
bool is_python_number(PyObject* o);        // int, float, complex, bool (NumPy scalars too)
bool to_int64(PyObject* o, int64_t* out);  // ints, NumPy ints, 0-dim integral tensors through __index__
bool to_scalar(PyObject* o, Scalar* out);

}  // namespace tessera::python
