// An Error that knows its HTTP reply, and the three shapes in which clients expect one.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "server/http/http_types.h"

namespace kvasir {

class ApiError : public Error {
 public:
  struct Reply {
    int status = 400;
    std::string type = "invalid_request_error";
    std::string param{};    // empty: null
    std::string code{};     // empty: null
    int retry_after_s = 0;  // 0: no retry-after
    std::string allow{};    // 405: the methods there are
  };

  // Both may quote the client, and are cut where they grow out of proportion.
  ApiError(Reply reply, const std::string& message);

  const Reply& reply() const { return reply_; }
  const std::string& message() const { return parts().what; }

  // What any other Error means to a client. Where it happened stays here: it may be a path.
  static ApiError from(const Error& error);

 private:
  Reply reply_;
};

// What a client sent, as an error quotes it: valid UTF-8, at most `most` bytes of it and "…" for the rest.
std::string excerpt(std::string_view text, size_t most = 200);

// The client's mistake in the parameter `param`: 400.
[[noreturn]] void bad_param(const std::string& param, const std::string& message);

// A correct request for what this server cannot do yet: 400, since trying again will not help.
[[noreturn]] void not_supported(const std::string& param, const std::string& message);

enum class Dialect { kOpenAi, kAnthropic, kOllama };

Dialect dialect_of(std::string_view path);

// The JSON of an error, as a body and as an event of a stream that has already begun.
std::string error_body(Dialect dialect, const ApiError& error);
HttpReply error_reply(Dialect dialect, const ApiError& error);

}  // namespace kvasir
