#include "tensor/dispatch/value.h"

#include "tensor/core/error.h"

namespace tessera {
namespace {
constexpr const char* kTagNames[] = {
    "None",   "bool",     "int", "int",        "float",  "complex",      "Tensor", "Tensor[]",  "int[]",   "float[]",
    "bool[]", "Scalar[]", "str", "ScalarType", "Layout", "MemoryFormat", "Device", "Generator", "Storage", "object"};

template <class T>
T* copy_array(const void* p, size_t n) {
  T* r = new T[n ? n : 1];
  std::copy_n(static_cast<const T*>(p), n, r);
  return r;
}
}  // namespace

void Value::bad(const char* wanted) const {
  throw TypeError(str_cat("expected a value of type ", wanted, ", got ", kTagNames[static_cast<int>(tag_)]));
}

void Value::copy_from(const Value& o) {
  std::memcpy(static_cast<void*>(this), static_cast<const void*>(&o), sizeof *this);
  if (!owned_ && tag_ != Tag::kTensor) {  // a borrowed list may outlive its lender through a copy: take it
    switch (tag_) {
      case Tag::kTensorList:
      case Tag::kIntList:
      case Tag::kDoubleList:
      case Tag::kBoolList:
      case Tag::kScalarList:
      case Tag::kString:
      case Tag::kGenerator:
        break;
      default:
        return;
    }
  }
  owned_ = true;
  switch (tag_) {
    case Tag::kTensor:
      if (p_)
        static_cast<TensorImpl*>(p_)->retain();
      else
        owned_ = false;
      break;
    case Tag::kTensorList:
      p_ = copy_array<Tensor>(o.p_, n_);
      break;
    case Tag::kIntList:
      p_ = copy_array<int64_t>(o.p_, n_);
      break;
    case Tag::kDoubleList:
      p_ = copy_array<double>(o.p_, n_);
      break;
    case Tag::kBoolList:
      p_ = copy_array<bool>(o.p_, n_);
      break;
    case Tag::kScalarList:
      p_ = copy_array<Scalar>(o.p_, n_);
      break;
    case Tag::kString:
      p_ = copy_array<char>(o.p_, n_);
      break;
    case Tag::kGenerator:
      p_ = new Generator(*static_cast<const Generator*>(o.p_));
      break;
    case Tag::kStorage:
      static_cast<StorageImpl*>(p_)->retain();
      break;
    case Tag::kObject:
      static_cast<RefCounted*>(p_)->retain();
      break;
    default:
      owned_ = false;
  }
}

void Value::destroy() {
  switch (tag_) {
    case Tag::kTensor:
      static_cast<TensorImpl*>(p_)->release();
      break;
    case Tag::kTensorList:
      delete[] static_cast<Tensor*>(p_);
      break;
    case Tag::kIntList:
      delete[] static_cast<int64_t*>(p_);
      break;
    case Tag::kDoubleList:
      delete[] static_cast<double*>(p_);
      break;
    case Tag::kBoolList:
      delete[] static_cast<bool*>(p_);
      break;
    case Tag::kScalarList:
      delete[] static_cast<Scalar*>(p_);
      break;
    case Tag::kString:
      delete[] static_cast<char*>(p_);
      break;
    case Tag::kGenerator:
      delete static_cast<Generator*>(p_);
      break;
    case Tag::kStorage:
      static_cast<StorageImpl*>(p_)->release();
      break;
    case Tag::kObject:
      static_cast<RefCounted*>(p_)->release();
      break;
    default:
      break;
  }
}

Value Value::of(const Scalar& s) {
  switch (s.kind()) {
    case Scalar::Kind::kBool:
      return of(s.to_bool());
    case Scalar::Kind::kInt:
      return of(s.to_int());
    case Scalar::Kind::kUInt: {
      Value r(Tag::kUInt);
      r.i_ = s.to_int();
      return r;
    }
    case Scalar::Kind::kDouble:
      return of(s.to_double());
    default:
      return of(s.to_complex());
  }
}

Scalar Value::scalar() const {
  switch (tag_) {
    case Tag::kBool:
      return Scalar(i_ != 0);
    case Tag::kInt:
      return Scalar(i_);
    case Tag::kUInt:
      return Scalar(static_cast<uint64_t>(i_));
    case Tag::kDouble:
      return Scalar(re_);
    case Tag::kComplex:
      return Scalar(std::complex<double>(re_, im_));
    default:
      bad("Scalar");
  }
}

#define TESSERA_OWNED_LIST(Type, TagName, Elem)  \
  Value Value::Type {                            \
    Value r(Tag::TagName);                       \
    auto* p = new Elem[l.size() ? l.size() : 1]; \
    std::move(l.begin(), l.end(), p);            \
    r.set_span(p, l.size());                     \
    r.owned_ = true;                             \
    return r;                                    \
  }
TESSERA_OWNED_LIST(of(std::vector<Tensor> l), kTensorList, Tensor)
TESSERA_OWNED_LIST(of(IntVector l), kIntList, int64_t)
TESSERA_OWNED_LIST(of(std::string l), kString, char)
TESSERA_OWNED_LIST(scalars(std::vector<Scalar> l), kScalarList, Scalar)
TESSERA_OWNED_LIST(doubles(std::vector<double> l), kDoubleList, double)
#undef TESSERA_OWNED_LIST

Value Value::of(Generator g) {
  Value r(Tag::kGenerator);
  r.p_ = new Generator(std::move(g));
  r.owned_ = true;
  return r;
}
Value Value::borrow(const Generator& g) {
  Value r(Tag::kGenerator);
  r.p_ = const_cast<Generator*>(&g);
  return r;
}
Value Value::of(Storage s) {
  Value r(Tag::kStorage);
  r.p_ = s.leak();
  r.owned_ = r.p_ != nullptr;
  return r;
}
Value Value::object(IntrusivePtr<RefCounted> o) {
  Value r(Tag::kObject);
  r.p_ = o.leak();
  r.owned_ = r.p_ != nullptr;
  return r;
}

const Generator& Value::generator() const {
  static const Generator none;
  if (tag_ == Tag::kNone) return none;
  if (tag_ != Tag::kGenerator) bad("Generator");
  return *static_cast<const Generator*>(p_);
}
Storage Value::storage() const {
  if (tag_ != Tag::kStorage) bad("Storage");
  return Storage::share(static_cast<StorageImpl*>(p_));
}

}  // namespace tessera
