// A plain HTTP/1.1 client that knows when the first bytes of an answer came. One connection, kept open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

struct HttpAddress {
  std::string host = "127.0.0.1";
  std::string port = "8080";
};

// "http://127.0.0.1:8080". Throws Error: there is no TLS here.
HttpAddress parse_url(const std::string& url);

// A connected socket, the caller's to close. Throws Error.
int connect_to(const HttpAddress& address);

// Throws Error when the connection breaks.
void send_all(int socket, std::string_view bytes, const std::string& host);

class HttpClient {
 public:
  struct Answer {
    int status = 0;
    std::string body;                // of a stream: with its chunks' sizes taken out
    double first_event_seconds = 0;  // from sending to the first "data:" of a stream; 0: there was none
  };

  explicit HttpClient(const HttpAddress& address);  // connects; throws Error
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `key` may be empty. Throws Error when the connection breaks, or after a minute of silence.
  Answer get(const std::string& path, const std::string& key);
  Answer post(const std::string& path, const std::string& key, const std::string& body);

 private:
  Answer exchange(const std::string& request);
  void receive();

  std::string host_;
  int socket_ = -1;
  std::string buffer_;  // received, and not part of an answer yet
};

}  // namespace kvasir
