#include "distributed/mesh.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

namespace tessera::distributed {
namespace {

struct Head {
  uint64_t tag, size;
};

constexpr char kMagic[] = "tessera1";

}  // namespace

// A message that came before anybody asked for it.
struct Mesh::Message {
  int peer;
  uint64_t tag;
  std::vector<char> bytes;
  bool whole = false;
  std::shared_ptr<Transfer> taker;  // asked while the message was on its way
};

struct Mesh::Incoming {
  Descriptor fd;
  int peer = -1;  // until it has said who it is
  std::string start;
  Head head;
  size_t head_read = 0;
  bool in_body = false;
  size_t body_read = 0;
  std::shared_ptr<Transfer> target;
  std::shared_ptr<Message> message;
};

struct Mesh::Outgoing {
  Descriptor fd;
  std::deque<std::pair<Head, std::shared_ptr<Transfer>>> queue;
  size_t head_sent = 0;
  bool waits_to_write = false;
};

Mesh::Mesh(int rank, std::vector<Peer> peers, std::string secret, Descriptor listener)
    : rank_(rank),
      peers_(std::move(peers)),
      secret_(std::move(secret)),
      listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      outgoing_(peers_.size()),
      closed_(peers_.size()),
      processes_(peers_.size()) {
  set_nonblocking(listener_.get());
  watch(listener_.get(), EPOLLIN, EPOLL_CTL_ADD);
  watch(wake_.get(), EPOLLIN, EPOLL_CTL_ADD);
  for (int i = 0; i < size(); ++i) {
    if (i != rank_ && peers_[i].pid > 0) {
      processes_[i] = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, peers_[i].pid, 0)));
    }
  }
}

Mesh::~Mesh() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    moved_.notify_all();
  }
  uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) {
    // It is readable already.
  }
  if (thread_.joinable()) thread_.join();
}

void Mesh::watch(int fd, uint32_t events, int action) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), action, fd, &event);
}

void Mesh::finish(Transfer& transfer, const std::string& error, Fault fault) {
  transfer.error = error;
  transfer.fault = fault;
  transfer.done = true;
  moved_.notify_all();
}

void Mesh::connect(int peer, Deadline deadline) {
  std::lock_guard one(connecting_);
  {
    Lock lock(mutex_);
    if (outgoing_[peer]) return;
  }
  auto made = std::make_unique<Outgoing>();
  made->fd = connect_to(peers_[peer].host, peers_[peer].port, deadline);
  std::string hello = kMagic + secret_;
  uint32_t rank = rank_;
  hello.append(reinterpret_cast<const char*>(&rank), sizeof(rank));
  send_all(made->fd.get(), hello.data(), hello.size(), deadline);
  Lock lock(mutex_);
  watch(made->fd.get(), EPOLLIN, EPOLL_CTL_ADD);  // nothing comes but the end
  outgoing_[peer] = std::move(made);
}

std::shared_ptr<Transfer> Mesh::send(int peer, uint64_t tag, Buffer buffer, Deadline deadline) {
  auto transfer = std::make_shared<Transfer>();
  transfer->sends = true;
  transfer->peer = peer;
  transfer->tag = tag;
  transfer->buffer = buffer;
  connect(peer, deadline);
  Lock lock(mutex_);
  if (!broken_.empty()) throw Error(Fault::kBackend, broken_);
  auto& out = *outgoing_[peer];
  if (!out.fd) throw Error(Fault::kNetwork, "the connection to rank " + std::to_string(peer) + " of the group is lost");
  out.queue.emplace_back(Head{tag, buffer.size}, transfer);
  if (out.queue.size() == 1 && !write_to(peer)) fail_outgoing(peer, "was closed");
  return transfer;
}

std::shared_ptr<Transfer> Mesh::receive(int peer, uint64_t tag, Buffer buffer) {
  auto transfer = std::make_shared<Transfer>();
  transfer->peer = peer;
  transfer->tag = tag;
  transfer->buffer = buffer;
  Lock lock(mutex_);
  if (!broken_.empty()) throw Error(Fault::kBackend, broken_);
  auto found = std::find_if(unexpected_.begin(), unexpected_.end(), [&](const auto& message) {
    return message->tag == tag && (peer < 0 || message->peer == peer) && !message->taker;
  });
  if (found == unexpected_.end()) {
    expected_.push_back(transfer);
    return transfer;
  }
  auto message = *found;
  transfer->peer = message->peer;
  message->taker = transfer;
  if (message->bytes.size() != buffer.size) {
    finish(*transfer, other_size(message->bytes.size(), message->peer, buffer.size), Fault::kBackend);
  }
  if (message->whole) {
    if (!transfer->done) {
      memcpy(buffer.data, message->bytes.data(), buffer.size);
      finish(*transfer);
    }
    unexpected_.erase(found);
  }
  return transfer;
}

// A message's head is known: where its bytes go.
void Mesh::route(Incoming& from, uint64_t tag, uint64_t size) {
  auto found = std::find_if(expected_.begin(), expected_.end(), [&](const auto& transfer) {
    return transfer->tag == tag && (transfer->peer < 0 || transfer->peer == from.peer);
  });
  if (found != expected_.end()) {
    auto transfer = *found;
    expected_.erase(found);
    transfer->peer = from.peer;
    if (transfer->buffer.size == size) {
      from.target = transfer;
      return;
    }
    finish(*transfer, other_size(size, from.peer, transfer->buffer.size), Fault::kBackend);
  }
  from.message = std::make_shared<Message>();
  from.message->peer = from.peer;
  from.message->tag = tag;
  from.message->bytes.resize(size);
  if (found == expected_.end()) unexpected_.push_back(from.message);
}

bool Mesh::read_head(Incoming& from) {
  if (from.peer < 0) {
    size_t wanted = sizeof(kMagic) - 1 + secret_.size() + sizeof(uint32_t);
    char buffer[256];
    ssize_t n = recv(from.fd.get(), buffer, std::min(sizeof(buffer), wanted - from.start.size()), 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    from.start.append(buffer, n);
    if (from.start.size() < wanted) return true;
    uint32_t rank;
    memcpy(&rank, from.start.data() + wanted - sizeof(rank), sizeof(rank));
    bool known = from.start.compare(0, wanted - sizeof(rank), kMagic + secret_) == 0 && rank < peers_.size() &&
                 static_cast<int>(rank) != rank_;
    if (known) from.peer = static_cast<int>(rank);
    return known;
  }
  ssize_t n =
      recv(from.fd.get(), reinterpret_cast<char*>(&from.head) + from.head_read, sizeof(Head) - from.head_read, 0);
  if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
  from.head_read += n;
  if (from.head_read == sizeof(Head)) {
    if (from.head.size > (uint64_t{1} << 46)) return false;
    from.head_read = 0;
    from.body_read = 0;
    from.in_body = true;
    route(from, from.head.tag, from.head.size);
  }
  return true;
}

bool Mesh::read_body(Incoming& from) {
  char* to = from.target ? from.target->buffer.data : from.message->bytes.data();
  while (from.body_read < from.head.size) {
    ssize_t n = recv(from.fd.get(), to + from.body_read, std::min<size_t>(from.head.size - from.body_read, 4 << 20), 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    from.body_read += n;
  }
  from.in_body = false;
  if (from.target) {
    finish(*from.target);
    from.target = nullptr;
    return true;
  }
  auto message = std::move(from.message);
  message->whole = true;
  if (message->taker) {
    if (!message->taker->done) {
      memcpy(message->taker->buffer.data, message->bytes.data(), message->bytes.size());
      finish(*message->taker);
    }
    unexpected_.remove(message);
  }
  return true;
}

// Everything that is there. False: the connection has ended or makes no sense.
bool Mesh::read_from(Incoming& from) {
  for (int i = 0; i < 64; ++i) {
    errno = 0;
    bool body = from.in_body;
    if (!(body ? read_body(from) : read_head(from))) return false;
    if (errno == EAGAIN) return true;
  }
  return true;
}

void Mesh::close_incoming(int fd, const std::string& why) {
  auto found = incoming_.find(fd);
  auto from = std::move(found->second);
  incoming_.erase(found);
  if (from->peer < 0) return;  // whoever it was
  std::string error = "the connection of rank " + std::to_string(from->peer) + " of the group " + why +
                      ": its process ended, was killed or left the group";
  closed_[from->peer] = true;
  if (from->target) finish(*from->target, error);
  if (from->message && from->message->taker && !from->message->taker->done) finish(*from->message->taker, error);
  if (from->message) unexpected_.remove(from->message);
  expected_.remove_if([&](const auto& transfer) {
    if (transfer->peer != from->peer) return false;
    finish(*transfer, error);
    return true;
  });
}

bool Mesh::write_to(int peer) {
  auto& out = *outgoing_[peer];
  while (!out.queue.empty()) {
    auto& [head, transfer] = out.queue.front();
    iovec parts[2] = {{reinterpret_cast<char*>(&head) + out.head_sent, sizeof(Head) - out.head_sent},
                      {transfer->buffer.data + transfer->moved, transfer->buffer.size - transfer->moved}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    ssize_t n = sendmsg(out.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      if (!out.waits_to_write) watch(out.fd.get(), EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
      out.waits_to_write = true;
      return true;
    }
    size_t of_head = std::min<size_t>(n, sizeof(Head) - out.head_sent);
    out.head_sent += of_head;
    transfer->moved += n - of_head;
    if (out.head_sent < sizeof(Head) || transfer->moved < transfer->buffer.size) continue;
    finish(*transfer);
    out.queue.pop_front();
    out.head_sent = 0;
  }
  if (out.waits_to_write) watch(out.fd.get(), EPOLLIN, EPOLL_CTL_MOD);
  out.waits_to_write = false;
  return true;
}

void Mesh::fail_outgoing(int peer, const std::string& why) {
  auto& out = *outgoing_[peer];
  out.fd.reset();
  for (auto& entry : out.queue)
    finish(*entry.second, "the connection to rank " + std::to_string(peer) + " of the group " + why);
  out.queue.clear();
}

void Mesh::accept_all() {
  while (true) {
    Descriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    set_no_delay(fd.get());
    int number = fd.get();
    watch(number, EPOLLIN, EPOLL_CTL_ADD);
    auto made = std::make_unique<Incoming>();
    made->fd = std::move(fd);
    incoming_[number] = std::move(made);
  }
}

// Moves what can be moved, after waiting at most so long for something. `lock` is open while it waits.
void Mesh::turn(Lock& lock, int milliseconds) {
  turning_ = true;
  lock.unlock();
  epoll_event events[64];
  int n = epoll_wait(epoll_.get(), events, 64, milliseconds);
  lock.lock();
  for (int i = 0; i < n; ++i) {
    int fd = events[i].data.fd;
    if (fd == listener_.get()) {
      accept_all();
    } else if (fd == wake_.get()) {
      uint64_t count;
      if (read(fd, &count, sizeof(count)) < 0) continue;
    } else if (auto found = incoming_.find(fd); found != incoming_.end()) {
      if (!read_from(*found->second)) close_incoming(fd, "was closed");
    } else {
      auto out =
          std::find_if(outgoing_.begin(), outgoing_.end(), [&](const auto& o) { return o && o->fd.get() == fd; });
      if (out == outgoing_.end()) continue;
      int peer = static_cast<int>(out - outgoing_.begin());
      char byte;
      bool ended = (events[i].events & (EPOLLERR | EPOLLHUP)) || recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
      if (ended || !write_to(peer)) fail_outgoing(peer, "was closed: its process ended, was killed or left the group");
    }
  }
  turning_ = false;
  moved_.notify_all();
}

bool Mesh::is_gone(int peer) {
  if (peer < 0) return false;
  if (closed_[peer]) return true;
  pollfd process{processes_[peer].get(), POLLIN, 0};
  return process.fd >= 0 && poll(&process, 1, 0) > 0;
}

void Mesh::cancel(const std::shared_ptr<Transfer>& transfer, const std::string& why, Fault fault) {
  if (transfer->done) return;
  expected_.remove(transfer);
  for (auto& [fd, from] : incoming_) {
    if (from->target != transfer) continue;
    // Its bytes are read to where nobody looks.
    from->message = std::make_shared<Message>();
    from->message->peer = from->peer;
    from->message->bytes.resize(from->head.size);
    from->target = nullptr;
  }
  if (transfer->sends && outgoing_[transfer->peer] && outgoing_[transfer->peer]->fd) {
    auto& queue = outgoing_[transfer->peer]->queue;
    bool begun = !queue.empty() && queue.front().second == transfer &&
                 (transfer->moved > 0 || outgoing_[transfer->peer]->head_sent > 0);
    if (begun) {
      fail_outgoing(transfer->peer, "was closed after a message to it timed out");
    } else {
      std::erase_if(queue, [&](const auto& entry) { return entry.second == transfer; });
    }
  }
  finish(*transfer, why, fault);
}

void Mesh::wait(const std::shared_ptr<Transfer>& transfer, Deadline deadline) {
  Lock lock(mutex_);
  bool idle = false;
  while (!transfer->done) {
    if (idle && !transfer->sends && is_gone(transfer->peer)) {
      cancel(transfer,
             "rank " + std::to_string(transfer->peer) +
                 " of the group is gone: its process ended, was killed or left the group",
             Fault::kNetwork);
      break;
    }
    if (Clock::now() >= deadline) {
      cancel(transfer, too_late(*transfer), Fault::kTimeout);
      break;
    }
    int slice = milliseconds_until(deadline, 50);
    if (turning_) {
      idle = moved_.wait_for(lock, std::chrono::milliseconds(slice)) == std::cv_status::timeout;
    } else {
      auto begun = Clock::now();
      turn(lock, slice);
      idle = Clock::now() - begun >= std::chrono::milliseconds(slice);
    }
    if (idle && g_interrupted) {
      lock.unlock();
      bool interrupted = g_interrupted();
      lock.lock();
      if (interrupted) cancel(transfer, "interrupted", Fault::kInterrupted);
    }
  }
  if (!transfer->error.empty()) throw Error(transfer->fault, transfer->error);
}

bool Mesh::is_done(Transfer& transfer) {
  Lock lock(mutex_);
  if (!transfer.done && !turning_) turn(lock, 0);
  return transfer.done;
}

void Mesh::move_in_background() {
  Lock lock(mutex_);
  if (background_) return;
  background_ = true;
  thread_ = std::thread([this] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    Lock lock(mutex_);
    while (!stopping_) {
      if (turning_) {
        moved_.wait_for(lock, std::chrono::milliseconds(100));
      } else {
        turn(lock, 1000);
      }
    }
  });
}

void Mesh::abort(const std::string& why) {
  Lock lock(mutex_);
  broken_ = why;
  for (auto& transfer : expected_) finish(*transfer, why, Fault::kBackend);
  expected_.clear();
  for (auto& [fd, from] : incoming_) {
    if (from->target) finish(*from->target, why, Fault::kBackend);
    if (from->message && from->message->taker) finish(*from->message->taker, why, Fault::kBackend);
  }
  incoming_.clear();
  for (int i = 0; i < size(); ++i) {
    if (outgoing_[i] && outgoing_[i]->fd) fail_outgoing(i, "was closed: " + why);
  }
  closed_.assign(size(), true);
}

}  // namespace tessera::distributed
