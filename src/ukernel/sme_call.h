// How SME rows enter streaming mode (sme_call.S). For kernel files of SME only.
#pragma once

// Runs body(argument) in streaming mode with ZA, which it may change; ZA is lost.
extern "C" void quern_sme_call(void (*body)(void*) __arm_streaming __arm_inout("za"), void* argument);
