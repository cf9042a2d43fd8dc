#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <thread>
#include <unordered_map>

#include "distributed/store.h"

namespace tessera::distributed {

// The server's thread and all that belongs to it alone.
class StoreServer::Loop {
 public:
  Loop(const std::string& host, int port, int listening)
      : listener_(listening >= 0 ? Descriptor(listening) : listen_at(host, port)),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        stop_(eventfd(0, EFD_CLOEXEC)) {
    if (!epoll_ || !stop_) throw Error(Fault::kNetwork, "a store's server got no descriptors from the system");
    port_ = port_of(listener_.get());
    if (port_ < 0) throw Error(Fault::kNetwork, "a store's server was given a descriptor that is no listening socket");
    listen(listener_.get(), 4096);  // what was bound may not listen yet
    set_nonblocking(listener_.get());
    watch(listener_.get(), EPOLLIN, EPOLL_CTL_ADD);
    watch(stop_.get(), EPOLLIN, EPOLL_CTL_ADD);
    thread_ = std::thread([this] { run(); });
  }

  ~Loop() {
    uint64_t one = 1;
    if (write(stop_.get(), &one, sizeof(one)) < 0) std::abort();  // an eventfd takes it
    thread_.join();
  }

  int port() const { return port_; }

 private:
  struct Client {
    Descriptor fd;
    FrameReader reader{4096};  // until it has said hello
    std::string out;
    size_t sent = 0;
    bool greeted = false;
    bool waits_to_write = false;
  };
  struct Waiting {
    int fd;
    Frame request;
  };

  void watch(int fd, uint32_t events, int action) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    epoll_ctl(epoll_.get(), action, fd, &event);
  }

  void run() {
    std::vector<epoll_event> events(256);
    Haste haste;
    while (true) {
      int n = 0, most = static_cast<int>(events.size());
      if (!haste.look_for([&] { return (n = epoll_wait(epoll_.get(), events.data(), most, 0)) > 0; })) {
        n = epoll_wait(epoll_.get(), events.data(), most, -1);
      }
      for (int i = 0; i < n; ++i) {
        int fd = events[i].data.fd;
        if (fd == stop_.get()) return;
        if (fd == listener_.get()) {
          accept_all();
          continue;
        }
        auto found = clients_.find(fd);
        if (found == clients_.end()) continue;
        bool good = true;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) good = read_from(found->second);
        if (good && (events[i].events & EPOLLOUT)) good = flush(found->second);
        if (!good) drop(fd);
      }
      for (int fd : failed_) drop(fd);
      failed_.clear();
    }
  }

  void accept_all() {
    while (true) {
      Descriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) {
        // Out of descriptors: the connection stays in the queue, and the thread must not spin on it.
        if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return;
      }
      set_no_delay(fd.get());
      int number = fd.get();
      watch(number, EPOLLIN, EPOLL_CTL_ADD);
      clients_[number].fd = std::move(fd);
    }
  }

  void drop(int fd) {
    std::erase_if(waiting_, [fd](const Waiting& w) { return w.fd == fd; });
    clients_.erase(fd);
  }

  bool read_from(Client& client) {
    char buffer[65536];
    while (true) {
      ssize_t n = recv(client.fd.get(), buffer, sizeof(buffer), 0);
      if (n == 0) return false;
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      client.reader.append(buffer, n);
      bool good = true;
      while (auto frame = client.reader.next(good)) {
        if (!serve(client, std::move(*frame))) return false;
      }
      if (!good) return false;
      if (n < static_cast<ssize_t>(sizeof(buffer))) return true;
    }
  }

  bool serve(Client& client, Frame frame) {
    auto what = static_cast<Ask>(frame.code);
    if (!client.greeted) {
      client.greeted = what == Ask::kHello && frame.fields.size() == 1 && frame.fields[0] == kProtocol;
      client.reader.allow(kLargestFrame);
      return client.greeted && reply(client, frame.id, {});
    }
    if (what == Ask::kCancel) {
      std::erase_if(waiting_, [&](const Waiting& w) {
        return w.fd == client.fd.get() && !frame.fields.empty() && std::to_string(w.request.id) == frame.fields[0];
      });
      return true;
    }
    Table::Answer answer;
    if (!table_.answer(frame, answer)) {
      waiting_.push_back({client.fd.get(), std::move(frame)});
      return true;
    }
    if (frame.id != 0 && !reply(client, frame.id, answer)) return false;
    if (table_.take_changed()) wake();
    return true;
  }

  void wake() {
    for (auto entry = waiting_.begin(); entry != waiting_.end();) {
      Table::Answer answer;
      if (!table_.answer(entry->request, answer)) {
        ++entry;
        continue;
      }
      auto client = clients_.find(entry->fd);
      if (client != clients_.end() && !reply(client->second, entry->request.id, answer)) failed_.push_back(entry->fd);
      entry = waiting_.erase(entry);
    }
    table_.take_changed();
  }

  bool reply(Client& client, uint32_t id, const Table::Answer& answer) {
    std::vector<std::string_view> fields(answer.fields.begin(), answer.fields.end());
    bool idle = client.out.empty();
    client.out += encode(id, static_cast<uint8_t>(answer.code), fields);
    return !idle || flush(client);
  }

  bool flush(Client& client) {
    while (client.sent < client.out.size()) {
      ssize_t n = send(client.fd.get(), client.out.data() + client.sent, client.out.size() - client.sent, MSG_NOSIGNAL);
      if (n < 0 && errno != EINTR) {
        if (errno != EAGAIN) return false;
        if (!client.waits_to_write) watch(client.fd.get(), EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
        client.waits_to_write = true;
        return true;
      }
      if (n > 0) client.sent += n;
    }
    client.out.clear();
    client.sent = 0;
    if (client.out.capacity() > (1u << 20)) client.out.shrink_to_fit();
    if (client.waits_to_write) watch(client.fd.get(), EPOLLIN, EPOLL_CTL_MOD);
    client.waits_to_write = false;
    return true;
  }

  Descriptor listener_, epoll_, stop_;
  int port_ = 0;
  Table table_;
  std::unordered_map<int, Client> clients_;
  std::deque<Waiting> waiting_;
  std::vector<int> failed_;
  std::thread thread_;
};

StoreServer::StoreServer(const std::string& host, int port, int listening)
    : loop_(std::make_unique<Loop>(host, port, listening)) {}
StoreServer::~StoreServer() = default;
int StoreServer::port() const { return loop_->port(); }

}  // namespace tessera::distributed
