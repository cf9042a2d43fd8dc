// Operators and classes of one's own: TORCH_LIBRARY, TORCH_LIBRARY_FRAGMENT, TORCH_LIBRARY_IMPL.
#pragma once

#include <functional>

#include "ATen/core/dispatch/Dispatcher.h"
#include "torch/custom_class.h"

namespace c10 {
enum class AliasAnalysisKind { INTERNAL_SPECIAL_CASE, CONSERVATIVE, FROM_SCHEMA, PURE_FUNCTION };
template <class F, F* f>
struct CompileTimeFunctionPointer {
  using Signature = F;
};
}  // namespace c10
namespace at {
enum class Tag {
  core,
  data_dependent_output,
  dynamic_output_shape,
  generated,
  inplace_view,
  maybe_aliasing_or_mutating,
  needs_contiguous_strides,
  needs_exact_strides,
  needs_fixed_stride_order,
  flexible_layout,
  nondeterministic_bitwise,
  nondeterministic_seeded,
  pointwise,
  pt2_compliant_tag,
  view_copy,
  reduction,
  cudagraph_unsafe
};
}  // namespace at

#define TORCH_FN_TYPE(f) \
  ::c10::CompileTimeFunctionPointer<std::remove_pointer_t<std::remove_reference_t<decltype(f)>>, f>
#define TORCH_FN(f) TORCH_FN_TYPE(f)()

extern "C" __attribute__((weak)) int Py_IsInitialized();

namespace torch {

// A kernel: a function, a functor, a boxed function, or "nothing here, go on".
class CppFunction {
 public:
  template <class F>
  requires(!std::is_base_of_v<CppFunction, std::remove_cvref_t<F>>) CppFunction(F&& f) { set(std::forward<F>(f)); }
  template <class F, F* f>
  CppFunction(c10::CompileTimeFunctionPointer<F, f>) {
    set(f);
  }
  static CppFunction makeFallthrough() {
    CppFunction k;
    k.kernel_.fallthrough = true;
    return k;
  }
  static CppFunction makeNamedNotSupported() { return makeFallthrough(); }
  // void f(const OperatorHandle&, Stack*), or with a DispatchKeySet in between.
  template <auto f>
  static CppFunction makeFromBoxedFunction() {
    return boxed([](const c10::OperatorHandle& op, c10::DispatchKeySet keys, c10::Stack* stack) {
      if constexpr (std::is_invocable_v<decltype(f), const c10::OperatorHandle&, c10::DispatchKeySet, c10::Stack*>)
        f(op, keys, stack);
      else
        f(op, stack);
    });
  }
  template <class Functor>
  static CppFunction makeFromBoxedFunctor(std::unique_ptr<Functor> functor) {
    return boxed([functor = std::shared_ptr<Functor>(std::move(functor))](const c10::OperatorHandle& op,
                                                                          c10::DispatchKeySet keys, c10::Stack* stack) {
      (*functor)(op, keys, stack);
    });
  }
  template <class F>
  static CppFunction makeFromUnboxedFunction(F* f) {
    return CppFunction(f);
  }
  template <class F>
  static CppFunction makeFromUnboxedLambda(F&& f) {
    return CppFunction(std::forward<F>(f));
  }
  CppFunction&& debug(std::string) && { return std::move(*this); }

  const tessera::RuntimeKernel& kernel() const { return kernel_; }
  const std::function<std::string(const std::string&)>& inferred_schema() const { return schema_; }
  std::optional<c10::DispatchKey> key;

 private:
  CppFunction() = default;
  template <class F>
  void set(F&& f) {
    using Callable = std::decay_t<F>;
    using Calls = c10::boxing::Function<typename c10::boxing::signature<Callable>::type>;
    schema_ = &Calls::inferred_schema;
    hold(Callable(std::forward<F>(f)),
         [](void* context, const tessera::OpHeader&, tessera::DispatchKeySet keys, const tessera::Value* args, size_t n,
            tessera::Value* rets, size_t) { Calls::call(*static_cast<Callable*>(context), keys, args, n, rets); });
  }
  template <class F>
  static CppFunction boxed(F f) {
    CppFunction k;
    k.hold(std::move(f), [](void* context, const tessera::OpHeader& op, tessera::DispatchKeySet keys,
                            const tessera::Value* args, size_t n, tessera::Value* rets, size_t num_rets) {
      c10::Stack stack;
      for (size_t i = 0; i < n; ++i) stack.push_back(c10::boxing::to_ivalue(args[i]));
      const c10::OperatorHandle handle(op.info);
      (*static_cast<F*>(context))(handle, keys, &stack);
      TORCH_CHECK(stack.size() == num_rets, "a boxed kernel of ", op.name, " left ", stack.size(),
                  " values on the stack, expected ", num_rets);
      for (size_t i = 0; i < num_rets; ++i)
        rets[i] = c10::boxing::to_value(stack[i], handle.schema().plain().returns[i].type);
    });
    return k;
  }
  template <class F>
  void hold(F f, tessera::BoxedKernel call) {
    kernel_.boxed = tessera::make_intrusive<tessera::BoxedEntry>();
    kernel_.boxed->kernel = call;
    kernel_.boxed->context = new F(std::move(f));
    kernel_.boxed->destroy = [](void* p) { delete static_cast<F*>(p); };
  }

  tessera::RuntimeKernel kernel_;
  std::function<std::string(const std::string&)> schema_;
};

template <class F>
CppFunction dispatch(c10::DispatchKey key, F&& f) {
  CppFunction k(std::forward<F>(f));
  k.key = key;
  return k;
}
template <class F>
CppFunction dispatch(c10::DeviceType device, F&& f) {
  return dispatch(
      static_cast<c10::DispatchKey>(tessera::backend_key(c10::detail::kDeviceTypes[static_cast<int>(device)])),
      std::forward<F>(f));
}
inline c10::FunctionSchema schema(const char* text, c10::AliasAnalysisKind = c10::AliasAnalysisKind::FROM_SCHEMA,
                                  bool = false) {
  return jit::parseSchema(text);
}

namespace detail {
struct TorchLibraryInit;
}
// What the macros below give to their blocks.
class Library {
 public:
  enum Kind { DEF, IMPL, FRAGMENT };
  Library(Kind kind, std::string ns, std::optional<c10::DispatchKey> key, const char* = "", uint32_t = 0)
      : kind_(kind), ns_(std::move(ns)), key_(key) {}
  Library(Library&&) = default;
  Library& operator=(Library&&) = delete;
  // Its operators and kernels go with it; those of a macro's block never do.
  ~Library() {
    if (&Py_IsInitialized && !Py_IsInitialized()) return;  // the program ends, and nobody is left to be told
    for (const std::string& name : defined_) tessera::undefine_op(name);
  }

  // By a schema text, with or without a function; or by a name with a function whose types make the schema.
  Library& def(const char* text, const std::vector<at::Tag>& tags = {}) & {
    define(tessera::parse_schema(qualified(text)), tags);
    return *this;
  }
  Library& def(const std::string& text, const std::vector<at::Tag>& tags = {}) & { return def(text.c_str(), tags); }
  Library& def(c10::FunctionSchema s, const std::vector<at::Tag>& tags = {}) & { return def(c10::str(s), tags); }
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, std::vector<at::Tag>>) Library& def(
      const char* text, F&& f, const std::vector<at::Tag>& tags = {}) & {
    CppFunction kernel(std::forward<F>(f));
    const std::string whole = qualified(text);
    const bool is_schema = whole.find('(') != std::string::npos;
    TORCH_CHECK(is_schema || kernel.inferred_schema(), "a boxed function needs a schema: ", text);
    tessera::FunctionSchema s = tessera::parse_schema(is_schema ? whole : kernel.inferred_schema()(whole));
    const std::string name = s.qualified_name();
    define(std::move(s), tags);
    add(name, std::move(kernel), c10::DispatchKey::CompositeImplicitAutograd);
    return *this;
  }
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, std::vector<at::Tag>>) Library& def(const std::string& text,
                                                                                       F&& f) & {
    return def(text.c_str(), std::forward<F>(f));
  }
  template <class F>
  Library& def(c10::FunctionSchema s, F&& f) & {
    return def(c10::str(s).c_str(), std::forward<F>(f));
  }
  template <class F>
  Library& impl(const char* name, F&& f) & {
    add(qualified(name), CppFunction(std::forward<F>(f)), key_.value_or(c10::DispatchKey::CompositeImplicitAutograd));
    return *this;
  }
  template <class F>
  Library& impl(const std::string& name, F&& f) & {
    return impl(name.c_str(), std::forward<F>(f));
  }
  template <class F>
  Library& impl(const char* name, c10::DispatchKey key, F&& f) & {
    return impl(name, dispatch(key, std::forward<F>(f)));
  }
  template <class F>
  Library& impl_UNBOXED(const char* name, F* f) & {
    return impl(name, f);
  }
  // For all operators at this key.
  template <class F>
  Library& fallback(F&& f) & {
    CppFunction kernel(std::forward<F>(f));
    const auto key = kernel.key ? kernel.key : key_;
    TORCH_CHECK(key, "a fallback belongs to a dispatch key: TORCH_LIBRARY_IMPL(_, KEY, m)");
    kept_.push_back(tessera::register_fallback(c10::to_key(*key), kernel.kernel()));
    return *this;
  }
  // A class of this namespace: torch/custom_class.h.
  template <class Class>
  ::torch::class_<Class> class_(const std::string& name, std::string doc = "") {
    TORCH_CHECK(kind_ != IMPL, "class_(): classes are registered in TORCH_LIBRARY and TORCH_LIBRARY_FRAGMENT blocks");
    return ::torch::class_<Class>(ns_, name, std::move(doc));
  }
  Library& set_python_module(const char*, const char* = "") { return *this; }
  Library& impl_abstract_pystub(const char*, const char* = "") { return *this; }

 private:
  std::string qualified(const std::string& text) const {
    const size_t colons = text.find("::"), end = text.find_first_of("(.");
    if (colons != std::string::npos && (end == std::string::npos || colons < end)) {
      TORCH_CHECK(kind_ == IMPL || text.substr(0, colons) == ns_, "Explicitly provided namespace (",
                  text.substr(0, colons),
                  ") in schema string does not match namespace of enclosing TORCH_LIBRARY block (", ns_, ").");
      return text;
    }
    return ns_ + "::" + text;
  }
  void define(tessera::FunctionSchema s, const std::vector<at::Tag>& tags) {
    TORCH_CHECK(kind_ != IMPL, "def(): operators are defined in TORCH_LIBRARY and TORCH_LIBRARY_FRAGMENT blocks");
    static constexpr const char* kNames[] = {"core",
                                             "data_dependent_output",
                                             "dynamic_output_shape",
                                             "generated",
                                             "inplace_view",
                                             "maybe_aliasing_or_mutating",
                                             "needs_contiguous_strides",
                                             "needs_exact_strides",
                                             "needs_fixed_stride_order",
                                             "flexible_layout",
                                             "nondeterministic_bitwise",
                                             "nondeterministic_seeded",
                                             "pointwise",
                                             "pt2_compliant_tag",
                                             "view_copy",
                                             "reduction",
                                             "cudagraph_unsafe"};
    std::string words;
    for (const at::Tag t : tags) words += (words.empty() ? "" : " ") + std::string(kNames[static_cast<int>(t)]);
    const std::string name = s.qualified_name();
    tessera::define_op(std::move(s), words, "TORCH_LIBRARY");
    if (!forever_) defined_.push_back(name);
  }
  void add(const std::string& name, CppFunction f, c10::DispatchKey key) {
    const auto at = c10::to_key(f.key.value_or(key));
    const tessera::OpInfo* op = forever_ ? nullptr : tessera::find_registered_op(name);
    if (op)
      kept_.push_back(tessera::register_kernel(*op->op, at, f.kernel(), op->adapter->trampoline()));
    else  // stays, also for an operator that comes later
      tessera::register_kernel_by_name(name, at, f.kernel());
  }

  Kind kind_;
  std::string ns_;
  std::optional<c10::DispatchKey> key_;
  std::vector<tessera::Registration> kept_;
  std::vector<std::string> defined_;
  bool forever_ = false;
  friend detail::TorchLibraryInit;
};

namespace detail {
struct TorchLibraryInit {
  TorchLibraryInit(Library::Kind kind, void (*fill)(Library&), const char* ns, std::optional<c10::DispatchKey> key,
                   const char* file, uint32_t line)
      : library(kind, ns, key, file, line) {
    library.forever_ = true;
    fill(library);
  }
  Library library;
};
}  // namespace detail

}  // namespace torch

#define TESSERA_LIBRARY(kind, ns, key, function, object, m)                                                        \
  static void function(::torch::Library&);                                                                         \
  static const ::torch::detail::TorchLibraryInit object(::torch::Library::kind, &function, C10_STRINGIZE(ns), key, \
                                                        __FILE__, __LINE__);                                       \
  void function(::torch::Library& m)
#define TORCH_LIBRARY(ns, m)                                                         \
  TESSERA_LIBRARY(DEF, ns, ::std::nullopt, C10_CONCATENATE(TORCH_LIBRARY_init_, ns), \
                  C10_CONCATENATE(TORCH_LIBRARY_static_init_, ns), m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) TESSERA_LIBRARY_FRAGMENT(ns, m, __COUNTER__)
#define TESSERA_LIBRARY_FRAGMENT(ns, m, uid)                                                        \
  TESSERA_LIBRARY(FRAGMENT, ns, ::std::nullopt, C10_CONCATENATE(TORCH_LIBRARY_FRAGMENT_init_, uid), \
                  C10_CONCATENATE(TORCH_LIBRARY_FRAGMENT_static_init_, uid), m)
#define TORCH_LIBRARY_IMPL(ns, k, m) TESSERA_LIBRARY_IMPL(ns, k, m, __COUNTER__)
#define TESSERA_LIBRARY_IMPL(ns, k, m, uid)                              \
  TESSERA_LIBRARY(IMPL, ns, ::std::make_optional(::c10::DispatchKey::k), \
                  C10_CONCATENATE(TORCH_LIBRARY_IMPL_init_, uid),        \
                  C10_CONCATENATE(TORCH_LIBRARY_IMPL_static_init_, uid), m)
// A block's registrations in an object of one's own, which ends them.
#define MAKE_TORCH_LIBRARY(ns) \
  ::torch::Library(::torch::Library::DEF, C10_STRINGIZE(ns), ::std::nullopt, __FILE__, __LINE__)
#define MAKE_TORCH_LIBRARY_IMPL(ns, k)                                                                               \
  ::torch::Library(::torch::Library::IMPL, C10_STRINGIZE(ns), ::std::make_optional(::c10::DispatchKey::k), __FILE__, \
                   __LINE__)
// All operators are in every build.
#define TORCH_SELECTIVE_NAME(name) name
#define TORCH_SELECTIVE_SCHEMA(schema) schema
