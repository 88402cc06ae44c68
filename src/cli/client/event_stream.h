// A stream of server-sent events over a socket that can be polled beside others: for who has keys to read meanwhile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/client/http_client.h"

namespace kvasir {

class EventStream {
 public:
  // The server answered, and with something else than a stream.
  struct Refused {
    int status = 0;
    std::string body;
  };

  // Connects and asks; `key` may be empty. Throws Error.
  EventStream(const HttpAddress& address, const std::string& path, const std::string& key);
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  int descriptor() const { return socket_; }  // readable: read() has something to do

  // The data of the events that are whole by now; blocks until something came. Throws Refused; throws Error when the
  // connection ended, or when what comes is no such stream.
  std::vector<std::string> read();

 private:
  void receive();
  bool read_head();
  void unchunk();

  std::string host_;
  int socket_ = -1;
  std::string buffer_;  // received, and not unpacked yet
  std::string events_;  // unpacked, and not whole yet
  bool begun_ = false;  // the head is read
};

}  // namespace kvasir
