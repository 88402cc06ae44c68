// The objects of JSON from strangers: in the order they were written, since a schema's properties and a tool's
// parameters have one, and yet quick to search, since a stranger chooses how many keys there are.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace kvasir {

// What nlohmann::basic_json asks of an object. Small ones are searched key by key; larger ones have an index.
template <class Key, class T, class Less, class Allocator>
class IndexedMap : public nlohmann::ordered_map<Key, T, Less, Allocator> {
  using Base = nlohmann::ordered_map<Key, T, Less, Allocator>;

 public:
  using typename Base::const_iterator;
  using typename Base::iterator;
  using typename Base::size_type;
  using typename Base::value_type;

  IndexedMap() = default;
  explicit IndexedMap(const Allocator& allocator) : Base(allocator) {}
  template <class It>
  IndexedMap(It first, It last, const Allocator& allocator = Allocator()) : Base(allocator) {
    for (; first != last; ++first) emplace(first->first, T(first->second));
  }

  template <class K>
  std::pair<iterator, bool> emplace(K&& key, T&& value) {
    if (const iterator found = find(key); found != this->end()) return {found, false};
    Base::Container::emplace_back(std::forward<K>(key), std::move(value));
    if (this->size() > kSearched) note_newest();
    return {std::prev(this->end()), true};
  }
  std::pair<iterator, bool> insert(const value_type& value) { return emplace(value.first, T(value.second)); }
  std::pair<iterator, bool> insert(value_type&& value) { return emplace(value.first, std::move(value.second)); }
  template <class It>
  void insert(It first, It last) {
    for (; first != last; ++first) insert(*first);
  }

  template <class K>
  T& operator[](K&& key) {
    return emplace(std::forward<K>(key), T{}).first->second;
  }

  template <class K>
  const_iterator find(const K& key) const {
    if (index_.empty()) {
      const_iterator at = this->begin();
      while (at != this->end() && !(at->first == key)) ++at;
      return at;
    }
    const auto found = index_.find(key);
    return found == index_.end() ? this->end() : this->begin() + static_cast<std::ptrdiff_t>(found->second);
  }
  template <class K>
  iterator find(const K& key) {
    return this->begin() + (std::as_const(*this).find(key) - std::as_const(*this).begin());
  }
  template <class K>
  size_type count(const K& key) const {
    return find(key) == this->end() ? 0 : 1;
  }

  iterator erase(iterator first, iterator last) {
    index_.clear();
    const iterator next = Base::erase(first, last);
    if (this->size() > kSearched) note_newest();
    return next;
  }
  iterator erase(iterator at) { return erase(at, std::next(at)); }
  template <class K>
  size_type erase(const K& key) {
    const iterator found = find(key);
    if (found == this->end()) return 0;
    erase(found);
    return 1;
  }
  void clear() {
    index_.clear();
    Base::clear();
  }

  // Objects are equal whatever the order of their keys.
  friend bool operator==(const IndexedMap& a, const IndexedMap& b) {
    if (a.size() != b.size()) return false;
    for (const value_type& item : a) {
      const const_iterator other = b.find(item.first);
      if (other == b.end() || !(other->second == item.second)) return false;
    }
    return true;
  }

 private:
  static constexpr size_type kSearched = 16;

  void note_newest() {
    for (size_type i = index_.size(); i < this->size(); ++i) index_.emplace((this->begin() + i)->first, i);
  }

  std::map<Key, size_type, std::less<>> index_;  // empty: there are few keys
};

}  // namespace kvasir
