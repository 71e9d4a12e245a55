// Structs of the C ABI that grow: what clients compiled with another version of quern.h get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "quern/quern.hpp"

namespace {

using quern::Model;
using quern::Session;
using quern::Value;
using testing::HasSubstr;

// The last field that an old client knows, as the size of its struct.
#define SIZE_BEFORE(Struct, field) offsetof(Struct, field)

Model Negated() {
  Model m = Model::Create("negated");
  m.Import("", 17).Input("x", QUERN_F32, {2}).Node("Neg", {"x"}, {"y"}).Output("y");
  return m;
}

// Memory as large as an old client's struct and not a byte more, which a sanitizer watches.
template <typename Struct>
class OldStruct {
 public:
  OldStruct(const Struct& full, std::size_t size) : bytes_(size) {
    std::memcpy(bytes_.data(), &full, size);
    std::memcpy(bytes_.data(), &size, sizeof size);
  }
  Struct* get() { return reinterpret_cast<Struct*>(bytes_.data()); }

 private:
  std::vector<char> bytes_;
};

// A struct of a later quern.h, with one more field.
template <typename Struct>
struct Grown {
  Struct known;
  std::int64_t more = 0;
};

TEST(Abi, OldClientsSetWhatTheyKnow) {
  quern_session_options options;
  quern_session_options_init(&options);
  options.cpu = "no such cpu";  // known
  options.precision = "no such precision";
  const Model model = Negated();
  quern_session* session = nullptr;
  OldStruct<quern_session_options> old(options, SIZE_BEFORE(quern_session_options, precision));
  EXPECT_EQ(quern_session_create(model.get(), old.get(), &session), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("no such cpu"));
  options.cpu = nullptr;
  old = OldStruct<quern_session_options>(options, SIZE_BEFORE(quern_session_options, precision));
  ASSERT_EQ(quern_session_create(model.get(), old.get(), &session), QUERN_OK) << quern_error_message();

  quern_run_options run;
  quern_run_options_init(&run);
  const std::uint8_t want[1] = {0};
  run.want = want;
  OldStruct<quern_run_options> old_run(run, SIZE_BEFORE(quern_run_options, want));
  const Value x = Value::Tensor<float>({2}, {1, 2});
  const quern_value* inputs[1] = {x.get()};
  quern_value* outputs[1] = {nullptr};
  ASSERT_EQ(quern_session_run(session, inputs, outputs, old_run.get()), QUERN_OK) << quern_error_message();
  EXPECT_NE(outputs[0], nullptr) << "`want` lies beyond the client's struct";
  quern_value_free(outputs[0]);
  quern_session_free(session);

  quern_limits limits;
  quern_limits_init(&limits);
  limits.nodes = 1;
  limits.rank = 1;
  OldStruct<quern_limits> old_limits(limits, SIZE_BEFORE(quern_limits, rank));
  quern_model* read = nullptr;
  const char* matrix = "graph @m opset(\"\": 17) { input %x: f32[2,2] %y = Neg(%x) return %y }";
  EXPECT_EQ(quern_model_parse(matrix, old_limits.get(), &read), QUERN_OK) << quern_error_message();
  quern_model_free(read);
  read = nullptr;
  EXPECT_NE(quern_model_parse(matrix, &limits, &read), QUERN_OK);
}

TEST(Abi, OldClientsGetWhatTheyKnow) {
  Session session(Negated());
  quern_port port;
  quern_port_init(&port);
  OldStruct<quern_port> old(port, SIZE_BEFORE(quern_port, type_text));
  ASSERT_EQ(quern_session_input(session.get(), 0, old.get()), QUERN_OK) << quern_error_message();
  EXPECT_STREQ(old.get()->name, "x");
  EXPECT_EQ(old.get()->dims[0], 2);
  EXPECT_EQ(old.get()->struct_size, SIZE_BEFORE(quern_port, type_text));
  port.struct_size = 0;
  EXPECT_EQ(quern_session_input(session.get(), 0, &port), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("struct_size"));
}

// The elements of an array lie as far apart as the client's struct is large.
TEST(Abi, ArraysOfOldStructs) {
  constexpr std::size_t kOld = SIZE_BEFORE(quern_attribute, count);  // a client that knows no lists of known length
  static_assert(kOld % alignof(quern_attribute) == 0);
  quern_attribute alpha, beta;
  quern_attribute_init(&alpha);
  alpha.name = "alpha";
  alpha.type = QUERN_ATTRIBUTE_FLOAT;
  alpha.float_value = 2;
  beta = alpha;
  beta.name = "beta";
  beta.float_value = 0.5f;
  std::vector<char> packed(2 * kOld);
  alpha.struct_size = beta.struct_size = kOld;
  std::memcpy(packed.data(), &alpha, kOld);
  std::memcpy(packed.data() + kOld, &beta, kOld);
  Model m = Model::Create("t");
  m.Import("", 17).Input("x", QUERN_F32, {2});
  const char* const in[1] = {"x"};
  const char* const out[1] = {"y"};
  ASSERT_EQ(quern_model_add_node(m.get(), "HardSigmoid", "", "", in, 1, out, 1,
                                 reinterpret_cast<const quern_attribute*>(packed.data()), 2),
            QUERN_OK)
      << quern_error_message();
  m.Output("y");
  EXPECT_EQ(Session(m).Run({Value::Tensor<float>({2}, {0.125f, 9})})[0].data<float>()[0], 0.75f);

  quern_attribute mixed[2] = {alpha, beta};
  mixed[0].struct_size = sizeof alpha;
  const char* const other[1] = {"z"};
  EXPECT_EQ(quern_model_add_node(m.get(), "HardSigmoid", "", "", in, 1, other, 1, mixed, 2), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("attributes[1].struct_size"));
}

// A client of a later version works as long as it asks for nothing that this one does not have.
TEST(Abi, NewFieldsMustBeZero) {
  Grown<quern_session_options> options{};
  options.known.struct_size = sizeof options;
  const Model model = Negated();
  quern_session* session = nullptr;
  ASSERT_EQ(quern_session_create(model.get(), &options.known, &session), QUERN_OK) << quern_error_message();
  quern_session_free(session);
  options.more = 1;
  EXPECT_EQ(quern_session_create(model.get(), &options.known, &session), QUERN_UNSUPPORTED);
  EXPECT_THAT(quern_error_message(), HasSubstr("options sets fields"));

  const Session ports(model);
  Grown<quern_port> port{};
  port.known.struct_size = sizeof port;
  ASSERT_EQ(quern_session_input(ports.get(), 0, &port.known), QUERN_OK) << quern_error_message();
  EXPECT_STREQ(port.known.type_text, "f32[2]");
  EXPECT_EQ(port.more, 0);
}

}  // namespace
