// What one thread records in one session: events and memory, in chunks that never move. The thread writes, at most one
// reader reads what was published before it looked; no locks, no atomics but plain stores.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/clock.h"
#include "tensor/dispatch/op.h"
#include "tensor/dispatch/value.h"

namespace tessera::profiler {

enum class Kind : uint8_t {
  kOperator,
  kEvaluate,    // a node of backward with its hooks and sums
  kNode,        // its function
  kAnnotation,  // RecordFunction
  kModule,
  kFrame,  // a function of Python; what it is, the binding knows
};

struct Event {
  uint64_t start;
  std::atomic<uint64_t> end;  // 0: still open
  const void* subject;        // of an operator its OpHeader, of a frame the binding's; else a text of `length`
  std::atomic<Event*> parent;
  uint64_t sequence;     // kNoSequence
  const int64_t* input;  // arguments as write_inputs left them, or null
  uint32_t length;
  Kind kind;
};
inline constexpr uint64_t kNoSequence = ~uint64_t{0};

struct MemoryChange {
  uint64_t time;
  const Event* owner;  // the innermost event of that moment, or null
  uint64_t address;
  int64_t bytes;  // negative: returned
};

// A list that grows in chunks: elements keep their address.
template <class T>
class Chunks {
 public:
  Chunks() = default;
  Chunks(const Chunks&) = delete;
  ~Chunks() {
    for (Chunk* c = first_; c;) {
      Chunk* next = c->next.load(std::memory_order_relaxed);
      ::operator delete(c);
      c = next;
    }
  }
  // Room for one more; it counts from publish() on.
  T* next() {
    if (!last_ || last_->used.load(std::memory_order_relaxed) == kPerChunk) [[unlikely]]
      grow();
    return last_->items() + last_->used.load(std::memory_order_relaxed);
  }
  void publish() { last_->used.store(last_->used.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  template <class F>
  void each(F f) const {
    for (const Chunk* c = first_.load(std::memory_order_acquire); c; c = c->next.load(std::memory_order_acquire)) {
      const uint32_t n = c->used.load(std::memory_order_acquire);
      for (uint32_t i = 0; i < n; ++i) f(c->items()[i]);
    }
  }

 private:
  static constexpr uint32_t kPerChunk = 1000;
  struct Chunk {
    std::atomic<Chunk*> next{nullptr};
    std::atomic<uint32_t> used{0};
    T* items() { return reinterpret_cast<T*>(this + 1); }
    const T* items() const { return reinterpret_cast<const T*>(this + 1); }
  };
  [[gnu::noinline]] void grow() {
    auto* c = new (::operator new(sizeof(Chunk) + sizeof(T) * kPerChunk)) Chunk;
    if (last_)
      last_->next.store(c, std::memory_order_release);
    else
      first_.store(c, std::memory_order_release);
    last_ = c;
  }
  std::atomic<Chunk*> first_{nullptr};
  Chunk* last_ = nullptr;
};

class Log {
 public:
  explicit Log(uint64_t session);

  Event* begin(Kind kind, const void* subject, uint32_t length, uint64_t sequence) {
    while (current_ && current_->end.load(std::memory_order_relaxed))
      [[unlikely]]  // another thread ended it
      current_ = current_->parent.load(std::memory_order_relaxed);
    Event* e = new (events_.next()) Event{0, 0, subject, current_, sequence, nullptr, length, kind};
    events_.publish();
    current_ = e;
    ++open_;
    e->start = ticks();
    return e;
  }
  Event* begin(Kind kind, std::string_view name, uint64_t sequence = kNoSequence) {
    const char* kept = keep(name);
    return begin(kind, kept, static_cast<uint32_t>(name.size()), sequence);
  }
  void end(Event* e) {
    e->end.store(ticks(), std::memory_order_release);
    --open_;
    if (current_ == e) [[likely]]
      current_ = e->parent.load(std::memory_order_relaxed);
    while (current_ && current_->end.load(std::memory_order_relaxed))
      [[unlikely]] current_ = current_->parent.load(std::memory_order_relaxed);
  }
  // The end of a frame of Python: what was begun in it and is still open goes on in the frame around it.
  void end_frame(const void* subject);
  void changed(const void* address, int64_t bytes) {
    *memory_.next() = {ticks(), current_, reinterpret_cast<uint64_t>(address), bytes};
    memory_.publish();
  }

  const char* keep(std::string_view text);
  int64_t* words(size_t n);

  Event* current() const { return current_; }
  bool has_open() const { return open_ != 0; }
  uint64_t session() const { return session_; }
  int64_t system_id() const { return system_id_; }
  const std::string& thread_name() const { return thread_name_; }
  const Chunks<Event>& events() const { return events_; }
  const Chunks<MemoryChange>& memory() const { return memory_; }

 private:
  uint64_t session_;
  Event* current_ = nullptr;
  int64_t open_ = 0;
  Chunks<Event> events_;
  Chunks<MemoryChange> memory_;
  std::vector<std::unique_ptr<char[]>> arena_;
  char* room_ = nullptr;
  size_t left_ = 0;
  int64_t system_id_;
  std::string thread_name_;
};

// An argument of an operator, read back.
struct Input {
  enum class Tag : uint8_t { kNothing, kTensor, kTensorList, kBool, kInt, kDouble, kIntList, kOther };
  struct Dims {
    DType dtype;
    std::vector<int64_t> sizes, strides;
  };
  Tag tag = Tag::kNothing;
  std::vector<Dims> tensors;  // of kTensor one
  std::vector<int64_t> ints;  // of kInt and kBool one
  double number = 0;
};

const int64_t* write_inputs(Log& log, const Value* args, size_t n);
std::vector<Input> read_inputs(const int64_t* words);
std::string_view input_type(const Input& input);  // "float", "long int", "Scalar", "TensorList" ...; "" for others

}  // namespace tessera::profiler
