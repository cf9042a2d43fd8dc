// Archives of data without programs, as hosts that have lists and dicts of their own write and read them: names with
// values, tensors and further archives. In the file they are modules without methods.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
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

// One value as an archive in memory, as torch.save() writes values without a class of their own, and back.
std::vector<char> pickle_archive(const Datum& d);
Datum unpickle_archive(std::span<const uint8_t> bytes);

}  // namespace tessera::jit
