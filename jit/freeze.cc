#include "jit/freeze.h"

#include <algorithm>
#include <set>

#include "jit/operator.h"
#include "jit/passes.h"
#include "tensor/ops/api.h"

namespace tessera::jit {
namespace {

const Value* constant_of(const Val* v) {
  return v->node && v->node->kind == N::kConstant ? &v->node->constant : nullptr;
}

template <class F>
void each_node(Block* b, const F& f) {
  for (Node* n : b->nodes) {
    f(n);
    for (Block* inner : n->blocks) each_node(inner, f);
  }
}

// Attributes of a module and of those in it become constants, but for those that programs set.
class Folder {
 public:
  Folder(const Value& root, std::set<std::string> kept) : root_(root), kept_(std::move(kept)) {}

  void find_written(Graph& g) {
    each_node(g.top, [&](Node* n) {
      if (n->kind == N::kSetAttr) written_.insert(n->name);
    });
  }
  void run(Graph& g) {
    values_.clear();
    values_[g.top->params[0]] = root_;
    block(g.top);
    apply_replacements(g.top);
  }

 private:
  static bool foldable(const Value& v) {
    const Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
    return !o || o->kind == ObjectKind::kEnumItem || o->kind == ObjectKind::kTuple;
  }
  void block(Block* b) {
    for (size_t i = 0; i < b->nodes.size(); ++i) {
      Node* n = b->nodes[i];
      for (Block* inner : n->blocks) block(inner);
      if (n->kind != N::kGetAttr) continue;
      const auto it = values_.find(n->in[0]);
      if (it == values_.end() || written_.contains(n->name)) continue;
      const bool top = object_of(it->second) == object_of(root_);
      if (top && kept_.contains(n->name)) continue;
      const Value v = as<Instance>(it->second).at(n->name);
      const Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
      if (o && o->kind == ObjectKind::kInstance) {
        values_[n->out[0]] = v;
        continue;
      }
      if (o && (o->kind == ObjectKind::kList || o->kind == ObjectKind::kDict)) continue;
      if (!foldable(v)) continue;
      if (o && o->kind == ObjectKind::kTuple && !plain_tuple(v)) continue;
      if (o && o->kind == ObjectKind::kTuple) {
        i += spread(b, i, n, v);
        continue;
      }
      n->kind = N::kConstant;
      n->in.clear();
      n->constant = v.is_tensor() && v.tensor().defined() ? Value::of(v.tensor().detach()) : v;
      if (v.is_none()) n->constant = Value();
    }
  }
  static bool plain_tuple(const Value& v) {
    for (const Value& e : as<Tuple>(v).items)
      if (e.tag() == Value::Tag::kObject) return false;
    return true;
  }
  // A tuple of constants in place of an attribute; how many nodes came before it.
  size_t spread(Block* b, size_t at, Node* n, const Value& v) {
    const auto& items = as<Tuple>(v).items;
    std::vector<Node*> made;
    n->in.clear();
    for (const Value& e : items) {
      Node* c = b->graph->new_node(N::kConstant);
      c->owner = b;
      c->constant = e;
      n->in.push_back(b->graph->add_out(c, type_of(e)));
      made.push_back(c);
    }
    n->kind = N::kTuple;
    b->nodes.insert(b->nodes.begin() + static_cast<int64_t>(at), made.begin(), made.end());
    return made.size();
  }

  Value root_;
  std::set<std::string> kept_, written_;
  std::unordered_map<const Val*, Value> values_;
};

bool named(const Node* n, const char* name) { return n && n->kind == N::kOp && n->op->name == name; }
const Tensor* tensor_of(const Val* v) {
  const Value* c = constant_of(v);
  return c && c->is_tensor() && c->tensor().defined() ? &c->tensor() : nullptr;
}
bool is_false(const Val* v) {
  const Value* c = constant_of(v);
  return c && c->tag() == Value::Tag::kBool && !c->boolean();
}

Val* put_constant(Graph& g, Block* b, Node* before, const Tensor& t) {
  Node* c = g.new_node(N::kConstant);
  c->owner = b;
  c->constant = Value::of(t);
  b->nodes.insert(std::find(b->nodes.begin(), b->nodes.end(), before), c);
  return g.add_out(c, tensor_type());
}

// batch_norm(conv(x, w, b)) with constant statistics.
bool fold_norm(Graph& g, Block* b, Node* norm) {
  Node* conv = norm->in[0]->node;
  const bool linear = named(conv, "aten::linear");
  bool is_conv = false;
  for (const char* name : {"aten::conv1d", "aten::conv2d", "aten::conv3d"}) is_conv = is_conv || named(conv, name);
  if (!(linear || is_conv) || norm->in[0]->uses != 1 || !is_false(norm->in[5])) return false;
  const Tensor *weight = tensor_of(conv->in[1]), *mean = tensor_of(norm->in[3]), *var = tensor_of(norm->in[4]);
  const Value *eps = constant_of(norm->in[7]), *gamma = constant_of(norm->in[1]), *beta = constant_of(norm->in[2]),
              *bias = constant_of(conv->in[2]);
  if (!weight || !mean || !var || !eps || !gamma || !beta || !bias) return false;
  const NoGradGuard no_grad;
  Tensor scale = var->add(eps->scalar()).rsqrt();
  if (!gamma->is_none()) scale = scale.mul(gamma->tensor());
  Tensor shift = bias->is_none() ? mean->neg() : bias->tensor().sub(*mean);
  shift = shift.mul(scale);
  if (!beta->is_none()) shift = shift.add(beta->tensor());
  IntVector shape(static_cast<size_t>(weight->dim()), 1);
  shape[0] = -1;
  conv->in[1] = put_constant(g, b, conv, weight->mul(scale.reshape(IntList(shape))));
  conv->in[2] = put_constant(g, b, conv, shift);
  norm->out[0]->same = conv->out[0];
  return true;
}

bool is_plain_convolution(const Node* n) {
  for (const char* name : {"aten::conv1d", "aten::conv2d", "aten::conv3d"})
    if (named(n, name) && n->op->overload.empty()) return true;
  return false;
}

// relu(conv(x, w, b)) on a CUDA device: one call of cuDNN.
void join_activation(Node* relu) {
  Node* conv = relu->in[0]->node;
  if (!is_plain_convolution(conv) || conv->owner != relu->owner || relu->in[0]->uses != 1) return;
  const Tensor* weight = tensor_of(conv->in[1]);
  static const Operator* const joined = find_operator("aten::cudnn_convolution_relu");
  const bool lists =
      std::all_of(conv->in.begin() + 3, conv->in.begin() + 6, [](const Val* v) { return v->type->kind == K::kList; });
  if (!joined || !weight || !weight->is_cuda() || !weight->is_floating_point() || !lists) return;
  conv->op = joined;
  relu->out[0]->same = conv->out[0];
}

void fold_block(Graph& g, Block* b) {
  for (size_t i = 0; i < b->nodes.size(); ++i) {
    Node* n = b->nodes[i];
    for (Block* inner : n->blocks) fold_block(g, inner);
    const bool drop = (named(n, "aten::dropout") || named(n, "aten::feature_dropout") ||
                       named(n, "aten::alpha_dropout") || named(n, "aten::feature_alpha_dropout")) &&
                      is_false(n->in[2]);
    if (drop) n->out[0]->same = n->in[0];
    if (named(n, "aten::batch_norm") && fold_norm(g, b, n))
      i = static_cast<size_t>(std::find(b->nodes.begin(), b->nodes.end(), n) - b->nodes.begin());
  }
}

}  // namespace

void fold_layers(Graph& g) {
  count_uses(g.top);
  fold_block(g, g.top);
  apply_replacements(g.top);
  remove_dead_code(g);
  count_uses(g.top);
  each_node(g.top, [](Node* n) {
    if (named(n, "aten::relu") || named(n, "aten::relu_")) join_activation(n);
  });
  apply_replacements(g.top);
  remove_dead_code(g);
}

Value freeze(const Value& module, const std::vector<std::string>& kept) {
  Instance& from = as<Instance>(module);
  if (from.def->slot("training") >= 0 && !from.at("training").is_none())
    TESSERA_CHECK(!from.at("training").boolean(),
                  "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your "
                  "module before freezing.");
  std::set<std::string> names(kept.begin(), kept.end());
  std::vector<Function*> methods;
  for (const std::string& n : kept)
    TESSERA_CHECK(from.def->method(n) || from.def->slot(n) >= 0, "Unknown name: ", n,
                  " is no method or attribute of the module");
  for (Function* f : from.def->methods)
    if (f->name == "forward" || names.contains(f->name)) methods.push_back(f);
  Folder folder(module, names);
  std::vector<std::unique_ptr<Graph>> graphs;
  for (Function* f : methods) {
    auto g = copy_graph(f->ensure_graph());
    inline_calls(*g);
    folder.find_written(*g);
    graphs.push_back(std::move(g));
  }
  Unit& unit = *from.def->unit;
  ClassDef* d = unit.new_class(K::kClass, unit.unique_name(from.def->name));
  d->is_module = true;
  std::set<std::string> used = names;
  used.insert("training");
  for (auto& g : graphs) {
    folder.run(*g);
    fold_constants(*g);
    share_common(*g);
    fold_layers(*g);
    fold_constants(*g);
    remove_dead_code(*g);
    each_node(g->top, [&](Node* n) {
      if ((n->kind == N::kGetAttr || n->kind == N::kSetAttr) && n->in[0] == g->top->params[0]) used.insert(n->name);
    });
  }
  for (const Attribute& a : from.def->attributes)
    if (used.contains(a.name)) d->attributes.push_back(a);
  Value made = make_value<Instance>(d);
  for (const Attribute& a : d->attributes) as<Instance>(made).at(a.name) = from.at(a.name);
  for (size_t i = 0; i < methods.size(); ++i) {
    auto f = std::make_unique<Function>();
    f->name = methods[i]->name;
    f->qualified = d->name + "." + f->name;
    f->owner = d;
    graphs[i]->top->params[0]->type = d->type;
    const std::vector<Param> args = methods[i]->args;
    f->set_graph(std::move(graphs[i]));
    for (size_t k = 1; k < args.size(); ++k) f->args[k] = args[k];
    d->methods.push_back(unit.add_function(std::move(f)));
  }
  return made;
}

}  // namespace tessera::jit
