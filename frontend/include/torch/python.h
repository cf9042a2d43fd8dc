// Conversions for pybind11, and modules of the C++ front end as classes of Python.
#pragma once

#include <torch/csrc/utils/pybind.h>
#if __has_include(<torch/nn/module.h>)
#include <sstream>

#include <torch/nn/module.h>

namespace torch::python {

namespace detail {

// Pairs of names and values, as methods of Python's modules give them.
template <class Value>
pybind11::list items(const OrderedDict<std::string, Value>& dict) {
  pybind11::list result;
  for (const auto& item : dict) result.append(pybind11::make_tuple(item.key(), item.value()));
  return result;
}

template <class M>
void move_to(M& module, pybind11::args args, pybind11::kwargs kwargs) {
  std::optional<at::Device> device;
  std::optional<at::ScalarType> dtype;
  auto take = [&](pybind11::handle what) {
    if (pybind11::isinstance<pybind11::str>(what))
      device = at::Device(what.cast<std::string>());
    else if (tessera::python::is_dtype(what.ptr()))
      dtype = what.cast<at::ScalarType>();
    else if (!what.is_none())
      device = what.cast<at::Device>();
  };
  for (pybind11::handle a : args) take(a);
  bool non_blocking = false;
  for (const std::pair<pybind11::handle, pybind11::handle> item : kwargs)
    if (item.first.cast<std::string>() == "non_blocking")
      non_blocking = item.second.cast<bool>();
    else
      take(item.second);
  if (device && dtype)
    module.to(*device, *dtype, non_blocking);
  else if (device)
    module.to(*device, non_blocking);
  else if (dtype)
    module.to(*dtype, non_blocking);
}

// The methods that every module has.
template <class Class>
Class& add_methods(Class& c) {
  using M = typename Class::type;
  namespace py = pybind11;
  auto self = [](py::object o) { return o; };
  c.def(
      "train",
      [self](py::object o, bool mode) {
        o.cast<M&>().train(mode);
        return self(o);
      },
      py::arg("mode") = true);
  c.def("eval", [self](py::object o) {
    o.cast<M&>().eval();
    return self(o);
  });
  c.def(
      "zero_grad", [](M& m, bool set_to_none) { m.zero_grad(set_to_none); }, py::arg("set_to_none") = true);
  c.def("clone", [](const M& m) { return std::dynamic_pointer_cast<M>(m.clone()); });
  c.def("to", [self](py::object o, py::args args, py::kwargs kwargs) {
    move_to(o.cast<M&>(), args, kwargs);
    return self(o);
  });
  c.def("float", [self](py::object o) {
    o.cast<M&>().to(at::kFloat);
    return self(o);
  });
  c.def("double", [self](py::object o) {
    o.cast<M&>().to(at::kDouble);
    return self(o);
  });
  c.def("half", [self](py::object o) {
    o.cast<M&>().to(at::kHalf);
    return self(o);
  });
  c.def("cpu", [self](py::object o) {
    o.cast<M&>().to(at::Device(at::kCPU));
    return self(o);
  });
  c.def(
      "parameters", [](const M& m, bool recurse) { return m.parameters(recurse); }, py::arg("recurse") = true);
  c.def(
      "named_parameters", [](const M& m, bool recurse) { return items(m.named_parameters(recurse)); },
      py::arg("recurse") = true);
  c.def(
      "buffers", [](const M& m, bool recurse) { return m.buffers(recurse); }, py::arg("recurse") = true);
  c.def(
      "named_buffers", [](const M& m, bool recurse) { return items(m.named_buffers(recurse)); },
      py::arg("recurse") = true);
  c.def("state_dict", [](const M& m) {
    py::dict all;
    for (const auto& p : m.named_parameters()) all[py::str(p.key())] = p.value().detach();
    for (const auto& b : m.named_buffers()) all[py::str(b.key())] = b.value().detach();
    return all;
  });
  c.def("load_state_dict", [](M& m, const py::dict& all) {
    at::NoGradGuard no_grad;
    auto copy = [&](auto list) {
      for (auto& item : list) {
        TORCH_CHECK(all.contains(item.key()), "the state has no \"", item.key(), '"');
        item.value().copy_(all[py::str(item.key())].template cast<at::Tensor>());
      }
    };
    copy(m.named_parameters());
    copy(m.named_buffers());
  });
  c.def_property_readonly("training", [](const M& m) { return m.is_training(); });
  c.def("__repr__", [](const M& m) {
    std::ostringstream text;
    text << m;
    return text.str();
  });
  return c;
}

}  // namespace detail

// A class of the Python module `m` for a module of C++, to which constructors and forward are still to be added:
//
//   torch::python::bind_module<Net>(m, "Net").def(py::init<int64_t>()).def("forward", &Net::forward);
template <class M, bool force_enable = false>
auto bind_module(pybind11::module_ m, const char* name) {
  pybind11::class_<M, std::shared_ptr<M>> c(m, name);
  detail::add_methods(c);
  if constexpr (requires { &M::forward; })
    c.def("__call__", [](pybind11::object o, pybind11::args args, pybind11::kwargs kwargs) {
      return o.attr("forward")(*args, **kwargs);
    });
  return c;
}

}  // namespace torch::python
#endif
