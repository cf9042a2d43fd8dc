#include "jit/unpickler.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "jit/interpreter.h"
#include "jit/operator.h"
#include "tensor/ops/api.h"

namespace tessera::jit {
namespace {

// What an operator gives that a program may be linked without.
Value call_named(const char* name, std::vector<Value> args) {
  const Operator* o = find_operator(name);
  TESSERA_CHECK_NOT_IMPLEMENTED(o, "tensors of this kind in an archive: this program is linked without ", name);
  args.resize(o->args.size());
  Value result;
  call_operator(*o, args.data(), &result);
  return result;
}

constexpr int kMaxDepth = 500;

// A callable or a storage class of the stream.
struct Global : Object {
  std::string name;
  TypePtr type = nullptr;
  explicit Global(std::string n) : Object(ObjectKind::kForeign), name(std::move(n)) {}
};
struct StorageRef : Object {
  Storage storage;
  DType dtype;
  StorageRef(Storage s, DType t) : Object(ObjectKind::kForeign), storage(std::move(s)), dtype(t) {}
};

constexpr std::pair<const char*, DType> kStorages[] = {{"FloatStorage", DType::kFloat32},
                                                       {"DoubleStorage", DType::kFloat64},
                                                       {"HalfStorage", DType::kFloat16},
                                                       {"BFloat16Storage", DType::kBFloat16},
                                                       {"LongStorage", DType::kInt64},
                                                       {"IntStorage", DType::kInt32},
                                                       {"ShortStorage", DType::kInt16},
                                                       {"CharStorage", DType::kInt8},
                                                       {"ByteStorage", DType::kUInt8},
                                                       {"BoolStorage", DType::kBool},
                                                       {"ComplexFloatStorage", DType::kComplex64},
                                                       {"ComplexDoubleStorage", DType::kComplex128},
                                                       {"QUInt8Storage", DType::kQUInt8},
                                                       {"QInt8Storage", DType::kQInt8},
                                                       {"QInt32Storage", DType::kQInt32}};

class Unpickler {
 public:
  Unpickler(std::span<const uint8_t> data, PickleHooks& hooks) : data_(data), hooks_(hooks) {}
  Value run() {
    while (step()) {}
    TESSERA_CHECK(stack_.size() == 1, "the archive's pickle does not end with one value");
    Value v = pop();
    TESSERA_CHECK(!(object_of(v) && object_of(v)->kind == ObjectKind::kForeign), "the archive's pickle gives no value");
    return v;
  }

 private:
  using Items = std::vector<Value>;
  [[noreturn]] void broken(const char* why) const {
    throw Error(str_cat("the archive's pickle is broken: ", why, " at byte ", at_));
  }
  const uint8_t* take(uint64_t n) {
    if (n > data_.size() - at_) broken("the stream ends too early");
    at_ += n;
    return data_.data() + at_ - n;
  }
  uint64_t number(int bytes) {
    const uint8_t* p = take(static_cast<uint64_t>(bytes));
    uint64_t v = 0;
    for (int i = 0; i < bytes; ++i) v |= uint64_t{p[i]} << (8 * i);
    return v;
  }
  std::string text(uint64_t n) { return std::string(reinterpret_cast<const char*>(take(n)), n); }
  std::string line() {
    std::string s;
    for (char c = static_cast<char>(*take(1)); c != '\n'; c = static_cast<char>(*take(1))) s += c;
    return s;
  }
  Value pop() {
    if (stack_.empty()) broken("the stack is empty");
    Value v = std::move(stack_.back());
    stack_.pop_back();
    return v;
  }
  Value& top() {
    if (stack_.empty()) broken("the stack is empty");
    return stack_.back();
  }
  Items pop_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) broken("there is no mark");
    Items items(std::make_move_iterator(stack_.begin() + static_cast<int64_t>(marks_.back())),
                std::make_move_iterator(stack_.end()));
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push(Value v) { stack_.push_back(std::move(v)); }
  Value tuple(Items items) { return make_value<Tuple>(nullptr, std::move(items)); }
  template <class O>
  O* as_kind(const Value& v, ObjectKind k) const {
    Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
    return o && o->kind == k ? static_cast<O*>(o) : nullptr;
  }
  const Items& items_of(const Value& v) const {
    if (auto* t = as_kind<Tuple>(v, ObjectKind::kTuple)) return t->items;
    broken("a tuple is missing");
  }
  IntVector sizes(const Value& v) const {
    IntVector out;
    for (const Value& i : items_of(v)) {
      if (i.tag() != Value::Tag::kInt) broken("a size is no integer");
      out.push_back(i.integer());
    }
    return out;
  }
  Value rebuild(const Items& a) {
    if (a.size() < 5) broken("a tensor has too few parts");
    auto* s = dynamic_cast<StorageRef*>(a[0].object());
    if (!s || a[1].tag() != Value::Tag::kInt || a[4].tag() != Value::Tag::kBool)
      broken("a tensor's parts are of the wrong kind");
    const IntVector size = sizes(a[2]), stride = sizes(a[3]);
    const int64_t offset = a[1].integer();
    if (size.size() != stride.size() || size.size() > 64 || offset < 0)
      broken("a tensor's sizes and strides do not fit");
    int64_t last = offset;
    bool empty = false;
    for (size_t i = 0; i < size.size(); ++i) {
      if (size[i] < 0 || stride[i] < 0) broken("a tensor has a negative size");
      empty = empty || size[i] == 0;
      int64_t step;
      if (size[i] &&
          (__builtin_mul_overflow(size[i] - 1, stride[i], &step) || __builtin_add_overflow(last, step, &last)))
        broken("a tensor is too large");
    }
    const int64_t elements = static_cast<int64_t>(s->storage->nbytes()) / item_size(s->dtype);
    if (!empty && last >= elements) broken("a tensor leaves its storage");
    Tensor t = tensor_from_storage(s->storage, size, stride, offset, s->dtype);
    if (a[4].boolean()) t.requires_grad_();
    return Value::of(t);
  }
  Value enum_item(ClassDef& def, const Value& value) {
    for (size_t i = 0; i < def.items.size(); ++i)
      if (equal(def.items[i].value, value)) return make_value<EnumItem>(&def, i);
    broken("an enum has no such value");
  }
  // (layout, sizes, gradients wanted, indices, values, hooks): a sparse tensor
  Value rebuild_sparse(const Items& a) {
    if (a.size() < 5 || a[0].tag() != Value::Tag::kInt || a[0].integer() != 1 || !a[3].is_tensor() || !a[4].is_tensor())
      broken("a sparse tensor's parts are of the wrong kind");
    Items size;
    for (const int64_t n : sizes(a[1])) size.push_back(Value::of(n));
    return call_named("aten::sparse_coo_tensor.indices_size",
                      {a[3], a[4], make_value<List>(int_type(), std::move(size))});
  }
  // (storage, offset, sizes, strides, (scheme, scale, zero point) or (scheme, scales, zero points, axis), gradients
  // wanted, hooks): integers that stand for numbers
  Value rebuild_quantized(const Items& a) {
    auto* s = a.size() < 6 ? nullptr : dynamic_cast<StorageRef*>(a[0].object());
    const DType kinds[][2] = {
        {DType::kQUInt8, DType::kUInt8}, {DType::kQInt8, DType::kInt8}, {DType::kQInt32, DType::kInt32}};
    const auto* kind = s ? std::ranges::find_if(kinds, [&](const auto& k) { return k[0] == s->dtype; }) : nullptr;
    if (!s || kind == std::end(kinds)) broken("a quantized tensor's parts are of the wrong kind");
    const Value integers = rebuild({make_value<StorageRef>(s->storage, (*kind)[1]), a[1], a[2], a[3], a[5]});
    const Items& q = items_of(a[4]);
    using Tag = Value::Tag;
    if (q.size() == 3 && q[1].tag() == Tag::kDouble && q[2].tag() == Tag::kInt)
      return call_named("aten::_make_per_tensor_quantized_tensor", {integers, q[1], q[2]});
    if (q.size() != 4 || !q[1].is_tensor() || !q[2].is_tensor() || q[3].tag() != Tag::kInt)
      broken("a quantized tensor's parts are of the wrong kind");
    return call_named("aten::_make_per_channel_quantized_tensor", {integers, q[1], q[2], q[3]});
  }
  Value call(const Value& callee, const Value& args) {
    auto* g = dynamic_cast<Global*>(callee.object());
    if (!g) broken("something is called that is no class");
    if (g->type && g->type->is(K::kEnum)) {
      auto* in_tuple = as_kind<Tuple>(args, ObjectKind::kTuple);
      return enum_item(*g->type->def, in_tuple && in_tuple->items.size() == 1 ? in_tuple->items[0] : args);
    }
    const Items& a = items_of(args);
    const std::string& n = g->name;
    if (n == "torch._utils _rebuild_tensor_v2") return rebuild(a);
    if (n == "torch._utils _rebuild_sparse_tensor") return rebuild_sparse(a);
    if (n == "torch._utils _rebuild_qtensor") return rebuild_quantized(a);
    if (n == "torch._utils _rebuild_parameter" && a.size() >= 2 && a[0].is_tensor()) return a[0];
    if (n == "collections OrderedDict") return make_value<Dict>(str_type(), any_type());
    if (n == "builtins complex" && a.size() == 2 && a[0].tag() == Value::Tag::kDouble &&
        a[1].tag() == Value::Tag::kDouble)
      return Value::of(std::complex<double>(a[0].number(), a[1].number()));
    if (n == "torch device" && !a.empty() && a[0].tag() == Value::Tag::kString) return Value::of(Device(a[0].string()));
    if (n == "torch.jit._pickle restore_type_tag" && a.size() == 2 && a[1].tag() == Value::Tag::kString) {
      Value v = a[0];
      settle(v, hooks_.parse_type(std::string(a[1].string())), 0);
      return v;
    }
    constexpr std::pair<const char*, K> lists[] = {{"torch.jit._pickle build_intlist", K::kInt},
                                                   {"torch.jit._pickle build_doublelist", K::kFloat},
                                                   {"torch.jit._pickle build_boollist", K::kBool},
                                                   {"torch.jit._pickle build_tensorlist", K::kTensor}};
    for (const auto& [name, kind] : lists)
      if (n == name && a.size() == 1) {
        Value v = a[0];
        settle(v, list_of(simple_type(kind)), 0);
        return v;
      }
    if (g->type && g->type->is(K::kTuple)) {
      if (a.size() != g->type->elems.size()) broken("a named tuple has another number of fields");
      Value v = make_value<Tuple>(g->type, a);
      settle(v, g->type, 0);
      return v;
    }
    if (g->type && g->type->is(K::kClass)) return make_value<Instance>(g->type->def);
    throw Error(str_cat("the archive's pickle calls ", n, ", which values of programs do not need"));
  }
  void build(const Value& state) {
    if (as_kind<Dict>(top(), ObjectKind::kDict)) return;  // a dict's attributes are no part of its value
    auto* o = as_kind<Instance>(top(), ObjectKind::kInstance);
    if (!o) broken("state for something that is no instance");
    if (Function* f = o->def->method("__setstate__")) {
      Value s = state;
      f->ensure_schema();
      if (f->args.size() == 2) settle(s, f->args[1].type, 0);
      const Value args[] = {top(), s};
      run_setstate(*f, args);
      return;
    }
    auto* d = as_kind<Dict>(state, ObjectKind::kDict);
    if (!d) broken("the state of an instance is no dict");
    for (auto& [k, v] : d->items) {
      if (k.tag() != Value::Tag::kString) broken("the name of an attribute is no string");
      const int slot = o->def->slot(k.string());
      if (slot < 0) continue;
      TypePtr t = o->def->attributes[static_cast<size_t>(slot)].type;
      Value x = v;
      settle(x, t, 0);
      TESSERA_CHECK(is_instance(x, t) || (t->is(K::kTensor) && x.is_none()), "the attribute '", k.string(), "' of ",
                    o->def->name, " is not of type ", t->annotation(), " in the archive");
      o->slots[static_cast<size_t>(slot)] = std::move(x);
    }
  }
  static void run_setstate(Function& f, const Value* args) { jit::run(f, args, 2); }
  void set_items(const Items& items) {
    auto* d = as_kind<Dict>(top(), ObjectKind::kDict);
    if (!d || items.size() % 2) broken("items for something that is no dict");
    for (size_t i = 0; i < items.size(); i += 2) d->set(items[i], items[i + 1]);
  }
  void append(Items items) {
    auto* l = as_kind<List>(top(), ObjectKind::kList);
    if (!l) broken("elements for something that is no list");
    for (Value& v : items) {
      if (l->items.empty()) l->elem = type_of(v);
      l->items.push_back(std::move(v));
    }
  }
  Value global(const std::string& module, const std::string& name) {
    auto g = make_intrusive<Global>(module + " " + name);
    if (module.starts_with("__torch__")) {
      g->type = hooks_.type(module + "." + name);
      TESSERA_CHECK(g->type, "the archive has no class ", module, ".", name);
    }
    return wrap(std::move(g));
  }
  Value persistent(const Value& id) {
    const Items& a = items_of(id);
    if (a.size() != 5 || a[0].tag() != Value::Tag::kString || a[0].string() != "storage" ||
        a[2].tag() != Value::Tag::kString || a[4].tag() != Value::Tag::kInt || a[4].integer() < 0)
      broken("a storage is described in a wrong way");
    auto* g = dynamic_cast<Global*>(a[1].object());
    for (const auto& [name, dtype] : kStorages)
      if (g && g->name == std::string("torch ") + name)
        return make_value<StorageRef>(hooks_.storage(std::string(a[2].string()), dtype, a[4].integer()), dtype);
    broken("a storage of an unknown class");
  }
  static TypePtr common(const Items& items) { return items.empty() ? tensor_type() : type_of(items[0]); }

  bool step() {
    const uint8_t code = *take(1);
    switch (code) {
      case 0x80:
        take(1);
        return true;
      case '.':
        return false;
      case '(':
        if (marks_.size() > 100000) broken("too many marks");
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case 'N':
        push(Value());
        return true;
      case 0x88:
        push(Value::of(true));
        return true;
      case 0x89:
        push(Value::of(false));
        return true;
      case 'K':
        push(Value::of(static_cast<int64_t>(number(1))));
        return true;
      case 'M':
        push(Value::of(static_cast<int64_t>(number(2))));
        return true;
      case 'J':
        push(Value::of(static_cast<int64_t>(static_cast<int32_t>(number(4)))));
        return true;
      case 0x8a: {
        const uint64_t n = number(1);
        const uint8_t* p = take(n);
        if (n > 8) broken("an integer has more than 64 bits");
        uint64_t v = n && p[n - 1] >= 0x80 ? ~uint64_t{0} : 0;
        for (uint64_t i = n; i-- > 0;) v = v << 8 | p[i];
        push(Value::of(static_cast<int64_t>(v)));
        return true;
      }
      case 'G': {
        const uint64_t bits = __builtin_bswap64(number(8));
        double d;
        std::memcpy(&d, &bits, sizeof d);
        push(Value::of(d));
        return true;
      }
      case 'X':
        push(Value::of(text(number(4))));
        return true;
      case 0x8c:
        push(Value::of(text(number(1))));
        return true;
      case '}':
        push(make_value<Dict>(str_type(), any_type()));
        return true;
      case ']':
        push(make_value<List>(tensor_type()));
        return true;
      case ')':
        push(tuple({}));
        return true;
      case 0x85:
      case 0x86:
      case 0x87: {
        const size_t n = code - 0x84u;
        if (stack_.size() < n) broken("the stack is empty");
        Items items(stack_.end() - static_cast<int64_t>(n), stack_.end());
        stack_.resize(stack_.size() - n);
        push(tuple(std::move(items)));
        return true;
      }
      case 't':
        push(tuple(pop_mark()));
        return true;
      case 's': {
        Items two(2);
        two[1] = pop(), two[0] = pop();
        set_items(two);
        return true;
      }
      case 'u':
        set_items(pop_mark());
        return true;
      case 'a': {
        Items one{pop()};
        append(std::move(one));
        return true;
      }
      case 'e':
        append(pop_mark());
        return true;
      case 'q':
        memo_[number(1)] = top();
        return true;
      case 'r':
        memo_[number(4)] = top();
        return true;
      case 'h':
        get(number(1));
        return true;
      case 'j':
        get(number(4));
        return true;
      case 'c': {
        const std::string module = line();
        push(global(module, line()));
        return true;
      }
      case 'Q':
        push(persistent(pop()));
        return true;
      case 'R':
      case 0x81: {
        const Value args = pop(), callee = pop();
        push(call(callee, args));
        return true;
      }
      case 'b': {
        const Value state = pop();
        build(state);
        return true;
      }
      default:
        broken("an operation that values of programs do not need");
    }
  }
  void get(uint64_t key) {
    const auto it = memo_.find(key);
    if (it == memo_.end()) broken("nothing is remembered under a number");
    push(it->second);
  }

  std::span<const uint8_t> data_;
  PickleHooks& hooks_;
  size_t at_ = 0;
  Items stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Value> memo_;
};

class Pickler {
 public:
  explicit Pickler(std::vector<Storage>* storages) : storages_(storages) {}
  std::string run(const Value& v) {
    out_ = std::string("\x80\x02", 2);
    put(v, 0);
    out_ += '.';
    return std::move(out_);
  }

 private:
  void raw(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(v >> (8 * i));
  }
  void string(std::string_view s) {
    out_ += 'X';
    raw(s.size(), 4);
    out_ += s;
  }
  void global(std::string_view module, std::string_view name) { out_ += str_cat("c", module, "\n", name, "\n"); }
  void global(const std::string& qualified) {
    const size_t dot = qualified.rfind('.');
    global(qualified.substr(0, dot), qualified.substr(dot + 1));
  }
  void integer(int64_t i) {
    if (i >= 0 && i < 256)
      out_ += 'K', raw(static_cast<uint64_t>(i), 1);
    else if (i >= INT32_MIN && i <= INT32_MAX)
      out_ += 'J', raw(static_cast<uint64_t>(i), 4);
    else
      out_ += '\x8a', out_ += '\x08', raw(static_cast<uint64_t>(i), 8);
  }
  void ints(IntList l) {
    out_ += '(';
    for (int64_t i : l) integer(i);
    out_ += 't';
  }
  bool remembered(const void* p) {
    const auto it = memo_.find(p);
    if (it == memo_.end()) return false;
    out_ += 'j';
    raw(it->second, 4);
    return true;
  }
  void remember(const void* p) {
    out_ += 'r';
    raw(memo_.size(), 4);
    memo_.emplace(p, memo_.size());
  }
  void tensor(const Tensor& given) {
    if (!given.defined()) return out_ += 'N', void();
    if (remembered(given.impl())) return;
    if (given.layout() == Layout::kSparseCoo) {
      global("torch._utils", "_rebuild_sparse_tensor");
      out_ += "(K\x01";
      ints(given.sizes());
      out_ += given.requires_grad() ? '\x88' : '\x89';
      for (const char* part : {"aten::_indices", "aten::_values"}) {  // kept: addresses stand for what is written
        kept_.push_back(call_named(part, {Value::of(given)}));
        tensor(kept_.back().tensor());
      }
      global("collections", "OrderedDict");
      out_ += ")RtR";
      return remember(given.impl());
    }
    TESSERA_CHECK_NOT_IMPLEMENTED(given.layout() == Layout::kStrided, "a tensor of this layout in an archive");
    Tensor t = given;
    if (!t.is_cpu()) t = t.to(Device(), t.dtype());
    const bool quantized = is_quantized(t.dtype());
    const char* cls = nullptr;
    for (const auto& [name, dtype] : kStorages)
      if (dtype == t.dtype()) cls = name;
    TESSERA_CHECK_NOT_IMPLEMENTED(cls, "tensors of dtype ", name_of(t.dtype()), " in an archive");
    if (quantized) t = kept_.emplace_back(call_named("aten::int_repr", {Value::of(given)})).tensor();
    size_t key = 0;
    while (key < storages_->size() && !((*storages_)[key] == t.storage())) ++key;
    if (key == storages_->size()) storages_->push_back(t.storage());
    global("torch._utils", quantized ? "_rebuild_qtensor" : "_rebuild_tensor_v2");
    out_ += "((";
    string("storage");
    global("torch", cls);
    string(std::to_string(key));
    string("cpu");
    integer(static_cast<int64_t>(t.storage()->nbytes()) / t.item_size());
    out_ += "tQ";
    integer(t.storage_offset());
    ints(t.sizes());
    ints(t.strides());
    if (quantized) quantizer(Value::of(given));
    out_ += given.requires_grad() ? '\x88' : '\x89';
    global("collections", "OrderedDict");
    out_ += ")RtR";
    remember(given.impl());
  }
  void quantizer(const Value& t) {
    const int64_t axis = call_named("aten::_q_axis", {t}).integer();
    out_ += '(';
    global("torch", axis < 0 ? "per_tensor_affine" : "per_channel_affine");
    if (axis < 0) {
      number(call_named("aten::q_scale", {t}).number());
      integer(call_named("aten::q_zero_point", {t}).integer());
    } else {
      for (const char* part : {"aten::q_per_channel_scales", "aten::q_per_channel_zero_points"}) {
        const Value kept = kept_.emplace_back(call_named(part, {t}));
        tensor(kept.tensor());
      }
      integer(axis);
    }
    out_ += 't';
  }
  void number(double d) {
    uint64_t bits;
    std::memcpy(&bits, &d, sizeof d);
    out_ += 'G';
    raw(__builtin_bswap64(bits), 8);
  }
  void put(const Value& v, int depth) {
    using Tag = Value::Tag;
    TESSERA_CHECK(depth < kMaxDepth, "the module's data are nested too deeply");
    switch (v.tag()) {
      case Tag::kNone:
        out_ += 'N';
        return;
      case Tag::kBool:
        out_ += v.boolean() ? '\x88' : '\x89';
        return;
      case Tag::kInt:
        return integer(v.integer());
      case Tag::kDouble:
        return number(v.number());
      case Tag::kComplex: {
        const std::complex<double> c = v.scalar().to_complex();
        global("builtins", "complex");
        number(c.real());
        number(c.imag());
        out_ += "\x86R";
        return;
      }
      case Tag::kString:
        return string(v.string());
      case Tag::kTensor:
        return tensor(v.tensor());
      case Tag::kDevice:
        global("torch", "device");
        string(v.device().str());
        out_ += "\x85R";
        return;
      case Tag::kObject:
        break;
      default:
        throw NotImplementedError(str_cat("a value of type ", type_of(v)->annotation(), " in an archive"));
    }
    const Object* o = object_of(v);
    if (!o) throw NotImplementedError("an object of the host in an archive");
    if (remembered(o)) return;
    switch (o->kind) {
      case ObjectKind::kList: {
        global("torch.jit._pickle", "restore_type_tag");
        out_ += "](";
        for (const Value& e : static_cast<const List*>(o)->items) put(e, depth + 1);
        out_ += 'e';
        string(type_of(v)->annotation());
        out_ += "\x86R";
        break;
      }
      case ObjectKind::kDict: {
        global("torch.jit._pickle", "restore_type_tag");
        out_ += "}(";
        for (const auto& [k, e] : static_cast<const Dict*>(o)->items) put(k, depth + 1), put(e, depth + 1);
        out_ += 'u';
        string(type_of(v)->annotation());
        out_ += "\x86R";
        break;
      }
      case ObjectKind::kTuple: {
        const auto* t = static_cast<const Tuple*>(o);
        const bool named = t->type && !t->type->name.empty();
        if (named) global(t->type->name);
        out_ += '(';
        for (const Value& e : t->items) put(e, depth + 1);
        out_ += 't';
        if (named) out_ += '\x81';
        break;
      }
      case ObjectKind::kEnumItem:
        global(static_cast<const EnumItem*>(o)->def->name);
        put(static_cast<const EnumItem*>(o)->item().value, depth + 1);
        out_ += 'R';  // of the value itself, not of a tuple of arguments
        break;
      case ObjectKind::kInstance: {
        const auto* i = static_cast<const Instance*>(o);
        global(i->def->name);
        out_ += ")\x81";
        remember(o);
        Function* get = i->def->method("__getstate__");
        if (get) {
          const Value self[] = {v};
          const Value state = kept_.emplace_back(jit::run(*get, self, 1));  // its address is remembered
          put(state, depth + 1);
        } else {
          out_ += "}(";
          for (size_t k = 0; k < i->def->attributes.size(); ++k) {
            string(i->def->attributes[k].name);
            put(k < i->slots.size() ? i->slots[k] : Value(), depth + 1);
          }
          out_ += 'u';
        }
        out_ += 'b';
        return;
      }
      default:
        throw NotImplementedError("an object of this kind in an archive");
    }
    remember(o);
  }
  std::string out_;
  std::vector<Storage>* storages_;
  std::vector<Value> kept_;
  std::unordered_map<const void*, uint64_t> memo_;
};

}  // namespace

void settle(Value& v, TypePtr t, int depth) {
  TESSERA_CHECK(depth < kMaxDepth, "the archive's data are nested too deeply");
  if (t->is(K::kOptional)) t = t->elem();
  if (t->is(K::kFloat) && v.tag() == Value::Tag::kInt) v = Value::of(static_cast<double>(v.integer()));
  Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
  if (!o) return;
  if (o->kind == ObjectKind::kList && t->is(K::kList)) {
    auto& l = static_cast<List&>(*o);
    l.elem = t->elem();
    for (Value& e : l.items) settle(e, t->elem(), depth + 1);
  } else if (o->kind == ObjectKind::kDict && t->is(K::kDict)) {
    auto& d = static_cast<Dict&>(*o);
    d.key = t->elem(0), d.value = t->elem(1);
    for (auto& [k, e] : d.items) settle(e, t->elem(1), depth + 1);
  } else if (o->kind == ObjectKind::kTuple && t->is(K::kTuple) &&
             static_cast<Tuple*>(o)->items.size() == t->elems.size()) {
    auto& x = static_cast<Tuple&>(*o);
    x.type = t;
    for (size_t i = 0; i < x.items.size(); ++i) settle(x.items[i], t->elems[i], depth + 1);
  }
}

Value unpickle(std::span<const uint8_t> data, PickleHooks& hooks) { return Unpickler(data, hooks).run(); }
std::string pickle(const Value& v, std::vector<Storage>* storages) { return Pickler(storages).run(v); }

}  // namespace tessera::jit
