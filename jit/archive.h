// TorchScript archives: a zip file with the text of a program (code/), the state of its modules (data.pkl) and the
// tensors.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jit/function.h"
#include "serialization/file.h"

namespace tessera::jit {

// What was loaded: the instance of the module, which holds all that it needs.
struct Loaded {
  Value module;
  std::map<std::string, std::string> extra;
};
// Reads an archive; tensors come to `device` where one is given. `extra`: names of files to read besides. Error for a
// file that is no sound archive; nothing of it is run.
Loaded load(serialization::Source& source, std::optional<Device> device = {},
            const std::vector<std::string>& extra = {});
Loaded load(const std::string& path);
// Writes a module, or a function as a module whose forward it is.
void save(const Value& module, serialization::Sink& sink, const std::string& name,
          const std::map<std::string, std::string>& extra = {});
Value module_of(Function& f);

}  // namespace tessera::jit
