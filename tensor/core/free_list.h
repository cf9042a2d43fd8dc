// A thread's spare objects of one type: memory only, no constructors. Used where an object is made and dropped with
// every small operator.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace tessera {

template <class T>
class FreeList {
 public:
  static void* take() {
    State& s = state_;
    if (Node* n = s.head) [[likely]] {
      s.head = n->next;
      --s.count;
      return n;
    }
    return ::operator new(sizeof(T));
  }
  static void give(void* p) noexcept {
    State& s = state_;
    if (!s.registered) [[unlikely]]
      enlist();
    if (s.count >= kKeep || s.dead) [[unlikely]] {
      ::operator delete(p);
      return;
    }
    auto* n = static_cast<Node*>(p);
    n->next = s.head;
    s.head = n;
    ++s.count;
  }

 private:
  static constexpr int kKeep = 256;
  struct Node {
    Node* next;
  };
  struct State {
    Node* head;
    int count;
    bool registered, dead;
  };
  struct Reaper {
    ~Reaper() {
      state_.dead = true;
      while (Node* n = state_.head) {
        state_.head = n->next;
        ::operator delete(n);
      }
    }
  };
  [[gnu::noinline]] static void enlist() {
    thread_local Reaper reaper;
    (void)reaper;
    state_.registered = true;
  }
  static thread_local constinit State state_;
};
template <class T>
thread_local constinit typename FreeList<T>::State FreeList<T>::state_{};

}  // namespace tessera
