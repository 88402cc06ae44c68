// A batch's sequences, as ops are given them.
#pragma once

#include <span>

#include "layout/kv_view.h"

namespace kvasir {

// Somebody else's array. Two are equal if they are the same memory: their contents are not looked at.
template <class T>
struct ArrayRef : std::span<const T> {
  using std::span<const T>::span;
  ArrayRef(std::span<const T> array) : std::span<const T>(array) {}  // NOLINT(google-explicit-constructor): a view
  friend bool operator==(const ArrayRef& a, const ArrayRef& b) {
    return a.data() == b.data() && a.size() == b.size();
  }
};
using SequenceViews = ArrayRef<SequenceView>;

}  // namespace kvasir
