// CancelToken: a flag through which a caller asks a running computation to stop.
#pragma once

#include <atomic>

namespace quern {

// Any thread may call any function at any time. Cancelling is advisory: work that has begun ends its chunk first.
class CancelToken {
 public:
  CancelToken() = default;
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  // Makes the token usable for another run; only while no run uses it.
  void Reset() { cancelled_.store(false, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> cancelled_{false};
};

}  // namespace quern
