// A boxed argument or result: what schemas can name, in 24 bytes. Tensors, lists and strings may be borrowed (the
// caller keeps them alive) or owned.
#pragma once

#include <complex>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera {

class Value {
 public:
  enum class Tag : uint8_t {
    kNone,
    kBool,
    kInt,
    kUInt,
    kDouble,
    kComplex,
    kTensor,
    kTensorList,
    kIntList,
    kDoubleList,
    kBoolList,
    kScalarList,
    kString,
    kDType,
    kLayout,
    kMemoryFormat,
    kDevice,
    kGenerator,
    kStorage,
    kObject,  // kObject: an opaque counted object (a Python one, a script object)
  };

  Value() = default;
  Value(const Value& o) { copy_from(o); }
  Value(Value&& o) noexcept {
    std::memcpy(static_cast<void*>(this), static_cast<const void*>(&o), sizeof *this);
    o.tag_ = Tag::kNone;
    o.owned_ = false;
  }
  Value& operator=(Value o) noexcept {
    char t[sizeof(Value)];
    std::memcpy(t, static_cast<const void*>(this), sizeof t);
    std::memcpy(static_cast<void*>(this), static_cast<const void*>(&o), sizeof t);
    std::memcpy(static_cast<void*>(&o), t, sizeof t);
    return *this;
  }
  ~Value() {
    if (owned_) destroy();
  }

  // Plain data.
  static Value none() { return Value(); }
  static Value of(bool v) {
    Value r(Tag::kBool);
    r.i_ = v;
    return r;
  }
  static Value of(int64_t v) {
    Value r(Tag::kInt);
    r.i_ = v;
    return r;
  }
  static Value of(double v) {
    Value r(Tag::kDouble);
    r.re_ = v;
    return r;
  }
  static Value of(std::complex<double> v) {
    Value r(Tag::kComplex);
    r.re_ = v.real();
    r.im_ = v.imag();
    return r;
  }
  static Value of(const Scalar& s);
  static Value of(DType v) {
    Value r(Tag::kDType);
    r.i_ = static_cast<int64_t>(v);
    return r;
  }
  static Value of(Layout v) {
    Value r(Tag::kLayout);
    r.i_ = static_cast<int64_t>(v);
    return r;
  }
  static Value of(MemoryFormat v) {
    Value r(Tag::kMemoryFormat);
    r.i_ = static_cast<int64_t>(v);
    return r;
  }
  static Value of(Device v) {
    Value r(Tag::kDevice);
    r.i_ = static_cast<int64_t>(v.type) | static_cast<int64_t>(static_cast<uint8_t>(v.index)) << 8;
    return r;
  }
  // Owned objects.
  static Value of(Tensor t) {
    Value r(Tag::kTensor);
    r.p_ = t.leak();
    r.owned_ = r.p_ != nullptr;
    return r;
  }  // undefined tensor: reads back as undefined
  static Value of(std::vector<Tensor> l);
  static Value of(IntVector l);
  static Value of(std::string s);
  static Value of(Generator g);
  static Value of(Storage s);
  static Value object(IntrusivePtr<RefCounted> o);
  static Value scalars(std::vector<Scalar> l);
  static Value doubles(std::vector<double> l);
  // Borrowed: valid while what they point to is.
  static Value borrow(TensorImpl* t) {
    Value r(Tag::kTensor);
    r.p_ = t;
    return r;
  }
  static Value borrow(TensorList l) {
    Value r(Tag::kTensorList);
    r.set_span(l.data(), l.size());
    return r;
  }
  static Value borrow(IntList l) {
    Value r(Tag::kIntList);
    r.set_span(l.data(), l.size());
    return r;
  }
  static Value borrow(std::span<const double> l) {
    Value r(Tag::kDoubleList);
    r.set_span(l.data(), l.size());
    return r;
  }
  static Value borrow(std::span<const bool> l) {
    Value r(Tag::kBoolList);
    r.set_span(l.data(), l.size());
    return r;
  }
  static Value borrow(std::span<const Scalar> l) {
    Value r(Tag::kScalarList);
    r.set_span(l.data(), l.size());
    return r;
  }
  static Value borrow(std::string_view s) {
    Value r(Tag::kString);
    r.set_span(s.data(), s.size());
    return r;
  }
  static Value borrow(const Generator& g);

  // Moves an owned tensor out; the value is None afterwards.
  Tensor take_tensor() {
    if (!owned_ || tag_ != Tag::kTensor) return tensor();
    Tensor t(IntrusivePtr<TensorImpl>::adopt(static_cast<TensorImpl*>(p_)));
    tag_ = Tag::kNone;
    owned_ = false;
    p_ = nullptr;
    return t;
  }

  Tag tag() const { return tag_; }
  bool is_none() const { return tag_ == Tag::kNone; }
  bool is_tensor() const { return tag_ == Tag::kTensor; }
  bool is_tensor_list() const { return tag_ == Tag::kTensorList; }

  // Reading: the tag must fit (checked: Error names both kinds). An int reads as double; None reads as an undefined
  // tensor and as an empty optional.
  const Tensor& tensor() const {
    static_assert(sizeof(Tensor) == sizeof(void*));
    if (tag_ != Tag::kTensor && tag_ != Tag::kNone) [[unlikely]]
      bad("Tensor");
    return reinterpret_cast<const Tensor&>(p_);  // the payload of None is null: an undefined tensor
  }
  TensorList tensor_list() const {
    if (tag_ != Tag::kTensorList) [[unlikely]]
      bad("Tensor[]");
    return {static_cast<const Tensor*>(p_), n_};
  }
  IntList int_list() const {
    if (tag_ != Tag::kIntList) [[unlikely]]
      bad("int[]");
    return {static_cast<const int64_t*>(p_), n_};
  }
  std::span<const double> double_list() const {
    if (tag_ != Tag::kDoubleList) [[unlikely]]
      bad("float[]");
    return {static_cast<const double*>(p_), n_};
  }
  std::span<const bool> bool_list() const {
    if (tag_ != Tag::kBoolList) [[unlikely]]
      bad("bool[]");
    return {static_cast<const bool*>(p_), n_};
  }
  std::span<const Scalar> scalar_list() const {
    if (tag_ != Tag::kScalarList) [[unlikely]]
      bad("Scalar[]");
    return {static_cast<const Scalar*>(p_), n_};
  }
  int64_t integer() const {
    if (tag_ != Tag::kInt && tag_ != Tag::kBool) [[unlikely]]
      bad("int");
    return i_;
  }
  double number() const {
    if (tag_ == Tag::kDouble) [[likely]]
      return re_;
    if (tag_ != Tag::kInt && tag_ != Tag::kBool) [[unlikely]]
      bad("float");
    return static_cast<double>(i_);
  }
  bool boolean() const {
    if (tag_ != Tag::kBool && tag_ != Tag::kInt) [[unlikely]]
      bad("bool");
    return i_ != 0;
  }
  Scalar scalar() const;
  std::string_view string() const {
    if (tag_ != Tag::kString) [[unlikely]]
      bad("str");
    return {static_cast<const char*>(p_), n_};
  }
  DType dtype() const {
    if (tag_ != Tag::kDType) [[unlikely]]
      bad("ScalarType");
    return static_cast<DType>(i_);
  }
  Layout layout() const {
    if (tag_ != Tag::kLayout) [[unlikely]]
      bad("Layout");
    return static_cast<Layout>(i_);
  }
  MemoryFormat memory_format() const {
    if (tag_ != Tag::kMemoryFormat) [[unlikely]]
      bad("MemoryFormat");
    return static_cast<MemoryFormat>(i_);
  }
  Device device() const {
    if (tag_ != Tag::kDevice) [[unlikely]]
      bad("Device");
    return Device(static_cast<DeviceType>(i_ & 0xff), static_cast<int8_t>(i_ >> 8));
  }
  const Generator& generator() const;
  Storage storage() const;
  RefCounted* object() const { return tag_ == Tag::kObject ? static_cast<RefCounted*>(p_) : nullptr; }

 private:
  explicit Value(Tag t) : tag_(t) {}
  void set_span(const void* p, size_t n) {
    p_ = const_cast<void*>(p);
    n_ = n;
  }
  void copy_from(const Value& o);
  void destroy();
  [[noreturn]] void bad(const char* wanted) const;

  Tag tag_ = Tag::kNone;
  bool owned_ = false;
  union {
    void* p_ = nullptr;
    int64_t i_;
    double re_;
  };
  union {
    size_t n_ = 0;
    double im_;
  };
};

using Stack = std::vector<Value>;

}  // namespace tessera
