// void quern_sme_call(void (*body)(void*), void* argument)
// Enters streaming mode with ZA on, calls `body` and leaves: the low halves of v8-v15, which callers expect kept, are
// lost at both changes. Nothing but `body` runs in streaming mode, so that cores without FA64 never meet NEON code
// there.
  .arch armv8-a+sme
  .text
  .balign 16
  .hidden quern_sme_call
  .globl quern_sme_call
  .type quern_sme_call, %function
quern_sme_call:
  .cfi_startproc
  stp x29, x30, [sp, #-80]!
  .cfi_def_cfa_offset 80
  .cfi_offset w29, -80
  .cfi_offset w30, -72
  mov x29, sp
  stp d8, d9, [sp, #16]
  stp d10, d11, [sp, #32]
  stp d12, d13, [sp, #48]
  stp d14, d15, [sp, #64]
  mov x9, x0
  mov x0, x1
  smstart
  blr x9
  smstop
  ldp d8, d9, [sp, #16]
  ldp d10, d11, [sp, #32]
  ldp d12, d13, [sp, #48]
  ldp d14, d15, [sp, #64]
  ldp x29, x30, [sp], #80
  ret
  .cfi_endproc
  .size quern_sme_call, .-quern_sme_call
  .section .note.GNU-stack, "", %progbits
