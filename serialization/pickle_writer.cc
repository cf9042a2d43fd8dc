#include <cstring>
#include <unordered_map>

#include "serialization/pickle.h"

namespace tessera::serialization {

const char* storage_class(DType t) {
  switch (t) {
    case DType::kBool:
      return "BoolStorage";
    case DType::kUInt8:
      return "ByteStorage";
    case DType::kInt8:
      return "CharStorage";
    case DType::kInt16:
      return "ShortStorage";
    case DType::kInt32:
      return "IntStorage";
    case DType::kInt64:
      return "LongStorage";
    case DType::kFloat16:
      return "HalfStorage";
    case DType::kBFloat16:
      return "BFloat16Storage";
    case DType::kFloat32:
      return "FloatStorage";
    case DType::kFloat64:
      return "DoubleStorage";
    case DType::kComplex64:
      return "ComplexFloatStorage";
    case DType::kComplex128:
      return "ComplexDoubleStorage";
    default:
      return nullptr;
  }
}

namespace {

class Pickler {
 public:
  Pickled run(const Object& object) {
    out_ = "\x80\x02";
    put(object, 0);
    out_ += '.';
    return {std::move(out_), std::move(storages_)};
  }

 private:
  void bytes(uint64_t v, int n) {
    for (int i = 0; i < n; ++i) out_ += static_cast<char>(v >> (8 * i));
  }
  void text(const std::string& s) {
    TESSERA_CHECK_VALUE(s.size() <= 0xffffffffu, "a string of ", s.size(), " bytes is too long for a checkpoint");
    out_ += 'X';
    bytes(s.size(), 4);
    out_ += s;
  }
  void integer(int64_t i) {
    if (i >= 0 && i < 256)
      out_ += 'K', bytes(i, 1);
    else if (i >= 0 && i < 65536)
      out_ += 'M', bytes(i, 2);
    else if (i == static_cast<int32_t>(i))
      out_ += 'J', bytes(i, 4);
    else
      out_ += "\x8a\x08", bytes(i, 8);
  }
  void integers(IntList list) {
    out_ += '(';
    for (int64_t i : list) integer(i);
    out_ += 't';
  }
  void real(double d) {
    uint64_t bits;
    std::memcpy(&bits, &d, sizeof bits);
    out_ += 'G';
    bytes(__builtin_bswap64(bits), 8);
  }
  void boolean(bool b) { out_ += b ? '\x88' : '\x89'; }

  // What is met again refers to the first time: shared containers and tensors stay shared.
  bool recall(const RefCounted* node) {
    const auto found = memo_.find(node);
    if (found == memo_.end()) return false;
    out_ += 'j';
    bytes(found->second, 4);
    return true;
  }
  void remember(const RefCounted* node) {
    const uint32_t index = static_cast<uint32_t>(memo_.size());
    memo_[node] = index;
    out_ += 'r';
    bytes(index, 4);
  }

  void put(const Object& o, int depth) {
    TESSERA_CHECK_VALUE(depth <= kMaxDepth, "containers are nested more than ", kMaxDepth, " deep");
    switch (o.kind()) {
      case Kind::kNone:
        out_ += 'N';
        return;
      case Kind::kBool:
        boolean(o.as_bool());
        return;
      case Kind::kInt:
        integer(o.as_int());
        return;
      case Kind::kFloat:
        real(o.as_double());
        return;
      case Kind::kString:
        text(o.as_string());
        return;
      case Kind::kBytes:
        encoded_bytes(o.as_bytes());
        return;
      case Kind::kDType:
        out_ += "ctorch\n", out_ += name_of(o.as_dtype()), out_ += '\n';
        return;
      default:
        break;
    }
    const RefCounted* node = o.node().get();
    if (recall(node)) return;
    switch (o.kind()) {
      case Kind::kTensor:
        tensor(o.as_tensor());
        break;
      case Kind::kTuple:  // not in the memo before it is complete: a tuple can't hold itself, and by way of a list it
                          // is caught by the depth
        out_ += '(';
        for (const Object& item : o.items()) put(item, depth + 1);
        out_ += 't';
        break;
      case Kind::kList:
        out_ += ']';
        remember(node);
        out_ += '(';
        for (const Object& item : o.items()) put(item, depth + 1);
        out_ += 'e';
        return;
      default:
        out_ += o.is_ordered_dict() ? "ccollections\nOrderedDict\n)R" : "}";
        remember(node);
        out_ += '(';
        for (const auto& [key, value] : o.entries()) put(key, depth + 1), put(value, depth + 1);
        out_ += 'u';
        return;
    }
    remember(node);
  }

  // Protocol 2 has no bytes: they are text that is encoded again.
  void encoded_bytes(const std::string& s) {
    std::string wide;
    for (uint8_t c : s) {
      if (c >= 0x80) wide += static_cast<char>(0xc0 | c >> 6);
      wide += static_cast<char>(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
    }
    out_ += "c_codecs\nencode\n";
    text(wide);
    text("latin1");
    out_ += "\x86R";
  }

  void tensor(const Tensor& t) {
    TESSERA_CHECK_NOT_IMPLEMENTED(t.is_cpu() && t.layout() == Layout::kStrided,
                                  "only dense CPU tensors can be saved, got one on ", t.device().str());
    TESSERA_CHECK_NOT_IMPLEMENTED(!is_quantized(t.dtype()), "tensors of dtype ", name_of(t.dtype()), " can't be saved");
    const char* kind = storage_class(t.dtype());
    out_ += kind ? "ctorch._utils\n_rebuild_tensor_v2\n((" : "ctorch._utils\n_rebuild_tensor_v3\n((";
    text("storage");
    out_ += kind ? std::string("ctorch\n") + kind + "\n" : "ctorch.storage\nUntypedStorage\n";
    const DType stored = kind ? t.dtype() : DType::kUInt8;
    text(std::to_string(storage_number(t.storage(), stored)));
    text("cpu");
    integer(static_cast<int64_t>(t.storage()->nbytes()) / item_size(stored));
    out_ += "tQ";
    integer(t.storage_offset());
    integers(t.sizes());
    integers(t.strides());
    boolean(t.requires_grad() && t.is_leaf());
    out_ += "ccollections\nOrderedDict\n)R";  // hooks
    if (!kind) out_ += "ctorch\n", out_ += name_of(t.dtype()), out_ += '\n';
    if (t.is_conj() || t.is_neg()) {
      out_ += "}(";
      if (t.is_conj()) text("conj"), boolean(true);
      if (t.is_neg()) text("neg"), boolean(true);
      out_ += 'u';
    }
    out_ += "tR";
  }

  size_t storage_number(const Storage& storage, DType stored) {
    const auto [known, fresh] = numbers_.emplace(storage.get(), std::pair(storages_.size(), stored));
    if (fresh) storages_.push_back(storage);
    TESSERA_CHECK(known->second.second == stored,
                  "Cannot save multiple tensors or storages that view the same data as different types");
    return known->second.first;
  }

  std::string out_;
  std::vector<Storage> storages_;
  std::unordered_map<const StorageImpl*, std::pair<size_t, DType>> numbers_;
  std::unordered_map<const RefCounted*, uint32_t> memo_;
};

}  // namespace

Pickled write_pickle(const Object& object) { return Pickler().run(object); }

}  // namespace tessera::serialization
