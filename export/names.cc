#include "export/names.h"

#include "tensor/core/error.h"

namespace tessera::exported {
namespace {

constexpr int64_t kCooLayout = 1;  // its number in files
constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";

void collect(Json graph, std::set<std::string>* names) {
  for (const Json node : graph["nodes"]) {
    const std::string_view target = node["target"].text();
    if (target.starts_with(kHigherOrder)) {
      // What this library calls itself on behalf of these.
      if (target.ends_with(".scan") || target.ends_with(".map_impl"))
        names->insert({"aten::stack", "aten::select.int"});
      for (const Json input : node["inputs"])
        if (const Json arg = input["arg"]; arg.has("as_graph")) collect(arg["as_graph"]["graph"], names);
    } else if (!is_own_function(target)) {
      const std::string name = operator_name(target);
      TESSERA_CHECK(!name.empty(), "the program calls '", target.substr(0, 200), "', which is no operator");
      names->insert(name);
    }
  }
}

}  // namespace

std::string read_description(serialization::ZipReader& zip) {
  const auto text = [&](const char* name) {
    const std::vector<uint8_t> bytes = zip.read(name);
    return std::string(bytes.begin(), bytes.end());
  };
  const std::string format = zip.has("archive_format") ? text("archive_format") : "";
  TESSERA_CHECK(format.starts_with("pt2"), "the archive has no entry 'archive_format' that says 'pt2'");
  if (zip.has("archive_version"))
    TESSERA_CHECK(text("archive_version").starts_with("0"), "the archive is of another version than 0");
  TESSERA_CHECK(zip.has("models/model.json"), "the archive has no program 'models/model.json'");
  return text("models/model.json");
}

std::string operator_name(std::string_view target) {
  constexpr std::string_view kOps = "torch.ops.";
  if (!target.starts_with(kOps) || target.starts_with(kHigherOrder)) return {};
  target.remove_prefix(kOps.size());
  const size_t name = target.find('.'), overload = target.find('.', name + 1);
  if (name == std::string_view::npos || overload == std::string_view::npos) return {};
  const std::string_view form = target.substr(overload + 1);
  return str_cat(target.substr(0, name), "::", target.substr(name + 1, overload - name - 1),
                 form == "default" ? "" : ".", form == "default" ? "" : form);
}

bool is_own_function(std::string_view target) {
  for (std::string_view begin : {"_operator.", "builtins.", "math.", "torch.sym_"})
    if (target.starts_with(begin)) return true;
  for (std::string_view name :
       {"sym_size.int", "sym_stride.int", "sym_numel.default", "sym_storage_offset.default", "_assert_scalar.default",
        "sym_constrain_range.default", "sym_constrain_range_for_size.default"})
    if (target == str_cat("torch.ops.aten.", name)) return true;
  return false;
}

std::set<std::string> operators_of(serialization::Source& source) {
  serialization::ZipReader zip(source);
  const JsonDocument document(read_description(zip));
  std::set<std::string> names;
  collect(document.root()["graph_module"]["graph"], &names);
  for (const char* table : {"data/weights/model_weights_config.json", "data/constants/model_constants_config.json",
                            "data/sample_inputs/model.json"}) {
    if (!zip.has(table)) continue;
    const std::vector<uint8_t> bytes = zip.read(table);
    const JsonDocument tensors(std::string(bytes.begin(), bytes.end()));
    for (const Json entry : tensors.root()["config"])
      if (entry.has("use_pickle") && entry["use_pickle"].boolean())
        names.insert(entry["tensor_meta"]["layout"].integer() == kCooLayout ? kSparseCoo : kSparseCompressed);
  }
  return names;
}

}  // namespace tessera::exported
