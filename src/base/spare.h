// Spare: objects that are kept for whoever needs one next, as they are costly to make.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace quern {

// Thread-safe. Keeps as many as threads had at once.
template <class T>
class Spare {
 public:
  // The one that was given back last, or null.
  std::unique_ptr<T> Take() const {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<T> object = std::move(idle_.back());
    idle_.pop_back();
    return object;
  }
  void GiveBack(std::unique_ptr<T> object) const {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(object));
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace quern
