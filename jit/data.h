// Archives of data without programs, as hosts that have lists and dicts of their own write and read them: names with
// values, tensors and further archives. In the file they are modules without methods.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serialization/file.h"
#include "tensor/dispatch/value.h"

namespace tessera::jit {

// A value of a program with its containers laid open.
struct Datum {
  enum class Kind : uint8_t { kScalar, kList, kTuple, kDict };
  Kind kind = Kind::kScalar;
  Value value;               // of a scalar: None, a number, a string, a tensor, an instance ...
  std::vector<Datum> items;  // of a dict: keys and values in turn
  std::string type;          // of a list or dict: "List[int]"; empty: it follows from the first item
};
Datum datum_of(const Value& v);
// TypeError for a `type` that does not fit.
Value value_of(const Datum& d);
// As a type of a schema has it ("Dict(str, Tensor)"): empty containers are of that type, too.
Value value_of(const Datum& d, std::string_view schema_type);

struct DataArchive {
  enum class Role : uint8_t { kAttribute, kParameter, kBuffer };
  struct Entry {
    std::string name;
    Role role = Role::kAttribute;
    Datum datum;
    std::shared_ptr<DataArchive> archive;  // instead of a datum
  };
  std::vector<Entry> entries;  // in the order of writing

  Entry* find(const std::string& name);
  // Adds an entry, or replaces the one of that name.
  void set(Entry entry);
};
// What an instance of a module holds.
std::shared_ptr<DataArchive> data_of(const Value& module);
void save(const DataArchive& data, serialization::Sink& sink, const std::string& name);
// Error for a file that is no sound archive.
std::shared_ptr<DataArchive> load_data(serialization::Source& source, std::optional<Device> device = {});

// Programs for such hosts: `module` is an instance that load_module() gave, or one that it holds.
Value load_module(serialization::Source& source, std::optional<Device> device,
                  std::map<std::string, std::string>* extra = nullptr);  // the keys say which files to read besides
void save_module(const Value& module, serialization::Sink& sink, const std::string& name,
                 const std::map<std::string, std::string>& extra = {});
Value copy_module(const Value& module);
std::string class_name(const Value& module);
struct Member {
  std::string name;
  DataArchive::Role role;
  bool is_module;
  Value value;
};
std::vector<Member> members(const Value& module);
void set_member(const Value& module, const std::string& name, const Value& value);
std::vector<std::string> method_names(const Value& module);
// Error for a call that does not fit the method.
Value call_method(const Value& module, const std::string& method, std::vector<Value> args,
                  const std::vector<std::pair<std::string, Value>>& named = {});

// One value as an archive in memory, as torch.save() writes values without a class of their own, and back.
std::vector<char> pickle_archive(const Datum& d);
Datum unpickle_archive(std::span<const uint8_t> bytes);

}  // namespace tessera::jit
