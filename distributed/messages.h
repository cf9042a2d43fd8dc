#pragma once

#include <memory>
#include <string>

#include "distributed/request.h"

namespace tessera::distributed {

// A message on its way, from or to this rank.
struct Transfer {
  virtual ~Transfer() = default;

  bool sends = false;
  int peer = -1;  // -1: from anyone, until one has come
  uint64_t tag = 0;
  Buffer buffer;
  size_t moved = 0;
  bool done = false;
  std::string error;
  Fault fault = Fault::kBackend;
};

// Tags of collectives have this bit, and `call << 8 | step` below it; those of a barrier's roll the one below, and
// those of users neither.
inline constexpr uint64_t kCollectiveTag = uint64_t{1} << 63;
inline constexpr uint64_t kRollTag = uint64_t{1} << 62;

// Messages with tags between the members of a group. Those of one sender and one tag come in their order.
class Messages {
 public:
  virtual ~Messages() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Starts one. The buffer has to stay until it is done or cancelled. Deadline: for making the connection.
  virtual std::shared_ptr<Transfer> send(int peer, uint64_t tag, Buffer buffer, Deadline deadline) = 0;
  virtual std::shared_ptr<Transfer> receive(int peer, uint64_t tag, Buffer buffer) = 0;
  // Throws what ended it: kNetwork, kTimeout at the deadline (then it is cancelled), kInterrupted.
  virtual void wait(const std::shared_ptr<Transfer>& transfer, Deadline deadline) = 0;
  virtual bool is_done(Transfer& transfer) = 0;
  // From now on a thread moves what nobody waits for.
  virtual void move_in_background() = 0;
  // Ends all transfers with an error, and all to come.
  virtual void abort(const std::string& why) = 0;
};

// Why messages could not be what both sides expect, or did not come.
std::string other_size(size_t came, int peer, size_t expected);
std::string too_late(const Transfer& transfer);

// Collectives as messages. Each element is folded by one rank for everyone.
class MessageEngine : public Engine {
 public:
  explicit MessageEngine(Messages* messages) : messages_(messages) {}
  void run(const Request& request) override;
  void abort(const std::string& why) override { messages_->abort(why); }

 private:
  class Call;
  Messages* messages_;
  uint64_t calls_ = 0;
};

}  // namespace tessera::distributed
