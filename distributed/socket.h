#pragma once

#include <cstddef>
#include <string>

#include "distributed/base.h"

namespace tessera::distributed {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

// A listening TCP socket at that address alone, port 0: any. Throws kNetwork.
Descriptor listen_at(const std::string& host, int port);
int port_of(int fd);

// A connected socket without delay; who is patient tries again until the deadline while nobody listens there. Throws
// kNetwork.
Descriptor connect_to(const std::string& host, int port, Deadline deadline, bool patient = true);

void set_nonblocking(int fd);
void set_no_delay(int fd);

// Writes all of it to a socket (blocking or not). Throws kNetwork when the peer is gone, kTimeout.
void send_all(int fd, const void* data, size_t size, Deadline deadline);

}  // namespace tessera::distributed
