#include "jit/archive.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "jit/classes/custom_class.h"
#include "jit/operator.h"
#include "jit/source/source_printer.h"
#include "jit/source/sugar.h"
#include "jit/unpickler.h"
#include "serialization/zip.h"
#include "tensor/ops/api.h"

namespace tessera::jit {
namespace {

using serialization::ZipReader;
using serialization::ZipWriter;

class Importer;
constexpr char kRegistered[] = "__torch__.torch.classes.";

// Names in an archive's code: torch.NAME, ops.NS.NAME, __torch__.QUALIFIED, CONSTANTS.cN. It belongs to the unit, the
// importer to the loading; all code is compiled before that ends.
struct ArchiveResolver final : Resolver {
  Importer* importer;
  explicit ArchiveResolver(Importer* i) : importer(i) {}
  bool resolve(const std::string& name, const Range& where, Sugar* out) override;
};

class Importer final : public PickleHooks {
 public:
  Importer(ZipReader& zip, Unit& unit, std::optional<Device> device)
      : zip_(zip), unit_(unit), device_(device), resolver_(make_intrusive<ArchiveResolver>(this)) {}
  ~Importer() override { resolver_->importer = nullptr; }

  Value load() {
    prefix_ = "constants/";
    if (zip_.has("constants.pkl")) {
      const Value all = unpickle(zip_.read("constants.pkl"), *this);
      const Object* o = object_of(all);
      TESSERA_CHECK(o && o->kind == ObjectKind::kTuple, "the archive's constants are no tuple");
      constants_ = static_cast<const Tuple*>(o)->items;
      for (Value& v : constants_) move(v, 0);
    }
    prefix_ = "data/";
    Value module = unpickle(zip_.read("data.pkl"), *this);
    const Object* o = object_of(module);
    TESSERA_CHECK(o && o->kind == ObjectKind::kInstance && static_cast<const Instance*>(o)->def->is_module,
                  "the archive's data are no module");
    move(module, 0);
    for (size_t i = 0; i < unit_.functions().size(); ++i)
      if (!unit_.functions()[i]->is_declaration) unit_.functions()[i]->ensure_graph();
    return module;
  }

  // PickleHooks
  TypePtr type(const std::string& qualified) override {
    if (const auto it = tuples_.find(qualified); it != tuples_.end()) return it->second;
    if (ClassDef* d = unit_.find_class(qualified)) return d->type;
    if (ClassDef* d = custom::find(qualified)) return d->type;
    TESSERA_CHECK(
        !qualified.starts_with(kRegistered) || qualified.find('.', sizeof kRegistered - 1) == std::string::npos,
        "the archive uses the class ", qualified,
        ", which is not registered: load the library that registers it first");
    const Ast* a = definition(qualified);
    if (!a || !a->is(A::kClass)) return nullptr;
    ClassDef* d = define_class(unit_, *a, qualified, resolver_);
    if (!d) {
      for (const auto& [key, t] : unit_.types)
        if (t->name == qualified) return tuples_[qualified] = t.get();
      return nullptr;
    }
    return d->type;
  }
  TypePtr parse_type(const std::string& text) override {
    Source& s = unit_.add_source(text, "<type>", 1);
    return type_of_annotation(*parse_expression(s), resolver_.get(), unit_);
  }
  Storage storage(const std::string& key, DType dtype, int64_t numel) override {
    auto& known = storages_[prefix_ + key];
    int64_t bytes;
    TESSERA_CHECK(!__builtin_mul_overflow(numel, item_size(dtype), &bytes), "a storage is too large");
    if (!known) {
      const uint64_t size = zip_.record_size(prefix_ + key);
      known = StorageImpl::allocate(size);
      const std::span<uint8_t> data(static_cast<uint8_t*>(known->data()), size);
      zip_.read(prefix_ + key, data);
    }
    TESSERA_CHECK(static_cast<uint64_t>(bytes) <= known->nbytes(), "storage ", key.substr(0, 100),
                  " is shorter than its description");
    return known;
  }

  bool resolve(const std::string& name, Sugar* out) {
    if (name == "torch" || name == "ops" || name == "__torch__" || name == "CONSTANTS")
      return *out = Sugar(Sugar::kNamespace, name), true;
    for (std::string_view special : {"annotate", "uninitialized", "unchecked_cast", "fork", "getattr"})
      if (name == special) return *out = Sugar(Sugar::kSpecial, name), true;
    if (name == "inf" || name == "nan") {
      *out = Sugar::of_constant(Value::of(name == "inf" ? __builtin_inf() : __builtin_nan("")), float_type());
      return true;
    }
    if (name.starts_with("torch.")) {
      const std::string rest = name.substr(6);
      if (rest == "wait") return *out = Sugar(Sugar::kSpecial, "wait"), true;
      if (rest == "inf" || rest == "nan") return resolve(rest, out);
      if (rest == "device") return *out = Sugar(Sugar::kSpecial, "device"), true;
      *out = Sugar(Sugar::kOp, "aten::" + rest);
      return true;
    }
    if (name.starts_with("ops.")) {
      const std::string rest = name.substr(4);
      const size_t dot = rest.find('.');
      if (dot == std::string::npos) return *out = Sugar(Sugar::kNamespace, name), true;
      if (rest == "prim.RaiseException") return *out = Sugar(Sugar::kSpecial, "RaiseException"), true;
      *out = Sugar(Sugar::kOp, rest.substr(0, dot) + "::" + rest.substr(dot + 1));
      return true;
    }
    if (name.starts_with("CONSTANTS.c")) {
      const size_t i = std::strtoull(name.c_str() + 11, nullptr, 10);
      TESSERA_CHECK(i < constants_.size(), "the archive has no constant ", name);
      *out = Sugar::of_constant(constants_[i], type_of(constants_[i]));
      return true;
    }
    if (!name.starts_with("__torch__.")) return false;
    if (TypePtr t = type(name)) return *out = Sugar::of_type(t), true;
    if (Function* f = unit_.find_function(name)) return *out = Sugar::of_function(f), true;
    const Ast* a = definition(name);
    if (a && name.starts_with(kPortable))  // stands there for others
      return *out = Sugar(Sugar::kOp, "aten::" + name.substr(sizeof kPortable - 1)), true;
    if (a && a->is(A::kDef)) return *out = Sugar::of_function(define(unit_, *a, name, resolver_)), true;
    *out = Sugar(Sugar::kNamespace, name);
    return true;
  }

 private:
  // The class or function of a qualified name, in code/QUALIFIER.py.
  const Ast* definition(const std::string& qualified) {
    const size_t dot = qualified.rfind('.');
    if (dot == std::string::npos) return nullptr;
    std::string path = "code/" + qualified.substr(0, dot);
    std::replace(path.begin(), path.end(), '.', '/');
    path += ".py";
    auto [it, is_new] = files_.try_emplace(path);
    if (is_new && zip_.has(path)) {
      const std::vector<uint8_t> text = zip_.read(path);
      Source& s = unit_.add_source(std::string(text.begin(), text.end()), path, 1);
      for (const Ast* a : parse_source(s)->kids) it->second.emplace(a->text, a);
    }
    const auto found = it->second.find(qualified.substr(dot + 1));
    return found == it->second.end() ? nullptr : found->second;
  }
  // To the device that is asked for.
  void move(Value& v, int depth) {
    TESSERA_CHECK(depth < 600, "the archive's data are nested too deeply");
    if (!device_) return;
    if (v.is_tensor() && v.tensor().defined()) {
      if (v.tensor().device() == *device_) return;
      const bool grad = v.tensor().requires_grad();
      Tensor t = v.tensor().detach().to(*device_, v.tensor().dtype());
      if (grad) t.requires_grad_();
      v = Value::of(t);
      return;
    }
    Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
    if (!o) return;
    if (o->kind == ObjectKind::kInstance)
      for (Value& x : static_cast<Instance*>(o)->slots) move(x, depth + 1);
    if (o->kind == ObjectKind::kList)
      for (Value& x : static_cast<List*>(o)->items) move(x, depth + 1);
    if (o->kind == ObjectKind::kTuple)
      for (Value& x : static_cast<Tuple*>(o)->items) move(x, depth + 1);
    if (o->kind == ObjectKind::kDict)
      for (auto& [k, x] : static_cast<Dict*>(o)->items) move(x, depth + 1);
  }

  ZipReader& zip_;
  Unit& unit_;
  std::optional<Device> device_;
  IntrusivePtr<ArchiveResolver> resolver_;
  std::string prefix_;
  std::vector<Value> constants_;
  std::unordered_map<std::string, TypePtr> tuples_;
  std::unordered_map<std::string, Storage> storages_;
  std::unordered_map<std::string, std::unordered_map<std::string, const Ast*>> files_;
};

bool ArchiveResolver::resolve(const std::string& name, const Range&, Sugar* out) {
  return importer && importer->resolve(name, out);
}

// The text of all that a module needs, by file.
struct Exporter {
  SourceUses uses;
  std::map<std::string, std::string> files;
  static std::string file_of(const std::string& qualified) {
    std::string path = "code/" + qualified.substr(0, qualified.rfind('.'));
    std::replace(path.begin(), path.end(), '.', '/');
    return path + ".py";
  }
  void instance(const Value& v, int depth) {
    const Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
    if (!o || depth > 600) return;
    if (o->kind == ObjectKind::kInstance) {
      const auto* i = static_cast<const Instance*>(o);
      uses.add(i->def->type);
      for (const Value& x : i->slots) instance(x, depth + 1);
    }
    if (o->kind == ObjectKind::kEnumItem) uses.add(static_cast<const EnumItem*>(o)->def->type);
    if (o->kind == ObjectKind::kList)
      for (const Value& x : static_cast<const List*>(o)->items) instance(x, depth + 1);
  }
  void run() {
    size_t types = 0, functions = 0;
    while (types < uses.types.size() || functions < uses.functions.size()) {
      if (types < uses.types.size()) {
        TypePtr t = uses.types[types++];
        std::string text;
        print_class(t, uses, &text);
        files[file_of(t->name)] += text;
      } else {
        Function* f = uses.functions[functions++];
        std::string text;
        print_source(*f, 0, true, uses, &text);
        files[file_of(f->qualified)] += text;
      }
    }
  }
};

}  // namespace

Loaded load(serialization::Source& source, std::optional<Device> device, const std::vector<std::string>& extra) {
  uint8_t magic[4] = {};
  if (source.size() >= sizeof magic) source.read(0, magic);
  TESSERA_CHECK(std::memcmp(magic, "PK\3\4", 4) == 0,
                "PytorchStreamReader failed reading zip archive: the file is no zip archive");
  ZipReader zip(source);
  TESSERA_CHECK(zip.has("constants.pkl") || zip.has("data.pkl"),
                "the file is no TorchScript archive: data.pkl is missing");
  TESSERA_CHECK(zip.has("constants.pkl"),
                "PytorchStreamReader failed locating file constants.pkl: file not found. The file is a checkpoint "
                "that torch.save() wrote: torch.load() reads it");
  auto unit = make_intrusive<Unit>();
  const std::lock_guard lock(compile_lock());
  Loaded out;
  out.module = Importer(zip, *unit, device).load();
  for (const std::string& name : extra)
    if (zip.has("extra/" + name)) {
      const std::vector<uint8_t> data = zip.read("extra/" + name);
      out.extra[name] = std::string(data.begin(), data.end());
    }
  return out;
}
Loaded load(const std::string& path) {
  serialization::FileSource source(path);
  return load(source);
}

void save(const Value& module, serialization::Sink& sink, const std::string& name,
          const std::map<std::string, std::string>& extra) {
  const std::lock_guard lock(compile_lock());
  Exporter code;
  code.instance(module, 0);
  code.run();
  std::vector<Storage> storages, constants;
  const std::string data = pickle(module, &storages);
  std::vector<Value> items = code.uses.constants;
  const std::string constant_data = pickle(make_value<Tuple>(nullptr, std::move(items)), &constants);
  ZipWriter zip(sink, name);
  const auto write_storages = [&](const char* prefix, const std::vector<Storage>& all) {
    for (size_t i = 0; i < all.size(); ++i)
      zip.write(prefix + std::to_string(i), {static_cast<const uint8_t*>(all[i]->data()), all[i]->nbytes()});
  };
  write_storages("data/", storages);
  zip.write("data.pkl", serialization::as_bytes(data));
  for (const auto& [path, text] : code.files) zip.write(path, serialization::as_bytes(text));
  write_storages("constants/", constants);
  zip.write("constants.pkl", serialization::as_bytes(constant_data));
  for (const auto& [path, text] : extra) zip.write("extra/" + path, serialization::as_bytes(text));
  // From 4 on div is a true quotient, from 10 on gelu has an approximation.
  zip.write("version", serialization::as_bytes("10\n"));
  zip.write("byteorder", serialization::as_bytes(std::endian::native == std::endian::little ? "little" : "big"));
  zip.close();
}

Value module_of(Function& f) {
  ClassDef* d = f.unit->new_class(K::kClass, f.unit->unique_name("__torch__.PlaceholderModule"));
  d->is_module = true;
  d->attributes.push_back({"training", bool_type(), false, false});
  auto graph = copy_graph(f.ensure_graph());
  auto method = std::make_unique<Function>();
  method->name = "forward";
  method->qualified = d->name + ".forward";
  method->owner = d;
  Val* self = graph->new_val(d->type);
  self->block = graph->top;
  self->name = "self";
  graph->top->params.insert(graph->top->params.begin(), self);
  method->set_graph(std::move(graph));
  for (size_t i = 0; i < f.args.size(); ++i) {
    method->args[i + 1].name = f.args[i].name;
    method->args[i + 1].has_default = f.args[i].has_default,
                     method->args[i + 1].default_value = f.args[i].default_value;
  }
  d->methods.push_back(f.unit->add_function(std::move(method)));
  Value v = make_value<Instance>(d);
  as<Instance>(v).slots[0] = Value::of(true);
  return v;
}

}  // namespace tessera::jit
