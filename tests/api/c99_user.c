/* Compiled as C99: the header must be C, and a C program must reach a session. */
#include <quern/quern.h>

/* 0 when y = x + x of {1, 2, 3} came out right. */
int DoubleInC(void);
int DoubleInC(void) {
  float x[3] = {1, 2, 3};
  const int64_t dims[1] = {3};
  const char* const inputs[2] = {"x", "x"};
  const char* const outputs[1] = {"y"};
  quern_model* model = NULL;
  quern_session* session = NULL;
  quern_value* input = NULL;
  quern_value* output = NULL;
  int result = 1;
  if (quern_model_create("double", &model) == QUERN_OK && quern_model_import(model, "", 14) == QUERN_OK &&
      quern_model_add_input(model, "x", QUERN_F32, 1, dims, NULL) == QUERN_OK &&
      quern_model_add_node(model, "Add", "", "add", inputs, 2, outputs, 1, NULL, 0) == QUERN_OK &&
      quern_model_add_output(model, "y") == QUERN_OK && quern_session_create(model, NULL, &session) == QUERN_OK &&
      quern_tensor_wrap(QUERN_F32, 1, dims, NULL, x, sizeof x, NULL, NULL, &input) == QUERN_OK &&
      quern_session_run(session, (const quern_value* const*)&input, &output, NULL) == QUERN_OK) {
    const float* y = quern_value_data(output);
    result = !(y[0] == 2 && y[1] == 4 && y[2] == 6);
  }
  quern_value_free(output);
  quern_value_free(input);
  quern_session_free(session);
  quern_model_free(model);
  return result;
}
