#include "fiber.h"
#include "process.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>
#include <ucontext.h>

#if defined __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
enum { STACK_BYTES = 256 * 1024 }; /* frames are larger with AddressSanitizer */
#else
enum { STACK_BYTES = 192 * 1024 };
#endif

struct fiber {
  ucontext_t context;
  void *stack;
  struct fiber *next_free;
  struct type_context *served;
  struct action action;
  struct completion completion;
  bool done, dead;
  uint64_t ticket; /* of the one event that may resume the fiber */
};

static ucontext_t main_context;
static struct fiber *current, *free_fibers;

/* ---- switching stacks; AddressSanitizer must know ---- */

#if defined __SANITIZE_ADDRESS__
static const void *main_stack;
static size_t main_stack_bytes;

static void switch_begin(void **fake, const struct fiber *to)
{
  __sanitizer_start_switch_fiber(fake, to != NULL ? to->stack : main_stack, to != NULL ? STACK_BYTES : main_stack_bytes);
}

static void switch_end(void *fake, const struct fiber *now)
{
  __sanitizer_finish_switch_fiber(fake, now != NULL ? &main_stack : NULL, now != NULL ? &main_stack_bytes : NULL);
}
#else
static void switch_begin(void **fake, const struct fiber *to)
{
  (void)fake, (void)to;
}

static void switch_end(void *fake, const struct fiber *now)
{
  (void)fake, (void)now;
}
#endif

static void switch_to_main(struct fiber *self)
{
  void *fake = NULL;
  switch_begin(&fake, NULL);
  swapcontext(&self->context, &main_context);
  switch_end(fake, self);
}

static void switch_to_fiber(struct fiber *fiber)
{
  void *fake = NULL;
  switch_begin(&fake, fiber);
  swapcontext(&main_context, &fiber->context);
  switch_end(fake, NULL);
}

static void fiber_main(void)
{
  switch_end(NULL, current);
  for (;;) {
    struct fiber *self = current;
    if (self->action.kind == ACTION_RENEW)
      process_renew(self->served->process);
    else if (self->action.kind == ACTION_COUNT)
      process_last_look(self->served->process);
    else
      perform(&self->served->performer, &self->action, &self->completion);
    self->done = true;
    switch_to_main(self);
  }
}

static void context_make(ucontext_t *context, void *stack)
{
  assert(stack != NULL && getcontext(context) == 0);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = STACK_BYTES;
  makecontext(context, fiber_main, 0);
}

static struct fiber *fiber_new(void)
{
  struct fiber *fiber = free_fibers;
  if (fiber != NULL) {
    free_fibers = fiber->next_free;
    return fiber;
  }
  fiber = calloc(1, sizeof *fiber);
  assert(fiber != NULL);
  fiber->stack = malloc(STACK_BYTES);
  context_make(&fiber->context, fiber->stack);
  return fiber;
}

static void fiber_release(struct fiber *fiber)
{
  fiber->ticket++;
  fiber->next_free = free_fibers;
  free_fibers = fiber;
}

static void fiber_run(struct fiber *fiber)
{
  assert(current == NULL && !fiber->done);
  current = fiber;
  switch_to_fiber(fiber);
  current = NULL;
}

static void fiber_resume(void *context, uint64_t ticket)
{
  struct fiber *fiber = context;
  if (fiber->ticket != ticket)
    return;
  int64_t frozen_us = fiber->served->process->frozen_until_us;
  if (frozen_us > world.now_us) {
    world_at(frozen_us + world_between(0, 5 * MS), fiber_resume, fiber, ticket);
    return;
  }
  fiber_run(fiber);
  if (!fiber->done)
    return;
  struct type_context *served = fiber->served;
  struct completion completion = fiber->completion;
  enum action_kind kind = fiber->action.kind;
  fiber_release(fiber);
  if (kind == ACTION_RENEW)
    process_renewed(served->process);
  else if (kind == ACTION_COUNT)
    process_last_looked(served->process);
  else
    type_done(served, &completion);
}

struct fiber *fiber_start(struct type_context *served, const struct action *action, int64_t delay_us)
{
  struct fiber *fiber = fiber_new();
  fiber->served = served;
  fiber->action = *action;
  fiber->done = fiber->dead = false;
  fiber->completion.item = NULL;
  world_at(world.now_us + delay_us, fiber_resume, fiber, ++fiber->ticket);
  return fiber;
}

void fiber_kill(struct fiber *fiber)
{
  fiber->dead = true;
  while (!fiber->done)
    fiber_run(fiber);
  if (fiber->action.kind != ACTION_DELETE) /* a DELETE's item still belongs to the consumer */
    work_item_free(fiber->completion.item);
  fiber_release(fiber);
}

struct process *fiber_process(void)
{
  return current != NULL ? current->served->process : NULL;
}

struct type_context *fiber_type(void)
{
  return current != NULL ? current->served : NULL;
}

const struct action *fiber_action(void)
{
  return current != NULL ? &current->action : NULL;
}

bool fiber_dead(void)
{
  return current != NULL && current->dead;
}

void fiber_wait(int64_t us)
{
  struct fiber *self = current;
  if (self == NULL || self->dead)
    return;
  self->ticket++;
  if (us != FIBER_FOREVER)
    world_at(world.now_us + us, fiber_resume, self, self->ticket);
  switch_to_main(self);
}

void fiber_free_all(void)
{
  while (free_fibers != NULL) {
    struct fiber *fiber = free_fibers;
    free_fibers = fiber->next_free;
    free(fiber->stack);
    free(fiber);
  }
}
