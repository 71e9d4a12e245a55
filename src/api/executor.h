// The structs behind cancel handles; executors are declared in provider/host.h.
#pragma once

#include "api/error.h"
#include "parallel/cancel.h"
#include "provider/host.h"

struct quern_cancel {
  quern::CancelToken token;
};
