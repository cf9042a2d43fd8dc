// Programs from text, for hosts in C++: functions that were compiled from a source, and modules that get their members
// and methods one by one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jit/data.h"

namespace tessera::jit::programs {

using Named = std::vector<std::pair<std::string, Value>>;

// The functions of a source ("def f(x): ..."), compiled. SyntaxError and type errors as Error, with the line.
// The names that such a source may use: its own functions, Python's builtins, torch.NAME and torch.ops.NS.NAME.
IntrusivePtr<RefCounted> compile(const std::string& source);
// Adds the functions of another source to them. Error for a name that is taken; then nothing is added.
void add(RefCounted& functions, const std::string& source);
std::vector<std::string> function_names(const RefCounted& functions);
// Error where there is none of that name, or the arguments do not fit.
Value call_function(RefCounted& functions, const std::string& name, std::vector<Value> args, const Named& named = {});
std::string function_schema(RefCounted& functions, const std::string& name);
std::string function_graph(RefCounted& functions, const std::string& name);

// A module without anything but `training`, which is true.
Value new_module(const std::string& class_name);
// A new attribute of a module of new_module(). `type` as an annotation ("List[int]"); empty: the value's own.
// Error for a name that is taken or a value of another type.
void add_member(const Value& module, const std::string& name, DataArchive::Role role, Value value,
                const std::string& type = "");
// Methods from a source; `self` is the module. They may call each other. Error as of compile(); then none is added.
void add_methods(const Value& module, const std::string& source);
std::string method_schema(const Value& module, const std::string& method);
std::string method_graph(const Value& module, const std::string& method);
// freeze.h; `kept`: more methods than forward, and attributes.
Value frozen(const Value& module, const std::vector<std::string>& kept);

}  // namespace tessera::jit::programs
