// A step's activations in the backend's memory, allocated once: as wide as the widest layer needs them.
#pragma once

#include "backend/backend.h"
#include "model/spec.h"

namespace kvasir {

// For up to max_rows rows.
struct Workspace {
  Workspace(const ModelSpec& spec, Backend& backend, int max_rows);

  Buffer x;              // [rows][hidden], the residual stream
  Buffer normed;         // [rows][hidden]
  Buffer qkv;            // [rows][q, k and v widths, and gates]
  Buffer source_kv;      // [rows][k and v], of layers that read a source
  Buffer recurrent_in;   // [rows][row_width], of recurrent layers
  Buffer attn_out;       // [rows][heads * v_dim]
  Buffer latent_q;       // [rows][q_rank], of latent attention
  Buffer latent_heads;   // [rows][heads * q_dim], then [rows][heads * v_dim], of latent attention
  Buffer branch;         // [rows][hidden], what a branch adds to x
  Buffer beside;         // [rows][hidden], what stands beside it: a state beside attention, an MLP beside experts
  Buffer gate_up;        // [rows][2 ffn]
  Buffer router_logits;  // [rows][experts]
  Buffer expert_in;      // [rows][latent], what experts read where that is not the stream
  Buffer expert_out;     // the same of what they make
  Buffer embedded;       // [rows][table width], where that is not `hidden`
  Buffer layer_inputs;   // [rows][layers * layer_input]
  Buffer layer_rows;     // the same, and [rows][layer_input]
  Buffer joined;         // [rows][2 hidden], of a draft head: norms of the embedding and of what is given
  Buffer last;           // [rows][hidden], the rows whose logits are wanted
  Buffer logits;         // [rows][vocab]; nothing, of an encoder
};

inline Matrix as_matrix(const Buffer& buffer, int rows, int cols) { return {buffer.as<float>(), rows, cols, cols}; }

}  // namespace kvasir
