#include "distributed/calls.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

namespace tessera::distributed {
namespace {

using namespace std::string_literals;

constexpr size_t kAhead = 1u << 16;    // what is read at once; larger pieces go where they stay
constexpr size_t kWake = 1u << 19;     // of a large piece, so much has to be there to be worth a wakeup
constexpr size_t kMostSilent = 512;    // connections that have not shown the secret
constexpr double kSilentSeconds = 30;  // which they have to show in
constexpr uint64_t kBell = 0, kListener = 1;
constexpr uint32_t kOnce = EPOLLIN | EPOLLONESHOT;

constexpr size_t kNear = 1u << 16;  // pieces so large are read from the memory of who sends them
constexpr uint64_t kElsewhere = uint64_t{1} << 63;
constexpr uint8_t kReads = 1;

struct Head {
  uint64_t number;
  uint32_t count;
  uint8_t kind, flags;
  uint8_t zeros[2];
};
static_assert(sizeof(Head) == 16);

Piece piece_of(size_t size) {
  return {std::unique_ptr<char, Piece::Free>(static_cast<char*>(aligned_alloc(64, (size + 64) & ~size_t{63}))), size};
}

Message lost(uint64_t number, uint64_t link, int rank, const std::string& why) {
  Message out{Message::kLost, number, link, rank, {}};
  out.pieces.push_back(piece_of(why.size()));
  memcpy(out.pieces[0].data.get(), why.data(), why.size());
  return out;
}

// Copies from the memory of another process. Why it could not, or 0.
int read_from(int process, uint64_t address, char* to, size_t size) {
  while (size > 0) {
    iovec here{to, size}, there{reinterpret_cast<void*>(address), size};
    ssize_t n = process_vm_readv(process, &here, 1, &there, 1, 0);
    if (n <= 0) return n < 0 ? errno : EFAULT;
    to += n;
    address += n;
    size -= n;
  }
  return 0;
}

// The process whose memory this one can read; 0 if it is another host's, or the system does not let us.
int readable(const Place& place) {
  std::string found(place.secret.size(), 0);
  bool same = place.process > 0 && read_from(place.process, place.address, found.data(), found.size()) == 0 &&
              found == place.secret;
  return same ? place.process : 0;
}

}  // namespace

Place own_place() {
  static const std::string secret = [] {
    std::string bytes(32, 0);
    if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) bytes.clear();
    return bytes;
  }();
  const char* transport = getenv("TESSERA_DISTRIBUTED_TRANSPORT");
  if (secret.empty() || (transport && !strcmp(transport, "tcp"))) return {};
  return {getpid(), reinterpret_cast<uint64_t>(secret.data()), secret};
}

// A connection. What it reads belongs to the thread that set `reading`, all else to the mutex.
struct Calls::Link {
  // A rank of -1: the other side asks, once it has shown as many bytes.
  Link(uint64_t link, int rank, Descriptor made, size_t secret)
      : id(link), asks(rank >= 0), peer(rank), fd(std::move(made)), hello(secret, 0), shown(rank) {
    asks ? aim(kHead, &head, sizeof(head)) : aim(kHello, hello.data(), secret);
  }

  const uint64_t id;
  const bool asks;  // this side
  int peer;         // -1: until it has shown the secret
  std::string name;
  const Descriptor fd;
  const Clock::time_point began = Clock::now();
  std::timed_mutex writing;
  bool reading = false;
  std::string broken;
  // Calls without an answer, and who waits for it; on the other side, answers that are still to be read.
  std::map<uint64_t, Waiter*> pending;
  int process = 0;                 // whose memory is read, 0: none
  std::atomic<bool> reads{false};  // the other side reads ours

  // What arrives: the bytes that are to be filled next, and those that were read ahead.
  enum Stage { kHello, kHead, kSizes, kPiece, kAddress };
  void aim(Stage next, void* where, size_t count) {
    stage = next;
    to = static_cast<char*>(where);
    size = count;
  }
  void sleep_until(size_t bytes) {
    if (bytes == least) return;
    least = bytes;
    int number = static_cast<int>(bytes);
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVLOWAT, &number, sizeof(number));
  }
  Stage stage = kHello;
  size_t least = 1;  // bytes that wake a reader
  char* to = nullptr;
  size_t size = 0, filled = 0;
  std::unique_ptr<char[]> ahead{new char[kAhead]};
  size_t at = 0, end = 0;
  std::string hello;
  int shown = -1;  // the rank in it
  Head head{};
  std::vector<uint64_t> sizes;
  uint64_t address = 0;
  std::vector<uint64_t> owed;  // answers whose memory has been read, which is still to be said
  Message message;
};

Calls::Calls(int rank, std::string secret, std::vector<Worker> workers, Descriptor listener)
    : rank_(rank),
      secret_(std::move(secret)),
      workers_(std::move(workers)),
      listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      connecting_(workers_.size()),
      asking_(workers_.size()) {
  if (!epoll_ || !bell_) throw Error(Fault::kNetwork, "remote calls got no descriptors from the system");
  set_nonblocking(listener_.get());
  watch(EPOLL_CTL_ADD, bell_.get(), kBell, EPOLLIN);
}

Calls::~Calls() { close(); }

void Calls::admit() { watch(EPOLL_CTL_ADD, listener_.get(), kListener, kOnce); }

void Calls::introduce(int rank, Worker worker) {
  Lock lock(mutex_);
  if (rank < 0 || static_cast<size_t>(rank) >= workers_.size()) {
    throw Error(Fault::kBackend, "the rank of a worker is below " + std::to_string(workers_.size()) + ", but got " +
                                     std::to_string(rank));
  }
  workers_[rank] = std::move(worker);
}

void Calls::ring() {
  uint64_t one = 1;
  if (write(bell_.get(), &one, sizeof(one)) < 0) return;  // it rings
}

void Calls::watch(int action, int fd, uint64_t id, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  epoll_ctl(epoll_.get(), action, fd, &event);
}

// ---- connections

Calls::Shared Calls::link_to(int rank, Deadline deadline) {
  std::lock_guard one(connecting_[rank]);
  Worker worker;
  {
    Lock lock(mutex_);
    if (asking_[rank]) return asking_[rank];
    worker = workers_[rank];
  }
  Descriptor fd;
  try {
    fd = connect_to(worker.host, worker.port, std::min(deadline, deadline_after(30)), false);
    auto me = static_cast<uint32_t>(rank_);
    auto hello = secret_ + std::string(reinterpret_cast<char*>(&me), 4);
    send_all(fd.get(), hello.data(), hello.size(), deadline);
  } catch (const Error& error) {
    throw Error(error.fault(), "the worker " + worker.name + " cannot be reached: " + error.what());
  }
  set_nonblocking(fd.get());
  Lock lock(mutex_);
  if (closed_) throw Error(Fault::kNetwork, "remote calls have ended at this worker");
  auto link = std::make_shared<Link>(next_link_++, rank, std::move(fd), 0);
  link->process = readable(worker.place);
  link->name = worker.name;
  links_[link->id] = asking_[rank] = link;
  watch(EPOLL_CTL_ADD, link->fd.get(), link->id, kOnce);
  return link;
}

void Calls::accept_all(Lock& lock) {
  drop_silent();
  lock.unlock();
  std::vector<Descriptor> found;
  while (true) {
    Descriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      set_no_delay(fd.get());
      found.push_back(std::move(fd));
    } else {
      // Out of descriptors: who knocks has to wait, and this thread must not spin.
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (errno != ECONNABORTED && errno != EINTR) break;
    }
  }
  lock.lock();
  if (closed_) return;
  for (auto& fd : found) {
    auto link = std::make_shared<Link>(next_link_++, -1, std::move(fd), secret_.size() + 4);
    links_[link->id] = link;
    ++silent_;
    watch(EPOLL_CTL_ADD, link->fd.get(), link->id, kOnce);
  }
  watch(EPOLL_CTL_MOD, listener_.get(), kListener, kOnce);
}

// Ends connections whose time to show the secret is over; of too many, the oldest.
void Calls::drop_silent() {
  std::vector<Shared> silent;
  for (auto& [_, link] : links_) {
    if (!link->asks && link->peer < 0) silent.push_back(link);
  }
  std::sort(silent.begin(), silent.end(), [](auto& a, auto& b) { return a->id < b->id; });
  auto limit =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kSilentSeconds));
  for (size_t i = 0; i < silent.size(); ++i) {
    if (silent.size() - i > kMostSilent || silent[i]->began < limit) end(silent[i], "a stranger");
  }
}

void Calls::end(const Shared& link, const std::string& why) {
  if (!link->broken.empty()) return;
  bool stranger = link->peer < 0;
  link->broken = stranger ? why : "the connection to the worker " + link->name + " is lost: " + why;
  if (stranger) --silent_;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link->fd.get(), nullptr);
  shutdown(link->fd.get(), SHUT_RDWR);
  links_.erase(link->id);
  for (auto& [number, waiter] : std::exchange(link->pending, {})) {
    auto message = lost(number, link->id, link->peer, link->broken);
    if (waiter) {
      waiter->message = std::move(message);
      waiter->changed.notify_all();
    } else {
      queue_.push_back(std::move(message));
    }
  }
  if (!queue_.empty()) ring();
}

// ---- sending

void Calls::send(const Shared& link, uint8_t kind, uint64_t number, const std::vector<std::string_view>& pieces,
                 Deadline deadline, bool near) {
  size_t count = pieces.size();
  std::vector<uint64_t> sizes(count), addresses(count);
  Head head{number, static_cast<uint32_t>(count), kind, link->process ? kReads : uint8_t{0}, {}};
  std::vector<iovec> parts{{&head, sizeof(head)}};
  if (count > 0) parts.push_back({sizes.data(), count * 8});
  for (size_t i = 0; i < count; ++i) {
    auto piece = pieces[i];
    bool elsewhere = near && piece.size() >= kNear;
    sizes[i] = piece.size() | (elsewhere ? kElsewhere : 0);
    addresses[i] = reinterpret_cast<uint64_t>(piece.data());
    if (elsewhere) {
      parts.push_back({&addresses[i], 8});
    } else if (!piece.empty()) {
      parts.push_back({const_cast<char*>(piece.data()), piece.size()});
    }
  }
  std::unique_lock writing(link->writing, deadline);
  if (!writing) throw Error(Fault::kTimeout, "the worker " + link->name + " took no message within the timeout");
  std::string why;
  Fault fault = Fault::kNetwork;
  for (size_t at = 0; at < parts.size() && why.empty();) {
    msghdr what{};
    what.msg_iov = parts.data() + at;
    what.msg_iovlen = std::min<size_t>(parts.size() - at, 64);
    ssize_t sent = sendmsg(link->fd.get(), &what, MSG_NOSIGNAL);
    for (; sent > 0 && at < parts.size(); ++at) {
      size_t part = std::min<size_t>(sent, parts[at].iov_len);
      parts[at].iov_base = static_cast<char*>(parts[at].iov_base) + part;
      parts[at].iov_len -= part;
      sent -= part;
      if (parts[at].iov_len > 0) break;
    }
    if (sent >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) {
      why = strerror(errno);
      break;
    }
    pollfd room{link->fd.get(), POLLOUT, 0};
    if (poll(&room, 1, milliseconds_until(deadline, 200)) > 0) continue;
    if (g_interrupted && g_interrupted()) {
      why = "interrupted";
      fault = Fault::kInterrupted;
    } else if (Clock::now() >= deadline) {
      why = "it took no more of a message within the timeout";
      fault = Fault::kTimeout;
    }
  }
  if (why.empty()) return;
  Lock lock(mutex_);
  end(link, why);  // the rest of the message would be missing
  throw Error(fault, link->broken);
}

void Calls::ask(int rank, uint64_t number, const std::vector<std::string_view>& pieces, Deadline deadline) {
  auto link = link_to(rank, deadline);
  {
    Lock lock(mutex_);
    if (!link->broken.empty()) throw Error(Fault::kNetwork, link->broken);
    link->pending.emplace(number, nullptr);
  }
  try {
    send(link, Message::kCall, number, pieces, deadline, link->reads);
  } catch (const Error&) {
    Lock lock(mutex_);
    link->pending.erase(number);
    throw;
  }
}

bool Calls::answer(uint64_t id, uint64_t number, uint8_t kind, const std::vector<std::string_view>& pieces,
                   Deadline deadline) {
  Shared link;
  bool near = std::any_of(pieces.begin(), pieces.end(), [](auto& piece) { return piece.size() >= kNear; });
  {
    Lock lock(mutex_);
    auto found = links_.find(id);
    if (found == links_.end()) return false;
    link = found->second;
    near = near && link->reads;
    if (near) link->pending.emplace(number, nullptr);
  }
  send(link, kind, number, pieces, deadline, near);
  return near;
}

void Calls::post(uint64_t number) {
  Lock lock(mutex_);
  queue_.push_back({Message::kPosted, number, 0, rank_, {}});
  ring();
}

// ---- receiving

// What has been filled is whole: looks at it, and says what is to be filled next. Why the connection has to end, or
// nothing.
std::string Calls::advance(Link& link, std::vector<Message>& out) const {
  auto& message = link.message;
  link.filled = 0;
  if (link.stage == Link::kHello) {
    unsigned char differs = 0;
    for (size_t i = 0; i < secret_.size(); ++i) differs |= static_cast<unsigned char>(link.hello[i] ^ secret_[i]);
    uint32_t rank;
    memcpy(&rank, link.hello.data() + secret_.size(), 4);
    if (differs || rank >= workers_.size()) return "a stranger";
    link.shown = static_cast<int>(rank);
  } else if (link.stage == Link::kHead) {
    Head& head = link.head;
    bool read = head.kind == Message::kRead, answers = head.kind == Message::kGood || head.kind == Message::kBad;
    bool good = (head.count == 0) == read && head.count <= kMostPieces && head.kind <= Message::kRead &&
                head.flags <= kReads && !head.zeros[0] && !head.zeros[1] && answers == link.asks;
    if (!good) return "what came is no message: a frame of " + std::to_string(head.count) + " pieces";
    if (head.flags & kReads) link.reads = true;
    if (read) {
      out.push_back({head.kind, head.number, link.id, link.shown, {}});
      link.aim(Link::kHead, &head, sizeof(head));
      return "";
    }
    link.sizes.resize(head.count);
    link.aim(Link::kSizes, link.sizes.data(), link.sizes.size() * 8);
    return "";
  } else if (link.stage == Link::kSizes) {
    size_t all = 0;
    for (uint64_t one : link.sizes) {
      if ((one & kElsewhere) && !link.process) return "what came is no message: memory that cannot be read";
      one &= ~kElsewhere;
      all += std::min<uint64_t>(one, kLargestMessage);  // 2**20 times 2**40 at most
      if (all > kLargestMessage || one > kLargestMessage) return "what came is no message: a frame of more than 1 TiB";
    }
    message = Message{link.head.kind, link.head.number, link.id, link.shown, {}};
  } else if (link.stage == Link::kAddress) {
    auto& piece = message.pieces.back();
    int code = read_from(link.process, link.address, piece.data.get(), piece.size);
    if (code) return "its memory cannot be read: "s + strerror(code);
    link.stage = Link::kPiece;
    if (link.asks && (link.owed.empty() || link.owed.back() != message.number)) link.owed.push_back(message.number);
  }
  if (link.stage == Link::kHello || (link.stage == Link::kPiece && message.pieces.size() == link.sizes.size())) {
    if (link.stage == Link::kPiece) out.push_back(std::move(message));
    link.aim(Link::kHead, &link.head, sizeof(link.head));
    return "";
  }
  uint64_t size = link.sizes[message.pieces.size()];
  bool elsewhere = size & kElsewhere;
  size &= ~kElsewhere;
  message.pieces.push_back(piece_of(size));
  char* to = message.pieces.back().data.get();
  if (elsewhere) {
    link.aim(Link::kAddress, &link.address, sizeof(link.address));
  } else {
    link.aim(Link::kPiece, to, size);
  }
  return to ? "" : "there is no memory for a piece of " + std::to_string(size) + " bytes";
}

// Reads what is there, and cuts it into messages. Why the connection has to end, or nothing.
std::string Calls::receive(Link& link, std::vector<Message>& out) const {
  while (true) {
    size_t count = std::min(link.end - link.at, link.size - link.filled);
    memcpy(link.to + link.filled, link.ahead.get() + link.at, count);
    link.at += count;
    link.filled += count;
    if (link.filled == link.size) {
      auto why = advance(link, out);
      if (!why.empty()) return why;
      continue;
    }
    size_t left = link.size - link.filled;
    bool direct = left >= kAhead / 2;
    ssize_t n =
        direct ? recv(link.fd.get(), link.to + link.filled, left, 0) : recv(link.fd.get(), link.ahead.get(), kAhead, 0);
    if (n == 0) return "the connection was closed";
    if (n < 0 && errno != EAGAIN && errno != EINTR) return strerror(errno);
    if (n < 0) {
      link.sleep_until(direct ? std::min(left, kWake) : 1);
      return "";
    }
    if (direct) {
      link.filled += n;
    } else {
      link.at = 0;
      link.end = n;
    }
  }
}

// Gives a message to whoever waits for it, else to the queue.
void Calls::dispatch(const Shared& link, Message message) {
  if (message.kind != Message::kCall) {
    auto found = link->pending.find(message.number);
    if (found == link->pending.end()) return;  // it comes too late
    Waiter* waiter = found->second;
    link->pending.erase(found);
    if (waiter) {
      waiter->message = std::move(message);
      waiter->changed.notify_all();
      return;
    }
  }
  queue_.push_back(std::move(message));
}

// Waits for a connection (0: does not), and reads what is there; `lock` is open meanwhile.
void Calls::read(const Shared& link, Lock& lock, int milliseconds) {
  link->reading = true;
  bool stranger = link->peer < 0;
  lock.unlock();
  std::vector<Message> messages;
  std::string why;
  pollfd there{link->fd.get(), POLLIN, 0};
  if (milliseconds == 0 || poll(&there, 1, milliseconds) > 0) why = receive(*link, messages);
  lock.lock();
  link->reading = false;
  if (stranger && link->shown >= 0 && link->broken.empty()) {
    auto& worker = workers_[link->shown];
    link->name = worker.name.empty() ? std::to_string(link->shown) : worker.name;
    link->process = readable(worker.place);
    link->peer = link->shown;
    --silent_;
  }
  for (auto& message : messages) dispatch(link, std::move(message));
  auto owed = std::exchange(link->owed, {});
  if (!why.empty()) return end(link, why);
  if (owed.empty()) return;
  lock.unlock();
  try {
    for (uint64_t number : owed) send(link, Message::kRead, number, {}, deadline_after(kSilentSeconds));
  } catch (const Error&) {  // the connection has ended, which tells both sides
  }
  lock.lock();
}

std::optional<Message> Calls::take() {
  Lock lock(mutex_);
  while (!closed_) {
    if (!queue_.empty()) {
      Message message = std::move(queue_.front());
      queue_.pop_front();
      if (!queue_.empty()) ring();
      return message;
    }
    int pause = silent_ > 0 ? 1000 : -1;
    lock.unlock();
    epoll_event event{};
    int n = epoll_wait(epoll_.get(), &event, 1, pause);
    lock.lock();
    if (n == 0) drop_silent();
    if (n <= 0 || closed_) continue;
    if (event.data.u64 == kBell) {
      uint64_t count;
      if (::read(bell_.get(), &count, sizeof(count)) < 0) continue;  // another thread was earlier
    } else if (event.data.u64 == kListener) {
      accept_all(lock);
    } else {
      auto found = links_.find(event.data.u64);
      if (found == links_.end() || found->second->reading) continue;
      Shared link = found->second;
      read(link, lock, 0);
      give_up_reading(link);
    }
  }
  return std::nullopt;
}

// The next one that waits has to read, or those in take().
void Calls::give_up_reading(const Shared& link) {
  if (!link->broken.empty() || link->reading) return;
  for (auto& [_, waiter] : link->pending) {
    if (waiter) {
      waiter->changed.notify_all();
      return;
    }
  }
  watch(EPOLL_CTL_MOD, link->fd.get(), link->id, kOnce);
}

std::optional<Message> Calls::wait(int rank, uint64_t number, Deadline deadline, bool& again) {
  Lock lock(mutex_);
  again = false;
  auto link = asking_[rank];
  auto found = link ? link->pending.find(number) : decltype(link->pending)::iterator();
  if (!link || found == link->pending.end() || found->second) return std::nullopt;
  Waiter waiter;
  found->second = &waiter;
  bool armed = true;
  auto look = deadline_after(0.1);  // for signals
  while (!waiter.message && !closed_ && !again) {
    auto now = Clock::now();
    if (now >= look) {
      lock.unlock();
      bool stop = g_interrupted && g_interrupted();
      lock.lock();
      if (stop) break;
      look = deadline_after(0.1);
    }
    if (link->reading) {
      waiter.changed.wait_until(lock, std::min(deadline, look));
    } else {
      if (std::exchange(armed, false)) watch(EPOLL_CTL_MOD, link->fd.get(), link->id, EPOLLONESHOT);
      read(link, lock, std::max(1, milliseconds_until(deadline, 100)));
    }
    again = !waiter.message && now >= deadline;
  }
  if (!queue_.empty()) ring();  // for others came something, too
  if (waiter.message) {
    give_up_reading(link);
    return std::move(waiter.message);
  }
  found = link->pending.find(number);
  if (found != link->pending.end()) found->second = nullptr;
  give_up_reading(link);
  if (!again && !closed_) throw Error(Fault::kInterrupted, "interrupted");
  return std::nullopt;
}

void Calls::close() {
  Lock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  shutdown(listener_.get(), SHUT_RDWR);
  for (auto& [_, link] : std::unordered_map<uint64_t, Shared>(links_)) end(link, "this worker has ended");
  ring();
}

}  // namespace tessera::distributed
