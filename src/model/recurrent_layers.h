// What stands in a recurrent layer where others have attention.
#pragma once

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "model/batch.h"
#include "model/decoder_weights.h"
#include "model/decoder_workspace.h"
#include "model/spec.h"

namespace kvasir {

// Each row is projected once: to what the convolution reads, and behind it to gates and whatever decides what a state
// is given and loses.
class RecurrentLayers {
 public:
  // All of these outlive it.
  RecurrentLayers(const ModelSpec& spec, const DecoderWeights& weights, const Workspace& space, Backend& backend)
      : spec_(spec), weights_(weights), space_(space), backend_(backend) {}

  // out = what the layer makes of x. Each sequence's state is in the group of its policy that has this layer's.
  void run(int layer, const Batch& batch, const KvStorage& storage, Matrix x, Matrix out);

 private:
  // One layer of one batch.
  struct Call {
    int layer = 0;
    const Batch& batch;
    const KvStorage& storage;
    const RecurrentSpec& spec;
    const RecurrentWeights& weights;
    Matrix in;  // [rows][row_width]
  };

  Matrix mixed(const Call& call);
  Matrix delta_net(const Call& call);
  Matrix kda(const Call& call);
  Matrix of_units(const RecurrentSpec& spec, Matrix x, const Buffer& unit, Matrix tiles);
  Matrix mamba(const Call& call);
  Matrix short_conv(const Call& call);
  void scale_inputs(const Call& call);
  void gate_and_normalize(const Call& call, Matrix gate, Matrix v);
  template <class Run>
  void update_states(const Call& call, StateRoundOp::Part part, const Run& run);
  void convolve(const Call& call, Matrix x, CausalConvOp::Bend bend);
  void recur(const Call& call, const RecurrenceOp& like);

  const ModelSpec& spec_;
  const DecoderWeights& weights_;
  const Workspace& space_;
  Backend& backend_;
};

}  // namespace kvasir
