#include "tools/lock/command.h"
#include "config/stop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 3600000 };

static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
enum { HANDLED = sizeof handled / sizeof *handled };

static sigset_t mask_given;
static timer_t alarm_timer;

/* Read by the handler. */
static volatile sig_atomic_t command_pid; /* 0: no command, or reaped */
static volatile sig_atomic_t group;       /* the command's own process group; 0: it is in this process's */
static volatile sig_atomic_t holding, remembered, overdue;
static _Atomic int64_t term_ms, kill_ms;

int64_t command_now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct timespec timespec_of(int64_t ms)
{
  return (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
}

/* ---- the handler ---- */

static void signals_block(sigset_t *before)
{
  sigset_t ours;
  sigemptyset(&ours);
  for (int i = 0; i < HANDLED; i++)
    sigaddset(&ours, handled[i]);
  sigprocmask(SIG_BLOCK, &ours, before);
}

static void command_kill(int number)
{
  if (command_pid > 0)
    kill(group > 0 ? -group : command_pid, number);
}

/* Called at each third of the lease. A process that was frozen until its end cannot know whether the command had ended before. */
static void on_third(void)
{
  int64_t now_ms = command_now_ms();
  siginfo_t ended = {0};
  if (command_pid == 0 || now_ms < term_ms)
    return;
  waitid(P_PID, (id_t)command_pid, &ended, WEXITED | WNOHANG | WNOWAIT);
  if (ended.si_pid == 0 || now_ms >= kill_ms)
    overdue = true;
  command_kill(now_ms >= kill_ms ? SIGKILL : SIGTERM);
}

/* Without a handler it would change nothing. */
static bool is_harmless(int number)
{
  return number == SIGPIPE || number == SIGCONT || number == SIGWINCH;
}

static void on_signal(int number, siginfo_t *from, void *context)
{
  int before = errno;
  (void)context;
  if (number == SIGALRM && from->si_code == SI_TIMER)
    on_third();
  else if (number == SIGPIPE)
    ;                                                            /* no process reads stderr any more: the command goes on */
  else if (command_pid > 0 && (from->si_code <= 0 || group > 0)) /* a process sent it */
    command_kill(number);
  else if (command_pid > 0 || is_harmless(number)) /* the terminal sent it to the whole foreground group, the command included */
    ;
  else if (holding)
    remembered = number;
  else
    stop_by(number);
  errno = before;
}

/* It only ends the poll. */
static void on_child(int number)
{
  (void)number;
}

bool command_init(struct error *error)
{
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART}, given;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  sigset_t blocked, unblocked;
  for (int i = 0; i < HANDLED; i++)
    if (handled[i] == SIGALRM || (sigaction(handled[i], NULL, &given) == 0 && given.sa_handler != SIG_IGN))
      sigaction(handled[i], &action, NULL);
  /* Taken only while this thread polls: blocked otherwise, and in all threads, because later threads inherit this mask. */
  sigaction(SIGCHLD, &(struct sigaction){.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP}, NULL);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &mask_given);
  sigemptyset(&unblocked);
  sigaddset(&unblocked, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &unblocked, NULL);
  if (timer_create(CLOCK_BOOTTIME, &event, &alarm_timer) == 0)
    return true;
  error_set(error, "making a timer: %s", strerror(errno));
  return false;
}

void command_signals_hold(void)
{
  holding = true;
}

void command_signals_release(void)
{
  holding = false;
  if (remembered)
    stop_by(remembered);
}

bool command_signalled(void)
{
  return remembered != 0;
}

/* ---- the command ---- */

/* Runs in the child, where only few functions may be called. */
static void complain(const char *word, int why)
{
  const char *texts[] = {"pawl-lock: cannot run ", word, ": ", strerrordesc_np(why), "\n"};
  struct iovec parts[sizeof texts / sizeof *texts];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    parts[i] = (struct iovec){(char *)texts[i], strlen(texts[i])};
  (void)writev(STDERR_FILENO, parts, (int)(sizeof parts / sizeof *parts));
}

/* Whether Ctrl-C and Ctrl-Z go to this process's group. */
static bool in_foreground(void)
{
  int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  bool is = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
  if (terminal >= 0)
    close(terminal);
  return is;
}

/* The driver marks its sockets close-on-exec. Descriptors that this process was given are passed on to the command, as flock(1) does. */
static void become(char **words, char **environment, pid_t parent, bool own_group)
{
  struct sigaction action;
  if (own_group)
    setpgid(0, 0);
  for (int i = 0; i < HANDLED; i++) /* a signal that is ignored was ignored when this process began */
    if (sigaction(handled[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
      signal(handled[i], SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(EXIT_SIGNAL + SIGTERM);
  sigprocmask(SIG_SETMASK, &mask_given, NULL);
  execvpe(words[0], words, environment);
  int why = errno;
  complain(words[0], why);
  _exit(why == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

bool command_start(char **words, char **environment, struct error *error)
{
  sigset_t before;
  pid_t me = getpid();
  bool own_group = !in_foreground();
  signals_block(&before);
  pid_t pid = fork();
  if (pid == 0)
    become(words, environment, me, own_group);
  if (pid > 0) {
    command_pid = pid;
    if (own_group && (setpgid(pid, pid) == 0 || errno == EACCES)) /* EACCES: the child did it, and is the command by now */
      group = pid;
  } else {
    error_set(error, "starting %.200s: %s", words[0], strerror(errno));
  }
  if (remembered)
    command_kill(remembered);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return pid > 0;
}

void command_grant(int64_t from_ms, int64_t third_ms)
{
  struct itimerspec thirds = {.it_value = timespec_of(from_ms + third_ms), .it_interval = timespec_of(third_ms)};
  kill_ms = from_ms + 3 * third_ms;
  term_ms = from_ms + 2 * third_ms;
  timer_settime(alarm_timer, TIMER_ABSTIME, &thirds, NULL);
}

void command_end(void)
{
  overdue = true;
  command_kill(SIGTERM);
}

bool command_overdue(void)
{
  return overdue;
}

/* After the reaping its number may belong to another process. */
static bool reap(int *code)
{
  sigset_t before;
  int status;
  signals_block(&before);
  pid_t ended = waitpid(command_pid, &status, WNOHANG);
  assert(ended >= 0);
  if (ended > 0)
    command_pid = 0;
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (ended > 0)
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL + WTERMSIG(status);
  return ended > 0;
}

static bool group_is_there(void)
{
  while (waitpid(-group, NULL, WNOHANG) > 0) { /* the first process of a container is their parent now */
  }
  return kill(-group, 0) == 0;
}

void command_rest_end(void)
{
  const struct timespec pause = timespec_of(20);
  while (group > 0 && group_is_there()) {
    if (command_now_ms() >= kill_ms) {
      kill(-group, SIGKILL);
      return;
    }
    nanosleep(&pause, NULL);
  }
}

bool command_poll(struct pollfd *polled, int count, int64_t until_ms)
{
  sigset_t unblocked;
  int64_t left_ms = until_ms - command_now_ms();
  sigprocmask(SIG_BLOCK, NULL, &unblocked);
  sigdelset(&unblocked, SIGCHLD);
  struct timespec limit = timespec_of(left_ms < 0 ? 0 : left_ms < WAIT_MS_MAX ? left_ms : WAIT_MS_MAX);
  return ppoll(polled, (nfds_t)count, &limit, &unblocked) > 0;
}

bool command_wait(struct pollfd *polled, int64_t until_ms, int *code)
{
  bool was_overdue = overdue;
  while (!reap(code))
    if (command_poll(polled, 1, until_ms) || overdue != was_overdue || command_now_ms() >= until_ms)
      return false;
  return true;
}
