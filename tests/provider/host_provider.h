/* What the tests ask of the host provider, looked up in the shared library that the session has loaded. */
#ifndef QUERN_TESTS_HOST_PROVIDER_H_
#define QUERN_TESTS_HOST_PROVIDER_H_

#include <stdint.h>

/* For providers made from now on. */
typedef struct host_provider_modes {
  int32_t late;       /* runs complete when they are waited for */
  int32_t own_memory; /* values lie in memory of the provider's own, open to the host */
  int32_t in_place;   /* results may be written over the operand */
} host_provider_modes;
/* "host_provider_set_modes" */
typedef void (*host_provider_set_modes_fn)(const host_provider_modes* modes);

typedef struct host_provider_counters {
  int64_t buffers, weights;                  /* alive: of its allocator, retained */
  int64_t runs, in_place_runs, foreign_runs; /* foreign: some operand or result lay in memory of others */
} host_provider_counters;
/* "host_provider_read" */
typedef void (*host_provider_read_fn)(host_provider_counters* out);

#endif
