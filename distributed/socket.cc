#include "distributed/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

namespace tessera::distributed {
namespace {

std::string last_error() { return strerror(errno); }

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// The addresses of a host; none, and why, if its name is not known.
Addresses resolve(const std::string& host, int port, int flags, std::string& why) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    found = nullptr;
    why = "the host name '" + host + "' cannot be resolved: " + gai_strerror(code);
  }
  return Addresses(found, freeaddrinfo);
}

// 0 when connected, else the errno of the attempt.
int try_connect(int fd, const addrinfo& to, Deadline deadline) {
  set_nonblocking(fd);
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wait{fd, POLLOUT, 0};
  while (true) {
    int ready = poll(&wait, 1, milliseconds_until(deadline, 200));
    if (ready > 0) break;
    check_interrupted();
    if (Clock::now() >= deadline) return ETIMEDOUT;
  }
  int code = 0;
  socklen_t size = sizeof(code);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
  return code;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Descriptor::release() { return std::exchange(fd_, -1); }

void Descriptor::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

void set_no_delay(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Descriptor listen_at(const std::string& host, int port) {
  std::string why;
  auto all = resolve(host, port, AI_PASSIVE, why);
  for (addrinfo* a = all.get(); a; a = a->ai_next) {
    Descriptor fd(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    int on = 1;
    if (fd && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 && listen(fd.get(), 4096) == 0) {
      return fd;
    }
    why = last_error();
  }
  throw Error(Fault::kNetwork, "The server socket has failed to listen on any local network address of " + host + ":" +
                                   std::to_string(port) + ": " + why);
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Descriptor connect_to(const std::string& host, int port, Deadline deadline, bool patient) {
  std::string why = "no address";
  auto begin = Clock::now();
  // Names, too, may become known while we wait: those of machines that are about to start.
  for (auto pause = std::chrono::milliseconds(2);; pause = std::min(pause * 2, std::chrono::milliseconds(100))) {
    auto all = resolve(host, port, 0, why);
    for (addrinfo* a = all.get(); a; a = a->ai_next) {
      Descriptor fd(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      int code = fd ? try_connect(fd.get(), *a, deadline) : errno;
      if (code == 0) {
        set_no_delay(fd.get());
        return fd;
      }
      why = strerror(code);
    }
    check_interrupted();
    if (!patient || Clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  if (!patient) throw Error(Fault::kNetwork, host + ":" + std::to_string(port) + ": " + why);
  throw Error(Fault::kNetwork, "the client socket has timed out after " + milliseconds_text(begin, deadline) +
                                   " while trying to connect to " + host + ":" + std::to_string(port) + ": " + why +
                                   "; is the process that serves it running?");
}

void send_all(int fd, const void* data, size_t size, Deadline deadline) {
  auto at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      size -= sent;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait{fd, POLLOUT, 0};
      if (poll(&wait, 1, milliseconds_until(deadline, 200)) == 0 && Clock::now() >= deadline) {
        throw Error(Fault::kTimeout, "the peer took no more data within the timeout");
      }
      check_interrupted();
    } else if (errno != EINTR) {
      throw Error(Fault::kNetwork, "the connection was lost while sending: " + last_error());
    }
  }
}

}  // namespace tessera::distributed
