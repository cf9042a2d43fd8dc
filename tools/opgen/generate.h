// The generators: from checked tables to the text of files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/opgen/model.h"

namespace tessera::opgen {

struct Library {
  std::string name;     // of the op_library: "ops"
  std::string package;  // "tensor/ops": where the generated headers are included from
  std::string header;   // "ops.h": the one with every op of the library
  int shards = 1;
  int autograd_shards = 1;
  std::vector<Family> families;
};

using Files = std::map<std::string, std::string>;  // base name -> text

void generate_ops(const Library& library, Files* files);       // <family>_ops.h, _kernels.h, _ops_N.cc, <library>.h
void generate_autograd(const Library& library, Files* files);  // <family>_autograd_N.cc
void generate_forward(const Library& library, Files* files);   // <family>_forward_N.cc
void generate_registry(const Library& library, Files* files);  // <family>_registry_N.cc, <library>_registry.{h,cc}
std::string generate_methods(const std::vector<Family>& families);  // tensor_methods.inc
// The registry of some operators alone, by their names ("aten::add.Tensor"): a definition of
// exported::linked_operators(). Names that no table has are errors.
std::string generate_operators(const std::vector<Family>& families, const std::vector<std::string>& names,
                               Diagnostics* diagnostics);
// Functions without the prefix of their module, in a namespace of its name: linalg::solve for linalg_solve;
// signal::windows::hann for windows_hann of signal.windows.
std::string generate_names(const std::vector<Family>& families, const std::string& module);
// What autocast does with each operator that has a policy: a function that fills their Autocast slots.
std::string generate_autocast(const std::vector<Family>& families);
// The documented C++ names (//frontend): op objects, methods of at::Tensor, functions.
std::string generate_frontend_objects(const std::vector<Family>& families);
std::string generate_frontend_methods(const std::vector<Family>& families);
std::string generate_frontend_functions(const std::vector<Family>& families);
std::string generate_stubs(const std::vector<Family>& families);      // .pyi
std::string generate_reference(const std::vector<Family>& families);  // Markdown

// The forms of a family that fall into one of `shards` files.
std::vector<const OpForm*> shard(const Family& family, int index, int shards);
std::vector<const Entry*> shard_entries(const Family& family, int index, int shards);

// The C++ function and method of an op.
std::string api_params(const OpForm& form, bool method, bool defaults);
std::string file_comment(const std::string& source);

}  // namespace tessera::opgen
