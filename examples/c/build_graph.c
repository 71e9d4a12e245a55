/* Builds y = Relu(x * W + b) without a file, runs it on memory of its own, and checks the result. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <quern/quern.h>

static void Check(quern_status status) {
  if (status == QUERN_OK) return;
  fprintf(stderr, "error (%s): %s\n", quern_status_name(status), quern_error_message());
  exit(1);
}

/* A view of an array: no copy. */
static quern_value* View(int32_t rank, const int64_t* dims, float* data, size_t bytes) {
  quern_value* value = NULL;
  Check(quern_tensor_wrap(QUERN_F32, rank, dims, NULL, data, bytes, NULL, NULL, &value));
  return value;
}

int main(void) {
  static float weights[3 * 2] = {1, -1, 2, 0, 0, 3};
  static float bias[2] = {0.5f, -20};
  float x[2 * 3] = {1, 2, 3, -1, -2, -3};
  float y[2 * 2] = {0};
  const int64_t weight_dims[2] = {3, 2}, bias_dims[1] = {2}, x_dims[2] = {-1, 3}, x_shape[2] = {2, 3},
                y_shape[2] = {2, 2};
  const char* const symbols[2] = {"batch", NULL};

  quern_model* model = NULL;
  Check(quern_model_create("dense", &model));
  Check(quern_model_import(model, "", 17));
  Check(quern_model_add_input(model, "x", QUERN_F32, 2, x_dims, symbols));
  quern_value* w = View(2, weight_dims, weights, sizeof weights);
  quern_value* b = View(1, bias_dims, bias, sizeof bias);
  Check(quern_model_add_constant(model, "W", w));
  Check(quern_model_add_constant(model, "b", b));
  const char* const gemm_inputs[3] = {"x", "W", "b"};
  const char* const gemm_outputs[1] = {"sum"};
  Check(quern_model_add_node(model, "Gemm", "", "dense", gemm_inputs, 3, gemm_outputs, 1, NULL, 0));
  const char* const relu_inputs[1] = {"sum"};
  const char* const relu_outputs[1] = {"y"};
  Check(quern_model_add_node(model, "Relu", "", "relu", relu_inputs, 1, relu_outputs, 1, NULL, 0));
  Check(quern_model_add_output(model, "y"));

  quern_session_options options;
  quern_session_options_init(&options);
  options.threads = 1;
  quern_session* session = NULL;
  Check(quern_session_create(model, &options, &session));

  /* The result is written to y in place. */
  quern_value* input = View(2, x_shape, x, sizeof x);
  quern_value* output = View(2, y_shape, y, sizeof y);
  Check(quern_session_run(session, (const quern_value* const*)&input, &output, NULL));
  printf("y = %g %g %g %g\n", y[0], y[1], y[2], y[3]);

  quern_value_free(input);
  quern_value_free(output);
  quern_session_free(session);
  quern_model_free(model);
  quern_value_free(w);
  quern_value_free(b);
  const float expected[4] = {5.5f, 0, 0, 0};
  for (int i = 0; i < 4; ++i) {
    if (fabsf(y[i] - expected[i]) > 1e-6f) return 1;
  }
  return 0;
}
