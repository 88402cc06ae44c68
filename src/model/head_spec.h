// What rows behind the last layer become, where they do not become logits: a text's vector, or the score of a query
// and a document. Nothing here changes what is cached.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvasir {

// What a text's vector is made of.
struct VectorSpec {
  enum class Pooling : std::uint8_t { kMean, kCls, kLast };  // of all rows, or the first one, or the last one
  struct Dense {                                             // vector = activation(W vector + b)
    enum class Activation : std::uint8_t { kNone, kTanh };

    std::string folder;  // beside the model, of its weights
    int inputs = 0;
    int outputs = 0;
    bool bias = false;
    Activation activation = Activation::kNone;
    friend bool operator==(const Dense&, const Dense&) = default;
  };

  Pooling pooling = Pooling::kLast;
  bool normalized = true;  // to a length of 1, at last
  std::vector<Dense> dense = {};
  friend bool operator==(const VectorSpec&, const VectorSpec&) = default;
};
std::string_view name_of(VectorSpec::Pooling pooling);
VectorSpec::Pooling pooling_named(std::string_view name, std::string_view where);  // or an Error listing them

// What the score of a query and a document is made of: logits = W between(row) + b.
struct RerankSpec {
  enum class Kind : std::uint8_t {
    kNone,        // the model does not rerank
    kClassifier,  // a matrix of its own, with which the model was trained, in place of its head
    kTokens,      // the rows of a decoder's head that belong to one token, or to two
  };
  enum class Activation : std::uint8_t { kTanh, kGelu };
  enum class End : std::uint8_t {
    kLogit,    // the score is the logit
    kSigmoid,  // of the logit
    kYesOrNo,  // of two logits the first one's share: a softmax
  };
  // A layer before the classifier: norm(activation(W row + b)).
  struct Between {
    bool there = false;
    bool bias = false;
    bool norm = false;
    Activation activation = Activation::kTanh;
    friend bool operator==(const Between&, const Between&) = default;
  };

  Kind kind = Kind::kNone;
  VectorSpec::Pooling pooling = VectorSpec::Pooling::kLast;
  Between between = {};
  int labels = 1;  // of the classifier
  bool bias = false;
  End end = End::kSigmoid;
  TokenId yes = -1;  // kTokens; -1: the tokenizer's "yes" …
  TokenId no = -1;   // … and "no"; where only this is -1, `yes` stands alone

  bool classifies() const { return kind == Kind::kClassifier; }
  int logits() const { return end == End::kYesOrNo ? 2 : 1; }  // that make a score
  // Whether there is one score. A classifier of topics has several labels.
  bool ranks() const { return kind == Kind::kTokens || (classifies() && labels == logits()); }
  friend bool operator==(const RerankSpec&, const RerankSpec&) = default;
};

// How a family's classifiers are built and called. Names have no suffix.
struct RerankForm {
  std::string_view out = "score";
  bool bias = false;
  VectorSpec::Pooling pooling = VectorSpec::Pooling::kLast;
  std::optional<VectorSpec::Pooling> gguf_pooling = {};  // what GGUF files mean, where that is another one
  std::string_view between = {};                         // empty: there is no such layer
  std::string_view norm = {};
  bool between_bias = false;
  RerankSpec::Activation activation = RerankSpec::Activation::kTanh;
  // What a pair is put into, with {instruction}, {query} and {document}; empty: the tokenizer knows.
  std::string_view text = {};
};

}  // namespace kvasir
