#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>

#include "distributed/store.h"

namespace tessera::distributed {

StoreClient::StoreClient(const std::string& host, int port, Deadline deadline)
    : where_(host + ":" + std::to_string(port)), fd_(connect_to(host, port, deadline)) {
  ask(Ask::kHello, {std::string(kProtocol)}, deadline);
}

void StoreClient::send(uint32_t id, Ask what, const std::vector<std::string>& fields, Deadline deadline) {
  size_t size = 0;
  for (auto& field : fields) size += 4 + field.size();
  if (size > kLargestFrame - 64 || fields.size() > kMostFields) {
    throw Error(Fault::kStore,
                "a store takes requests of at most 1 GiB, but this one has " + std::to_string(size) + " bytes");
  }
  auto bytes = encode(id, static_cast<uint8_t>(what), {fields.begin(), fields.end()});
  std::lock_guard lock(writing_);
  try {
    send_all(fd_.get(), bytes.data(), bytes.size(), deadline);
  } catch (const Error& error) {
    {
      std::lock_guard state(mutex_);
      broken_ = "the connection to the store at " + where_ + " is lost (" + error.what() + ")";
    }
    throw Error(error.fault() == Fault::kInterrupted ? Fault::kInterrupted : Fault::kNetwork, broken_);
  }
}

// Reads what is there, or waits a little for it; `lock` is open meanwhile.
void StoreClient::read_some(std::unique_lock<std::mutex>& lock, Deadline deadline) {
  reading_ = true;
  lock.unlock();
  pollfd wait{fd_.get(), POLLIN, 0};
  char buffer[65536];
  ssize_t n = -1;
  bool interrupted = false;
  bool there = haste_.look_for([&] {
    n = recv(fd_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    return n >= 0 || errno != EAGAIN;
  });
  if (there || poll(&wait, 1, milliseconds_until(deadline, 200)) > 0) {
    if (!there) n = recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (n < 0 && errno != EAGAIN && errno != EINTR) n = 0;
  } else {
    interrupted = g_interrupted && g_interrupted();
  }
  lock.lock();
  reading_ = false;
  arrived_.notify_all();
  if (n == 0) broken_ = "the store at " + where_ + " is gone: the connection was closed";
  if (n > 0) {
    reader_.append(buffer, n);
    bool good = true;
    while (auto frame = reader_.next(good)) {
      auto id = frame->id;
      replies_[id] = std::move(*frame);
    }
    if (!good) broken_ = "what answers at " + where_ + " is not a store of this version";
  }
  if (interrupted) throw Error(Fault::kInterrupted, "interrupted");
}

std::vector<std::string> StoreClient::ask(Ask what, const std::vector<std::string>& fields, Deadline deadline) {
  auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  if (!broken_.empty()) throw Error(Fault::kNetwork, broken_);
  if (what == Ask::kSet) {  // in order with what follows on this connection, so that nobody has to wait for it
    lock.unlock();
    send(0, what, fields, deadline_after(300));
    return {};
  }
  uint32_t id = next_id_++;
  if (next_id_ == 0) next_id_ = 1;
  lock.unlock();
  // A request that does not wait has the time to be answered, however short the wait may be.
  send(id, what, fields, std::max(deadline, deadline_after(5)));
  lock.lock();
  while (true) {
    auto found = replies_.find(id);
    if (found != replies_.end()) {
      Frame reply = std::move(found->second);
      replies_.erase(found);
      if (reply.code == static_cast<uint8_t>(Reply::kGood)) return std::move(reply.fields);
      auto fault = reply.code == static_cast<uint8_t>(Reply::kEmpty) ? Fault::kQueueEmpty : Fault::kStore;
      throw Error(fault, reply.fields.empty() ? "the store refused a request" : reply.fields[0]);
    }
    if (!broken_.empty()) throw Error(Fault::kNetwork, broken_);
    if (Clock::now() >= deadline) break;
    if (reading_) {
      arrived_.wait_until(lock, std::min(deadline, deadline_after(0.2)));
    } else {
      read_some(lock, deadline);
    }
  }
  lock.unlock();
  send(0, Ask::kCancel, {std::to_string(id)}, deadline_after(5));
  std::string keys;
  size_t count = what == Ask::kWait || what == Ask::kGet ? fields.size() : std::min<size_t>(fields.size(), 1);
  for (size_t i = 0; i < count; ++i) keys += (i ? ", /" : ", keys: /") + fields[i];
  throw Error(Fault::kStore, "wait timeout after " + milliseconds_text(begin, deadline) + keys + " (the store at " +
                                 where_ + " did not answer in time: timed out)");
}

}  // namespace tessera::distributed
