// How GGUF files of a family say what a model is, beyond what all of them say alike. A family (families/) has one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/spec.h"

namespace kvasir {

struct DecoderConfig;
struct GgufForm;
class GgufReader;

// That of the family's encoders, or of its models with experts, where the model is one and these have a form of their
// own, or the family's.
const GgufForm& gguf_form_of(const ModelSpec& spec);
const GgufForm& gguf_form_of(const DecoderConfig& config);

// How files say which layers have states, and what these are beyond their sizes.
struct GgufStates {
  enum class Layers : std::uint8_t {
    kNone,            // no layer has one
    kWithoutKvHeads,  // attention.head_count_kv is 0 where there is a state
    kByInterval,      // all but each full_attention_interval-th, or a list of flags
    kBeside,          // every layer has one, beside attention
    kOneBranch,       // attention.head_count_kv is above 0 where there is attention, feed_forward_length where there
                      // is an MLP, and neither where there is a state: no layer has two of these
  };
  enum class Norms : std::uint8_t { kOfAllHeads, kByGroup };  // of Mamba-2: one, or one for the heads of each key

  Layers layers = Layers::kNone;
  RecurrentSpec::Kind kind = RecurrentSpec::Kind::kNone;
  RecurrentSpec::Packing packing = RecurrentSpec::Packing::kByPart;
  RecurrentSpec::Heads heads = RecurrentSpec::Heads::kGrouped;
  Norms norms = Norms::kOfAllHeads;
};

struct GgufForm {
  std::string_view architecture = {};  // general.architecture, read as the first family that has it; empty: no GGUF
  std::string_view norm_eps = "attention.layer_norm_rms_epsilon";
  bool divides_logits = false;  // logit_scale divides, where others multiply
  bool maybe_experts = false;   // files may have some or none, whatever Family::experts says
  bool two_lists = false;       // an encoder-decoder's, "enc" and "dec": block_count is of the former
  bool two_kinds = false;       // layers with a window may have other heads than those without, or other MLPs

  // What files mean that do not say it.
  MoeSpec moe{.normalized = true};
  std::int64_t window = 0;           // attention.sliding_window; 0: no layer has one
  std::int64_t global_every = 0;     // attention.sliding_window_pattern: each so-many-th layer has no window
  std::int64_t window_phase = 1;     // layer i has no window where i + phase is a multiple of that
  bool windows_need_pattern = true;  // a window without a pattern means nothing
  GgufStates states{};
  bool vectors = false;  // of encoders: files say how rows are pooled, and have token types where these count
  int dense = 0;         // how many layers behind the pooling they may have, from dense_2 on

  // The keys of gguf_options() and the tensors beyond the decoder's that llama.cpp reads for this architecture. What
  // a file says with others is true for us alone, and `convert` tells so.
  std::span<const std::string_view> known = {};

  // Tensors without which llama.cpp does not load a file of this architecture, and others with which it does not:
  // "output.weight", or behind "blk.N.". `convert` tells so, too.
  std::span<const std::string_view> needed = {};
  std::span<const std::string_view> refused = {};

  // What else the architecture means: called when sizes, ropes and windows are known, before the options are read.
  // What it sets must not need an option: files are looked at without them, too.
  // May be null.
  void (*read)(const GgufReader& in, DecoderConfig& config) = nullptr;
};

}  // namespace kvasir
