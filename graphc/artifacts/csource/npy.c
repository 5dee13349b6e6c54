/* Samples in numpy's .npy files, versions 1 and 2: two-dimensional, '<f4' or '<f8'.
 *
 * Nothing is allocated by what a header says: rows in C order are taken from the stream number by
 * number, and a file in Fortran order is checked against its size before it is read. */
#include "reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_LIMIT = 65536 };

static void refuse(const Reader *reader, const char *what) {
  gcp_die(GCP_DATA, "%s: %s", reader->stream.name, what);
}

static void skip_blanks(const char **p) {
  while (**p == ' ' || **p == '\t' || **p == '\n') {
    (*p)++;
  }
}

static int take_text(const char **p, const char *text) {
  size_t length = strlen(text);
  skip_blanks(p);
  if (strncmp(*p, text, length) != 0) {
    return 0;
  }
  *p += length;
  return 1;
}

/* The text in quotes at *p, at most 31 characters; 0 if there is none. */
static int take_quoted(const char **p, char *text) {
  size_t length = 0;
  char quote;
  skip_blanks(p);
  quote = **p;
  if (quote != '\'' && quote != '"') {
    return 0;
  }
  for ((*p)++; **p != quote; (*p)++) {
    if (**p == 0 || length == 31) {
      return 0;
    }
    text[length++] = **p;
  }
  (*p)++;
  text[length] = 0;
  return 1;
}

/* "(3, 4)" into sizes[2]; the number of sizes, or -1 if it is no tuple, 3 if there are more. */
static int take_shape(const char **p, int64_t *sizes) {
  int count = 0;
  if (!take_text(p, "(")) {
    return -1;
  }
  while (!take_text(p, ")")) {
    int64_t size = 0;
    if (**p < '0' || **p > '9') {
      return -1;
    }
    for (; **p >= '0' && **p <= '9'; (*p)++) {
      if (size > INT64_MAX / 10 - 1) {
        return -1;
      }
      size = size * 10 + (**p - '0');
    }
    if (count < 2) {
      sizes[count] = size;
    }
    count = count < 3 ? count + 1 : 3;
    if (!take_text(p, ",") && *(*p) != ')') {
      return -1;
    }
  }
  return count;
}

static void set_type(Reader *reader, const char *descr) {
  if (strcmp(descr, "<f4") == 0) {
    reader->file_type = GCP_F32;
  } else if (strcmp(descr, "<f8") == 0) {
    reader->file_type = GCP_F64;
  } else {
    gcp_die(GCP_DATA, "%s: element type '<f4' or '<f8' required, got '%s'", reader->stream.name,
            descr);
  }
}

static void set_shape(Reader *reader, int dimensions, const int64_t *sizes) {
  int64_t bytes = (int64_t)gcp_element_size(reader->file_type);
  if (dimensions != 1 && dimensions != 2) {
    refuse(reader, "an array of two dimensions [samples, columns] is required");
  }
  reader->file_rows = sizes[0];
  gcp_check_width(reader, dimensions == 2 ? sizes[1] : 1);
  if (reader->width > 0 && reader->file_rows > (INT64_MAX / 2) / bytes / reader->width) {
    refuse(reader, "the header's shape is impossibly large");
  }
}

static void parse_header(Reader *reader, const char *p) {
  int seen = 0, dimensions = 0, good = take_text(&p, "{");
  int64_t sizes[2] = {0, 0};
  char key[32], descr[32];
  while (good && !take_text(&p, "}")) {
    int field = 0;
    good = take_quoted(&p, key) && take_text(&p, ":");
    if (good && strcmp(key, "descr") == 0) {
      field = 1;
      good = take_quoted(&p, descr);
    } else if (good && strcmp(key, "fortran_order") == 0) {
      field = 2;
      reader->fortran = take_text(&p, "True");
      good = reader->fortran || take_text(&p, "False");
    } else if (good && strcmp(key, "shape") == 0) {
      field = 4;
      dimensions = take_shape(&p, sizes);
      good = dimensions >= 0;
    }
    good = good && field != 0 && (seen & field) == 0;
    seen |= field;
    skip_blanks(&p);
    good = good && (take_text(&p, ",") || *p == '}');
  }
  skip_blanks(&p);
  if (!good || seen != 7 || *p != 0) {
    refuse(reader, "the .npy header is malformed (structured types are not read)");
  }
  set_type(reader, descr);
  set_shape(reader, dimensions, sizes);
}

static void check_size(Reader *reader) {
  int64_t item = (int64_t)gcp_element_size(reader->file_type);
  int64_t required = reader->file_rows * reader->width * item;
  int64_t got = reader->stream.size - reader->data_start;
  if (got != required) {
    gcp_die(GCP_DATA,
            "%s: the .npy file is %s: %" PRId64 " bytes of data required by its header, got %" PRId64,
            reader->stream.name, got < required ? "truncated" : "too long", required, got);
  }
}

void gcp_start_npy(Reader *reader) {
  Stream *stream = &reader->stream;
  unsigned char start[12];
  int64_t length = 0, wanted, got;
  char *header;
  if (gcp_take(stream, start, 8) != 8) {
    refuse(reader, "the .npy header is truncated");
  }
  if ((start[6] != 1 && start[6] != 2) || start[7] != 0) {
    gcp_die(GCP_DATA, "%s: .npy version 1.0 or 2.0 required, got %d.%d", stream->name, start[6],
            start[7]);
  }
  wanted = start[6] == 1 ? 2 : 4;
  if (gcp_take(stream, start + 8, wanted) != wanted) {
    refuse(reader, "the .npy header is truncated");
  }
  for (got = 0; got < wanted; got++) {
    length |= (int64_t)start[8 + got] << (8 * got);
  }
  if (length > HEADER_LIMIT) {
    gcp_die(GCP_DATA, "%s: a .npy header of at most %d bytes required, got %" PRId64, stream->name,
            (int)HEADER_LIMIT, length);
  }
  header = gcp_allocate(length + 1, 1);
  if (gcp_take(stream, header, length) != length) {
    refuse(reader, "the .npy header is truncated");
  }
  if (strlen(header) != (size_t)length) {
    refuse(reader, "the .npy header is malformed (it holds a zero byte)");
  }
  parse_header(reader, header);
  free(header);
  reader->data_start = stream->position;
  if (reader->fortran && stream->size < 0) {
    gcp_spool(stream);
    reader->data_start = 0;
  }
  if (stream->size >= 0) {
    check_size(reader);
  }
}

static double number_at(const Reader *reader, const unsigned char *bytes) {
  float single;
  double full;
  if (reader->file_type == GCP_F32) {
    memcpy(&single, bytes, sizeof single);
    return (double)single;
  }
  memcpy(&full, bytes, sizeof full);
  return full;
}

/* Puts the number of one cell where it belongs. `row` counts in the block. */
static void use_number(Reader *reader, double value, int64_t row, int64_t column, void *destination,
                       int64_t *found) {
  int64_t feature = gcp_feature_index(reader, column);
  char text[40];
  if (feature >= 0 &&
      !gcp_store(reader, destination, row * reader->port->columns + feature, value)) {
    gcp_die(GCP_DATA, "%s: sample %" PRId64 ", column %" PRId64
                      ": %.9g is too large for the input's type f32",
            reader->stream.name, reader->row + row, column, value);
  }
  if (column == reader->label) {
    snprintf(text, sizeof text, "%.17g", value);
    found[row] = gcp_class_of(reader->labels, text);
    if (found[row] < 0) {
      gcp_die(GCP_DATA, "%s: sample %" PRId64 ", column %" PRId64
                        ": %s is not a label of the network's classes (see --labels)",
              reader->stream.name, reader->row + row, column, text);
    }
  }
}

static void read_row(Reader *reader, int64_t row, void *destination, int64_t *found) {
  int64_t item = (int64_t)gcp_element_size(reader->file_type);
  unsigned char bytes[8];
  int64_t column;
  for (column = 0; column < reader->width; column++) {
    int wanted = gcp_feature_index(reader, column) >= 0 || column == reader->label;
    if (gcp_take(&reader->stream, wanted ? bytes : NULL, item) != item) {
      gcp_die(GCP_DATA, "%s: the .npy file is truncated: it ends in sample %" PRId64 " of %" PRId64,
              reader->stream.name, reader->row + row, reader->file_rows);
    }
    if (wanted) {
      use_number(reader, number_at(reader, bytes), row, column, destination, found);
    }
  }
}

static void read_columns(Reader *reader, int64_t rows, void *destination, int64_t *found) {
  int64_t item = (int64_t)gcp_element_size(reader->file_type);
  int64_t column, row;
  if (reader->strip_rows < rows) {
    free(reader->strip);
    reader->strip = gcp_allocate(rows, item);
    reader->strip_rows = rows;
  }
  for (column = 0; column < reader->width; column++) {
    if (gcp_feature_index(reader, column) < 0 && column != reader->label) {
      continue;
    }
    gcp_pread(&reader->stream, reader->strip, rows * item,
              reader->data_start + (column * reader->file_rows + reader->row) * item);
    for (row = 0; row < rows; row++) {
      use_number(reader, number_at(reader, reader->strip + row * item), row, column, destination,
                 found);
    }
  }
}

int64_t gcp_read_npy(Reader *reader, int64_t limit, void *destination, int64_t *found) {
  int64_t left = reader->file_rows - reader->row;
  int64_t rows = left < limit ? left : limit;
  int64_t row;
  if (reader->fortran) {
    read_columns(reader, rows, destination, found);
  } else {
    for (row = 0; row < rows; row++) {
      read_row(reader, row, destination, found);
    }
    if (rows == left && gcp_fill(&reader->stream)) {
      refuse(reader, "the .npy file is too long: there are bytes after the data");
    }
  }
  return rows;
}
