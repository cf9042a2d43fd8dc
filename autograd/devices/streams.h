// Streams in a backward pass: each node works on the stream of its forward call, and what goes from one node to another
// waits for the stream that made it. A pass has the meaning of an operator on the streams that are current for its
// caller: its first nodes wait for these, and these for its last ones.
#pragma once

#include <vector>

#include "autograd/node.h"

namespace tessera::autograd {

// The current stream of a device; none if the device has no streams.
NodeStream current_stream_of(Device device);

// Makes a stream its device's current one, until its end.
class OnStream {
 public:
  explicit OnStream(const NodeStream& s) {
    if (s.known()) [[unlikely]]
      enter(s);
  }
  ~OnStream() {
    if (before_.known()) [[unlikely]]
      leave();
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  void enter(const NodeStream& s);
  void leave();
  NodeStream before_;
};

// The streams of one pass. Its functions are called while the caller's streams are the current ones.
class PassStreams {
 public:
  // Where a gradient on `device` is wanted by node `to`: on the node's stream, else on the caller's.
  NodeStream wanted(const Node& to, Device device);
  // `grad`, made by `from` (null: by the caller), is used on `to` from now on.
  void hand_over(const Tensor& grad, const Node* from, const NodeStream& to);
  // What work of `made` has left is the caller's from join() on.
  void give_to_caller(const Tensor& t, const NodeStream& made);
  // The caller's streams wait for all of the pass.
  void join();
  void clear() { used_.clear(); }

 private:
  std::vector<NodeStream> used_;
};

}  // namespace tessera::autograd
