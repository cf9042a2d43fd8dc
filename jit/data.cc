#include "jit/data.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "jit/archive.h"
#include "jit/classes/custom_class.h"
#include "jit/interpreter.h"
#include "jit/object.h"
#include "jit/source/sugar.h"
#include "jit/unpickler.h"
#include "serialization/zip.h"

namespace tessera::jit {
namespace {

constexpr int kMaxDepth = 500;

struct NoNames final : Resolver {
  bool resolve(const std::string&, const Range&, Sugar*) override { return false; }
};

// Of containers of plain types: such types live for ever, the unit need not.
TypePtr parse_type_text(const std::string& text) {
  auto unit = make_intrusive<Unit>();
  NoNames names;
  return type_of_annotation(*parse_expression(unit->add_source(text, "<type>", 1)), &names, *unit);
}

Datum list_datum(size_t n, const char* type) {
  Datum d;
  d.kind = Datum::Kind::kList;
  d.items.resize(n);
  d.type = type;
  return d;
}
template <class List>
Datum boxed_list(const List& list, const char* type) {
  Datum d = list_datum(list.size(), type);
  for (size_t i = 0; i < d.items.size(); ++i) d.items[i].value = Value::of(list[i]);
  return d;
}

Datum open(const Value& v, int depth) {
  TESSERA_CHECK(depth < kMaxDepth, "the data are nested too deeply");
  Datum d;
  switch (v.tag()) {
    case Value::Tag::kTensorList:
      return boxed_list(v.tensor_list(), "List[Tensor]");
    case Value::Tag::kIntList:
      return boxed_list(v.int_list(), "List[int]");
    case Value::Tag::kDoubleList:
      return boxed_list(v.double_list(), "List[float]");
    case Value::Tag::kBoolList:
      return boxed_list(v.bool_list(), "List[bool]");
    case Value::Tag::kString:
      d.value = Value::of(std::string(v.string()));
      return d;
    case Value::Tag::kObject:
      break;
    default:
      d.value = v.is_tensor() ? Value::of(v.tensor()) : v;
      return d;
  }
  const Object* o = object_of(v);
  const auto take = [&](Datum::Kind kind, const std::vector<Value>& items) {
    d.kind = kind;
    for (const Value& item : items) d.items.push_back(open(item, depth + 1));
  };
  if (o && o->kind == ObjectKind::kList) {
    take(Datum::Kind::kList, static_cast<const List*>(o)->items);
    d.type = type_of(v)->annotation();
  } else if (o && o->kind == ObjectKind::kTuple) {
    take(Datum::Kind::kTuple, static_cast<const Tuple*>(o)->items);
  } else if (o && o->kind == ObjectKind::kDict) {
    d.kind = Datum::Kind::kDict;
    for (const auto& [key, item] : static_cast<const Dict*>(o)->items) {
      d.items.push_back(open(key, depth + 1));
      d.items.push_back(open(item, depth + 1));
    }
    d.type = type_of(v)->annotation();
  } else {
    d.value = v;
  }
  return d;
}

Value close(const Datum& d, int depth) {
  TESSERA_CHECK(depth < kMaxDepth, "the data are nested too deeply");
  if (d.kind == Datum::Kind::kScalar) return d.value;
  std::vector<Value> items;
  for (const Datum& item : d.items) items.push_back(close(item, depth + 1));
  const TypePtr said = d.type.empty() ? nullptr : parse_type_text(d.type);
  const auto elem = [&](size_t i) {
    if (said && said->elems.size() > i) return said->elem(i);
    return i < items.size() ? type_of(items[i]) : any_type();
  };
  TESSERA_CHECK_TYPE(!said || said->is(d.kind == Datum::Kind::kList   ? K::kList
                                       : d.kind == Datum::Kind::kDict ? K::kDict
                                                                      : K::kTuple),
                     "'", d.type, "' is no type of such a container");
  if (d.kind == Datum::Kind::kList) {
    TypePtr t = items.empty() && !said ? tensor_type() : elem(0);
    return make_value<List>(t, std::move(items));
  }
  if (d.kind == Datum::Kind::kTuple) {
    std::vector<TypePtr> types;
    for (const Value& item : items) types.push_back(type_of(item));
    return make_value<Tuple>(tuple_of(std::move(types)), std::move(items));
  }
  TESSERA_CHECK_TYPE(items.size() % 2 == 0, "a dict has a key without a value");
  auto dict = make_intrusive<Dict>(elem(0), elem(1));
  for (size_t i = 0; i < items.size(); i += 2) dict->set(items[i], items[i + 1]);
  return wrap(std::move(dict));
}

Value module_of_data(const DataArchive& data, Unit& unit, int depth) {
  TESSERA_CHECK(depth < kMaxDepth, "the archive is nested too deeply");
  ClassDef* d = unit.new_class(K::kClass, unit.unique_name("__torch__.Module"));
  d->is_module = true;
  std::vector<Value> slots;
  for (const DataArchive::Entry& e : data.entries) {
    slots.push_back(e.archive ? module_of_data(*e.archive, unit, depth + 1) : value_of(e.datum));
    const Value& v = slots.back();
    d->attributes.push_back({e.name, v.is_tensor() ? tensor_type() : type_of(v),
                             e.role == DataArchive::Role::kParameter, e.role == DataArchive::Role::kBuffer});
  }
  auto instance = make_intrusive<Instance>(d);
  instance->slots = std::move(slots);
  return wrap(std::move(instance));
}

Instance& instance_of(const Value& module) {
  Object* o = module.tag() == Value::Tag::kObject ? object_of(module) : nullptr;
  TESSERA_CHECK_TYPE(o && o->kind == ObjectKind::kInstance, "expected a module");
  return *static_cast<Instance*>(o);
}

// A pickle of values, which have no classes.
struct PlainHooks final : PickleHooks {
  serialization::ZipReader& zip;
  std::unordered_map<std::string, Storage> known;
  explicit PlainHooks(serialization::ZipReader& z) : zip(z) {}
  TypePtr type(const std::string& qualified) override {
    const ClassDef* d = custom::find(qualified);
    return d ? d->type : nullptr;
  }
  TypePtr parse_type(const std::string& text) override { return parse_type_text(text); }
  Storage storage(const std::string& key, DType dtype, int64_t numel) override {
    int64_t bytes;
    TESSERA_CHECK(!__builtin_mul_overflow(numel, item_size(dtype), &bytes), "a storage is too large");
    Storage& s = known[key];
    if (!s) {
      s = StorageImpl::allocate(zip.record_size("data/" + key));
      zip.read("data/" + key, {static_cast<uint8_t*>(s->data()), s->nbytes()});
    }
    TESSERA_CHECK(static_cast<uint64_t>(bytes) <= s->nbytes(), "storage ", key.substr(0, 100),
                  " is shorter than its description");
    return s;
  }
};

}  // namespace

Datum datum_of(const Value& v) { return open(v, 0); }
Value value_of(const Datum& d) { return close(d, 0); }
Value value_of(const Datum& d, std::string_view schema_type) {
  Value v = close(d, 0);
  settle(v, from_schema(parse_schema_type(schema_type)));
  return v;
}

DataArchive::Entry* DataArchive::find(const std::string& name) {
  for (Entry& e : entries)
    if (e.name == name) return &e;
  return nullptr;
}
void DataArchive::set(Entry entry) {
  if (Entry* there = find(entry.name))
    *there = std::move(entry);
  else
    entries.push_back(std::move(entry));
}

std::shared_ptr<DataArchive> data_of(const Value& module) {
  auto data = std::make_shared<DataArchive>();
  for (Member& m : members(module)) {
    DataArchive::Entry e{std::move(m.name), m.role, {}, nullptr};
    if (m.is_module)
      e.archive = data_of(m.value);
    else
      e.datum = datum_of(m.value);
    data->entries.push_back(std::move(e));
  }
  return data;
}

Value load_module(serialization::Source& source, std::optional<Device> device,
                  std::map<std::string, std::string>* extra) {
  std::vector<std::string> names;
  if (extra)
    for (const auto& [name, text] : *extra) names.push_back(name);
  Loaded loaded = load(source, device, names);
  if (extra)
    for (auto& [name, text] : loaded.extra) (*extra)[name] = std::move(text);
  return loaded.module;
}
void save_module(const Value& module, serialization::Sink& sink, const std::string& name,
                 const std::map<std::string, std::string>& extra) {
  instance_of(module);
  save(module, sink, name, extra);
}
Value copy_module(const Value& module) {
  instance_of(module);
  return deep_copy(module);
}
std::string class_name(const Value& module) { return instance_of(module).def->name; }

std::vector<Member> members(const Value& module) {
  Instance& instance = instance_of(module);
  std::vector<Member> all;
  for (size_t i = 0; i < instance.def->attributes.size(); ++i) {
    const Attribute& a = instance.def->attributes[i];
    const Value v = i < instance.slots.size() ? instance.slots[i] : Value();
    const Object* held = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
    all.push_back({a.name,
                   a.is_parameter ? DataArchive::Role::kParameter
                   : a.is_buffer  ? DataArchive::Role::kBuffer
                                  : DataArchive::Role::kAttribute,
                   held && held->kind == ObjectKind::kInstance && static_cast<const Instance*>(held)->def->is_module,
                   v});
  }
  return all;
}
void set_member(const Value& module, const std::string& name, const Value& value) {
  Instance& instance = instance_of(module);
  const Attribute* a = instance.def->attribute(name);
  TESSERA_CHECK(a, "'", instance.def->name, "' object has no attribute '", name, "'");
  TESSERA_CHECK_TYPE(is_instance(value, a->type), "the attribute '", name, "' is of type ", a->type->annotation(),
                     ", but the value is of type ", type_of(value)->annotation());
  instance.at(name) = value;
}
std::vector<std::string> method_names(const Value& module) {
  std::vector<std::string> names;
  for (const Function* f : instance_of(module).def->methods) names.push_back(f->name);
  return names;
}
Value call_method(const Value& module, const std::string& method, std::vector<Value> args,
                  const std::vector<std::pair<std::string, Value>>& named) {
  Instance& instance = instance_of(module);
  Function* f = instance.def->method(method);
  TESSERA_CHECK(f, "Method '", method, "' is not defined.");
  args.insert(args.begin(), module);
  return call(*f, std::move(args), named);
}

void save(const DataArchive& data, serialization::Sink& sink, const std::string& name) {
  auto unit = make_intrusive<Unit>();
  save(module_of_data(data, *unit, 0), sink, name);
}

std::shared_ptr<DataArchive> load_data(serialization::Source& source, std::optional<Device> device) {
  return data_of(load(source, device).module);
}

std::vector<char> pickle_archive(const Datum& d) {
  std::vector<Storage> storages;
  const std::string data = pickle(value_of(d), &storages);
  serialization::MemorySink sink;
  serialization::ZipWriter zip(sink, "archive");
  for (size_t i = 0; i < storages.size(); ++i)
    zip.write("data/" + std::to_string(i), {static_cast<const uint8_t*>(storages[i]->data()), storages[i]->nbytes()});
  zip.write("data.pkl", serialization::as_bytes(data));
  zip.write("version", serialization::as_bytes("3\n"));
  zip.write("byteorder", serialization::as_bytes(std::endian::native == std::endian::little ? "little" : "big"));
  zip.close();
  const std::vector<uint8_t> bytes = sink.take();
  return std::vector<char>(bytes.begin(), bytes.end());
}

Datum unpickle_archive(std::span<const uint8_t> bytes) {
  serialization::MemorySource source(bytes);
  serialization::ZipReader zip(source);
  TESSERA_CHECK(zip.has("data.pkl"), "the bytes are no archive of a value: data.pkl is missing");
  PlainHooks hooks(zip);
  const std::vector<uint8_t> data = zip.read("data.pkl");
  return datum_of(unpickle(data, hooks));
}

}  // namespace tessera::jit
