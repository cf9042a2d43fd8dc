#include "profiler/log.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstring>

namespace tessera::profiler {
namespace {

constexpr size_t kBlock = 64 << 10;

using Tag = Input::Tag;

size_t words_of(const Tensor& t) { return 2 + 2 * static_cast<size_t>(t.defined() ? t.dim() : 0); }
size_t words_of(const Value& v) {
  switch (v.tag()) {
    case Value::Tag::kTensor:
      return 1 + (v.tensor().defined() ? words_of(v.tensor()) : 0);
    case Value::Tag::kTensorList: {
      size_t n = 2;
      for (const Tensor& t : v.tensor_list()) n += words_of(t);
      return n;
    }
    case Value::Tag::kBool:
    case Value::Tag::kInt:
    case Value::Tag::kDouble:
      return 2;
    case Value::Tag::kIntList:
      return 2 + v.int_list().size();
    default:
      return 1;
  }
}

int64_t* write(int64_t* w, const Tensor& t) {
  const bool known = t.defined();
  *w++ = known ? static_cast<int64_t>(t.dtype()) : 0;
  *w++ = known ? t.dim() : 0;
  if (!known) return w;
  for (const int64_t s : t.sizes()) *w++ = s;
  if (t.layout() == Layout::kStrided)
    for (const int64_t s : t.strides()) *w++ = s;
  else
    for (int64_t i = 0; i < t.dim(); ++i) *w++ = 0;
  return w;
}
int64_t* write(int64_t* w, const Value& v) {
  const auto tag = [&](Tag t) { *w++ = static_cast<int64_t>(t); };
  switch (v.tag()) {
    case Value::Tag::kNone:
      tag(Tag::kNothing);
      break;
    case Value::Tag::kTensor:
      if (!v.tensor().defined()) {
        tag(Tag::kNothing);
        break;
      }
      tag(Tag::kTensor);
      return write(w, v.tensor());
    case Value::Tag::kTensorList:
      tag(Tag::kTensorList);
      *w++ = static_cast<int64_t>(v.tensor_list().size());
      for (const Tensor& t : v.tensor_list()) w = write(w, t);
      break;
    case Value::Tag::kBool:
      tag(Tag::kBool);
      *w++ = v.boolean();
      break;
    case Value::Tag::kInt:
      tag(Tag::kInt);
      *w++ = v.integer();
      break;
    case Value::Tag::kDouble:
      tag(Tag::kDouble);
      *w++ = std::bit_cast<int64_t>(v.number());
      break;
    case Value::Tag::kIntList:
      tag(Tag::kIntList);
      *w++ = static_cast<int64_t>(v.int_list().size());
      for (const int64_t i : v.int_list()) *w++ = i;
      break;
    default:
      tag(Tag::kOther);
  }
  return w;
}

// The names that traces have: those of C++.
std::string_view c_name(DType t) {
  switch (t) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kFloat16:
      return "c10::Half";
    case DType::kBFloat16:
      return "c10::BFloat16";
    case DType::kInt8:
      return "signed char";
    case DType::kUInt8:
      return "unsigned char";
    case DType::kInt16:
      return "short int";
    case DType::kInt32:
      return "int";
    case DType::kInt64:
      return "long int";
    case DType::kBool:
      return "bool";
    case DType::kComplex64:
      return "c10::complex<float>";
    case DType::kComplex128:
      return "c10::complex<double>";
    default:
      return name_of(t);
  }
}

Input::Dims read_dims(const int64_t*& w) {
  Input::Dims d{static_cast<DType>(*w), {}, {}};
  const int64_t n = w[1];
  d.sizes.assign(w + 2, w + 2 + n);
  d.strides.assign(w + 2 + n, w + 2 + 2 * n);
  w += 2 + 2 * n;
  return d;
}

}  // namespace

Log::Log(uint64_t session) : session_(session), system_id_(syscall(SYS_gettid)) {
  char name[32] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  thread_name_ = name;
}

void Log::end_frame(const void* subject) {
  Event* frame = current_;
  Event* above = nullptr;
  while (frame && !(frame->kind == Kind::kFrame && frame->subject == subject)) {
    if (!frame->end.load(std::memory_order_relaxed)) above = frame;
    frame = frame->parent.load(std::memory_order_relaxed);
  }
  if (!frame) return;  // it began before the recording
  if (above) above->parent.store(frame->parent.load(std::memory_order_relaxed), std::memory_order_relaxed);
  end(frame);
}

int64_t* Log::words(size_t n) {
  const size_t bytes = n * sizeof(int64_t);
  if (left_ < bytes) {
    const size_t size = bytes > kBlock ? bytes : kBlock;
    arena_.push_back(std::make_unique_for_overwrite<char[]>(size));
    room_ = arena_.back().get();
    left_ = size;
  }
  auto* p = reinterpret_cast<int64_t*>(room_);
  room_ += bytes;
  left_ -= bytes;
  return p;
}

const char* Log::keep(std::string_view text) {
  auto* p = reinterpret_cast<char*>(words((text.size() + sizeof(int64_t)) / sizeof(int64_t)));
  std::memcpy(p, text.data(), text.size());
  p[text.size()] = 0;
  return p;
}

const int64_t* write_inputs(Log& log, const Value* args, size_t n) {
  size_t size = 1;
  for (size_t i = 0; i < n; ++i) size += words_of(args[i]);
  int64_t* const words = log.words(size);
  int64_t* w = words;
  *w++ = static_cast<int64_t>(n);
  for (size_t i = 0; i < n; ++i) w = write(w, args[i]);
  return words;
}

std::string_view input_type(const Input& in) {
  switch (in.tag) {
    case Tag::kTensor:
      return c_name(in.tensors[0].dtype);
    case Tag::kTensorList:
      return "TensorList";
    case Tag::kBool:
    case Tag::kInt:
    case Tag::kDouble:
      return "Scalar";
    case Tag::kIntList:
      return "ScalarList";
    case Tag::kNothing:
    case Tag::kOther:
      break;
  }
  return "";
}

std::vector<Input> read_inputs(const int64_t* w) {
  if (!w) return {};
  std::vector<Input> all(static_cast<size_t>(*w++));
  for (Input& in : all) {
    in.tag = static_cast<Tag>(*w++);
    switch (in.tag) {
      case Tag::kTensor:
        in.tensors.push_back(read_dims(w));
        break;
      case Tag::kTensorList:
        for (int64_t n = *w++; n > 0; --n) in.tensors.push_back(read_dims(w));
        break;
      case Tag::kBool:
      case Tag::kInt:
        in.ints.push_back(*w++);
        break;
      case Tag::kDouble:
        in.number = std::bit_cast<double>(*w++);
        break;
      case Tag::kIntList:
        in.ints.assign(w + 1, w + 1 + *w);
        w += 1 + *w;
        break;
      case Tag::kNothing:
      case Tag::kOther:
        break;
    }
  }
  return all;
}

}  // namespace tessera::profiler
