// How GGUF names and orders what Hugging Face's llama models hold: one table, for reading and for writing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; empty for a name that is not known.
std::string gguf_name_of(std::string_view hugging_face_name);

// Which heads' rows a tensor holds in GGUF's order.
enum class RotatedRows : std::uint8_t { kNone, kQueries, kKeys };
RotatedRows rotated_rows(std::string_view hugging_face_name);

// Rope turns pairs of rows of a head: Hugging Face pairs row i with i + head_dim / 2, llama files of GGUF put the two
// side by side. For row r of the one, the row of the other.
struct RowOrder {
  int head_dim;

  // The row that a GGUF file has at `row`, in Hugging Face's order.
  int hugging_face_row(int row) const {
    const int within = row % head_dim;
    return row - within + within / 2 + within % 2 * (head_dim / 2);
  }
  // The row that Hugging Face has at `row`, in GGUF's order.
  int gguf_row(int row) const {
    const int within = row % head_dim;
    const int half = head_dim / 2;
    return row - within + within % half * 2 + within / half;
  }
};

// All tensors of a llama model under Hugging Face's names, in the order files have them.
struct LlamaTensors {
  static std::vector<std::string> of_layer(int layer);  // weights and biases; a model may have no biases
  static constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
  static constexpr std::string_view kFinalNorm = "model.norm.weight";
  static constexpr std::string_view kHead = "lm_head.weight";
};

inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";  // [head_dim / 2], divide the frequencies

}  // namespace kvasir
