// Programs of TorchScript archives: torch::jit::load, torch::jit::Module.
#pragma once

#include <ATen/core/ivalue_future.h>
#include <ATen/core/op_registration/op_registration.h>
#include <torch/serialize.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <ostream>
#include <sstream>
#include <unordered_map>

#include "jit/programs.h"
#include "tensor/dispatch/registry.h"

namespace tessera {
OpInfoList all_registered_ops();  // of the libraries that are linked
namespace jit {
void set_operators(OpInfoList all);  // jit/operator.h; once
}
}  // namespace tessera

namespace torch::jit {

using Kwargs = std::unordered_map<std::string, IValue>;
using ExtraFilesMap = std::unordered_map<std::string, std::string>;
template <class T>
struct Named {
  std::string name;
  T value;
};
using NameTensor = Named<at::Tensor>;
using NameValue = Named<IValue>;
// What the lists of a module's members give: iterable, with size().
template <class T>
struct member_list : std::vector<T> {
  using std::vector<T>::vector;
};

using NameModule = Named<Module>;
// A dotted name.
class QualifiedName {
 public:
  explicit QualifiedName(std::string whole) : whole_(std::move(whole)) {}
  const std::string& qualifiedName() const { return whole_; }
  std::string name() const { return whole_.substr(whole_.rfind('.') + 1); }
  std::string prefix() const { return whole_.substr(0, std::min(whole_.rfind('.'), whole_.size())); }

 private:
  std::string whole_;
};
// The class of a module.
struct ModuleType {
  std::string class_name;
  std::optional<QualifiedName> name() const { return QualifiedName(class_name); }
  const std::string& str() const { return class_name; }
  const std::string& repr_str() const { return class_name; }
  const std::string& annotation_str() const { return class_name; }
};

// A graph as text.
struct Graph {
  std::string text;
  const std::string& toString(bool /*print_source_locations*/ = true) const { return text; }
  friend std::ostream& operator<<(std::ostream& out, const Graph& g) { return out << g.text; }
};

struct Method {
  tessera::Value owner;
  std::string method;
  std::shared_ptr<Graph> graph() const {
    return std::make_shared<Graph>(Graph{tessera::jit::programs::method_graph(owner, method)});
  }
  IValue operator()(std::vector<IValue> stack, const Kwargs& kwargs = {}) const;
  const std::string& name() const { return method; }
};

namespace detail {
inline std::vector<tessera::Value> values_of(const std::vector<IValue>& stack) {
  std::vector<tessera::Value> values;
  for (const IValue& v : stack) values.push_back(tessera::jit::value_of(serialize::detail::to_datum(v)));
  return values;
}
inline tessera::jit::programs::Named values_of(const Kwargs& named) {
  tessera::jit::programs::Named values;
  for (const auto& [name, v] : named) values.emplace_back(name, tessera::jit::value_of(serialize::detail::to_datum(v)));
  return values;
}
}  // namespace detail

// A handle: copies are the same module.
class Module {
  using Role = tessera::jit::DataArchive::Role;

 public:
  Module() = default;
  // A new module of a class of that name, to be filled.
  explicit Module(const std::string& class_name) {
    tessera::jit::set_operators(tessera::all_registered_ops());
    value_ = tessera::jit::programs::new_module(class_name);
  }
  explicit Module(const char* class_name) : Module(std::string(class_name)) {}
  explicit Module(tessera::Value value) : value_(std::move(value)) {}

  IValue forward(std::vector<IValue> inputs, const Kwargs& kwargs = {}) {
    return Method{value_, "forward"}(std::move(inputs), kwargs);
  }
  IValue operator()(std::vector<IValue> inputs) { return forward(std::move(inputs)); }
  template <class... A>
  IValue run_method(const std::string& name, A&&... args) {
    return get_method(name)({IValue(std::forward<A>(args))...});
  }
  std::optional<Method> find_method(const std::string& name) const {
    for (const std::string& known : tessera::jit::method_names(value_))
      if (known == name) return Method{value_, name};
    return std::nullopt;
  }
  Method get_method(const std::string& name) const {
    const std::optional<Method> m = find_method(name);
    TORCH_CHECK(m, "Method '", name, "' is not defined.");
    return *m;
  }
  std::vector<Method> get_methods() const {
    std::vector<Method> all;
    for (const std::string& name : tessera::jit::method_names(value_)) all.push_back({value_, name});
    return all;
  }

  bool hasattr(const std::string& name) const { return find(name).has_value(); }
  IValue attr(const std::string& name) const {
    const auto m = find(name);
    TORCH_CHECK(m, "Module has no attribute '", name, "'");
    return open(*m);
  }
  IValue attr(const std::string& name, IValue or_else) const {
    const auto m = find(name);
    return m ? open(*m) : or_else;
  }
  void setattr(const std::string& name, const IValue& v) {
    tessera::jit::set_member(value_, name, tessera::jit::value_of(serialize::detail::to_datum(v)));
  }

  // Error for a name that is taken.
  void register_parameter(const std::string& name, at::Tensor v, bool is_buffer) {
    if (is_buffer) return register_buffer(name, std::move(v));
    add(name, Role::kParameter, tessera::Value::of(static_cast<const tessera::Tensor&>(v)));
  }
  void register_buffer(const std::string& name, at::Tensor v) {
    add(name, Role::kBuffer, tessera::Value::of(static_cast<const tessera::Tensor&>(v)));
  }
  void register_attribute(const std::string& name, const c10::TypePtr& type, const IValue& v, bool is_param = false,
                          bool is_buffer = false) {
    const std::string schema = type->str();
    tessera::Value value = tessera::jit::value_of(serialize::detail::to_datum(v), schema);
    tessera::jit::programs::add_member(value_, name,
                                       is_param    ? Role::kParameter
                                       : is_buffer ? Role::kBuffer
                                                   : Role::kAttribute,
                                       std::move(value), type->annotation_str());
  }
  void register_module(const std::string& name, const Module& child) { add(name, Role::kAttribute, child.value_); }
  // Methods of a source, compiled; `self` is this module. Error with the line for a source that does not compile.
  void define(const std::string& source) { tessera::jit::programs::add_methods(value_, source); }
  void apply(const std::function<void(Module&)>& f) {
    for (Module child : children()) child.apply(f);
    f(*this);
  }

  member_list<NameTensor> named_parameters(bool recurse = true) const {
    return tensors(recurse, [](const auto& m) { return m.role == Role::kParameter; });
  }
  member_list<NameTensor> named_buffers(bool recurse = true) const {
    return tensors(recurse, [](const auto& m) { return m.role == Role::kBuffer; });
  }
  member_list<at::Tensor> parameters(bool recurse = true) const { return values(named_parameters(recurse)); }
  member_list<at::Tensor> buffers(bool recurse = true) const { return values(named_buffers(recurse)); }
  member_list<NameValue> named_attributes(bool recurse = true) const {
    member_list<NameValue> all;
    walk("", recurse, [&](const std::string& name, const auto& m) { all.push_back({name, open(m)}); });
    return all;
  }
  member_list<IValue> attributes(bool recurse = true) const { return values(named_attributes(recurse)); }
  member_list<NameModule> named_children() const;
  member_list<Module> children() const;
  // This module first, with an empty name.
  member_list<NameModule> named_modules() const;
  member_list<Module> modules() const;

  void train(bool on = true) {
    each_module([&](const tessera::Value& module) {
      for (const auto& m : tessera::jit::members(module))
        if (m.name == "training") tessera::jit::set_member(module, m.name, tessera::Value::of(on));
    });
  }
  void eval() { train(false); }
  bool is_training() const { return attr("training", true).toBool(); }
  void to(at::Device device, at::ScalarType dtype, bool non_blocking = false) {
    convert([&](const at::Tensor& t) {
      return t.to(device, t.is_floating_point() ? dtype : t.scalar_type(), non_blocking);
    });
  }
  void to(at::ScalarType dtype, bool non_blocking = false) {
    convert([&](const at::Tensor& t) { return t.is_floating_point() ? t.to(dtype, non_blocking) : t; });
  }
  void to(at::Device device, bool non_blocking = false) {
    convert([&](const at::Tensor& t) { return t.to(device, t.scalar_type(), non_blocking); });
  }
  Module deepcopy() const { return Module(tessera::jit::copy_module(value_)); }
  Module clone(bool = false) const { return deepcopy(); }
  Module copy() const { return *this; }

  void save(std::ostream& out, const ExtraFilesMap& extra = {}) const {
    tessera::serialization::MemorySink sink;
    tessera::jit::save_module(value_, sink, "archive", {extra.begin(), extra.end()});
    const std::vector<uint8_t> bytes = sink.take();
    out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  }
  void save(const std::string& filename, const ExtraFilesMap& extra = {}) const {
    tessera::serialization::FileSink sink(filename);
    const size_t slash = filename.rfind('/') + 1;
    tessera::jit::save_module(value_, sink, filename.substr(slash, filename.rfind('.') - slash),
                              {extra.begin(), extra.end()});
    sink.close();
  }
  std::string type_name() const { return tessera::jit::class_name(value_); }
  std::shared_ptr<const ModuleType> type() const { return std::make_shared<ModuleType>(ModuleType{type_name()}); }
  IValue _ivalue() const { return tessera::IntrusivePtr<tessera::RefCounted>::share(value_.object()); }

 private:
  using Member = tessera::jit::Member;
  static IValue open(const Member& m) {
    return m.is_module ? Module(m.value)._ivalue() : serialize::detail::to_ivalue(tessera::jit::datum_of(m.value));
  }
  std::optional<Member> find(const std::string& name) const {
    for (Member& m : tessera::jit::members(value_))
      if (m.name == name) return std::move(m);
    return std::nullopt;
  }
  template <class F>
  void walk(const std::string& prefix, bool recurse, F f) const {
    for (const Member& m : tessera::jit::members(value_)) {
      if (!m.is_module) f(prefix + m.name, m);
    }
    for (const Member& m : tessera::jit::members(value_))
      if (m.is_module && recurse) Module(m.value).walk(prefix + m.name + ".", recurse, f);
  }
  template <class P>
  member_list<NameTensor> tensors(bool recurse, P wanted) const {
    member_list<NameTensor> all;
    walk("", recurse, [&](const std::string& name, const Member& m) {
      if (wanted(m) && m.value.is_tensor()) all.push_back({name, m.value.tensor()});
    });
    return all;
  }
  template <class T>
  static member_list<T> values(const member_list<Named<T>>& named) {
    member_list<T> all;
    for (const auto& n : named) all.push_back(n.value);
    return all;
  }
  template <class F>
  void each_module(F f) const {
    f(value_);
    for (const Member& m : tessera::jit::members(value_))
      if (m.is_module) Module(m.value).each_module(f);
  }
  template <class F>
  void convert(F f) {
    const tessera::NoGradGuard no_grad;
    walk("", true, [&](const std::string&, const Member& m) {
      if (m.role == Role::kAttribute || !m.value.is_tensor() || !m.value.tensor().defined()) return;
      const at::Tensor t = m.value.tensor();
      t.set_data(f(t));
    });
  }
  void add(const std::string& name, Role role, tessera::Value v) {
    tessera::jit::programs::add_member(value_, name, role, std::move(v));
  }
  friend Module freeze(const Module&, std::optional<std::vector<std::string>>, bool);
  tessera::Value value_;
};
namespace script = ::torch::jit;
using ScriptModule = Module;
}  // namespace torch::jit

inline torch::jit::Module c10::IValue::toModule() const {
  return torch::jit::Module(tessera::Value::object(toObject()));
}

namespace torch::jit {

inline IValue Method::operator()(std::vector<IValue> stack, const Kwargs& kwargs) const {
  return serialize::detail::to_ivalue(tessera::jit::datum_of(
      tessera::jit::call_method(owner, method, detail::values_of(stack), detail::values_of(kwargs))));
}
inline member_list<NameModule> Module::named_children() const {
  member_list<NameModule> all;
  for (const Member& m : tessera::jit::members(value_))
    if (m.is_module) all.push_back({m.name, Module(m.value)});
  return all;
}
inline member_list<Module> Module::children() const { return values(named_children()); }
inline member_list<NameModule> Module::named_modules() const {
  member_list<NameModule> all;
  all.push_back({"", *this});
  for (const NameModule& child : named_children())
    for (const NameModule& below : child.value.named_modules())
      all.push_back({child.name + (below.name.empty() ? "" : "." + below.name), below.value});
  return all;
}
inline member_list<Module> Module::modules() const { return values(named_modules()); }

namespace detail {
inline Module load_from(tessera::serialization::Source& source, std::optional<at::Device> device,
                        ExtraFilesMap& extra) {
  tessera::jit::set_operators(tessera::all_registered_ops());
  std::map<std::string, std::string> files(extra.begin(), extra.end());
  Module m(tessera::jit::load_module(source, device ? std::optional<tessera::Device>(*device) : std::nullopt, &files));
  for (auto& [name, text] : files) extra[name] = text;
  return m;
}
}  // namespace detail
// Error for a file that is no sound archive. The keys of `extra_files` say which files to read besides.
inline Module load(const std::string& filename, std::optional<at::Device> device, ExtraFilesMap& extra_files) {
  tessera::serialization::FileSource source(filename);
  return detail::load_from(source, device, extra_files);
}
inline Module load(std::istream& in, std::optional<at::Device> device, ExtraFilesMap& extra_files) {
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  tessera::serialization::MemorySource source({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  return detail::load_from(source, device, extra_files);
}
template <class In>
Module load(In&& in, std::optional<at::Device> device = std::nullopt) {
  ExtraFilesMap none;
  return load(std::forward<In>(in), device, none);
}
inline void save(const Module& module, const std::string& filename) { module.save(filename); }

// A function of a compilation unit.
class Function {
 public:
  Function(tessera::IntrusivePtr<tessera::RefCounted> unit, std::string name)
      : unit_(std::move(unit)), name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  IValue operator()(std::vector<IValue> stack, const Kwargs& kwargs = {}) const {
    return serialize::detail::to_ivalue(tessera::jit::datum_of(
        tessera::jit::programs::call_function(*unit_, name_, detail::values_of(stack), detail::values_of(kwargs))));
  }
  c10::FunctionSchema getSchema() const {
    return c10::FunctionSchema(tessera::parse_schema(tessera::jit::programs::function_schema(*unit_, name_)));
  }
  std::shared_ptr<Graph> graph() const {
    return std::make_shared<Graph>(Graph{tessera::jit::programs::function_graph(*unit_, name_)});
  }

 private:
  tessera::IntrusivePtr<tessera::RefCounted> unit_;
  std::string name_;
};
// Functions that were compiled from sources together.
class CompilationUnit {
 public:
  CompilationUnit() = default;
  explicit CompilationUnit(const std::string& source) { define(source); }
  // More functions. Error with the line for a source that does not compile; then there are no more.
  void define(const std::string& source) {
    tessera::jit::set_operators(tessera::all_registered_ops());
    if (functions_)
      tessera::jit::programs::add(*functions_, source);
    else
      functions_ = tessera::jit::programs::compile(source);
  }
  std::vector<Function> get_functions() const {
    std::vector<Function> all;
    if (functions_)
      for (const std::string& name : tessera::jit::programs::function_names(*functions_))
        all.push_back({functions_, name});
    return all;
  }
  std::optional<Function> find_function(const std::string& name) const {
    for (Function& f : get_functions())
      if (f.name() == name) return std::move(f);
    return std::nullopt;
  }
  Function get_function(const std::string& name) const {
    const auto f = find_function(name);
    TORCH_CHECK(f, "attempted to get undefined function ", name);
    return *f;
  }
  template <class... A>
  IValue run_method(const std::string& name, A&&... args) const {
    return get_function(name)({IValue(std::forward<A>(args))...});
  }

 private:
  tessera::IntrusivePtr<tessera::RefCounted> functions_;
};
// The functions of a source in the language of TorchScript.
inline std::shared_ptr<CompilationUnit> compile(const std::string& source) {
  return std::make_shared<CompilationUnit>(source);
}

// A module for inference: its attributes are constants of its methods. `preserved_attrs`: methods besides forward, and
// attributes, that stay. Error for a module in training mode.
inline Module freeze(const Module& module, std::optional<std::vector<std::string>> preserved_attrs = std::nullopt,
                     bool /*optimize_numerics*/ = true) {
  return Module(tessera::jit::programs::frozen(module.value_, preserved_attrs.value_or(std::vector<std::string>())));
}
// The same; batch normalisation and dropout are folded by it.
inline Module optimize_for_inference(Module& module, const std::vector<std::string>& other_methods = {}) {
  return freeze(module, other_methods);
}

}  // namespace torch::jit
