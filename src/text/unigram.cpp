#include "text/unigram.h"

#include <algorithm>

#include "base/check.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

std::vector<std::pair<std::string_view, std::int32_t>> entries_of(const std::vector<Unigram::Piece>& pieces) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  entries.reserve(pieces.size());
  for (const Unigram::Piece& piece : pieces) entries.emplace_back(piece.text, piece.id);
  return entries;
}

}  // namespace

Unigram::Unigram(const std::vector<Piece>& pieces, Unknown unknown) : trie_(entries_of(pieces)), unknown_(unknown) {
  CHECK(unknown.id >= 0);
  TokenId last = unknown.id;
  for (const Piece& piece : pieces) last = std::max(last, piece.id);
  scores_.resize(static_cast<size_t>(last) + 1);
  for (const Piece& piece : pieces) scores_[static_cast<size_t>(piece.id)] = piece.score;
}

// The best rows of pieces up to every place of a word. A place that no piece bridges is one that every row passes, so
// what lies before it is settled, and its tokens are given out.
class Unigram::Lattice {
 public:
  Lattice(const Unigram& model, std::string_view word, std::vector<TokenId>& out)
      : model_(model), word_(word), out_(out), unknown_begin_(word.size()) {
    ends_.resize(1);
  }

  void run() {
    for (size_t at = 0; at < word_.size();) {
      if (at == furthest_) settle();
      const auto size = static_cast<size_t>(utf8_at(word_, at).size);
      extend(at, size);
      at += size;
    }
    settle();
    give_unknown(word_.size());
  }

 private:
  // The best row that ends at a place.
  struct End {
    double score = 0;
    size_t begin = 0;   // of its last piece
    TokenId last = -1;  // -1: there is no row yet
  };

  // All pieces that begin at a place, and the unknown one where none is as long as the character there.
  void extend(size_t at, size_t character) {
    const double score = ends_[at - settled_].score;
    bool single = false;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (size_t end = at; end < word_.size();) {
      node = model_.trie_.step(node, word_[end++]);
      if (node == ByteTrie::kNone) break;
      const TokenId id = model_.trie_.value(node);
      if (id < 0) continue;
      single |= end - at == character;
      consider(end, {score + model_.scores_[static_cast<size_t>(id)], at, id});
    }
    if (!single) consider(at + character, {score + model_.unknown_.score, at, model_.unknown_.id});
  }

  void consider(size_t end, const End& candidate) {
    if (end > furthest_) {
      ends_.resize(end - settled_ + 1);
      furthest_ = end;
    }
    End& best = ends_[end - settled_];
    if (best.last < 0 || candidate.score > best.score) best = candidate;
  }

  // Gives out the tokens up to furthest_, and begins anew there.
  void settle() {
    row_.clear();
    for (size_t end = furthest_; end > settled_; end = row_.back().begin) row_.push_back(ends_[end - settled_]);
    for (size_t i = row_.size(); i-- > 0;) {
      if (row_[i].last == model_.unknown_.id) {
        unknown_begin_ = std::min(unknown_begin_, row_[i].begin);
        continue;
      }
      give_unknown(row_[i].begin);
      out_.push_back(row_[i].last);
    }
    ends_.assign(1, {});
    settled_ = furthest_;
  }

  // The run of unknown characters that ends at `end`, if there is one.
  void give_unknown(size_t end) {
    if (unknown_begin_ >= end) return;
    const std::string_view run = word_.substr(unknown_begin_, end - unknown_begin_);
    unknown_begin_ = word_.size();
    // Characters that are unknown one by one may be a piece together, where its score is very low.
    const ByteTrie::Node node = model_.trie_.walk(ByteTrie::kRoot, run);
    const TokenId whole = node == ByteTrie::kNone ? -1 : model_.trie_.value(node);
    const auto token_of = [&](char c) { return model_.unknown_.bytes[static_cast<unsigned char>(c)]; };
    if (whole < 0 && std::ranges::all_of(run, [&](char c) { return token_of(c) >= 0; })) {
      for (const char c : run) out_.push_back(token_of(c));
      return;
    }
    out_.push_back(whole >= 0 ? whole : model_.unknown_.id);
  }

  const Unigram& model_;
  std::string_view word_;
  std::vector<TokenId>& out_;
  std::vector<End> ends_;  // of the places from settled_ on
  std::vector<End> row_;
  size_t settled_ = 0;
  size_t furthest_ = 0;   // where the piece that reaches furthest ends
  size_t unknown_begin_;  // of the run that is not given out yet; the word's end where there is none
};

void Unigram::encode_word(std::string_view word, std::vector<TokenId>& out) const { Lattice(*this, word, out).run(); }

}  // namespace kvasir
