// How schema types look in C++ (arguments, results, saved values), defaults, and names that C++ reserves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/dispatch/schema.h"
#include "tools/opgen/model.h"

namespace tessera::opgen {

// The C++ type of an argument; nullopt where there is none (Any, Stream ...).
std::optional<std::string> cpp_arg_type(const SchemaType& type);
// Of the results together; nullopt as above.
std::optional<std::string> cpp_return_type(const FunctionSchema& schema);
std::optional<std::string> cpp_result_type(const SchemaArgument& result);
// An owned type that converts back to the argument type, and the expression that makes it from the argument.
std::string cpp_saved_type(const SchemaType& type);
std::string cpp_save_expr(const SchemaType& type, const std::string& name);
// The default as a C++ expression; nullopt if it can't be one.
std::optional<std::string> cpp_default(const SchemaType& type, const SchemaValue& value);
// A name that C++ accepts: keywords get an underscore.
std::string cpp_identifier(const std::string& name);
std::string cpp_string(std::string_view text);  // quoted

bool is_tensor(const SchemaType& type);       // Tensor, Tensor?
bool is_tensor_list(const SchemaType& type);  // Tensor[], Tensor?[], and optional ones

std::string param_list(const OpForm& form, bool with_names);  // "const Tensor& self, int64_t dim"
std::string arg_names(const OpForm& form);                    // "self, dim"
std::string kernel_params(const OpForm& form);                // "CallContext ctx, const Tensor& self"
std::string signature(const OpForm& form);                    // "Tensor(const Tensor&, int64_t)"

// Text with "#line" notes: `back` lines are replaced when the file is written.
std::string line_note(const Entry& entry, int line);
inline constexpr char kLineBack[] = "#line @\n";
std::string resolve_line_notes(const std::string& text, const std::string& file_name);

}  // namespace tessera::opgen
