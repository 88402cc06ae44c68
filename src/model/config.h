// Reads what a model's files say of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "model/spec.h"

namespace kvasir {

// Reads and checks config.json (a path to the file, or to the folder that holds it; generation_config.json beside it
// adds end tokens), or the metadata of a GGUF model (see find_gguf). Throws Error on anything missing, of the wrong
// type, out of range or not supported.
ModelSpec load_config(const std::filesystem::path& path);

// The same from text: what the fuzzer drives. `where` names the source in errors.
ModelSpec parse_config(std::string_view json, const std::string& where);

}  // namespace kvasir
