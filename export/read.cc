// Reading: from an archive to a plan. Everything is checked here, so that running meets only what operators refuse.
#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "export/names.h"
#include "export/plan.h"
#include "serialization/checkpoint.h"
#include "tensor/ops/api.h"

namespace tessera::exported {
namespace {

using serialization::ZipReader;

// Numbers of files, which stand for what is at their places.
constexpr std::string_view kDTypes[] = {"",
                                        "uint8",
                                        "int8",
                                        "int16",
                                        "int32",
                                        "int64",
                                        "float16",
                                        "float32",
                                        "float64",
                                        "complex32",
                                        "complex64",
                                        "complex128",
                                        "bool",
                                        "bfloat16",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "uint16",
                                        "float8_e4m3fn",
                                        "float8_e5m2",
                                        "float8_e4m3fnuz",
                                        "float8_e5m2fnuz",
                                        "uint32",
                                        "uint64",
                                        "float8_e8m0fnu"};
constexpr int kNoLayout = -1;
constexpr int kLayouts[] = {kNoLayout,
                            static_cast<int>(Layout::kSparseCoo),
                            static_cast<int>(Layout::kSparseCsr),
                            static_cast<int>(Layout::kSparseCsc),
                            static_cast<int>(Layout::kSparseBsr),
                            static_cast<int>(Layout::kSparseBsc),
                            kNoLayout,
                            static_cast<int>(Layout::kStrided)};
constexpr MemoryFormat kFormats[] = {MemoryFormat::kContiguous, MemoryFormat::kContiguous, MemoryFormat::kChannelsLast,
                                     MemoryFormat::kChannelsLast3d, MemoryFormat::kPreserve};

size_t place_of(Json number, size_t count, const char* what) {
  const int64_t n = number.integer();
  TESSERA_CHECK(n > 0 && n < static_cast<int64_t>(count), n, " is no ", what, " that is known");
  return static_cast<size_t>(n);
}
DType read_dtype(Json j) {
  const std::string_view name = kDTypes[place_of(j, std::size(kDTypes), "dtype")];
  const std::optional<DType> found = name.empty() ? std::nullopt : parse_dtype(name);
  TESSERA_CHECK(found, j.integer(), " is no dtype that is known");
  return *found;
}
Layout read_layout(Json j) {
  const int found = kLayouts[place_of(j, std::size(kLayouts), "layout")];
  TESSERA_CHECK(found != kNoLayout, j.integer(), " is no layout that is known");
  return static_cast<Layout>(found);
}
Device read_device(Json j) {
  const std::string type(j["type"].text());
  const Json index = j["index"];
  return Device(index.is_null() ? type : str_cat(type, ":", index.integer()));
}
int64_t read_size(Json j) {
  const int64_t n = j["as_int"].integer();
  TESSERA_CHECK(n >= 0, "expected a size, got ", n);
  return n;
}
double read_float(Json j) {
  if (!j.is(JsonKind::kString)) return j.number();
  for (const auto& [name, value] :
       {std::pair("inf", HUGE_VAL), std::pair("-inf", -HUGE_VAL), std::pair("nan", std::nan(""))})
    if (j.text() == name) return value;
  throw Error(str_cat("'", j.text().substr(0, 40), "' is no number"));
}

// --- arguments ---

Value constant(Json kind) {
  const std::string_view k = kind.key();
  if (k == "as_none") return Value();
  if (k == "as_bool") return Value::of(kind.boolean());
  if (k == "as_int") return Value::of(kind.integer());
  if (k == "as_float") return Value::of(read_float(kind));
  if (k == "as_string") return Value::of(std::string(kind.text()));
  if (k == "as_complex") return Value::of(std::complex<double>(read_float(kind["real"]), read_float(kind["imag"])));
  if (k == "as_scalar_type") return Value::of(read_dtype(kind));
  if (k == "as_layout") return Value::of(read_layout(kind));
  if (k == "as_memory_format") return Value::of(kFormats[place_of(kind, std::size(kFormats), "memory format")]);
  if (k == "as_device") return Value::of(read_device(kind));
  throw Error(str_cat("a value of kind '", k.substr(0, 80), "' is none that programs in C++ have"));
}

bool is_number_type(TypeKind t) {
  return t == TypeKind::kInt || t == TypeKind::kSymInt || t == TypeKind::kFloat || t == TypeKind::kSymFloat ||
         t == TypeKind::kBool || t == TypeKind::kSymBool || t == TypeKind::kScalar;
}
bool is_int_type(TypeKind t) { return t == TypeKind::kInt || t == TypeKind::kSymInt; }
bool is_float_type(TypeKind t) { return t == TypeKind::kFloat || t == TypeKind::kSymFloat; }

// Whether an operator's argument of a type takes a constant.
bool fits(TypeKind type, const Value& v) {
  using Tag = Value::Tag;
  const Tag tag = v.tag();
  switch (type) {
    case TypeKind::kInt:
    case TypeKind::kSymInt:
      return tag == Tag::kInt || tag == Tag::kBool;
    case TypeKind::kFloat:
    case TypeKind::kSymFloat:
      return tag == Tag::kDouble || tag == Tag::kInt || tag == Tag::kBool;
    case TypeKind::kBool:
    case TypeKind::kSymBool:
      return tag == Tag::kBool;
    case TypeKind::kScalar:
      return tag == Tag::kInt || tag == Tag::kDouble || tag == Tag::kBool || tag == Tag::kComplex;
    case TypeKind::kStr:
      return tag == Tag::kString;
    case TypeKind::kScalarType:
      return tag == Tag::kDType;
    case TypeKind::kLayout:
      return tag == Tag::kLayout;
    case TypeKind::kMemoryFormat:
      return tag == Tag::kMemoryFormat;
    case TypeKind::kDevice:
      return tag == Tag::kDevice;
    default:
      return false;
  }
}

// A list of constants as operators take them.
Value list_value(TypeKind type, const std::vector<Value>& items) {
  if (is_int_type(type)) {
    IntVector list;
    for (const Value& v : items) list.push_back(v.integer());
    return Value::of(std::move(list));
  }
  if (is_float_type(type)) {
    std::vector<double> list;
    for (const Value& v : items) list.push_back(v.number());
    return Value::doubles(std::move(list));
  }
  if (type == TypeKind::kScalar) {
    std::vector<Scalar> list;
    for (const Value& v : items) list.push_back(v.scalar());
    return Value::scalars(std::move(list));
  }
  if (type == TypeKind::kTensor) {
    std::vector<Tensor> list;
    for (const Value& v : items) list.push_back(v.tensor());
    return Value::of(std::move(list));
  }
  throw NotImplementedError("a list of this type as an operator's argument");
}

Value default_value(const SchemaValue& v, const SchemaType& type) {
  using Kind = SchemaValue::Kind;
  const TypeKind t = type.without_optional().kind;
  switch (v.kind) {
    case Kind::kNone:
      return Value();
    case Kind::kBool:
      return Value::of(v.b);
    case Kind::kInt:
      return is_float_type(t) ? Value::of(static_cast<double>(v.i)) : Value::of(v.i);
    case Kind::kFloat:
      return Value::of(v.f);
    case Kind::kComplex:
      return Value::of(std::complex<double>(v.f, v.imag));
    case Kind::kString:
      return Value::of(v.s);
    case Kind::kDevice:
      return Value::of(Device(v.s));
    case Kind::kEnum:
      if (t == TypeKind::kScalarType) return Value::of(*parse_dtype(v.s));
      if (t == TypeKind::kLayout) return Value::of(static_cast<Layout>(v.i));
      if (t == TypeKind::kMemoryFormat) return Value::of(static_cast<MemoryFormat>(v.i));
      return Value::of(v.i);
    case Kind::kList: {
      const SchemaType& element = type.without_optional().elements[0];
      std::vector<Value> items;
      for (const SchemaValue& item : v.list) items.push_back(default_value(item, element));
      return list_value(element.without_optional().kind, items);
    }
  }
  return Value();
}

// --- graphs ---

enum class Held : uint8_t { kTensor, kNumber, kNothing };  // what a register holds

// The operators that a program calls, each looked for and parsed once.
class Operators {
 public:
  struct Known {
    const OpInfo* info;
    FunctionSchema schema;
  };
  explicit Operators(OpInfoList all) : all_(all) {}

  const Known* find(const std::string& name) {
    const auto it = known_.find(name);
    if (it != known_.end()) return it->second.get();
    for (const OpInfo* info : all_) {
      const std::string_view base = info->op->name, overload = info->op->overload;
      if (name.size() != base.size() + (overload.empty() ? 0 : overload.size() + 1) || !name.starts_with(base))
        continue;
      if (!overload.empty() && (name[base.size()] != '.' || !name.ends_with(overload))) continue;
      auto made = std::make_unique<Known>(Known{info, parse_schema(info->schema())});
      return known_.emplace(name, std::move(made)).first->second.get();
    }
    return nullptr;
  }
  const Known& get(const std::string& name) {
    const Known* found = find(name);
    if (!found)
      throw Error(str_cat("the program calls '", name.substr(0, 200),
                          "', which is not among the operators that it was given: link it (exported_operators() in "
                          "tools/bazel/exported.bzl)"));
    return *found;
  }

 private:
  OpInfoList all_;
  std::unordered_map<std::string, std::unique_ptr<Known>> known_;
};

class TensorReader {
 public:
  TensorReader(ZipReader& zip, Operators& operators) : zip_(zip), operators_(operators) {}

  Tensor read(Json entry, const char* folder) {
    const Json meta = entry["tensor_meta"];
    const std::string path = str_cat(folder, entry["path_name"].text());
    if (entry.has("use_pickle") && entry["use_pickle"].boolean()) return pickled(path, read_device(meta["device"]));
    IntVector sizes, strides;
    for (const Json n : meta["sizes"]) sizes.push_back(read_size(n));
    for (const Json n : meta["strides"]) strides.push_back(read_size(n));
    TESSERA_CHECK(
        sizes.size() == strides.size() && sizes.size() <= 64 && read_layout(meta["layout"]) == Layout::kStrided,
        "expected a strided tensor");
    const DType dtype = read_dtype(meta["dtype"]);
    const Device device = read_device(meta["device"]);
    if (device.type == DeviceType::kMeta) return empty_tensor(sizes, strides, dtype, device);
    const Tensor t = tensor_from_storage(storage(path), sizes, strides, read_size(meta["storage_offset"]), dtype);
    return device == t.device() ? t : t.to(device, dtype);
  }

 private:
  Storage storage(const std::string& name) {
    Storage& known = storages_[name];
    if (known) return known;
    const uint64_t size = zip_.record_size(name);
    Storage made = StorageImpl::allocate(size);
    zip_.read(name, {static_cast<uint8_t*>(made->data()), size});
    return known = made;
  }

  // A file of torch.save: sparse tensors are kept so. The program's operators make them, which check the indices.
  Tensor pickled(const std::string& path, Device device) {
    const auto make = [&](const serialization::SparseParts& parts) { return sparse(parts); };
    const Tensor t = serialization::load(zip_.read(path), make).as_tensor();
    return device == t.device() ? t : t.to(device, t.dtype());
  }
  Tensor sparse(const serialization::SparseParts& parts) {
    constexpr std::pair<std::string_view, Layout> layouts[] = {{"torch.sparse_coo", Layout::kSparseCoo},
                                                               {"torch.sparse_csr", Layout::kSparseCsr},
                                                               {"torch.sparse_csc", Layout::kSparseCsc},
                                                               {"torch.sparse_bsr", Layout::kSparseBsr},
                                                               {"torch.sparse_bsc", Layout::kSparseBsc}};
    const auto* known = std::find_if(std::begin(layouts), std::end(layouts),
                                     [&](const auto& pair) { return pair.first == parts.layout; });
    const bool coo = known == std::begin(layouts);
    TESSERA_CHECK(known != std::end(layouts) && parts.tensors.size() == (coo ? 2 : 3),
                  "the archive has a sparse tensor of an unknown form");
    std::vector<Value> args;
    for (const Tensor& t : parts.tensors) args.push_back(Value::of(t));
    args.push_back(Value::of(parts.sizes));
    args.emplace_back();  // dtype: that of the values
    args.push_back(coo ? Value() : Value::of(known->second));
    args.resize(args.size() + 2);  // device, pin_memory
    if (coo) args.push_back(Value::of(parts.is_coalesced));
    std::vector<Value> made(1);
    call_operator(*operators_.get(coo ? kSparseCoo : kSparseCompressed).info, args.data(), made);
    return made[0].tensor();
  }

  ZipReader& zip_;
  Operators& operators_;
  std::unordered_map<std::string, Storage> storages_;
};

class GraphReader {
 public:
  GraphReader(Operators& operators, int depth) : operators_(operators), depth_(depth) {
    TESSERA_CHECK(depth < 32, "graphs are nested too deeply");
  }

  // names: of the inputs, in order.
  Graph read(Json data, const std::vector<std::string>& names) {
    size_t i = 0;
    for (const Json input : data["inputs"]) {
      const Json kind = input.only();
      const bool named = kind.is(JsonKind::kObject) && (kind.has("name") || kind.has("as_name"));
      TESSERA_CHECK(i < names.size(), "the graph has more inputs than names");
      define(names[i++], kind.key() == "as_tensor"  ? Held::kTensor
                         : named || is_number(kind) ? Held::kNumber
                                                    : Held::kNothing);
    }
    TESSERA_CHECK(i == names.size(), "the signature has another number of inputs than the graph");
    graph_.num_inputs = i;
    for (const Json node : data["nodes"]) call(node);
    for (const Json output : data["outputs"]) graph_.outputs.push_back(any(output));
    graph_.num_registers = held_.size();
    find_last_uses();
    return std::move(graph_);
  }

 private:
  static bool is_number(Json kind) {
    return kind.key() == "as_int" || kind.key() == "as_float" || kind.key() == "as_bool";
  }

  uint32_t define(std::string_view name, Held what) {
    const auto place = static_cast<uint32_t>(held_.size());
    TESSERA_CHECK(!name.empty() && places_.emplace(std::string(name), place).second, "two values have the name '",
                  name.substr(0, 200), "'");
    held_.push_back(what);
    return place;
  }
  Argument reference(std::string_view name, Held what) const {
    const auto it = places_.find(std::string(name));
    TESSERA_CHECK(it != places_.end(), "the value '", name.substr(0, 200), "' is used before it is there");
    TESSERA_CHECK(held_[it->second] == what, "the value '", name.substr(0, 200), "' is of another kind than its use");
    Argument a;
    a.kind = Argument::Kind::kRegister;
    a.place = it->second;
    return a;
  }
  static Argument of(Value v) {
    Argument a;
    a.constant = std::move(v);
    return a;
  }
  // {"as_name": "sym_size"} or {"as_int": 3}
  Argument symbolic(Json j) const {
    const Json kind = j.only();
    return kind.key() == "as_name" ? reference(kind.text(), Held::kNumber) : of(constant(kind));
  }
  // A tensor, number or constant, whoever takes it.
  Argument any(Json j) const {
    const Json kind = j.only();
    const std::string_view k = kind.key();
    if (k == "as_tensor") return reference(kind["name"].text(), Held::kTensor);
    if (k == "as_sym_int" || k == "as_sym_float" || k == "as_sym_bool") return symbolic(kind);
    return of(constant(kind));
  }
  std::vector<Argument> any_list(Json j) const {
    const Json kind = j.only();
    std::vector<Argument> found;
    for (const Json item : kind) {
      if (kind.key() == "as_tensors")
        found.push_back(reference(item["name"].text(), Held::kTensor));
      else if (kind.key() == "as_sym_ints")
        found.push_back(symbolic(item));
      else if (kind.key() == "as_ints")
        found.push_back(of(Value::of(item.integer())));
      else if (kind.key() == "as_list" || kind.key() == "as_optional_tensors")
        found.push_back(any(item));
      else
        throw Error(str_cat("a list of kind '", kind.key().substr(0, 80), "' is none that programs in C++ have"));
    }
    return found;
  }

  // An operator's argument of one value.
  Argument single(Json kind, const SchemaType& type, const std::string& where) const {
    const SchemaType& plain = type.without_optional();
    const std::string_view k = kind.key();
    if (k == "as_none") {
      TESSERA_CHECK(type.is_optional(), where, " is None, which the operator does not take");
      return {};
    }
    const bool is_symbolic = k == "as_sym_int" || k == "as_sym_float" || k == "as_sym_bool";
    if (plain.kind == TypeKind::kTensor) {
      if (k == "as_tensor") {
        Argument a = reference(kind["name"].text(), Held::kTensor);
        a.is_needed = !type.is_optional();
        return a;
      }
      if (is_symbolic) {
        Argument a = symbolic(kind);
        if (a.kind == Argument::Kind::kRegister) a.kind = Argument::Kind::kWrapped;
        return a.kind == Argument::Kind::kWrapped ? a : of(Value::of(wrapped_number(a.constant.scalar())));
      }
      Value v = constant(kind);
      TESSERA_CHECK(fits(TypeKind::kScalar, v), where, " is no tensor");
      return of(Value::of(wrapped_number(v.scalar())));
    }
    if (is_symbolic) {
      Argument a = symbolic(kind);
      const bool ok = a.kind == Argument::Kind::kRegister ? is_number_type(plain.kind) : fits(plain.kind, a.constant);
      TESSERA_CHECK(ok, where, " is no ", plain.str());
      return a;
    }
    Value v = constant(kind);
    if (plain.kind == TypeKind::kDevice && v.tag() == Value::Tag::kString) v = Value::of(Device(v.string()));
    TESSERA_CHECK(fits(plain.kind, v), where, " is no ", plain.str());
    return of(std::move(v));
  }

  Argument list(Json kind, const SchemaType& type, const std::string& where) const {
    const SchemaType& element = type.without_optional().elements[0];
    const TypeKind raw = element.without_optional().kind;
    const std::string_view k = kind.key();
    std::vector<Argument> items;
    const auto plain = [&](const char* each) {
      TESSERA_CHECK(kind.is(JsonKind::kList), where, " is no list");
      for (const Json item : kind) {
        Value v = each[3] == 'i'   ? Value::of(item.integer())
                  : each[3] == 'f' ? Value::of(read_float(item))
                                   : Value::of(item.boolean());
        TESSERA_CHECK(fits(raw, v), where, " is no ", type.str());
        items.push_back(of(std::move(v)));
      }
    };
    if (k == "as_none") {
      TESSERA_CHECK(type.is_optional(), where, " is None, which the operator does not take");
      return {};
    } else if (k == "as_tensors") {
      for (const Json item : kind) items.push_back(reference(item["name"].text(), Held::kTensor));
    } else if (k == "as_optional_tensors" || k == "as_list") {
      for (const Json item : kind) items.push_back(single(item.only(), element, where));
    } else if (k == "as_sym_ints" || k == "as_sym_floats" || k == "as_sym_bools") {
      for (const Json item : kind) items.push_back(symbolic(item));
    } else if (k == "as_ints") {
      plain("as_ints");
    } else if (k == "as_floats") {
      plain("as_floats");
    } else if (k == "as_bools") {
      plain("as_bools");
    } else {  // one number for each of int[2]
      const int64_t size = type.without_optional().size;
      TESSERA_CHECK(size > 0, where, " is no ", type.str());
      items.assign(static_cast<size_t>(size), single(kind, element, where));
    }
    TESSERA_CHECK(items.empty() || k != "as_tensors" || raw == TypeKind::kTensor, where, " is no ", type.str());
    return joined(std::move(items), element, where);
  }
  Argument joined(std::vector<Argument> items, const SchemaType& element, const std::string& where) const {
    const TypeKind raw = element.without_optional().kind;
    if (raw == TypeKind::kBool) return bools(items, where);
    for (Argument& a : items) a.is_needed = raw == TypeKind::kTensor && !element.is_optional();
    bool fixed = true;
    for (const Argument& a : items) {
      fixed = fixed && a.kind == Argument::Kind::kConstant;
      TESSERA_CHECK(raw == TypeKind::kTensor || is_number_type(raw), where,
                    " is of a type that programs in C++ do not have");
      if (a.kind == Argument::Kind::kRegister)
        TESSERA_CHECK((held_[a.place] == Held::kTensor) == (raw == TypeKind::kTensor), where, " is no ", element.str());
      else if (a.kind == Argument::Kind::kConstant && raw != TypeKind::kTensor)
        TESSERA_CHECK(fits(raw, a.constant), where, " is no ", element.str());
    }
    if (fixed) {
      std::vector<Value> values;
      for (const Argument& a : items) values.push_back(a.constant);
      return of(list_value(raw, values));
    }
    Argument a;
    a.kind = raw == TypeKind::kTensor ? Argument::Kind::kTensors
             : is_int_type(raw)       ? Argument::Kind::kInts
             : is_float_type(raw)     ? Argument::Kind::kDoubles
                                      : Argument::Kind::kScalars;
    a.items = std::move(items);
    return a;
  }
  // Lists of bools are constants; a value borrows them from the plan.
  Argument bools(const std::vector<Argument>& items, const std::string& where) const {
    const std::shared_ptr<bool[]> kept(new bool[items.size() + 1]);
    for (size_t i = 0; i < items.size(); ++i) {
      TESSERA_CHECK(items[i].kind == Argument::Kind::kConstant && items[i].constant.tag() == Value::Tag::kBool, where,
                    " is no list of bools");
      kept[i] = items[i].constant.boolean();
    }
    Argument a = of(Value::borrow(std::span<const bool>(kept.get(), items.size())));
    a.bools = kept;
    return a;
  }

  void call(Json node) {
    const std::string_view target = node["target"].text();
    Call c;
    c.name = std::string(node.has("name") ? node["name"].text() : target);
    if (const Own flow = control_flow(target))
      control(node, flow, &c);
    else if (const Own own = own_function(target))
      own_call(node, own, target, &c);
    else
      operator_call(node, target, &c);
    graph_.calls.push_back(std::move(c));
  }

  void own_call(Json node, Own own, std::string_view target, Call* c) {
    c->own = own;
    c->function = function_of_target(target);
    for (const Json input : node["inputs"]) c->args.push_back(any(input["arg"]));
    if (c->function) {
      TESSERA_CHECK(c->args.size() >= c->function->least && c->args.size() <= c->function->most, "'", target, "' got ",
                    c->args.size(), " arguments");
    } else {
      check_own(target, *c);
    }
    results(node, c, 1);
  }
  void check_own(std::string_view target, const Call& c) const {
    const auto takes_tensor = [&](size_t i) {
      return c.args.size() > i && c.args[i].kind == Argument::Kind::kRegister &&
             held_[c.args[i].place] == Held::kTensor;
    };
    const auto takes_number = [&](size_t i) {
      return c.args.size() > i &&
             (c.args[i].kind == Argument::Kind::kRegister ? held_[c.args[i].place] == Held::kNumber
                                                          : fits(TypeKind::kScalar, c.args[i].constant));
    };
    bool ok;
    if (target.find("_assert_scalar") != std::string_view::npos)
      ok =
          (takes_number(0) || takes_tensor(0)) && c.args.size() == 2 && c.args[1].constant.tag() == Value::Tag::kString;
    else if (target.find("constrain") != std::string_view::npos)
      ok = takes_number(0) && c.args.size() <= 3;
    else
      ok = takes_tensor(0) && (target.find(".default") != std::string_view::npos || takes_number(1));
    TESSERA_CHECK(ok, "the arguments of '", target, "' (", c.name, ") do not fit");
  }

  void control(Json node, Own flow, Call* c) {
    c->own = flow;
    for (const Json input : node["inputs"]) {
      const Json arg = input["arg"];
      if (arg.only().key() == "as_graph")
        c->graphs.push_back(inner(arg["as_graph"]["graph"]));
      else if (arg.only().is(JsonKind::kList))
        c->lists.push_back(any_list(arg));
      else
        c->args.push_back(any(arg));
    }
    const std::string_view name = node["target"].text().substr(std::string_view("torch.ops.higher_order.").size());
    const bool rows = name == "map_impl" || name == "scan";
    if (rows) c->stack = operators_.get("aten::stack").info, c->select = operators_.get("aten::select.int").info;
    const size_t graphs = rows ? 1 : 2;
    if (name == "while_loop" && c->lists.size() == 1) c->lists.emplace_back();
    const size_t lists = name == "cond" ? 1 : name == "scan" ? 3 : 2;
    TESSERA_CHECK(c->graphs.size() == graphs && c->lists.size() == lists && c->args.size() == (name == "cond" ? 1 : 0),
                  "the arguments of '", name, "' (", c->name, ") do not fit");
    results(node, c, SIZE_MAX);
  }
  std::unique_ptr<Graph> inner(Json data) {
    std::vector<std::string> names;
    for (const Json input : data["inputs"]) {
      const Json kind = input.only();
      names.emplace_back(kind.has("name") ? kind["name"].text() : kind["as_name"].text());
    }
    return std::make_unique<Graph>(GraphReader(operators_, depth_ + 1).read(data, names));
  }

  void operator_call(Json node, std::string_view target, Call* c) {
    const std::string name = operator_name(target);
    TESSERA_CHECK(!name.empty(), "'", target.substr(0, 200), "' is no operator that programs in C++ have");
    const Operators::Known& op = operators_.get(name);
    const std::vector<SchemaArgument>& wanted = op.schema.arguments;
    c->op = op.info;
    c->args.resize(wanted.size());
    std::vector<bool> there(wanted.size());
    size_t next = 0;
    for (const Json input : node["inputs"]) {
      const bool keyword = input.has("kind") ? input["kind"].integer() == 2 : next >= wanted.size();
      int place = keyword ? op.schema.find_argument(input["name"].text()) : static_cast<int>(next++);
      TESSERA_CHECK(place >= 0 && static_cast<size_t>(place) < wanted.size() && !there[static_cast<size_t>(place)],
                    name, " takes no such argument (", c->name, ")");
      const auto i = static_cast<size_t>(place);
      there[i] = true;
      const std::string where = str_cat("argument '", wanted[i].name, "' of ", name, " (", c->name, ")");
      const Json kind = input["arg"].only();
      c->args[i] = wanted[i].type.without_optional().is_list() ? list(kind, wanted[i].type, where)
                                                               : single(kind, wanted[i].type, where);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (there[i]) continue;
      TESSERA_CHECK(wanted[i].default_value, name, " (", c->name, ") lacks the argument '", wanted[i].name, "'");
      c->args[i] = of_default(wanted[i]);
    }
    c->num_returns = op.schema.returns.size();
    c->returns_list = c->num_returns == 1 && op.schema.returns[0].type.is_list();
    if (!c->returns_list) {
      size_t i = 0;
      for (const Json output : node["outputs"]) {
        const bool is_tensor = i < c->num_returns && op.schema.returns[i].type.is(TypeKind::kTensor);
        const std::string_view k = output.only().key();
        TESSERA_CHECK(i < c->num_returns && (k == "as_none" || (k == "as_tensor") == is_tensor), "the results of ",
                      name, " (", c->name, ") are others");
        ++i;
      }
    }
    results(node, c, c->returns_list ? SIZE_MAX : c->num_returns);
  }
  Argument of_default(const SchemaArgument& a) const {
    const SchemaType& plain = a.type.without_optional();
    if (plain.is_list() && plain.elements[0].kind == TypeKind::kBool &&
        a.default_value->kind == SchemaValue::Kind::kList) {
      std::vector<Argument> items;
      for (const SchemaValue& v : a.default_value->list) items.push_back(of(Value::of(v.b)));
      return bools(items, a.name);
    }
    return of(default_value(*a.default_value, a.type));
  }

  void results(Json node, Call* c, size_t most) {
    for (const Json output : node["outputs"]) {
      const Json kind = output.only();
      if (kind.key() == "as_tensors") {
        for (const Json item : kind) c->results.push_back(define(item["name"].text(), Held::kTensor));
      } else if (kind.key() == "as_none") {
        c->results.push_back(kNoRegister);
      } else if (kind.key() == "as_tensor") {
        c->results.push_back(define(kind["name"].text(), Held::kTensor));
      } else {
        TESSERA_CHECK(kind.key().starts_with("as_sym_"), "a result of kind '", kind.key().substr(0, 80), "'");
        c->results.push_back(define(kind["as_name"].text(), Held::kNumber));
      }
    }
    TESSERA_CHECK(c->results.size() <= most, "the node '", c->name, "' has ", c->results.size(), " results");
  }

  // --- who reads what last ---

  template <class F>
  static void each_place(const Argument& a, F f) {
    if (a.place != kNoRegister) f(a.place);
    for (const Argument& item : a.items) each_place(item, f);
  }
  void find_last_uses() {
    std::vector<bool> later(graph_.num_registers);
    const auto mark = [&](uint32_t place) { later[place] = true; };
    for (const Argument& a : graph_.outputs) each_place(a, mark);
    for (size_t i = graph_.calls.size(); i-- > 0;) {
      Call& c = graph_.calls[i];
      const auto end = [&](uint32_t place) {
        if (!later[place]) c.last.push_back(place);
        later[place] = true;
      };
      for (const uint32_t place : c.results)
        if (place != kNoRegister) end(place);
      for (const Argument& a : c.args) each_place(a, end);
      for (const auto& list : c.lists)
        for (const Argument& a : list) each_place(a, end);
    }
  }

  Operators& operators_;
  int depth_;
  Graph graph_;
  std::unordered_map<std::string, uint32_t> places_;
  std::vector<Held> held_;
};

// --- structures ---

Structure read_structure(Json j, int depth) {
  TESSERA_CHECK(depth < 100, "the structure of arguments is nested too deeply");
  Structure s;
  if (j["type"].is_null()) return s;
  const std::string_view type = j["type"].text();
  for (const Json child : j["children_spec"]) s.items.push_back(read_structure(child, depth + 1));
  s.kind = Tree::Kind::kTuple;
  if (type == "builtins.list") {
    s.kind = Tree::Kind::kList;
  } else if (type == "builtins.dict" || type == "collections.OrderedDict") {
    s.kind = Tree::Kind::kDict;
    const JsonDocument keys{std::string(j["context"].text())};
    for (const Json key : keys.root())
      s.keys.emplace_back(key.is(JsonKind::kString) ? std::string(key.text())
                          : key.is(JsonKind::kInt)  ? std::to_string(key.integer())
                                                    : std::string("?"));
    TESSERA_CHECK(s.keys.size() == s.items.size(), "a dict of arguments has ", s.keys.size(), " keys and ",
                  s.items.size(), " values");
  } else {
    s.is_other = type != "builtins.tuple";
  }
  return s;
}
std::optional<Structure> read_specification(Json signature, const char* member) {
  const JsonDocument text{std::string(signature[member].text())};
  const Json both = text.root();
  TESSERA_CHECK(both.is(JsonKind::kList) && both.size() == 2 && (*both.begin()).integer() == 1,
                "the structure of arguments is of another version than 1");
  return read_structure(*++both.begin(), 0);
}

// --- programs ---

class PlanReader {
 public:
  PlanReader(ZipReader& zip, OpInfoList operators)
      : zip_(zip), operators_(operators), document_(read_description(zip)) {}

  std::shared_ptr<Plan> read() {
    const Json root = document_.root();
    TESSERA_CHECK(root["schema_version"]["major"].integer() == 8, "the program is of schema version ",
                  root["schema_version"]["major"].integer(), "; 8 is read");
    const Json module = root["graph_module"];
    tensors("data/weights/");
    tensors("data/constants/");
    std::vector<std::string> names;
    const Json data = module["graph"], signature = module["signature"];
    auto spec = signature["input_specs"].begin();
    for (const Json input : data["inputs"]) {
      TESSERA_CHECK(spec != signature["input_specs"].end(),
                    "the signature has another number of inputs than the graph");
      names.push_back(this->input((*spec).only(), input, data));
      ++spec;
    }
    plan_->graph = GraphReader(operators_, 0).read(data, names);
    outputs(signature["output_specs"], names);
    conditions(root);
    for (const Json entry : module["module_call_graph"]) {
      if (!entry["fqn"].text().empty() || entry["signature"].is_null()) continue;
      plan_->in = read_specification(entry["signature"], "in_spec");
      plan_->out = read_specification(entry["signature"], "out_spec");
    }
    if (plan_->in) {
      const Structure& in = *plan_->in;
      TESSERA_CHECK(in.items.size() == 2 && in.items[1].kind == Tree::Kind::kDict &&
                        in.leaves() == plan_->inputs.size() && plan_->out->leaves() == plan_->results.size(),
                    "the structures of arguments and results do not fit the graph");
    }
    examples();
    return plan_;
  }

 private:
  JsonDocument document(const std::string& name) {
    const std::vector<uint8_t> bytes = zip_.read(name);
    return JsonDocument(std::string(bytes.begin(), bytes.end()));
  }
  void tensors(const char* folder) {
    const std::string_view kind = std::string_view(folder).substr(5, std::string_view(folder).size() - 6);
    const std::string config = str_cat(folder, "model_", kind, "_config.json");
    if (!zip_.has(config)) return;
    const JsonDocument table = document(config);
    TensorReader reader(zip_, operators_);
    for (const Json entry : table.root()["config"])
      plan_->state.emplace(std::string(entry.key()), reader.read(entry, folder));
  }

  // Returns the name of the graph's input.
  std::string input(Json spec, Json value, Json data) {
    const std::string_view kind = spec.key();
    for (const auto& [known, path] : {std::pair("parameter", "parameter_name"), std::pair("buffer", "buffer_name"),
                                      std::pair("tensor_constant", "tensor_constant_name")}) {
      if (kind != known) continue;
      const std::string name(spec[path].text());
      const auto it = plan_->state.find(name);
      TESSERA_CHECK(it != plan_->state.end(), "the archive has no tensor '", name.substr(0, 200), "'");
      TESSERA_CHECK(plan_->inputs.empty(), "the program's own tensors come first among the inputs");
      plan_->held.push_back(it->second);
      return std::string(spec["arg"]["name"].text());
    }
    Input in;
    if (kind == "constant_input") {
      in.kind = Input::Kind::kConstant;
      in.name = std::string(spec["name"].text());
      in.constant = constant(spec["value"].only());
    } else {
      TESSERA_CHECK(kind == "user_input", "inputs of kind '", kind.substr(0, 80),
                    "' are none that programs in C++ have");
      const Json arg = spec["arg"].only(), graph_value = value.only();
      const bool tensor = arg.key() == "as_tensor";
      in.name = std::string(arg[tensor ? "name" : "as_name"].text());
      in.kind = tensor ? Input::Kind::kTensor : Input::Kind::kNumber;
      TESSERA_CHECK((graph_value.key() == "as_tensor") == tensor,
                    "the signature has another kind of input than the graph");
      if (tensor)
        for (const Json size : data["tensor_values"][in.name]["sizes"]) in.sizes.push_back(this->size(size));
      else
        in.sizes.push_back(size(data["sym_int_values"][in.name]));
    }
    plan_->names.push_back(in.name);
    plan_->inputs.push_back(std::move(in));
    return plan_->inputs.back().name;
  }
  Size size(Json j) {
    Size s;
    if (!j.has("as_expr")) {
      s.fixed = read_size(j);
      return s;
    }
    s.expression.emplace(j["as_expr"]["expr_str"].text(), plan_->symbols);
    if (s.expression->symbols().empty()) {
      s.fixed = s.expression->evaluate(SymbolValues(0)).i;
      s.expression.reset();
    }
    return s;
  }

  void outputs(Json specs, const std::vector<std::string>& names) {
    size_t place = 0;
    for (const Json item : specs) {
      const Json spec = item.only();
      const std::string_view kind = spec.key();
      TESSERA_CHECK(place < plan_->graph.outputs.size(), "the signature has another number of outputs than the graph");
      if (kind == "user_output" || kind == "loss_output") {
        plan_->results.push_back(place++);
        continue;
      }
      Plan::Write w{place, {}};
      const Argument& made = plan_->graph.outputs[place++];
      if (kind == "buffer_mutation" || kind == "parameter_mutation") {
        const auto it =
            plan_->state.find(std::string(spec[kind == "buffer_mutation" ? "buffer_name" : "parameter_name"].text()));
        TESSERA_CHECK(it != plan_->state.end(), "the program writes to a tensor that the archive does not have");
        w.held = it->second;
      } else {
        TESSERA_CHECK(kind == "user_input_mutation", "outputs of kind '", kind.substr(0, 80),
                      "' are none that programs in C++ have");
        const auto it = std::find(plan_->names.begin(), plan_->names.end(), spec["user_input_name"].text());
        TESSERA_CHECK(it != plan_->names.end(), "the program writes to an argument that it does not have");
        w.input = static_cast<size_t>(it - plan_->names.begin());
        TESSERA_CHECK(plan_->inputs[w.input].kind == Input::Kind::kTensor, "the program writes to a number");
      }
      TESSERA_CHECK(made.kind == Argument::Kind::kRegister, "the program writes a constant");
      plan_->writes.push_back(std::move(w));
    }
    TESSERA_CHECK(place == plan_->graph.outputs.size(), "the signature has another number of outputs than the graph");
    TESSERA_CHECK(names.size() == plan_->held.size() + plan_->inputs.size(), "an input has no signature");
  }

  void conditions(Json root) {
    const auto bound = [](Json j) { return j.is_null() ? std::nullopt : std::optional<int64_t>(j.integer()); };
    for (const Json range : root["range_constraints"])
      plan_->ranges.push_back(
          {Expression(range.key(), plan_->symbols), bound(range["min_val"]), bound(range["max_val"])});
    if (root.has("guards_code"))
      for (const Json guard : root["guards_code"]) plan_->guards.emplace_back(guard.text(), plan_->symbols);
  }

  void examples() {
    if (!zip_.has("data/sample_inputs/model.json")) return;
    const JsonDocument text = document("data/sample_inputs/model.json");
    const Json root = text.root(), config = root["config"];
    TensorReader reader(zip_, operators_);
    std::vector<Value> leaves;
    for (const Json leaf : root["leaves"]) {
      const Json kind = leaf.only();
      leaves.push_back(kind.key() == "as_tensor"
                           ? Value::of(reader.read(config[kind["name"].text()], "data/sample_inputs/"))
                           : constant(kind));
    }
    plan_->examples = std::move(leaves);
  }

  ZipReader& zip_;
  Operators operators_;
  JsonDocument document_;
  std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
};

}  // namespace

size_t Structure::leaves() const {
  if (kind == Tree::Kind::kLeaf) return 1;
  size_t n = 0;
  for (const Structure& item : items) n += item.leaves();
  return n;
}

std::shared_ptr<Plan> read_plan(serialization::Source& source, OpInfoList operators) {
  ZipReader zip(source);
  if (zip.has("byteorder")) {
    const std::vector<uint8_t> order = zip.read("byteorder");
    TESSERA_CHECK(
        std::string(order.begin(), order.end()) == (std::endian::native == std::endian::little ? "little" : "big"),
        "the archive has another byte order than this machine");
  }
  return PlanReader(zip, operators).read();
}

}  // namespace tessera::exported
