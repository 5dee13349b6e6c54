/* Writes outputs as text, .npy or raw numbers; a file appears under its name only when complete. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NPY_HEADER = 128 };

struct Writer {
  const char *name; /* for messages */
  FILE *file;       /* where rows go: the target, or a temporary file in front of it */
  FILE *target;     /* .npy for something that cannot be rewound is collected in `file` first */
  char *path, *temporary;
  Format format;
  int argmax;
  int count;
  const Port **ports;
  int *outputs;
  ElementType type;
  int64_t columns, rows;
};

static void refuse(const Writer *writer) {
  gcp_die(GCP_DATA, "%s: cannot be written: %s", writer->name, strerror(errno));
}

static int is_stdout(const char *file) { return file == NULL || strcmp(file, "-") == 0; }

static int ends_in(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Opens `path`'s temporary file beside it, with the rights of the file that it will replace. */
static void open_temporary(Writer *writer, const char *file, const struct stat *old) {
  char *real = old != NULL ? realpath(file, NULL) : NULL;
  int64_t room;
  int descriptor;
  if (real == NULL) {
    real = gcp_allocate((int64_t)strlen(file) + 1, 1);
    strcpy(real, file);
  }
  writer->path = real;
  room = (int64_t)strlen(real) + 32;
  writer->temporary = gcp_allocate(room, 1);
  snprintf(writer->temporary, (size_t)room, "%s.tmp.%ld", real, (long)getpid());
  descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    refuse(writer);
  }
  gcp_remember_temporary(writer->temporary);
  if (old != NULL) {
    (void)fchmod(descriptor, old->st_mode & 07777);
  }
  writer->file = fdopen(descriptor, "wb");
}

static void open_target(Writer *writer, const char *file) {
  struct stat status;
  int exists;
  if (is_stdout(file)) {
    writer->name = "<stdout>";
    writer->file = stdout;
  } else {
    writer->name = file;
    exists = stat(file, &status) == 0;
    if (exists && !S_ISREG(status.st_mode)) {
      writer->file = fopen(file, "wb"); /* a device or a pipe: nothing to replace */
    } else {
      open_temporary(writer, file, exists ? &status : NULL);
    }
  }
  if (writer->file == NULL) {
    refuse(writer);
  }
  if (writer->format == GCP_NPY && writer->temporary == NULL) {
    writer->target = writer->file;
    writer->file = tmpfile();
    if (writer->file == NULL) {
      refuse(writer);
    }
  }
}

/* The number of rows is known at the end only, so the header has a fixed size. */
static void put_npy_header(const Writer *writer, FILE *file) {
  char header[NPY_HEADER];
  const char *type = writer->argmax ? "<i8" : writer->type == GCP_F32 ? "<f4" : "<f8";
  int length;
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
  length = snprintf(header + 10, sizeof header - 10,
                    "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ", %" PRId64 "), }",
                    type, writer->rows, writer->columns);
  header[10 + length] = ' ';
  header[sizeof header - 1] = '\n';
  if (fwrite(header, 1, sizeof header, file) != sizeof header) {
    refuse(writer);
  }
}

Writer *gcp_open_writer(const char *file, const int *outputs, int count, const Options *options) {
  Writer *writer = gcp_allocate(1, (int64_t)sizeof *writer);
  int i;
  writer->format = options->format;
  if (writer->format == GCP_AUTO) {
    writer->format = !is_stdout(file) && ends_in(file, ".npy") ? GCP_NPY : GCP_TEXT;
  }
  writer->argmax = options->argmax;
  writer->count = count;
  writer->ports = gcp_allocate(count, (int64_t)sizeof *writer->ports);
  writer->outputs = gcp_allocate(count, (int64_t)sizeof *writer->outputs);
  for (i = 0; i < count; i++) {
    writer->outputs[i] = outputs[i];
    writer->ports[i] = &gcp_model.outputs[outputs[i]];
    writer->columns += writer->argmax ? 1 : writer->ports[i]->columns;
    if (writer->ports[i]->type == GCP_F64) {
      writer->type = GCP_F64;
    }
  }
  open_target(writer, file);
  if (writer->format == GCP_NPY) {
    put_npy_header(writer, writer->file);
  }
  return writer;
}

static double value_at(const Port *port, const void *values, int64_t index) {
  return port->type == GCP_F32 ? (double)((const float *)values)[index]
                               : ((const double *)values)[index];
}

/* The first of the largest numbers of a row; a number that is nan counts as the largest. */
int64_t gcp_largest(const Port *port, const void *values, int64_t row) {
  int64_t best = 0, i;
  double top = value_at(port, values, row * port->columns);
  for (i = 1; i < port->columns && !isnan(top); i++) {
    double value = value_at(port, values, row * port->columns + i);
    if (value > top || isnan(value)) {
      best = i;
      top = value;
    }
  }
  return best;
}

static void put_text(const Writer *writer, const Port *port, double value) {
  if (isnan(value)) {
    fputs("nan", writer->file); /* printf may write -nan */
  } else {
    fprintf(writer->file, port->type == GCP_F32 ? "%.9g" : "%.17g", value);
  }
}

static void put_binary(const Writer *writer, double value) {
  float single = (float)value;
  if (writer->type == GCP_F32) {
    fwrite(&single, sizeof single, 1, writer->file);
  } else {
    fwrite(&value, sizeof value, 1, writer->file);
  }
}

static void put_row(const Writer *writer, const Port *port, const void *values, int64_t row,
                    int first) {
  int64_t i, largest;
  if (writer->argmax) {
    largest = gcp_largest(port, values, row);
    if (writer->format == GCP_TEXT) {
      fprintf(writer->file, "%s%" PRId64, first ? "" : " ", largest);
    } else {
      fwrite(&largest, sizeof largest, 1, writer->file);
    }
    return;
  }
  for (i = 0; i < port->columns; i++) {
    double value = value_at(port, values, row * port->columns + i);
    if (writer->format == GCP_TEXT) {
      if (!first || i > 0) {
        putc(' ', writer->file);
      }
      put_text(writer, port, value);
    } else {
      put_binary(writer, value);
    }
  }
}

static void end_row(Writer *writer) {
  writer->rows++;
  if (writer->format == GCP_TEXT) {
    putc('\n', writer->file);
  }
}

/* Outputs with samples are columns of one table; matrices without samples follow one another. */
void gcp_write(Writer *writer, void *const *values, int64_t samples) {
  int64_t row;
  int i;
  if (writer->ports[0]->samples) {
    for (row = 0; row < samples; row++) {
      for (i = 0; i < writer->count; i++) {
        put_row(writer, writer->ports[i], values[writer->outputs[i]], row, i == 0);
      }
      end_row(writer);
    }
  } else {
    for (i = 0; i < writer->count; i++) {
      for (row = 0; row < writer->ports[i]->rows; row++) {
        put_row(writer, writer->ports[i], values[writer->outputs[i]], row, 1);
        end_row(writer);
      }
    }
  }
  if (fflush(writer->file) != 0 || ferror(writer->file)) {
    refuse(writer);
  }
}

static void copy_to_target(Writer *writer) {
  char buffer[65536];
  size_t part;
  rewind(writer->file);
  while ((part = fread(buffer, 1, sizeof buffer, writer->file)) > 0) {
    if (fwrite(buffer, 1, part, writer->target) != part) {
      refuse(writer);
    }
  }
  if (ferror(writer->file)) {
    refuse(writer);
  }
  fclose(writer->file);
  writer->file = writer->target;
}

static void finish(Writer *writer) {
  if (writer->format == GCP_NPY) {
    if (fseeko(writer->file, 0, SEEK_SET) != 0) {
      refuse(writer);
    }
    put_npy_header(writer, writer->file);
    if (fflush(writer->file) != 0) {
      refuse(writer);
    }
    if (writer->target != NULL) {
      copy_to_target(writer);
    }
  }
  if (fflush(writer->file) != 0 || ferror(writer->file) || fclose(writer->file) != 0) {
    refuse(writer);
  }
}

/* All files are complete before the first one takes its name. */
void gcp_finish_writers(Writer **writers, int count) {
  int i;
  for (i = 0; i < count; i++) {
    finish(writers[i]);
  }
  for (i = 0; i < count; i++) {
    if (writers[i]->temporary != NULL && rename(writers[i]->temporary, writers[i]->path) != 0) {
      refuse(writers[i]);
    }
  }
  gcp_forget_temporaries();
}
