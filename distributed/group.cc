#include "distributed/group.h"

#include <signal.h>
#include <string.h>

namespace tessera::distributed {

bool Ticket::done() {
  std::lock_guard lock(mutex_);
  return done_;
}

bool Ticket::wait(double seconds) {
  auto deadline = deadline_after(seconds);
  std::unique_lock lock(mutex_);
  while (!done_) {
    if (Clock::now() >= deadline) return false;
    changed_.wait_until(lock, std::min(deadline, deadline_after(0.1)));
    if (done_ || !g_interrupted) continue;
    lock.unlock();
    check_interrupted();
    lock.lock();
  }
  if (!error_.empty()) throw Error(fault_, error_);
  return true;
}

void Ticket::finish(const std::string& error, Fault fault) {
  std::lock_guard lock(mutex_);
  error_ = error;
  fault_ = fault;
  done_ = true;
  changed_.notify_all();
}

Group::Group(int rank, int size, std::unique_ptr<Messages> messages, std::unique_ptr<Engine> engine)
    : rank_(rank), size_(size), messages_(std::move(messages)), engine_(std::move(engine)) {}

Group::~Group() {
  bool at_work;
  {
    std::lock_guard lock(mutex_);
    at_work = busy_ || !queue_.empty();
    stopping_ = true;
    changed_.notify_all();
  }
  if (at_work) abort("the process group was destroyed while it was at work");
  if (thread_.joinable()) thread_.join();
  for (auto& entry : queue_) entry.second->finish("the process group was destroyed", Fault::kBackend);
}

void Group::abort(const std::string& why) {
  if (engine_) engine_->abort(why);
  if (messages_) messages_->abort(why);
}

void Group::carry_out(const Request& request) {
  if (size_ == 1) {
    alone(request);
  } else {
    engine_->run(request);
  }
}

// What the only member of a group gives, it gets.
void Group::alone(const Request& request) {
  if (request.what == Collective::kAllReduce) {
    for (auto& buffer : request.out) copy_scaled(request.kind, buffer.data, buffer.data, buffer.size, request.scale);
  }
  if (request.in.empty() || request.out.empty()) return;
  if (request.in[0].size != request.out[0].size) {
    throw Error(Fault::kBackend, std::string(name_of(request.what)) + ": " + std::to_string(request.in[0].size) +
                                     " bytes were given, but " + std::to_string(request.out[0].size) + " expected");
  }
  memmove(request.out[0].data, request.in[0].data, request.in[0].size);
}

void Group::run(Request request) {
  std::unique_lock lock(mutex_);
  if (!queue_.empty() || busy_) {
    lock.unlock();
    start(std::move(request))->wait(1e18);
    return;
  }
  busy_ = true;
  lock.unlock();
  struct Free {
    Group* group;
    ~Free() {
      std::lock_guard lock(group->mutex_);
      group->busy_ = false;
      group->changed_.notify_all();
    }
  } free{this};
  carry_out(request);
}

std::shared_ptr<Ticket> Group::start(Request request) {
  auto ticket = std::make_shared<Ticket>();
  std::lock_guard lock(mutex_);
  if (stopping_) throw Error(Fault::kBackend, "the process group was destroyed");
  queue_.emplace_back(std::move(request), ticket);
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  return ticket;
}

void Group::work() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || (!queue_.empty() && !busy_); });
    if (stopping_) return;
    auto [request, ticket] = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    std::string error;
    Fault fault = Fault::kBackend;
    try {
      carry_out(request);
    } catch (const Error& e) {
      error = e.what();
      fault = e.fault();
    } catch (const std::exception& e) { error = e.what(); }
    ticket->finish(error, fault);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace tessera::distributed
