// Operators that are defined while the program runs: torch.library, TORCH_LIBRARY. One list for the process, whoever
// defines them.
#pragma once

#include <string>
#include <string_view>

#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/runtime.h"
#include "tensor/dispatch/schema.h"

namespace tessera {

// Has no kernels of its own: what it runs was registered. Never freed, since calls and other objects may still refer to
// it.
struct DynamicOp : OpHeader {
  AnyKernel kernels[kNumSlots] = {};
  std::string name_text, overload_text, texts;
  OpInfo info_data{};
  FunctionSchema schema;
  bool alive = true;
};

// Makes an operator. Error: no namespace, or one of that name is there. source: who defined it.
const OpInfo& define_op(FunctionSchema schema, const std::string& tags, const char* source);
// Calls of it are errors from now on.
void undefine_op(std::string_view qualified_name);
const OpInfo* find_dynamic_op(std::string_view qualified_name);  // "ns::name.overload", or null
std::vector<const OpInfo*> dynamic_ops();
std::vector<const OpInfo*> dynamic_overloads(std::string_view name);  // of "ns::name"
uint64_t dynamic_op_changes();  // how often one has come or gone: what was looked up before may be out of date

// The operators that are linked, for lookups by name; set by who links their registries.
void set_linked_ops(const OpInfo* (*find)(std::string_view qualified_name));
const OpInfo* find_registered_op(std::string_view qualified_name);  // of either kind

// A kernel for an operator that may be defined later. Gives nothing back: it stays.
void register_kernel_by_name(const std::string& qualified_name, DispatchKey key, RuntimeKernel kernel);

// The host language's part. on_change: an operator has come (or goes); before_kernel: a call has found its kernel at
// `key`.
struct DynamicOpHooks {
  void (*on_change)(const OpInfo& info, bool defined) = nullptr;
  void (*before_kernel)(const DynamicOp& op, DispatchKey key, const Value* args, size_t num_args) = nullptr;
};
extern constinit DynamicOpHooks g_dynamic_op_hooks;

}  // namespace tessera
