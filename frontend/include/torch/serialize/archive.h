// Archives of names with tensors, values and further archives: what torch::save and torch::load write and read. The
// files are those of TorchScript modules without methods.
#pragma once

#include <ATen/core/ivalue_objects.h>
#include <torch/types.h>

#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace torch::jit {
class CompilationUnit;  // torch/script.h; archives need none, but accept one
}  // namespace torch::jit

namespace torch::serialize {
namespace detail {

namespace tj = tessera::jit;
using Callback = std::function<size_t(const void*, size_t)>;
using ReadCallback = std::function<size_t(uint64_t, void*, size_t)>;

struct CallbackSink final : tessera::serialization::Sink {
  const Callback& write_;
  explicit CallbackSink(const Callback& f) : write_(f) {}
  void write(std::span<const uint8_t> data) override {
    TORCH_CHECK(write_(data.data(), data.size()) == data.size(), "the writer took fewer bytes than it was given");
  }
};
struct CallbackSource final : tessera::serialization::Source {
  const ReadCallback& read_;
  CallbackSource(const ReadCallback& f, size_t size) : read_(f) { size_ = size; }
  bool concurrent() const override { return false; }
  void read(uint64_t position, std::span<uint8_t> out) override {
    check_range(position, out.size());
    TORCH_CHECK(read_(position, out.data(), out.size()) == out.size(), "the reader gave fewer bytes than asked for");
  }
};

using c10::objects::to_datum;
using c10::objects::to_ivalue;

}  // namespace detail

class OutputArchive final {
 public:
  explicit OutputArchive(std::shared_ptr<jit::CompilationUnit> unit)
      : unit_(std::move(unit)), data_(std::make_shared<detail::tj::DataArchive>()) {}
  OutputArchive() : OutputArchive(nullptr) {}
  OutputArchive(OutputArchive&&) = default;
  OutputArchive& operator=(OutputArchive&&) = default;
  OutputArchive(const OutputArchive&) = delete;
  OutputArchive& operator=(const OutputArchive&) = delete;

  std::shared_ptr<jit::CompilationUnit> compilation_unit() const { return unit_; }
  // What is written under a name that is taken replaces it.
  void write(const std::string& key, const IValue& value) { set(key, Role::kAttribute, detail::to_datum(value)); }
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false) {
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.defined(), "Cannot access storage of UndefinedTensorImpl");
    detail::tj::Datum datum;
    datum.value = tessera::Value::of(static_cast<const tessera::Tensor&>(tensor));
    set(key, is_buffer ? Role::kBuffer : Role::kParameter, std::move(datum));
  }
  void write(const std::string& key, OutputArchive& nested) { data_->set({key, Role::kAttribute, {}, nested.data_}); }
  void save_to(const std::string& filename) {
    tessera::serialization::FileSink sink(filename);
    const size_t slash = filename.rfind('/') + 1;
    detail::tj::save(*data_, sink, filename.substr(slash, filename.rfind('.') - slash));
    sink.close();
  }
  void save_to(std::ostream& stream) {
    save_to([&](const void* bytes, size_t n) {
      stream.write(static_cast<const char*>(bytes), std::streamsize(n));
      return stream ? n : 0;
    });
  }
  void save_to(const std::function<size_t(const void*, size_t)>& writer) {
    detail::CallbackSink sink(writer);
    detail::tj::save(*data_, sink, "archive");
  }
  template <class... Ts>
  void operator()(Ts&&... ts) {
    write(std::forward<Ts>(ts)...);
  }

 private:
  using Role = detail::tj::DataArchive::Role;
  void set(const std::string& key, Role role, detail::tj::Datum datum) {
    data_->set({key, role, std::move(datum), nullptr});
  }
  std::shared_ptr<jit::CompilationUnit> unit_;
  std::shared_ptr<detail::tj::DataArchive> data_;
};

class InputArchive final {
 public:
  InputArchive() : data_(std::make_shared<detail::tj::DataArchive>()) {}
  InputArchive(InputArchive&&) = default;
  InputArchive& operator=(InputArchive&&) = default;
  InputArchive(const InputArchive&) = delete;
  InputArchive& operator=(const InputArchive&) = delete;

  // A tensor that is there keeps its identity, its device and whether it requires grad; an undefined one becomes what
  // was written. read() throws Error where there is no such entry, try_read() gives false.
  bool try_read(const std::string& key, Tensor& tensor, bool /*is_buffer*/ = false) {
    const auto* e = data_->find(key);
    if (!e || e->archive || !e->datum.value.is_tensor()) return false;
    const Tensor found = e->datum.value.tensor();
    if (tensor.defined()) {
      const tessera::NoGradGuard no_grad;
      tensor.set_data(found.device() == tensor.device() ? found : found.to(tensor.device()));
    } else {
      tensor = found;
    }
    return true;
  }
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false) {
    TORCH_CHECK(try_read(key, tensor, is_buffer), "No such serialized tensor '", prefix_, key, "'");
  }
  bool try_read(const std::string& key, IValue& value) {
    const auto* e = data_->find(key);
    if (!e || e->archive) return false;
    value = detail::to_ivalue(e->datum);
    return true;
  }
  void read(const std::string& key, IValue& value) {
    TORCH_CHECK(try_read(key, value), "No such serialized IValue '", prefix_, key, "'");
  }
  bool try_read(const std::string& key, InputArchive& archive) {
    const auto* e = data_->find(key);
    if (!e || !e->archive) return false;
    archive.data_ = e->archive;
    archive.prefix_ = prefix_ + key + ".";
    return true;
  }
  void read(const std::string& key, InputArchive& archive) {
    TORCH_CHECK(try_read(key, archive), "No such serialized submodule: '", prefix_, key, "'");
  }

  void load_from(const std::string& filename, std::optional<Device> device = std::nullopt) {
    tessera::serialization::FileSource source(filename);
    load(source, device);
  }
  // The whole stream, wherever it stands.
  void load_from(std::istream& stream, std::optional<Device> device = std::nullopt) {
    stream.clear();
    if (!stream.seekg(0)) stream.clear();  // a pipe
    const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    load_from(bytes.data(), bytes.size(), device);
  }
  void load_from(const char* data, size_t size, std::optional<Device> device = std::nullopt) {
    tessera::serialization::MemorySource source({reinterpret_cast<const uint8_t*>(data), size});
    load(source, device);
  }
  void load_from(const std::function<size_t(uint64_t, void*, size_t)>& reader, const std::function<size_t()>& size,
                 std::optional<Device> device = std::nullopt) {
    detail::CallbackSource source(reader, size());
    load(source, device);
  }

  std::vector<std::string> keys() {
    std::vector<std::string> names;
    for (const auto& e : data_->entries) names.push_back(e.name);
    return names;
  }
  template <class... Ts>
  void operator()(Ts&&... ts) {
    read(std::forward<Ts>(ts)...);
  }

 private:
  void load(tessera::serialization::Source& source, std::optional<Device> device) {
    data_ = detail::tj::load_data(source, device ? std::optional<tessera::Device>(*device) : std::nullopt);
    prefix_.clear();
  }
  std::shared_ptr<detail::tj::DataArchive> data_;
  std::string prefix_;
};

}  // namespace torch::serialize
