#include "server/page/page.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir {
namespace {

constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PageFile* find_page_file(std::string_view path) {
  const std::span<const PageFile> files = page_files();
  const auto found = std::ranges::find(files, path, &PageFile::path);
  return found == files.end() ? nullptr : &*found;
}

}  // namespace

bool is_page(std::string_view path) { return find_page_file(path) != nullptr; }

// Files other than the page itself have a hash of their content in their names.
Response page_response(const HttpRequest& request) {
  const PageFile* file = find_page_file(request.path);
  CHECK(file != nullptr);
  const bool gzip = request.accepts_gzip && !file->gzip.empty();
  Response response;
  response.reply.content_type = file->type;
  response.reply.body = gzip ? file->gzip : file->bytes;
  response.reply.headers = {
      {"cache-control", request.path == "/" ? "no-cache" : "public, max-age=31536000, immutable"},
      {"vary", "accept-encoding"},
      {"x-content-type-options", "nosniff"},
      {"referrer-policy", "no-referrer"},
      {"cross-origin-opener-policy", "same-origin"},
      {"content-security-policy", std::string(kContentPolicy)}};
  if (gzip) response.reply.headers.emplace_back("content-encoding", "gzip");
  return response;
}

}  // namespace kvasir
