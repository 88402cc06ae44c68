// Heads that guess the next tokens: what they compute, beside the same computed plainly.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backend/make_backend.h"
#include "model/draft_head.h"
#include "model/known_models.h"
#include "support/draft_heads.h"
#include "support/f32_weights.h"
#include "support/fixtures.h"
#include "support/forward.h"

namespace kvasir::testing {
namespace {

using Kind = DraftHeadSpec::Kind;

Rows random_rows(size_t rows, size_t cols, std::uint64_t seed) {
  Rows out(rows, std::vector<float>(cols));
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < cols; ++c) {
      out[r][c] = static_cast<float>(static_cast<double>(mix(seed, r, c) % 2001) / 1000.0 - 1.0);
    }
  }
  return out;
}

std::vector<float> flat(const Rows& rows) {
  std::vector<float> out;
  for (const auto& row : rows) out.insert(out.end(), row.begin(), row.end());
  return out;
}

std::vector<float> times(const Rows& weight, const std::vector<float>& x) {
  std::vector<float> out;
  for (const auto& row : weight) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += double{row[i]} * double{x[i]};
    out.push_back(static_cast<float>(sum));
  }
  return out;
}

std::vector<float> normed(const std::vector<float>& x, const std::vector<float>& weight, double eps) {
  double sum = 0;
  for (const float value : x) sum += double{value} * double{value};
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  std::vector<float> out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(static_cast<float>(double{x[i]} * scale * double{weight[i]}));
  return out;
}

std::vector<float> joined(std::vector<float> first, const std::vector<float>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<float> sum(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// What a head says: logits, and the rows that it goes on from.
struct Said {
  std::vector<float> logits;
  std::vector<float> own;
};

// All rows at once, or the first ones in one batch and the last in another.
Said run_head(Model& head, Backend& backend, const std::vector<TokenId>& tokens, const Rows& given, size_t cut) {
  const ModelSpec& spec = head.config();
  const std::vector<KvGroup> groups = kv_groups(spec, uniform_policy(KvFormat::kF32));
  EXPECT_EQ(groups.size(), 1U);
  KvStorage storage(backend, {4, block_bytes_of(groups.front(), 16)}, 16);
  storage.set_group(0, groups.front());
  const std::vector<BlockId> table{0, 1, 2, 3};
  const auto hidden = static_cast<size_t>(spec.hidden);
  Buffer own = backend.allocate(sizeof(float) * tokens.size() * hidden);
  Buffer given_rows = backend.allocate(sizeof(float) * tokens.size() * given.front().size());
  Said out;
  for (size_t first = 0; first < tokens.size();) {
    const size_t end = first == 0 ? cut : tokens.size();
    Batch batch;
    for (size_t i = first; i < end; ++i) {
      batch.tokens.push_back(tokens[i]);
      batch.positions.push_back(static_cast<Position>(i));
      batch.logit_rows.push_back(static_cast<int>(i - first));
    }
    batch.sequences.push_back({{table.data(), static_cast<Position>(first), 0, batch.rows()}});
    const std::vector<float> values =
        flat({given.begin() + static_cast<int>(first), given.begin() + static_cast<int>(end)});
    backend.upload(given_rows.as<std::byte>(), std::as_bytes(std::span(values)));
    const int width = static_cast<int>(given.front().size());
    batch.given = {given_rows.as<float>(), batch.rows(), width, width};
    const bool norms = spec.draft.feeds == DraftHeadSpec::Feeds::kNormed;
    batch.taps.push_back(
        {norms ? DraftHeadSpec::kNormedRows : 1, {own.as<float>(), batch.rows(), spec.hidden, spec.hidden}});
    const Matrix logits = head.forward(batch, storage);
    const auto take = [&](std::vector<float>& to, const float* from, size_t count) {
      to.resize(to.size() + count);
      backend.download(std::as_writable_bytes(std::span(to).last(count)), reinterpret_cast<const std::byte*>(from));
    };
    take(out.logits, logits.data, static_cast<size_t>(logits.rows) * static_cast<size_t>(logits.cols));
    take(out.own, own.as<float>(), static_cast<size_t>(batch.rows()) * hidden);
    first = end;
  }
  return out;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, double most) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], most) << i;
}

// A decoder by itself whose embedding says what the stream of each row is, with a head's layer: what a head must be
// where its rows are joined as the formula says.
class JoinedRows final : public TensorSource {
 public:
  JoinedRows(const TensorSource& head, const ModelSpec& spec, const ModelSpec& plain, std::vector<float> rows,
             std::vector<float> out)
      : head_(head), rows_(std::move(rows)), out_(std::move(out)) {
    const std::vector<TensorSpec> theirs = own_tensors(spec);
    for (const TensorSpec& tensor : own_tensors(plain)) {
      const auto same = [&](const TensorSpec& one) {
        return one.role == tensor.role && one.layer == tensor.layer && one.expert == tensor.expert &&
               one.bias == tensor.bias;
      };
      const auto found = std::ranges::find_if(theirs, same);
      if (found != theirs.end()) names_[tensor.name] = found->name;
    }
  }
  HostWeight matrix(std::string_view name, int rows, int cols) const override {
    if (name == "model.embed_tokens.weight") return {std::as_bytes(std::span(rows_)), DType::kF32, rows, cols};
    if (name == "lm_head.weight") return {std::as_bytes(std::span(out_)), DType::kF32, rows, cols};
    return head_.matrix(names_.at(std::string(name)), rows, cols);
  }
  Key256 fingerprint() const override { return {}; }
  void done_with(const HostWeight& weight) const override { head_.done_with(weight); }
  std::uint64_t bytes() const override { return 0; }

 private:
  const TensorSource& head_;
  std::vector<float> rows_;
  std::vector<float> out_;
  std::map<std::string, std::string> names_;
};

class DraftHeadTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr size_t kRows = 18;
  std::unique_ptr<Backend> backend_ = make_backend({"ref", 1, "auto"});
};

// MTP, of families that have it: x = M [norm(embedding); norm(given)], one layer, norm, the target's head.
TEST_P(DraftHeadTest, NextNIsALayerOverJoinedRows) {
  const ModelSpec target_spec = in_f32(GetParam());
  const RandomWeights target_weights(target_spec, 3);
  const auto target = make_decoder(target_spec, target_weights, *backend_, {64, {}});
  const std::optional<ModelSpec> spec = next_n_head(target_spec);
  ASSERT_TRUE(spec);
  const RandomWeights weights(*spec, 4);
  const auto head = make_decoder(*spec, weights, *backend_, {64, {}}, target->shared_weights());

  const int hidden = spec->hidden;
  std::map<TensorRole, std::string> names;
  for (const TensorSpec& tensor : own_tensors(*spec)) names[tensor.role] = tensor.name;
  const auto norm_weight = [&](TensorRole role) {
    std::vector<float> out = read(weights, names.at(role), 1, hidden).front();
    for (const TensorSpec& tensor : own_tensors(*spec)) {
      if (tensor.role != role) continue;
      for (float& value : out) value += tensor.offset;
    }
    return out;
  };
  const Rows join = read(weights, names.at(TensorRole::kDraftJoin), hidden, 2 * hidden);
  const Rows embedding = read(target_weights, "model.embed_tokens.weight", spec->vocab, hidden);
  const std::string out_name = target_spec.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const Rows out = read(target_weights, out_name, spec->vocab, hidden);

  std::vector<TokenId> tokens;
  for (size_t i = 0; i < kRows; ++i)
    tokens.push_back(static_cast<TokenId>(mix(5, i, 1) % static_cast<size_t>(spec->vocab)));
  const Rows given = random_rows(kRows, static_cast<size_t>(hidden), 9);
  Rows stream;
  std::vector<TokenId> numbers;
  for (size_t i = 0; i < kRows; ++i) {
    const auto& e = embedding[static_cast<size_t>(tokens[i])];
    stream.push_back(times(join, joined(normed(e, norm_weight(TensorRole::kDraftEmbeddingNorm), spec->norm_eps),
                                        normed(given[i], norm_weight(TensorRole::kDraftGivenNorm), spec->norm_eps))));
    numbers.push_back(static_cast<TokenId>(i));
  }
  ModelSpec plain = *spec;
  plain.draft = {};
  plain.tied_embeddings = false;
  plain.embedding_scale = 1.0F;
  while (std::ssize(stream) < plain.vocab) stream.push_back(std::vector<float>(static_cast<size_t>(hidden)));
  const auto ordinary =
      make_decoder(plain, JoinedRows(weights, *spec, plain, flat(stream), flat(out)), *backend_, {64, {}});

  const Said said = run_head(*head, *backend_, tokens, given, kRows);
  std::vector<float> expected = forward(*ordinary, *backend_, numbers);
  expect_near(said.logits, expected, 2e-4);
  // In two batches: the same bits.
  const Said apart = run_head(*head, *backend_, tokens, given, 8);
  EXPECT_EQ(apart.logits, said.logits);
  EXPECT_EQ(apart.own, said.own);
}

INSTANTIATE_TEST_SUITE_P(Families, DraftHeadTest,
                         ::testing::Values("deepseek_v3", "glm4_moe", "glm4_moe_lite", "qwen3_next", "qwen3_5",
                                           "qwen3_5_moe"),
                         [](const auto& cell) { return std::string(cell.param); });

// EAGLE-3, by its formula alone: what stands beside which number is in nobody else's code.
class PlainEagle {
 public:
  PlainEagle(const ModelSpec& spec, const TensorSource& weights, Rows embedding)
      : spec_(spec), embedding_(std::move(embedding)) {
    const AttentionSpec& a = spec.layers.front().attention;
    const int d = spec.hidden;
    const int ffn = spec.layers.front().mlp.width;
    const std::string layer = "model.layers.0.";
    fc_ = read(weights, "fc.weight", d, spec.draft.features(d));
    e_norm_ = read(weights, layer + "input_layernorm.weight", 1, d).front();
    g_norm_ = read(weights, layer + "hidden_norm.weight", 1, d).front();
    q_ = read(weights, layer + "self_attn.q_proj.weight", a.q_width(), 2 * d);
    k_ = read(weights, layer + "self_attn.k_proj.weight", a.k_width(), 2 * d);
    v_ = read(weights, layer + "self_attn.v_proj.weight", a.v_width(), 2 * d);
    o_ = read(weights, layer + "self_attn.o_proj.weight", d, a.out_width());
    post_ = read(weights, layer + "post_attention_layernorm.weight", 1, d).front();
    gate_ = read(weights, layer + "mlp.gate_proj.weight", ffn, d);
    up_ = read(weights, layer + "mlp.up_proj.weight", ffn, d);
    down_ = read(weights, layer + "mlp.down_proj.weight", d, ffn);
    norm_ = read(weights, "model.norm.weight", 1, d).front();
    head_ = read(weights, "lm_head.weight", spec.vocab, d);
  }

  // Rows one after the other; each may be given features, or a row of the head's own.
  Said say(const std::vector<TokenId>& tokens, const Rows& given) {
    Said out;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::vector<float> g =
          given[i].size() == static_cast<size_t>(spec_.hidden) ? given[i] : times(fc_, given[i]);
      const std::vector<float> e = normed(embedding_[static_cast<size_t>(tokens[i])], e_norm_, spec_.norm_eps);
      const std::vector<float> g_normed = normed(g, g_norm_, spec_.norm_eps);
      const std::vector<float> in = joined(e, g_normed);
      std::vector<float> x = sum(spec_.draft.residual_is_normed ? g_normed : g, attend(in, i));
      const std::vector<float> y = normed(x, post_, spec_.norm_eps);
      std::vector<float> a = times(gate_, y);
      const std::vector<float> b = times(up_, y);
      for (size_t j = 0; j < a.size(); ++j) a[j] = a[j] / (1 + std::exp(-a[j])) * b[j];
      x = sum(x, times(down_, a));
      const std::vector<float> logits = times(head_, normed(x, norm_, spec_.norm_eps));
      out.logits.insert(out.logits.end(), logits.begin(), logits.end());
      out.own.insert(out.own.end(), x.begin(), x.end());
    }
    return out;
  }

 private:
  void rotate(std::vector<float>& heads, size_t dim, size_t position) const {
    const double theta = spec_.ropes.front().theta;
    for (size_t first = 0; first < heads.size(); first += dim) {
      for (size_t i = 0; i < dim / 2; ++i) {
        const double angle =
            static_cast<double>(position) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const double a = heads[first + i];
        const double b = heads[first + i + dim / 2];
        heads[first + i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
        heads[first + i + dim / 2] = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
      }
    }
  }
  std::vector<float> attend(const std::vector<float>& in, size_t position) {
    const AttentionSpec& a = spec_.layers.front().attention;
    const auto dim = static_cast<size_t>(a.kv.k_dim);
    std::vector<float> q = times(q_, in);
    keys_.push_back(times(k_, in));
    values_.push_back(times(v_, in));
    rotate(q, dim, position);
    rotate(keys_.back(), dim, position);
    std::vector<float> out(q.size());
    for (size_t head = 0; head < static_cast<size_t>(a.heads); ++head) {
      const size_t kv = head / static_cast<size_t>(a.heads / a.kv.heads) * dim;
      std::vector<double> weights;
      double all = 0;
      for (const auto& key : keys_) {
        double score = 0;
        for (size_t i = 0; i < dim; ++i) score += double{q[head * dim + i]} * double{key[kv + i]};
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
        all += weights.back();
      }
      for (size_t j = 0; j < weights.size(); ++j) {
        for (size_t i = 0; i < dim; ++i)
          out[head * dim + i] += static_cast<float>(weights[j] / all * double{values_[j][kv + i]});
      }
    }
    return times(o_, out);
  }

  const ModelSpec& spec_;
  Rows embedding_, fc_, q_, k_, v_, o_, gate_, up_, down_, head_;
  std::vector<float> e_norm_, g_norm_, post_, norm_;
  Rows keys_, values_;
};

TEST(EagleHeadTest, IsItsFormula) {
  const auto backend = make_backend({"ref", 1, "auto"});
  ModelSpec target_spec = parse_shape("layers=3,hidden=24,ffn=40,heads=4,kv_heads=2,head_dim=6,vocab=61,context=96");
  target_spec.dtype = DType::kF32;
  const RandomWeights target_weights(target_spec, 3);
  const auto target = make_decoder(target_spec, target_weights, *backend, {64, {}});
  const std::string table = "model.embed_tokens.weight";
  for (const bool residual_is_normed : {false, true}) {
    ModelSpec spec = head_spec(target_spec, Kind::kEagle3);
    spec.vocab = 37;  // a part of the target's
    spec.draft.residual_is_normed = residual_is_normed;
    const RandomWeights weights(spec, 8);
    const auto head = make_decoder(spec, weights, *backend, {64, {}}, target->shared_weights());
    PlainEagle plain(spec, weights, read(target_weights, table, 61, 24));
    const std::vector<TokenId> tokens{4, 60, 33, 1, 0, 17, 17, 58, 9};
    Rows given = random_rows(tokens.size(), 72, 2);
    const Said expected = plain.say(tokens, given);
    const Said said = run_head(*head, *backend, tokens, given, 5);
    expect_near(said.logits, expected.logits, 1e-4);
    expect_near(said.own, expected.own, 1e-4);
    // A row of its own in place of the target's.
    const Rows own = random_rows(tokens.size(), 24, 6);
    PlainEagle again(spec, weights, read(target_weights, table, 61, 24));
    expect_near(run_head(*head, *backend, tokens, own, 9).logits, again.say(tokens, own).logits, 1e-4);
  }
}

}  // namespace
}  // namespace kvasir::testing
