// The keys that not every GGUF file has, each with how it is read and what a spec says in it: one list for the reader
// and for the writer.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_writer.h"

namespace kvasir {

struct GgufOption {
  enum class Write : std::uint8_t {
    kWhereKnown,   // whatever it says, in files of architectures that know it (GgufForm::known), since some insist
    kWhereNeeded,  // where a file without it would mean something else
  };

  std::string_view key;
  Write write;
  std::optional<GgufOutValue> (*of)(const ModelSpec& spec);  // none: the spec has nothing to say in it
  // Takes it over into the config where it is there. Null: read with what it belongs to.
  void (*read)(const GgufReader& in, std::string_view key, DecoderConfig& config);
};

std::span<const GgufOption> gguf_options();

}  // namespace kvasir
