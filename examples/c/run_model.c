/* Runs a model on zeros and prints its outputs: run_model MODEL.onnx */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quern/quern.h>

static void Check(quern_status status) {
  if (status == QUERN_OK) return;
  fprintf(stderr, "error (%s): %s\n", quern_status_name(status), quern_error_message());
  exit(1);
}

/* A tensor of zeros for a port; extents that are not known are 1. */
static quern_value* Zeros(const quern_port* port) {
  int64_t dims[16];
  quern_value* value = NULL;
  for (int32_t i = 0; i < port->rank; ++i) dims[i] = port->dims[i] < 0 ? 1 : port->dims[i];
  Check(quern_tensor_create(port->dtype, port->rank, dims, &value));
  memset(quern_value_data(value), 0, quern_value_bytes(value));
  return value;
}

int main(int argc, char** argv) {
  quern_model* model = NULL;
  quern_session* session = NULL;
  if (argc != 2) {
    fprintf(stderr, "usage: run_model MODEL.onnx\n");
    return 2;
  }
  Check(quern_model_load(argv[1], NULL, &model));
  Check(quern_session_create(model, NULL, &session));
  quern_model_free(model); /* the session keeps what it needs */

  const size_t num_inputs = quern_session_num_inputs(session);
  const size_t num_outputs = quern_session_num_outputs(session);
  quern_value** inputs = calloc(num_inputs, sizeof *inputs);
  quern_value** outputs = calloc(num_outputs, sizeof *outputs);
  for (size_t i = 0; i < num_inputs; ++i) {
    quern_port port;
    quern_port_init(&port);
    Check(quern_session_input(session, i, &port));
    printf("input  %s  %s\n", port.name, port.type_text);
    inputs[i] = Zeros(&port);
  }
  Check(quern_session_run(session, (const quern_value* const*)inputs, outputs, NULL));
  for (size_t i = 0; i < num_outputs; ++i) {
    quern_port port;
    quern_port_init(&port);
    Check(quern_session_output(session, i, &port));
    printf("output %s  %s", port.name, port.type_text);
    if (quern_value_dtype(outputs[i]) == QUERN_F32) {
      const float* data = quern_value_data(outputs[i]);
      const size_t count = quern_value_bytes(outputs[i]) / sizeof *data;
      for (size_t k = 0; k < count && k < 10; ++k) printf(" %g", data[k]);
    }
    printf("\n");
    quern_value_free(outputs[i]);
  }
  for (size_t i = 0; i < num_inputs; ++i) quern_value_free(inputs[i]);
  free(inputs);
  free(outputs);
  quern_session_free(session);
  return 0;
}
