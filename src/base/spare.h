// Spare: one object that is kept for whoever needs it next, as it is costly to make.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace quern {

// Thread-safe.
template <class T>
class Spare {
 public:
  // What was given back last; null where there is none or another thread has it.
  std::unique_ptr<T> Take() const {
    const std::lock_guard lock(mutex_);
    return std::move(kept_);
  }
  void GiveBack(std::unique_ptr<T> object) const {
    const std::lock_guard lock(mutex_);
    kept_ = std::move(object);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::unique_ptr<T> kept_;
};

}  // namespace quern
