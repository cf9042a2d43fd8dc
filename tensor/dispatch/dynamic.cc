#include "tensor/dispatch/dynamic.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace tessera {

constinit DynamicOpHooks g_dynamic_op_hooks;

namespace {

const DynamicOp& dynamic(const OpHeader& op) { return static_cast<const DynamicOp&>(op); }

void dynamic_call(const OpHeader& header, const DispatchKeySet* redispatch_keys, const Value* args, Value* rets);

// A call with lazily conjugated or negated tensors: plain copies take their place, and what was written goes back.
void call_with_plain_tensors(const DynamicOp& op, DispatchKeySet keys, const Value* args, Value* rets) {
  const size_t n = op.schema.arguments.size();
  std::vector<Value> plain(args, args + n);
  for (size_t i = 0; i < n; ++i)
    if (plain[i].is_tensor() && plain[i].tensor().defined())
      plain[i] = Value::of(internal::materialize_bits(plain[i].tensor()));
  dynamic_call(op, &keys, plain.data(), rets);
  for (size_t i = 0; i < n; ++i)
    if ((op.mutable_args >> i & 1) && args[i].is_tensor() && args[i].tensor().defined() &&
        !args[i].tensor().is_same(plain[i].tensor()))
      internal::write_back(args[i].tensor(), plain[i].tensor());
}

[[noreturn]] void no_kernel(const DynamicOp& op, DispatchKey key) {
  std::string available;
  for (int k = 1; k < static_cast<int>(DispatchKey::kNumKeys); ++k)
    if (has_kernel(op, static_cast<DispatchKey>(k)))
      available += std::string(available.empty() ? "" : ", ") + key_name(static_cast<DispatchKey>(k));
  throw NotImplementedError(str_cat("Could not run '", op.schema.qualified_name(), "' with arguments from the '",
                                    key_name(key), "' backend. '", op.schema.qualified_name(),
                                    "' is only available for these backends: [", available,
                                    "]. Register a kernel for this one with torch.library."));
}

void dynamic_call(const OpHeader& header, const DispatchKeySet* redispatch_keys, const Value* args, Value* rets) {
  const DynamicOp& op = dynamic(header);
  TESSERA_CHECK(op.alive, "the operator ", op.schema.qualified_name(),
                " is gone: the Library that defined it was destroyed");
  const size_t n = op.schema.arguments.size(), num_rets = op.schema.returns.size();
  DispatchKeySet from_args;
  for (size_t i = 0; i < n; ++i) {
    if (args[i].is_tensor()) from_args |= internal::keys_of_arg(args[i].tensor());
    if (args[i].is_tensor_list()) from_args |= internal::keys_of_arg(args[i].tensor_list());
  }
  const DispatchKeySet keys =
      redispatch_keys ? *redispatch_keys
                      : DispatchKeySet::from_bits((from_args.bits() | op.forced_keys | thread_state.included) &
                                                  ~thread_state.excluded);
  const Step last = explain_dispatch(op, keys).back();
  constexpr DispatchKeySet bits = DispatchKeySet(DispatchKey::kConjugate) | DispatchKey::kNegative;
  if (keys.has_any(bits) && last.key < DispatchKey::kConjugate)
    return call_with_plain_tensors(op, keys - bits, args, rets);
  DispatchKeySet rest = (keys & DispatchKeySet::below(last.key)) | last.key;
  if (std::string_view(last.what) == "no kernel") {
    if (last.key != DispatchKey::kUndefined || !has_kernel(op, DispatchKey::kCPU)) no_kernel(op, last.key);
    rest = DispatchKeySet(DispatchKey::kCPU);  // no tensor decides
  }
  if ((keys | from_args).has(DispatchKey::kForward) && g_dynamic_op_hooks.before_kernel)
    g_dynamic_op_hooks.before_kernel(op, last.key, args, n);
  call_boxed_kernel(CallContext{&op, rest}, args, n, rets, num_rets);
}
constexpr TypedAdapter<void()> kDynamicAdapter = {{&dynamic_call}, nullptr};

// Kernels that came before their operator.
struct Waiting {
  std::string name;
  DispatchKey key;
  RuntimeKernel kernel;
};
struct State {
  std::mutex mutex;
  std::map<std::string, DynamicOp*, std::less<>> ops;
  std::vector<Waiting> waiting;
  std::vector<Registration> kept;
  const OpInfo* (*find_linked)(std::string_view) = nullptr;
  std::atomic<uint64_t> changes{0};
};
State& state() {
  static auto* s = new State;
  return *s;
}

// What fits in OpInfo's offsets, with room for the short texts.
constexpr size_t kMostText = 65'000;

void write_texts(DynamicOp* op, const std::string& tags, const char* source) {
  op->texts.assign(1, '\0');  // offset 0: nothing written
  for (const auto& [which, written] :
       std::initializer_list<std::pair<OpText, std::string>>{{OpText::kSchema, op->schema.str()},
                                                             {OpText::kTags, tags},
                                                             {OpText::kSource, source},
                                                             {OpText::kGradients, "*"}}) {
    op->info_data.offsets[static_cast<int>(which)] = static_cast<uint16_t>(op->texts.size());
    op->texts.append(written).push_back('\0');
  }
  op->info_data.pool = op->texts.c_str();
}

}  // namespace

const OpInfo& define_op(FunctionSchema schema, const std::string& tags, const char* source) {
  auto made = std::make_unique<DynamicOp>();
  made->schema = std::move(schema);
  const std::string qualified = made->schema.qualified_name();
  TESSERA_CHECK(!made->schema.name_space().empty(), "an operator needs a namespace, got the schema ",
                made->schema.str());
  TESSERA_CHECK(!find_registered_op(qualified), "Tried to register an operator (", made->schema.str(),
                ") with the same name and overload name multiple times: ", qualified, " is defined already");
  const size_t written = made->schema.str().size() + tags.size() + std::strlen(source);
  TESSERA_CHECK(written < kMostText, "the schema, tags and place of an operator have ", kMostText,
                " bytes at most, those of ", qualified, " have ", written, ": shorten its names or its list of tags");
  DynamicOp* op = made.release();
  op->name_text = op->schema.name;
  op->overload_text = op->schema.overload;
  op->name = op->name_text.c_str();
  op->overload = op->overload_text.c_str();
  op->info = &op->info_data;
  op->mutable_args = 0;
  op->flags = 0;
  for (size_t i = 0; i < op->schema.arguments.size(); ++i) {
    const SchemaArgument& a = op->schema.arguments[i];
    if (!a.is_write()) continue;
    op->mutable_args |= 1u << i;
    if (a.kwarg_only && a.name == "out") op->flags |= kIsOut;
  }
  op->info_data = {op, &kDynamicAdapter};
  write_texts(op, tags, source);
  std::vector<Waiting> kernels;
  {
    std::lock_guard lock(state().mutex);
    state().ops[qualified] = op;
    auto& waiting = state().waiting;
    for (size_t i = 0; i < waiting.size();) {
      if (waiting[i].name != qualified) {
        ++i;
        continue;
      }
      kernels.push_back(std::move(waiting[i]));
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  ++state().changes;
  for (Waiting& w : kernels) register_kernel_by_name(w.name, w.key, std::move(w.kernel));
  if (g_dynamic_op_hooks.on_change) g_dynamic_op_hooks.on_change(op->info_data, true);
  return op->info_data;
}

void undefine_op(std::string_view qualified_name) {
  DynamicOp* op = nullptr;
  {
    std::lock_guard lock(state().mutex);
    const auto it = state().ops.find(qualified_name);
    if (it == state().ops.end()) return;
    op = it->second;
    op->alive = false;
    state().ops.erase(it);
  }
  ++state().changes;
  if (g_dynamic_op_hooks.on_change) g_dynamic_op_hooks.on_change(op->info_data, false);
}

const OpInfo* find_dynamic_op(std::string_view qualified_name) {
  std::lock_guard lock(state().mutex);
  const auto it = state().ops.find(qualified_name);
  return it == state().ops.end() ? nullptr : &it->second->info_data;
}
std::vector<const OpInfo*> dynamic_ops() {
  std::lock_guard lock(state().mutex);
  std::vector<const OpInfo*> all;
  for (const auto& [name, op] : state().ops) all.push_back(&op->info_data);
  return all;
}

std::vector<const OpInfo*> dynamic_overloads(std::string_view name) {
  std::lock_guard lock(state().mutex);
  std::vector<const OpInfo*> all;
  for (auto it = state().ops.lower_bound(name); it != state().ops.end() && it->first.starts_with(name); ++it)
    if (it->first.size() == name.size() || it->first[name.size()] == '.') all.push_back(&it->second->info_data);
  return all;
}
uint64_t dynamic_op_changes() { return state().changes; }

void set_linked_ops(const OpInfo* (*find)(std::string_view)) { state().find_linked = find; }
const OpInfo* find_registered_op(std::string_view qualified_name) {
  if (const OpInfo* info = find_dynamic_op(qualified_name)) return info;
  return state().find_linked ? state().find_linked(qualified_name) : nullptr;
}

void register_kernel_by_name(const std::string& qualified_name, DispatchKey key, RuntimeKernel kernel) {
  const OpInfo* info = find_registered_op(qualified_name);
  if (!info) {
    std::lock_guard lock(state().mutex);
    state().waiting.push_back({qualified_name, key, std::move(kernel)});
    return;
  }
  Registration r = register_kernel(*info->op, key, std::move(kernel), info->adapter->trampoline());
  std::lock_guard lock(state().mutex);
  state().kept.push_back(std::move(r));
}

}  // namespace tessera
