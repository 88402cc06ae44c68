// The page that the server shows at /: files that web/ is built into, embedded in the program.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "server/http/http_types.h"

namespace kvasir {

// A file of the page. Built without node there is one, which says so.
struct PageFile {
  std::string_view path;  // "/", "/page/app-1a2b.js"
  std::string_view type;
  std::string_view bytes;
  std::string_view gzip;  // the same, compressed; empty: it is not
};
std::span<const PageFile> page_files();

bool is_page(std::string_view path);

// The reply with that file. REQUIRES: is_page(request.path). No page of it loads or sends anything elsewhere: its
// content security policy forbids it.
Response page_response(const HttpRequest& request);

}  // namespace kvasir
