/* What the tests ask of the device provider, looked up in the shared library that the session has loaded. Its counters
 * are those of all its instances in the process. */
#ifndef QUERN_TESTS_DEVICE_PROVIDER_H_
#define QUERN_TESTS_DEVICE_PROVIDER_H_

#include <stdint.h>

typedef struct device_provider_counters {
  int64_t instances, executables, plans, tickets, buffers; /* alive */
  int64_t copies_in, copies_out, runs;                     /* since the library was loaded */
} device_provider_counters;

/* "device_provider_read" */
typedef void (*device_provider_read_fn)(device_provider_counters* out);
/* "device_provider_any_buffer": some live buffer, NULL when there is none. */
typedef void* (*device_provider_any_buffer_fn)(void);
/* "device_provider_fail_next": the next run fails when its completion is waited for. */
typedef void (*device_provider_fail_next_fn)(void);

#endif
