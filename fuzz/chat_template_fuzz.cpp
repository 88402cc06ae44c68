// A template and a message, parted by the first NUL: any template ends in text or in an Error, within its
// limits, and whatever it does to the message keeps its mark.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "text/chat_template.h"

namespace kvasir {
namespace {

void check_pieces(const std::vector<Piece>& pieces, const RenderLimits& limits) {
  CHECK(text_of(pieces).size() <= static_cast<std::size_t>(limits.output_bytes));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    CHECK(!pieces[i].text.empty());
    CHECK(i == 0 || pieces[i].origin != pieces[i - 1].origin);
    // The message below is the only one that brings such a byte, and templates cannot make it.
    if (pieces[i].text.find('\x02') != std::string::npos) CHECK(pieces[i].origin == Origin::kUser);
  }
}

void run(std::string_view source, std::string_view content) {
  RenderOptions options;
  options.limits = {.steps = 50'000, .bytes = 4 << 20, .output_bytes = 1 << 18};
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.now = 0;
  options.tools = {{{"name", "f"}, {"parameters", {{"x", {1, 2.5, nullptr, true}}}}}};
  const std::vector<ChatMessage> messages{
      {"system", std::string(content)}, {"user", "\x02 hi"}, {"assistant", "a,b"}};
  try {
    check_pieces(ChatTemplate(source, "fuzz").render(messages, options), options.limits);
  } catch (const Error&) {
    // The right answer to a template that is wrong.
  }
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = all.find('\0');
  const std::string_view source = all.substr(0, nul);
  // The byte that marks the user's message in check_pieces must not come from the template, nor be spelled
  // there.
  if (source.find('\x02') != std::string_view::npos || source.find("\\") != std::string_view::npos) {
    try {
      kvasir::ChatTemplate(source, "fuzz");
    } catch (const kvasir::Error&) {
      // As above.
    }
    return 0;
  }
  kvasir::run(source, nul == std::string_view::npos ? "content" : all.substr(nul + 1));
  return 0;
}
