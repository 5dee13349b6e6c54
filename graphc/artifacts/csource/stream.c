/* Bytes of a file or of standard input through one buffer of fixed size. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void refuse(const Stream *stream) {
  gcp_die(GCP_DATA, "%s: cannot be read: %s", stream->name, strerror(errno));
}

static void note_size(Stream *stream) {
  struct stat status;
  int64_t start = (int64_t)lseek(stream->fd, 0, SEEK_CUR);
  stream->size = -1;
  if (fstat(stream->fd, &status) == 0 && S_ISREG(status.st_mode) && start == 0) {
    stream->size = (int64_t)status.st_size;
  }
}

void gcp_open_stream(Stream *stream, const char *file) {
  memset(stream, 0, sizeof *stream);
  if (strcmp(file, "-") == 0) {
    stream->fd = 0;
    stream->name = "<stdin>";
  } else {
    stream->name = file;
    stream->fd = open(file, O_RDONLY | O_CLOEXEC);
    if (stream->fd < 0) {
      refuse(stream);
    }
  }
  note_size(stream);
}

/* Reads once, behind what is in the buffer; 0 at the end. */
static int read_more(Stream *stream) {
  ssize_t got;
  if (stream->ended) {
    return 0;
  }
  do {
    got = read(stream->fd, stream->buffer + stream->filled, sizeof stream->buffer - stream->filled);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    refuse(stream);
  }
  stream->filled += (size_t)got;
  stream->ended = got == 0;
  return got > 0;
}

int gcp_fill(Stream *stream) {
  if (stream->used < stream->filled) {
    return 1;
  }
  stream->used = 0;
  stream->filled = 0;
  return read_more(stream);
}

/* A pipe may hand over a single byte; more is waited for only while all of it agrees with `text`,
 * so that a person's first short line is not held up. */
int gcp_starts_with(Stream *stream, const char *text) {
  size_t length = strlen(text), i;
  for (i = 0; i < length; i++) {
    if (i == stream->filled && !read_more(stream)) {
      return 0;
    }
    if (stream->buffer[i] != (unsigned char)text[i]) {
      return 0;
    }
  }
  return 1;
}

int64_t gcp_take(Stream *stream, void *destination, int64_t bytes) {
  int64_t taken = 0;
  while (taken < bytes && gcp_fill(stream)) {
    int64_t ready = (int64_t)(stream->filled - stream->used);
    int64_t part = ready < bytes - taken ? ready : bytes - taken;
    if (destination != NULL) {
      memcpy((char *)destination + taken, stream->buffer + stream->used, (size_t)part);
    }
    stream->used += (size_t)part;
    taken += part;
  }
  stream->position += taken;
  return taken;
}

void gcp_spool(Stream *stream) {
  int64_t size = 0;
  FILE *file = tmpfile();
  if (file == NULL) {
    gcp_die(GCP_DATA, "%s: no temporary file can be made for it: %s", stream->name,
            strerror(errno));
  }
  while (gcp_fill(stream)) {
    size_t part = stream->filled - stream->used;
    if (fwrite(stream->buffer + stream->used, 1, part, file) != part) {
      gcp_die(GCP_DATA, "%s: its temporary file cannot be written: %s", stream->name,
              strerror(errno));
    }
    stream->used = stream->filled;
    size += (int64_t)part;
  }
  if (fflush(file) != 0) {
    gcp_die(GCP_DATA, "%s: its temporary file cannot be written: %s", stream->name,
            strerror(errno));
  }
  /* The file stays open, and nameless, until the program ends. */
  stream->fd = fileno(file);
  stream->size = size;
  stream->position = 0;
}

void gcp_pread(Stream *stream, void *destination, int64_t bytes, int64_t offset) {
  int64_t taken = 0;
  while (taken < bytes) {
    ssize_t got = pread(stream->fd, (char *)destination + taken, (size_t)(bytes - taken),
                        (off_t)(offset + taken));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      refuse(stream);
    }
    if (got == 0) {
      gcp_die(GCP_DATA, "%s: the file became shorter while it was read", stream->name);
    }
    taken += got;
  }
}
