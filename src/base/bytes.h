// Sizes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvasir {

// "24GB", "512 MiB", "1.5g", "4096": decimal units for kB MB GB TB, binary for KiB MiB GiB TiB and the bare letters
// k m g t, as memory is sold and as people mean it. Throws Error naming `flag` on anything else, and on less than
// `least`.
std::uint64_t parse_bytes(std::string_view text, std::string_view flag, std::uint64_t least = 1);

std::string format_bytes(std::uint64_t bytes);  // "4.29 GB", "131 kB", "12 B": decimal, three figures
std::uint64_t physical_memory();                // of this machine, in bytes
std::string format_count(std::uint64_t count);  // "131,072"

}  // namespace kvasir
