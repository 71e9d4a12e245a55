// RecentlyMade: a bounded store of what was made for a key, so that it is made once and shared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "base/status.h"

namespace quern::kernels {

// For any number of threads at once. Keys compare with ==.
template <class Key, class Made>
class RecentlyMade {
 public:
  // Keeps the `most` entries that were asked for last.
  explicit RecentlyMade(size_t most) : most_(most) {}

  // What `make()`, a Result<Made>, gave for an equal key, or gives now. Errors are not kept.
  template <class Make>
  Result<std::shared_ptr<const Made>> Find(const Key& key, Make&& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto known = std::ranges::find_if(entries_, [&](const Entry& e) { return e.key == key; });
      if (known != entries_.end()) {
        entries_.splice(entries_.begin(), entries_, known);
        return entries_.front().made;
      }
    }
    QUERN_ASSIGN_OR_RETURN(Made made, make());
    auto shared = std::make_shared<const Made>(std::move(made));
    const std::lock_guard lock(mutex_);
    entries_.push_front({key, shared});
    if (entries_.size() > most_) entries_.pop_back();
    return shared;
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const Made> made;
  };
  const size_t most_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last one that was asked for first
};

}  // namespace quern::kernels
