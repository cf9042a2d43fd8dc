// torch::save and torch::load of tensors, vectors of tensors, modules and optimizers; pickled values.
#pragma once

#include <torch/serialize/archive.h>
#include <torch/types.h>

namespace torch::nn {
class Module;
}

namespace torch {
namespace serialize {

// Tensors by themselves are entries "0".
inline OutputArchive& operator<<(OutputArchive& archive, const Tensor& tensor) {
  archive.write("0", tensor);
  return archive;
}
inline InputArchive& operator>>(InputArchive& archive, Tensor& tensor) {
  archive.read("0", tensor);
  return archive;
}
template <class M>
requires std::is_base_of_v<nn::Module, M> OutputArchive& operator<<(OutputArchive& archive,
                                                                    const std::shared_ptr<M>& module) {
  TORCH_CHECK(module != nullptr, "Cannot serialize empty module");
  module->save(archive);
  return archive;
}
template <class M>
requires std::is_base_of_v<nn::Module, M> InputArchive& operator>>(InputArchive& archive,
                                                                   const std::shared_ptr<M>& module) {
  TORCH_CHECK(module != nullptr, "Cannot deserialize empty module");
  module->load(archive);
  return archive;
}
// Holders of modules: anything with ptr().
template <class H>
requires requires(const H& h) { h.ptr()->is_serializable(); }
OutputArchive& operator<<(OutputArchive& archive, const H& holder) { return archive << holder.ptr(); }
template <class H>
requires requires(H& h) { h.ptr()->is_serializable(); }
InputArchive& operator>>(InputArchive& archive, H& holder) { return archive >> holder.ptr(); }

}  // namespace serialize

// To a file, a stream or a function that takes (bytes, count).
template <class Value, class... SaveToArgs>
void save(const Value& value, SaveToArgs&&... args) {
  serialize::OutputArchive archive;
  using namespace serialize;
  archive << value;
  archive.save_to(std::forward<SaveToArgs>(args)...);
}
template <class... SaveToArgs>
void save(const std::vector<Tensor>& tensors, SaveToArgs&&... args) {
  serialize::OutputArchive archive;
  for (size_t i = 0; i < tensors.size(); ++i) archive.write(std::to_string(i), tensors[i]);
  archive.save_to(std::forward<SaveToArgs>(args)...);
}
// From a file, a stream, bytes or functions that read; a device may follow.
template <class Value, class... LoadFromArgs>
void load(Value& value, LoadFromArgs&&... args) {
  serialize::InputArchive archive;
  using namespace serialize;
  archive.load_from(std::forward<LoadFromArgs>(args)...);
  archive >> value;
}
// Adds the tensors of a file to the list.
template <class... LoadFromArgs>
void load(std::vector<Tensor>& tensors, LoadFromArgs&&... args) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<LoadFromArgs>(args)...);
  for (size_t i = 0;; ++i) {
    Tensor t;
    if (!archive.try_read(std::to_string(i), t)) break;
    tensors.push_back(std::move(t));
  }
}

// A value as Python's torch.save writes and torch.load reads it, and back.
inline std::vector<char> pickle_save(const IValue& value) {
  return tessera::jit::pickle_archive(serialize::detail::to_datum(value));
}
inline IValue pickle_load(const std::vector<char>& data) {
  return serialize::detail::to_ivalue(
      tessera::jit::unpickle_archive({reinterpret_cast<const uint8_t*>(data.data()), data.size()}));
}

namespace jit {
using torch::pickle_load;
using torch::pickle_save;
}  // namespace jit

}  // namespace torch
