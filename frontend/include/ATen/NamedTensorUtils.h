// Names of dimensions.
#pragma once

#include "ATen/core/Tensor.h"
#include "named/named.h"

namespace at {
namespace fe {
inline tessera::named::Names names(DimnameList list) {
  tessera::named::Names result;
  for (const Dimname& d : list) result.push_back(d.isWildcard() ? "" : d.symbol());
  return result;
}
inline Tensor with_names(const Tensor& view, tessera::named::Names names) {
  tessera::named::set_names(view, std::move(names));
  return view;
}
}  // namespace fe

inline std::vector<Dimname> Tensor::names() const {
  std::vector<Dimname> result(static_cast<size_t>(dim()));
  size_t i = 0;
  for (const std::string& name : tessera::named::names_of(*this)) {
    if (!name.empty()) result[i] = Dimname(name);
    ++i;
  }
  return result;
}
// A view with other names; without any for nullopt. Error unless each dimension has one, none twice.
inline Tensor Tensor::rename(std::optional<DimnameList> names) const {
  return fe::with_names(alias(), names ? fe::names(*names) : tessera::named::Names());
}
inline Tensor& Tensor::rename_(std::optional<DimnameList> names) const {
  fe::with_names(*this, names ? fe::names(*names) : tessera::named::Names());
  return const_cast<Tensor&>(*this);
}
// A view with names where there were none; Error for others than those that are there.
inline Tensor Tensor::refine_names(DimnameList names) const {
  const std::vector<Dimname> old = this->names();
  TORCH_CHECK(names.size() == old.size(), "refine_names: cannot coerce Tensor[", Join(", ", old), "] to Tensor[",
              Join(", ", names.vec()), "] because they have a different number of dims (", old.size(), " and ",
              names.size(), " respectively).");
  for (size_t i = 0; i < old.size(); ++i)
    TORCH_CHECK(old[i].isWildcard() || old[i] == names[i], "refine_names: cannot coerce Tensor[", Join(", ", old),
                "] to Tensor[", Join(", ", names.vec()), "] because ", old[i], " is different from ", names[i],
                " at index ", i);
  return rename(names);
}
inline int64_t dimname_to_position(const Tensor& t, const Dimname& dim) {
  return tessera::named::dim_by_name(t, dim.symbol());
}
// A named dimension as several, of a name and a size each.
inline Tensor unflatten_by_name(const Tensor& t, const Dimname& dim,
                                const std::vector<std::pair<std::string, int64_t>>& parts) {
  const auto place = dimname_to_position(t, dim);
  tessera::named::Names names = fe::names(t.names()), inside;
  std::vector<int64_t> sizes;
  for (const auto& [name, size] : parts) {
    inside.push_back(name);
    sizes.push_back(size);
  }
  const auto at = names.erase(names.begin() + place);
  names.insert(at, inside.begin(), inside.end());
  return fe::with_names(t.rename(std::nullopt).unflatten(place, sizes), std::move(names));
}

}  // namespace at
