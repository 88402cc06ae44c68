#include "cli/policy_file.h"

#include "base/error.h"
#include "base/private_file.h"
#include "layout/kv_policy.h"

namespace kvasir {
namespace {

constexpr size_t kLargestPolicyFile = size_t{1} << 20;

// A line without its comment, the space around it and a comma at its end.
std::string_view bare(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const size_t last = line.find_last_not_of(" \t\r,");
  if (last == std::string_view::npos) return {};
  const size_t first = line.find_first_not_of(" \t\r");
  return line.substr(first, last - first + 1);
}

}  // namespace

std::string policy_argument(const std::string& given, std::string_view where) {
  if (!given.starts_with('@')) return given;
  const std::string path = given.substr(1);
  const std::string file = read_small_file(path, kLargestPolicyFile);
  std::string out;
  for (std::string_view rest = file; !rest.empty();) {
    const size_t end = rest.find('\n');
    const std::string_view line = bare(rest.substr(0, end));
    if (!line.empty()) out.append(out.empty() ? "" : ", ").append(line);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  if (out.empty()) fail_usage("the file holds no KV policy", path, "see docs/kv-policies.md");
  parse_kv_policy(out, std::string(where) + " " + given);  // says what is wrong with it while its file is known
  return out;
}

}  // namespace kvasir
