#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "serialization/pickle.h"

namespace tessera::serialization {
namespace {

enum class Global {
  kRebuildV2,
  kRebuildV3,
  kParameter,
  kOrderedDict,
  kSize,
  kDevice,
  kEncode,
  kLayout,
  kSparse,
  kStorageClass
};

struct GlobalNode : RefCounted {
  Global what;
  DType dtype = DType::kUInt8;  // of a storage class
  GlobalNode(Global g, DType t) : what(g), dtype(t) {}
};
struct StorageNode : RefCounted {
  Storage storage;
  DType dtype;
  StorageNode(Storage s, DType t) : storage(std::move(s)), dtype(t) {}
};

struct NamedGlobal {
  const char* module;
  const char* name;
  Global what;
};
constexpr NamedGlobal kGlobals[] = {
    {"torch._utils", "_rebuild_tensor_v2", Global::kRebuildV2},
    {"torch._utils", "_rebuild_tensor_v3", Global::kRebuildV3},
    {"torch._utils", "_rebuild_parameter", Global::kParameter},
    {"collections", "OrderedDict", Global::kOrderedDict},
    {"torch", "Size", Global::kSize},
    {"torch", "device", Global::kDevice},
    {"_codecs", "encode", Global::kEncode},
    {"torch.serialization", "_get_layout", Global::kLayout},
    {"torch._utils", "_rebuild_sparse_tensor", Global::kSparse},
};

class Unpickler {
 public:
  Unpickler(std::span<const uint8_t> data, StorageReader& storages) : data_(data), storages_(storages) {}
  ~Unpickler() { release_garbage(); }

  Object load() {
    while (step()) {}
    Object result = pop();
    check_tree(result);
    return result;
  }

 private:
  [[noreturn, gnu::noinline]] void broken(const char* why) const {
    internal::raise<Error>("Weights only load failed: ", why, " at byte ", at_, " of the pickle");
  }

  // --- Input.
  const uint8_t* take(uint64_t n) {
    if (n > data_.size() - at_) broken("the stream ends too early");
    at_ += n;
    return data_.data() + at_ - n;
  }
  uint64_t number(int bytes) {
    const uint8_t* p = take(bytes);
    uint64_t v = 0;
    for (int i = 0; i < bytes; ++i) v |= uint64_t{p[i]} << (8 * i);
    return v;
  }
  std::string text(int length_bytes) {
    const uint64_t n = number(length_bytes);
    return std::string(reinterpret_cast<const char*>(take(n)), n);
  }
  std::string_view line() {
    const uint8_t* begin = data_.data() + at_;
    const void* end = at_ == data_.size() ? nullptr : std::memchr(begin, '\n', data_.size() - at_);
    if (!end) broken("the stream ends too early");
    const size_t n = static_cast<const uint8_t*>(end) - begin;
    at_ += n + 1;
    return {reinterpret_cast<const char*>(begin), n};
  }
  int64_t long_integer(uint64_t size) {
    const uint8_t* p = take(size);
    if (size > 8) broken("an integer has more than 64 bits");
    uint64_t v = size && p[size - 1] >= 0x80 ? ~uint64_t{0} : 0;
    for (uint64_t i = size; i-- > 0;) v = v << 8 | p[i];
    return static_cast<int64_t>(v);
  }

  // --- Stack.
  void push(Object o) { stack_.push_back(std::move(o)); }
  Object pop() {
    if (stack_.empty()) broken("the stack is empty");
    Object o = std::move(stack_.back());
    stack_.pop_back();
    return o;
  }
  Object& top() {
    if (stack_.empty()) broken("the stack is empty");
    return stack_.back();
  }
  Object::Items pop_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) broken("there is no mark");
    Object::Items items(std::make_move_iterator(stack_.begin() + marks_.back()), std::make_move_iterator(stack_.end()));
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  Object::Items pop_items(size_t n) {
    if (stack_.size() < n) broken("the stack is empty");
    Object::Items items(std::make_move_iterator(stack_.end() - n), std::make_move_iterator(stack_.end()));
    stack_.resize(stack_.size() - n);
    return items;
  }
  // What calls copy may not add up to more than the stream's own length: no small file makes a huge object.
  void count_copied(size_t n) {
    copied_ += n;
    if (copied_ > data_.size()) broken("the objects are larger than the stream");
  }
  // Every container is remembered: see release_garbage.
  Object kept(Object container) {
    containers_.push_back(container.node());
    is_dict_.push_back(container.kind() == Kind::kDict);
    return container;
  }

  void set_items(const Object::Items& items) {
    if (top().kind() != Kind::kDict || items.size() % 2) broken("items for something that is no dict");
    auto& entries = top().dict_node().entries;
    for (size_t i = 0; i < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
  }
  void append_items(Object::Items items) {
    if (top().kind() != Kind::kList) broken("items for something that is no list");
    auto& list = top().list_node().items;
    list.insert(list.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
  }
  void get_memo(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) broken("unknown memo index");
    push(found->second);
  }

  // --- Globals and calls.
  Object global(std::string_view module, std::string_view name) {
    for (const NamedGlobal& g : kGlobals)
      if (module == g.module && name == g.name)
        return Object::opaque(make_intrusive<GlobalNode>(g.what, DType::kUInt8));
    if (module == "torch" || module == "torch.storage") {
      if (name == "UntypedStorage")
        return Object::opaque(make_intrusive<GlobalNode>(Global::kStorageClass, DType::kUInt8));
      for (int i = 0; i < kNumDTypes; ++i) {
        const DType t = static_cast<DType>(i);
        const char* storage = storage_class(t);
        if (storage && name == storage) return Object::opaque(make_intrusive<GlobalNode>(Global::kStorageClass, t));
        if (module == "torch" && name == name_of(t)) return Object(t);
      }
    }
    internal::raise<Error>("Weights only load failed: Unsupported global: ", module.substr(0, 200), ".",
                           name.substr(0, 200), " is not allowed in a checkpoint of tensors");
  }

  const GlobalNode* as_global(const Object& o) const {
    return o.kind() == Kind::kOpaque ? dynamic_cast<const GlobalNode*>(o.node().get()) : nullptr;
  }

  // ('storage', class, key, location, number of elements)
  Object persistent(const Object& id) {
    const auto fields = id.kind() == Kind::kTuple ? std::span<const Object>(id.items()) : std::span<const Object>();
    const GlobalNode* kind = fields.size() == 5 ? as_global(fields[1]) : nullptr;
    if (!kind || kind->what != Global::kStorageClass || fields[0].kind() != Kind::kString ||
        fields[0].as_string() != "storage" || fields[2].kind() != Kind::kString || fields[4].kind() != Kind::kInt ||
        fields[4].as_int() < 0)
      broken("malformed storage");
    // Whatever device it came from: it is restored on the CPU.
    return Object::opaque(make_intrusive<StorageNode>(
        storages_.load(fields[2].as_string(), kind->dtype, fields[4].as_int()), kind->dtype));
  }

  IntVector integers(const Object& tuple) const {
    if (tuple.kind() != Kind::kTuple && tuple.kind() != Kind::kList) broken("malformed tensor");
    IntVector result;
    for (const Object& o : tuple.items()) {
      if (o.kind() != Kind::kInt) broken("malformed tensor");
      result.push_back(o.as_int());
    }
    if (result.size() > 64) broken("a tensor has more than 64 dimensions");
    return result;
  }

  // (storage, offset, sizes, strides, requires_grad, hooks, [dtype,] [metadata])
  Object rebuild_tensor(const Object::Items& args, bool has_dtype) {
    const size_t fixed = has_dtype ? 7 : 6;
    const auto* storage = !args.empty() && args[0].kind() == Kind::kOpaque
                              ? dynamic_cast<const StorageNode*>(args[0].node().get())
                              : nullptr;
    if (!storage || (args.size() != fixed && args.size() != fixed + 1) || args[1].kind() != Kind::kInt ||
        args[4].kind() != Kind::kBool)
      broken("malformed tensor");
    const DType dtype = has_dtype ? args[6].as_dtype() : storage->dtype;
    const Tensor t =
        tensor_from_storage(storage->storage, integers(args[2]), integers(args[3]), args[1].as_int(), dtype);
    if (args.size() > fixed && args[fixed].kind() == Kind::kDict) {
      if (args[fixed].entries().size() > 16) broken("malformed tensor");
      for (const char* bit : {"conj", "neg"}) {
        const Object* on = args[fixed].find(std::string_view(bit));
        if (!on || on->kind() != Kind::kBool || !on->as_bool()) continue;
        if (bit[0] == 'c' && !t.is_complex()) broken("a conjugate view of a tensor that is not complex");
        bit[0] == 'c' ? t.impl()->set_conj(true) : t.impl()->set_neg(true);
      }
    }
    if (args[4].as_bool()) t.requires_grad_();
    return t;
  }

  Object ordered_dict(const Object::Items& args) {
    Object dict = kept(Object::dict({}, true));
    if (args.empty()) return dict;
    if (args.size() != 1 || args[0].kind() != Kind::kList) broken("malformed OrderedDict");
    count_copied(args[0].items().size());
    for (const Object& pair : args[0].items()) {
      if ((pair.kind() != Kind::kTuple && pair.kind() != Kind::kList) || pair.items().size() != 2)
        broken("malformed OrderedDict");
      dict.dict_node().entries.emplace_back(pair.items()[0], pair.items()[1]);
    }
    return dict;
  }

  // (layout, (indices ..., values, sizes, [whether it is coalesced]))
  Object sparse(const Object::Items& args) {
    if (args.size() != 2 || args[0].kind() != Kind::kString || args[1].kind() != Kind::kTuple)
      broken("malformed sparse tensor");
    SparseParts parts{args[0].as_string(), {}, {}, false};
    auto part = args[1].items().begin();
    const auto end = args[1].items().end();
    for (; part != end && part->kind() == Kind::kTensor && parts.tensors.size() < 3; ++part)
      parts.tensors.push_back(part->as_tensor());
    if (part == end) broken("malformed sparse tensor");
    parts.sizes = integers(*part++);
    if (part != end) parts.is_coalesced = part++->as_bool();
    if (part != end) broken("malformed sparse tensor");
    return storages_.sparse(parts);
  }

  Object device(const Object::Items& args) const {
    if (args.empty() || args.size() > 2 || args[0].kind() != Kind::kString || args[0].as_string().size() > 64 ||
        (args.size() == 2 && args[1].kind() != Kind::kInt))
      broken("malformed device");
    return args.size() == 1 ? args[0] : Object(args[0].as_string() + ":" + std::to_string(args[1].as_int()));
  }

  // How protocol 2 writes bytes: text whose letters are below 256, encoded as latin1.
  Object latin1_bytes(const Object::Items& args) {
    if (args.size() != 2 || args[0].kind() != Kind::kString || args[1].kind() != Kind::kString ||
        args[1].as_string() != "latin1")
      broken("malformed bytes");
    std::string result;
    const std::string& s = args[0].as_string();
    count_copied(s.size());
    for (size_t i = 0; i < s.size(); ++i) {
      const uint8_t c = static_cast<uint8_t>(s[i]);
      if (c < 0x80) {
        result += s[i];
        continue;
      }
      if ((c != 0xc2 && c != 0xc3) || i + 1 == s.size()) broken("malformed bytes");
      result += static_cast<char>((c & 3) << 6 | (s[++i] & 0x3f));
    }
    return Object::bytes(std::move(result));
  }

  Object call(const Object& callee, const Object& arguments) {
    const GlobalNode* g = as_global(callee);
    if (!g || arguments.kind() != Kind::kTuple) broken("a call of something that can't be called");
    const auto& args = arguments.items();
    switch (g->what) {
      case Global::kRebuildV2:
        return rebuild_tensor(args, false);
      case Global::kRebuildV3:
        return rebuild_tensor(args, true);
      case Global::kParameter: {
        if (args.size() != 3 || args[0].kind() != Kind::kTensor || args[1].kind() != Kind::kBool)
          broken("malformed parameter");
        args[0].as_tensor().requires_grad_(args[1].as_bool());
        return args[0];
      }
      case Global::kOrderedDict:
        return ordered_dict(args);
      case Global::kSize: {
        if (args.size() != 1) broken("malformed size");
        count_copied(integers(args[0]).size());
        return kept(Object::tuple(args[0].items()));
      }
      case Global::kDevice:
        return device(args);
      case Global::kEncode:
        return latin1_bytes(args);
      case Global::kLayout:
        if (args.size() != 1 || args[0].kind() != Kind::kString) broken("malformed layout");
        return args[0];
      case Global::kSparse:
        return sparse(args);
      case Global::kStorageClass:
        break;
    }
    broken("a call of something that can't be called");
  }

  // --- Opcodes. False at the end.
  bool step() {
    const uint8_t code = *take(1);
    switch (code) {
      case '.':
        return false;
      case 0x80:
        if (number(1) > 5) broken("unsupported pickle protocol");
        return true;
      case 0x95:
        take(8);
        return true;  // FRAME
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_mark();
        return true;
      case 'N':
        push({});
        return true;
      case 0x88:
        push(true);
        return true;
      case 0x89:
        push(false);
        return true;
      case 'K':
        push(static_cast<int64_t>(number(1)));
        return true;
      case 'M':
        push(static_cast<int64_t>(number(2)));
        return true;
      case 'J':
        push(int64_t{static_cast<int32_t>(number(4))});
        return true;
      case 0x8a:
        push(long_integer(number(1)));
        return true;
      case 0x8b:
        push(long_integer(number(4)));
        return true;
      case 'G': {
        const uint64_t bits = __builtin_bswap64(number(8));
        double d;
        std::memcpy(&d, &bits, sizeof d);
        push(d);
        return true;
      }
      case 'X':
      case 'T':
        push(text(4));
        return true;
      case 0x8c:
      case 'U':
        push(text(1));
        return true;
      case 0x8d:
        push(text(8));
        return true;
      case 'B':
        push(Object::bytes(text(4)));
        return true;
      case 'C':
        push(Object::bytes(text(1)));
        return true;
      case 0x8e:
        push(Object::bytes(text(8)));
        return true;
      default:
        return container_step(code);
    }
  }

  bool container_step(uint8_t code) {
    switch (code) {
      case '}':
        push(kept(Object::dict()));
        return true;
      case ']':
        push(kept(Object::list()));
        return true;
      case ')':
        push(kept(Object::tuple({})));
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push(kept(Object::tuple(pop_items(code - 0x84))));
        return true;
      case 't':
        push(kept(Object::tuple(pop_mark())));
        return true;
      case 's':
        set_items(pop_items(2));
        return true;
      case 'u':
        set_items(pop_mark());
        return true;
      case 'a':
        append_items(pop_items(1));
        return true;
      case 'e':
        append_items(pop_mark());
        return true;
      case 'q':
        memo_[number(1)] = top();
        return true;
      case 'r':
        memo_[number(4)] = top();
        return true;
      case 0x94:
        memo_[memo_.size()] = Object(top());
        return true;
      case 'h':
        get_memo(number(1));
        return true;
      case 'j':
        get_memo(number(4));
        return true;
      case 'c': {
        const std::string_view module = line();
        push(global(module, line()));
        return true;
      }
      case 0x93: {
        const Object name = pop(), module = pop();
        push(global(module.as_string(), name.as_string()));
        return true;
      }
      case 'Q':
        push(persistent(pop()));
        return true;
      case 'R':
      case 0x81: {  // REDUCE, NEWOBJ
        const Object args = pop(), callee = pop();
        push(call(callee, args));
        return true;
      }
      case 'b':  // BUILD: attributes of an OrderedDict (_metadata of a state dict) are not kept
        pop();
        if (top().kind() != Kind::kDict) broken("attributes for something that is no OrderedDict");
        return true;
      default:
        internal::raise<Error>("Weights only load failed: Unsupported operand ", int{code}, " at byte ", at_ - 1,
                               " of the pickle");
    }
  }

  // --- The result: finite, not too deep, with nothing of the pickle's own in it.
  template <class F>
  static void for_children(const Object& o, F&& f) {
    if (o.kind() == Kind::kList || o.kind() == Kind::kTuple)
      for (const Object& child : o.items()) f(child);
    if (o.kind() == Kind::kDict)
      for (const auto& [key, value] : o.entries()) f(key), f(value);
  }

  void check_tree(const Object& root) {
    struct Visit {
      Object object;
      bool leave;
    };
    std::vector<Visit> todo{{root, false}};
    while (!todo.empty()) {
      const Visit v = std::move(todo.back());
      todo.pop_back();
      const RefCounted* node = v.object.node().get();
      if (v.object.kind() == Kind::kOpaque) broken("a global or storage stands where a value should");
      if (v.object.kind() < Kind::kList) continue;
      if (v.leave) {
        int height = 1;
        for_children(v.object, [&](const Object& c) {
          if (c.kind() >= Kind::kList && c.kind() != Kind::kOpaque)
            height = std::max(height, 1 + heights_.at(c.node().get()));
        });
        if (height > kMaxDepth) broken("containers are nested too deeply");
        heights_[node] = height;
        continue;
      }
      const auto [seen, fresh] = heights_.emplace(node, 0);
      if (!fresh) {
        if (seen->second == 0) broken("a container holds itself");
        continue;
      }
      todo.push_back({v.object, true});
      for_children(v.object, [&](const Object& c) {
        if (c.kind() >= Kind::kList) todo.push_back({c, false});
      });
    }
    sound_ = true;
  }

  // Cycles would never be freed, and a chain of a million tuples would overflow the stack when it is: containers
  // outside the result are emptied one by one, while all are still held here.
  void release_garbage() {
    for (size_t i = 0; i < containers_.size(); ++i) {
      if (sound_ && heights_.count(containers_[i].get())) continue;
      if (is_dict_[i])
        static_cast<Object::DictNode&>(*containers_[i]).entries.clear();
      else
        static_cast<Object::ListNode&>(*containers_[i]).items.clear();
    }
  }

  std::span<const uint8_t> data_;
  StorageReader& storages_;
  size_t at_ = 0, copied_ = 0;
  std::vector<IntrusivePtr<RefCounted>> containers_;
  std::vector<bool> is_dict_;
  bool sound_ = false;
  std::unordered_map<const RefCounted*, int> heights_;
  std::vector<Object> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Object> memo_;
};

}  // namespace

Object read_pickle(std::span<const uint8_t> data, StorageReader& storages) { return Unpickler(data, storages).load(); }

}  // namespace tessera::serialization
