// Operators of one's own by calls: RegisterOperators, the older form of TORCH_LIBRARY's blocks.
#pragma once

#include "torch/library.h"

namespace c10 {

// Defines the operators for which op() was called on it; they go with the object, which is mostly a static one.
class RegisterOperators {
 public:
  // The schema, and kernels for dispatch keys (a catch-all kernel: for whatever has no other one).
  class Options {
   public:
    Options&& schema(const std::string& text) && {
      schema_ = text;
      return std::move(*this);
    }
    template <class F, F* f>
    Options&& kernel(DispatchKey key) && {
      return std::move(*this).add(key, f);
    }
    template <class Functor, class... A>
    requires std::is_class_v<Functor> Options && kernel(DispatchKey key, A&&... args) && {
      return std::move(*this).add(key, Functor(std::forward<A>(args)...));
    }
    template <class F>
    Options&& kernel(DispatchKey key, F&& f) && {
      return std::move(*this).add(key, std::forward<F>(f));
    }
    template <class F, F* f>
    Options&& catchAllKernel() && {
      return std::move(*this).add(std::nullopt, f);
    }
    template <class Functor, class... A>
    requires std::is_class_v<Functor> Options && catchAllKernel(A&&... args) && {
      return std::move(*this).add(std::nullopt, Functor(std::forward<A>(args)...));
    }
    template <class F>
    Options&& catchAllKernel(F&& f) && {
      return std::move(*this).add(std::nullopt, std::forward<F>(f));
    }
    Options&& aliasAnalysis(AliasAnalysisKind) && { return std::move(*this); }

   private:
    friend class RegisterOperators;
    template <class F>
    Options&& add(std::optional<DispatchKey> key, F&& f) {
      kernels_.emplace_back(std::forward<F>(f)).key = key;
      return std::move(*this);
    }
    std::string schema_;
    std::vector<torch::CppFunction> kernels_;
  };
  static Options options() { return {}; }

  RegisterOperators() = default;
  RegisterOperators(RegisterOperators&&) = default;
  RegisterOperators& operator=(RegisterOperators&&) = default;
  template <class F>
  RegisterOperators(const std::string& schema_or_name, F&& f, Options&& options = {}) {
    op(schema_or_name, std::forward<F>(f), std::move(options));
  }

  // "ns::name(Tensor x) -> Tensor", or "ns::name": the types of the first kernel make the schema.
  RegisterOperators& op(const std::string& schema_or_name, Options&& options = {}) & {
    define(schema_or_name, std::move(options));
    return *this;
  }
  RegisterOperators& op(Options&& options) & {
    const std::string text = options.schema_;
    return op(text, std::move(options));
  }
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Options>) RegisterOperators& op(const std::string& schema_or_name,
                                                                                   F&& f, Options&& options = {}) & {
    return op(schema_or_name, std::move(options).catchAllKernel(std::forward<F>(f)));
  }
  template <class... A>
  RegisterOperators&& op(A&&... args) && {
    op(std::forward<A>(args)...);
    return std::move(*this);
  }

 private:
  void define(const std::string& text, Options options) {
    const size_t colons = text.find("::");
    TORCH_CHECK(colons != std::string::npos && colons < text.find('('),
                "RegisterOperators: expected the name of an operator with its namespace (ns::name), got \"", text, '"');
    const std::string ns = text.substr(0, colons);
    const bool is_schema = text.find('(') != std::string::npos;
    TORCH_CHECK(is_schema || (!options.kernels_.empty() && options.kernels_[0].inferred_schema()),
                "RegisterOperators: ", text, " needs a schema or a kernel whose types say what it is");
    const tessera::FunctionSchema schema =
        tessera::parse_schema(is_schema ? text : options.kernels_[0].inferred_schema()(text));
    const std::string name = schema.qualified_name();
    torch::Library fragment(torch::Library::FRAGMENT, ns, std::nullopt);
    if (!tessera::find_registered_op(name)) fragment.def(schema.str());
    torch::Library kernels(torch::Library::IMPL, ns, std::nullopt);
    for (torch::CppFunction& k : options.kernels_) kernels.impl(name, std::move(k));
    registered_.push_back(std::move(fragment));
    registered_.push_back(std::move(kernels));
  }

  std::vector<torch::Library> registered_;  // goes with this object
};

}  // namespace c10

namespace torch {
using RegisterOperators = c10::RegisterOperators;
}  // namespace torch
