// What a program needs to be linked: the operators that it calls.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "export/json.h"
#include "serialization/file.h"
#include "serialization/zip.h"

namespace tessera::exported {

// The description of the program in an archive. Error if there is none.
std::string read_description(serialization::ZipReader& zip);
// "torch.ops.aten.add.Tensor" -> "aten::add.Tensor"; "" for what is no operator of a registry.
std::string operator_name(std::string_view target);
// The functions of numbers and of sizes that programs call, which are part of this library.
bool is_own_function(std::string_view target);
// The operators that make the archive's sparse tensors: of indices, and of compressed indices.
inline constexpr const char *kSparseCoo = "aten::sparse_coo_tensor.indices_size",
                            *kSparseCompressed = "aten::sparse_compressed_tensor.comp_plain_value_size";
// The names of all operators that the program in an archive calls, or its tensors are made by: "aten::add.Tensor".
std::set<std::string> operators_of(serialization::Source& source);

}  // namespace tessera::exported
