// What the program has in place of the page where node or npm were missing when it was built.
#include <array>

#include "server/page/page.h"

namespace kvasir {
namespace {

constexpr std::array<PageFile, 1> kPageFiles{{
    {"/", "text/html; charset=utf-8",
     "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Kvasir</title>"
     "<p>Kvasir is running. Its page was not built: node or npm were missing. Install both and run ./kvasir serve.\n",
     ""},
}};

}  // namespace

std::span<const PageFile> page_files() { return kPageFiles; }

}  // namespace kvasir
