#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "distributed/messages.h"
#include "distributed/request.h"

namespace tessera::distributed {

// A collective that may still be on its way.
class Ticket {
 public:
  bool done();
  // False when it is still not done after so many seconds. Throws what ended it.
  bool wait(double seconds);

 private:
  friend class Group;
  void finish(const std::string& error, Fault fault);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::string error_;
  Fault fault_ = Fault::kBackend;
};

// The calls of one member, carried out in their order: on the caller's thread while nothing is ahead of them, else on a
// thread of the group.
class Group {
 public:
  // `engine` may be null for a group of one; `messages` too.
  Group(int rank, int size, std::unique_ptr<Messages> messages, std::unique_ptr<Engine> engine);
  ~Group();

  void run(Request request);
  std::shared_ptr<Ticket> start(Request request);
  void abort(const std::string& why);
  Messages* messages() { return messages_.get(); }

 private:
  void carry_out(const Request& request);
  void alone(const Request& request);
  void work();

  int rank_, size_;
  std::unique_ptr<Messages> messages_;
  std::unique_ptr<Engine> engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Request, std::shared_ptr<Ticket>>> queue_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera::distributed
