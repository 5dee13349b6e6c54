/* Ends the program with a message, and keeps unfinished output files from being left behind. */
#include "program.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The files to remove when the program ends early. Read by the signal handler, so entries are
 * complete before the count says that they are there. */
enum { MOST_TEMPORARIES = 1024 };
static const char *temporaries[MOST_TEMPORARIES];
static volatile sig_atomic_t temporary_count;

static void remove_temporaries(void) {
  int i;
  for (i = 0; i < temporary_count; i++) {
    unlink(temporaries[i]);
  }
}

static void on_signal(int number) {
  remove_temporaries();
  signal(number, SIG_DFL);
  raise(number);
}

/* A signal that the caller has set to be ignored (nohup) stays ignored. */
static void watch(int number) {
  struct sigaction action;
  if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
    signal(number, on_signal);
  }
}

void gcp_remember_temporary(const char *path) {
  if (temporary_count == 0) {
    watch(SIGINT);
    watch(SIGTERM);
    watch(SIGHUP);
    watch(SIGPIPE);
  }
  if (temporary_count < MOST_TEMPORARIES) {
    temporaries[temporary_count] = path;
    temporary_count++;
  }
}

void gcp_forget_temporaries(void) { temporary_count = 0; }

void gcp_die(int code, const char *format, ...) {
  char text[6000]; /* more than a path and a sentence */
  size_t i;
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  remove_temporaries();
  /* Names and cells come from outside: nothing in them may steer a terminal. */
  for (i = 0; text[i] != 0; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c < 32 || c == 127) {
      text[i] = '?';
    }
  }
  fprintf(stderr, "%s: %s\n", gcp_model.name, text);
  exit(code);
}

static int64_t checked_bytes(int64_t count, int64_t size) {
  if (count < 0 || (count > 0 && size > (INT64_MAX - 64) / count) ||
      (uint64_t)(count * size) > (uint64_t)(SIZE_MAX / 2)) {
    gcp_die(GCP_INTERNAL, "a block of samples is larger than the memory can be; see --block");
  }
  return count * size > 0 ? count * size : 1;
}

void *gcp_allocate(int64_t count, int64_t size) {
  void *memory = calloc(1, (size_t)checked_bytes(count, size));
  if (memory == NULL) {
    gcp_die(GCP_INTERNAL, "out of memory");
  }
  return memory;
}

void *gcp_allocate_aligned(int64_t count, int64_t size) {
  void *memory = NULL;
  if (posix_memalign(&memory, 64, (size_t)checked_bytes(count, size)) != 0) {
    gcp_die(GCP_INTERNAL, "out of memory");
  }
  return memory;
}

size_t gcp_element_size(ElementType type) {
  return type == GCP_F32 ? sizeof(float) : sizeof(double);
}
