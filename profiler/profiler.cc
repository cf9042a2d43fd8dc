#include "profiler/profiler.h"

#include <mutex>
#include <utility>

#include "autograd/node.h"
#include "autograd/observer.h"
#include "profiler/session.h"
#include "tensor/core/device_hooks.h"
#include "tensor/core/memory/observer.h"
#include "tensor/core/warning.h"
#include "tensor/dispatch/runtime.h"

namespace tessera::profiler {
namespace {

constexpr uint64_t kProfilerBit = DispatchKeySet(DispatchKey::kProfiler).bits();

// The session that records now, for threads in a hurry: its number above these bits, 0 if there is none.
enum Flag : uint64_t {
  kShapes = 1,
  kMemory = 2,
  kModules = 4,
  kAllThreads = 8,
  kOperators = 16,
  kOn = 32,
  kOwners = 64
};
constexpr int kFlagBits = 8;
constinit std::atomic<uint64_t> g_now{0};
constinit std::atomic<int> g_emitting{0};  // threads that emit ranges

// The session itself, its hooks.
std::mutex g_mutex;
std::shared_ptr<Session> g_session;
uint64_t g_number = 0;
bool g_starting = false;                             // somebody is, without the lock
std::atomic<const DeviceTracer*> g_tracer{nullptr};  // the last one that operators told of themselves

struct Slot {
  Log* log;  // of session `number`
  uint64_t number;
  uint64_t member;  // the session that this thread started
  const Emitter* emitter;
  bool ended;  // the thread is ending: its logs have gone
};
thread_local constinit Slot t_slot TESSERA_TLS{};

// Logs that this thread may still write to: the present one, and those of events that are still open.
struct Held {
  std::vector<std::shared_ptr<Log>> logs;
  ~Held() {
    t_slot = {};
    t_slot.ended = true;
  }
};
Held& held() {
  static thread_local Held h;
  return h;
}

[[gnu::noinline]] Log* attach(uint64_t now) {
  Slot& slot = t_slot;
  const uint64_t number = now >> kFlagBits;
  if (slot.ended || (slot.member != number && !(now & kAllThreads))) return nullptr;
  Held& mine = held();
  std::lock_guard lock(g_mutex);
  if (!g_session || g_session->number != number) return nullptr;
  auto log = std::make_shared<Log>(number);
  g_session->logs.push_back(log);
  std::erase_if(mine.logs, [](const auto& l) { return !l->has_open(); });
  mine.logs.push_back(log);
  slot.log = log.get();
  slot.number = number;
  return slot.log;
}
inline Log* log_for(uint64_t now) {
  if (!(now & kOn)) return nullptr;
  return t_slot.number == now >> kFlagBits ? t_slot.log : attach(now);
}

std::string shapes_of(const Value* args, size_t n) {
  std::string text = "[";
  for (size_t i = 0; i < n; ++i) {
    text += i ? ", [" : "[";
    if (args[i].is_tensor() && args[i].tensor().defined()) {
      bool first = true;
      for (const int64_t s : args[i].tensor().sizes()) {
        text += (first ? "" : ", ") + std::to_string(s);
        first = false;
      }
    }
    text += "]";
  }
  return text + "]";
}

struct EmittedRange {
  const Emitter* emitter;
  explicit EmittedRange(const Emitter* e, const std::string& name) : emitter(e) { e->push(name.c_str()); }
  ~EmittedRange() { emitter->pop(); }
  EmittedRange(const EmittedRange&) = delete;
};

void emit_operator(const Emitter* emitter, const OpHeader& op, DispatchKeySet below, uint64_t sequence,
                   const Value* args, size_t n, Value* rets) {
  std::string name = op.name;
  if (sequence != kNoSequence) name += ", seq = " + std::to_string(sequence);
  if (emitter->shapes) name += ", sizes = " + shapes_of(args, n);
  const EmittedRange range(emitter, name);
  op.info->adapter->call(op, &below, args, rets);
}

// add(Tensor, Scalar), which is nothing but a call of add(Tensor, Tensor): one event, that of the call.
bool only_forwards(const OpHeader& op) { return op.info->rule()[0] == 'S' && op.info->rule()[1] == 'C'; }

void record_operator(void*, const OpHeader& op, DispatchKeySet keys, const Value* args, size_t n, Value* rets, size_t) {
  const DispatchKeySet below = keys - DispatchKeySet(DispatchKey::kProfiler);
  if (only_forwards(op)) return op.info->adapter->call(op, &below, args, rets);
  const uint64_t now = g_now.load(std::memory_order_acquire);
  Log* log = now & kOperators ? log_for(now) : nullptr;
  const Emitter* emitter = t_slot.emitter;
  if (!log && !emitter) {
    if (!now) thread_state.included &= ~kProfilerBit;  // another thread ended the recording that this one began
    return op.info->adapter->call(op, &below, args, rets);
  }
  const bool differentiable = !(below & kAutogradKeys).empty() && thread_state.grad_enabled;
  const uint64_t sequence = differentiable ? autograd::coming_sequence_nr() : kNoSequence;
  struct Ending {
    Log* log;
    Event* event;
    const DeviceTracer* tracer;
    ~Ending() {
      if (tracer) tracer->pop();
      if (log) log->end(event);
    }
  } ending{log, nullptr, nullptr};
  if (log) {
    const int64_t* input = now & kShapes ? write_inputs(*log, args, n) : nullptr;
    ending.event = log->begin(Kind::kOperator, &op, 0, sequence);
    ending.event->input = input;
    if (now & kOwners) {
      ending.tracer = g_tracer.load(std::memory_order_relaxed);
      ending.tracer->push(reinterpret_cast<uint64_t>(ending.event));
    }
  }
  if (emitter) return emit_operator(emitter, op, below, sequence, args, n, rets);
  op.info->adapter->call(op, &below, args, rets);
}

// The fallback stands there from the first recording on; who does not include the key does not come by.
void install_fallback() {
  static const bool done = [] {
    auto entry = make_intrusive<BoxedEntry>();
    entry->kernel = &record_operator;
    static auto* kept = new Registration(register_fallback(DispatchKey::kProfiler, {nullptr, std::move(entry), false}));
    return kept != nullptr;
  }();
  (void)done;
}

// --- nodes of backward --------------------------------------------------------------------------------------------

constexpr std::string_view kEvaluates = "autograd::engine::evaluate_function: ";

void node_begins(const autograd::Node& node, Kind kind) {
  std::string name = node.name();
  if (kind == Kind::kEvaluate) name.insert(0, kEvaluates);
  if (const Emitter* emitter = t_slot.emitter)
    emitter->push((name + ", seq = " + std::to_string(static_cast<int64_t>(node.sequence_nr()))).c_str());
  const uint64_t now = g_now.load(std::memory_order_acquire);
  Log* log = now & kOperators ? log_for(now) : nullptr;
  if (log) log->begin(kind, name, node.sequence_nr());
}
void node_ends(const autograd::Node&, bool apply) {
  if (const Emitter* emitter = t_slot.emitter) emitter->pop();
  // The log of the beginning: a session that began in between has no such event.
  const uint64_t now = g_now.load(std::memory_order_acquire);
  Log* log = t_slot.number && t_slot.number == now >> kFlagBits ? t_slot.log : nullptr;
  if (!log) return;
  Event* e = log->current();
  const Kind kind = apply ? Kind::kNode : Kind::kEvaluate;
  while (e && e->kind != kind) e = e->parent.load(std::memory_order_relaxed);
  if (e) log->end(e);
}
constexpr autograd::NodeObserver kNodes = {
    [](const autograd::Node& n) { node_begins(n, Kind::kEvaluate); },
    [](const autograd::Node& n) { node_begins(n, Kind::kNode); },
    node_ends,
};

// --- memory -------------------------------------------------------------------------------------------------------

void memory_changed(const void* block, int64_t bytes) {
  const uint64_t now = g_now.load(std::memory_order_acquire);
  if (!(now & kMemory)) return;
  if (Log* log = log_for(now)) log->changed(block, bytes);
}
constexpr MemoryObserver kMemoryObserver = {
    [](void* p, size_t n) { memory_changed(p, static_cast<int64_t>(n)); },
    [](void* p, size_t n) { memory_changed(p, -static_cast<int64_t>(n)); },
};

// --- the session --------------------------------------------------------------------------------------------------

// All threads take part in an operator whose forced keys have the bit. A kernel of the user's at this key has it, too.
void force(OpInfoList ops, bool on) {
  for (const OpInfo* info : ops) {
    uint64_t& keys = info->op->forced_keys;
    if (on || has_kernel(*info->op, DispatchKey::kProfiler))
      keys |= kProfilerBit;
    else
      keys &= ~kProfilerBit;
  }
}

void update_thread() {
  const uint64_t now = g_now.load(std::memory_order_relaxed);
  const bool on = t_slot.emitter || ((now & kOn) && (now & kOperators) && t_slot.member == now >> kFlagBits);
  thread_state.included = on ? thread_state.included | kProfilerBit : thread_state.included & ~kProfilerBit;
}
void update_nodes(bool recording) {
  autograd::g_node_observer.store(recording || g_emitting.load() > 0 ? &kNodes : nullptr, std::memory_order_release);
}

// --- devices ------------------------------------------------------------------------------------------------------

// Without the lock, and marked as starting.
class Starting {
 public:
  explicit Starting(std::unique_lock<std::mutex>& lock) : lock_(lock) {
    g_starting = true;
    lock_.unlock();
  }
  ~Starting() {
    lock_.lock();
    g_starting = false;
  }
  Starting(const Starting&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

const DeviceTracer* begin_tracing() {
  const DeviceHooks& hooks = device_hooks(DeviceType::kCUDA);  // loads the library, if there is one
  const DeviceTracer* tracer = hooks.allocate ? device_tracer(DeviceType::kCUDA) : nullptr;
  const char* why = tracer ? tracer->start() : hooks.problem ? hooks.problem : "there is no CUDA device";
  if (!why) return tracer;
  warn_once(str_cat("The profiler does not record what CUDA devices do: ", why));
  return nullptr;
}
void end_tracing(Session& session) {
  if (!session.tracer) return;
  const auto take = [](void* to, const DeviceActivity& a) {
    auto& s = *static_cast<Session*>(to);
    s.device.push_back(a);
    s.device.back().name = s.device_names.emplace(a.name).first->c_str();
  };
  session.tracer->stop(session.start.monotonic_ns, session.start.wall_ns, take, &session);
}

uint64_t flags_of(const Options& o) {
  return (o.shapes ? kShapes : 0) | (o.memory ? kMemory : 0) | (o.modules ? kModules : 0) |
         (o.all_threads ? kAllThreads : 0) | (o.operators ? kOperators : 0);
}

}  // namespace

bool is_recording() { return this_log() != nullptr; }
Log* this_log() { return log_for(g_now.load(std::memory_order_acquire)); }

void start(const Options& options) {
  install_fallback();
  std::unique_lock lock(g_mutex);
  TESSERA_CHECK(!g_session && !g_starting,
                "A profiler is recording already; only one can at a time. Leave its `with` block (or call its "
                "stop()) before the next one starts.");
  auto session = std::make_shared<Session>();
  if (options.devices) {
    const Starting starting(lock);  // what loads the library may call anything
    session->tracer = begin_tracing();
  }
  if (session->tracer) g_tracer.store(session->tracer, std::memory_order_relaxed);
  session->options = options;
  session->number = ++g_number;
  session->memory_at_start = cpu_memory_stats().requested;
  session->start = now();
  g_session = session;
  t_slot.member = session->number;
  const uint64_t owners = session->tracer && options.owners ? kOwners : 0;
  g_now.store(session->number << kFlagBits | flags_of(options) | owners | kOn, std::memory_order_release);
  if (options.memory) g_memory_observer.store(&kMemoryObserver, std::memory_order_release);
  update_nodes(options.operators);
  update_thread();
  if (options.all_threads) force(options.operators_of_all_threads, true);
}

void set_enabled(bool on) {
  std::lock_guard lock(g_mutex);
  TESSERA_CHECK(g_session, "no profiler is recording: there is nothing to ", on ? "go on with" : "pause");
  const uint64_t bits = g_now.load(std::memory_order_relaxed);
  g_now.store(on ? bits | kOn : bits & ~uint64_t{kOn}, std::memory_order_release);
  update_thread();
}

Capture stop() {
  std::unique_lock lock(g_mutex);
  TESSERA_CHECK(g_session, "no profiler is recording: there is nothing to stop");
  std::shared_ptr<Session> session = std::exchange(g_session, nullptr);
  g_now.store(0, std::memory_order_release);
  session->stop = now();
  g_memory_observer.store(nullptr, std::memory_order_release);
  update_nodes(false);
  update_thread();
  if (session->options.all_threads) force(session->options.operators_of_all_threads, false);
  std::erase_if(held().logs, [](const auto& l) { return !l->has_open(); });
  t_slot.log = nullptr;
  t_slot.number = 0;
  lock.unlock();
  end_tracing(*session);
  return Capture(std::move(session));
}

void set_emitter(const Emitter* emitter) {
  install_fallback();
  TESSERA_CHECK(!emitter || !t_slot.emitter,
                "ranges are emitted already on this thread; leave that context before the next one starts");
  g_emitting.fetch_add((emitter != nullptr) - (t_slot.emitter != nullptr));
  t_slot.emitter = emitter;
  std::lock_guard lock(g_mutex);
  update_nodes(g_session && g_session->options.operators);
  update_thread();
}

RecordFunction::RecordFunction(std::string_view name, Kind kind) {
  const uint64_t bits = g_now.load(std::memory_order_acquire);
  if (bits & kOn && (kind != Kind::kModule || bits & kModules)) {
    if (Log* log = log_for(bits)) {
      for (const auto& l : held().logs)
        if (l.get() == log) log_ = l;
      event_ = log->begin(kind, name);
    }
  }
  if (const Emitter* emitter = t_slot.emitter) {
    emitter->push(std::string(name).c_str());
    emitted_ = true;
  }
}

void RecordFunction::end() {
  if (std::exchange(emitted_, false))
    if (const Emitter* emitter = t_slot.emitter) emitter->pop();
  Event* e = std::exchange(event_, nullptr);
  if (!e) return;
  bool mine = t_slot.log == log_.get();
  for (const auto& l : held().logs) mine = mine || l == log_;
  if (mine)
    log_->end(e);
  else
    e->end.store(ticks(), std::memory_order_release);  // by another thread; the first one notices at its next event
  log_.reset();
}

}  // namespace tessera::profiler
