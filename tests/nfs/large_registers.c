/*
 * For User Mode Linux on processors whose register state is larger than what it has room for (AMX: 11 KiB): loaded before it, this
 * moves the part that fits. The kernel takes a state only whole, so the rest of it is put back as it was read.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

typedef long ptrace_call(int request, pid_t pid, void *address, void *data);

static long registers(ptrace_call *call, int request, pid_t pid, void *kind, struct iovec *part)
{
  static _Thread_local _Alignas(64) char state[1 << 16];
  struct iovec whole = {.iov_base = state, .iov_len = sizeof state};
  long got = call(PTRACE_GETREGSET, pid, kind, &whole);
  if (got != 0)
    return got;
  if (part->iov_len > whole.iov_len)
    part->iov_len = whole.iov_len;
  if (request == PTRACE_GETREGSET) {
    memcpy(part->iov_base, state, part->iov_len);
    return 0;
  }
  memcpy(state, part->iov_base, part->iov_len);
  return call(PTRACE_SETREGSET, pid, kind, &whole);
}

long ptrace(enum __ptrace_request request, ...)
{
  static ptrace_call *call;
  va_list more;
  va_start(more, request);
  pid_t pid = va_arg(more, pid_t);
  void *address = va_arg(more, void *), *data = va_arg(more, void *);
  va_end(more);
  if (call == NULL) {
    void *found = dlsym(RTLD_NEXT, "ptrace");
    memcpy(&call, &found, sizeof call);
  }
  if ((request == PTRACE_GETREGSET || request == PTRACE_SETREGSET) && address == (void *)NT_X86_XSTATE)
    return registers(call, request, pid, address, data);
  return call(request, pid, address, data);
}
