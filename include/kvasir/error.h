// Error: what went wrong with a file, a setting, a request or a device, where, and what to do about it.
//
// Thrown for what the outside world got wrong; caught in main, in the HTTP handler and at the engine's per-request
// boundary. Our own bugs are CHECKs; what is expected (no room, a miss) is a return value.
#pragma once

#include <stdexcept>
#include <string>

namespace kvasir {

class Error : public std::runtime_error {
 public:
  enum class Kind {
    kBadInput,  // a file, a prompt or a request is wrong: exit code 1, HTTP 400
    kUsage,     // the command line or the configuration is wrong: exit code 2
    kCapacity,  // correct, but it cannot fit here: exit code 1, HTTP 400 with the numbers
    kSystem,    // the machine refused: no memory, no such device, an I/O error: exit code 1, HTTP 500
  };

  struct Parts {
    std::string what;   // "the header says 12 bytes more than the file has"
    std::string where;  // "model.safetensors"; may be empty
    std::string fix;    // "download the file again"; may be empty
  };

  Error(Kind kind, Parts parts);

  Kind kind() const { return kind_; }
  const Parts& parts() const { return parts_; }

 private:
  Kind kind_;
  Parts parts_;
};

// The three everyday ways to throw. what() reads "where: what; fix" on one line, control characters escaped.
[[noreturn]] void fail_input(std::string what, std::string where = {}, std::string fix = {});
[[noreturn]] void fail_usage(std::string what, std::string where = {}, std::string fix = {});
[[noreturn]] void fail_system(std::string what, std::string where = {}, std::string fix = {});

}  // namespace kvasir
