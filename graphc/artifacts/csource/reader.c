/* Opens a file of samples, finds out what it is, and hands out its rows. */
#include "reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Which number of the input a column of the file is, or -1. */
int64_t gcp_feature_index(const Reader *reader, int64_t column) {
  int64_t index;
  if (reader->first < 0 && reader->label >= 0) {
    /* All columns but the label's. */
    index = column == reader->label ? -1 : column - (column > reader->label);
  } else {
    index = column - (reader->first < 0 ? 0 : reader->first);
  }
  return index >= 0 && index < reader->port->columns ? index : -1;
}

int gcp_store(Reader *reader, void *destination, int64_t index, double value) {
  if (reader->port->type == GCP_F64) {
    ((double *)destination)[index] = value;
    return 1;
  }
  ((float *)destination)[index] = (float)value;
  return isinf(value) || !isinf(((float *)destination)[index]);
}

/* The columns of a binary file against those required; a text file does this line by line. */
void gcp_check_width(Reader *reader, int64_t width) {
  int64_t least = reader->first + reader->port->columns;
  least = reader->label >= least ? reader->label + 1 : least;
  if (reader->width >= 0 && reader->width != width) {
    gcp_die(GCP_DATA, "%s: %" PRId64 " columns required, got %" PRId64, reader->stream.name,
            reader->width, width);
  }
  if (reader->width < 0 && width < least) {
    gcp_die(GCP_DATA, "%s: at least %" PRId64 " columns required, got %" PRId64,
            reader->stream.name, least, width);
  }
  reader->width = width;
}

static int64_t class_of_number(const LabelSet *labels, const char *text) {
  double value;
  if (!gcp_parse_number(text, &value) || !(value >= 0 && value < (double)labels->classes) ||
      value != (double)(int64_t)value) {
    return -1;
  }
  return (int64_t)value;
}

int64_t gcp_class_of(const LabelSet *labels, const char *text) {
  int i;
  if (labels->count == 0) {
    return class_of_number(labels, text);
  }
  for (i = 0; i < labels->count; i++) {
    if (strcmp(labels->names[i], text) == 0) {
      return i;
    }
  }
  return -1;
}

static void check_raw_size(const Reader *reader) {
  int64_t row = reader->port->columns * (int64_t)gcp_element_size(reader->port->type);
  if (reader->stream.size >= 0 && reader->stream.size % row != 0) {
    gcp_die(GCP_DATA, "%s: raw samples of %" PRId64 " bytes required, got a file of %" PRId64,
            reader->stream.name, row, reader->stream.size);
  }
}

Reader *gcp_open_reader(const char *file, const Port *port, int raw, int64_t first, int64_t label,
                        const LabelSet *labels) {
  Reader *reader = gcp_allocate(1, (int64_t)sizeof *reader);
  Stream *stream = &reader->stream;
  gcp_open_stream(stream, file);
  reader->port = port;
  reader->labels = labels;
  reader->first = first;
  reader->label = label;
  reader->width = first >= 0 ? -1 : port->columns + (label >= 0);
  if (raw) {
    reader->format = GCP_RAW;
    check_raw_size(reader);
  } else if (gcp_starts_with(stream, "\x93NUMPY")) {
    reader->format = GCP_NPY;
    gcp_start_npy(reader);
  } else {
    reader->format = GCP_TEXT;
    gcp_start_text(reader);
  }
  return reader;
}

static int64_t read_raw(Reader *reader, int64_t limit, void *destination) {
  int64_t row = reader->port->columns * (int64_t)gcp_element_size(reader->port->type);
  int64_t got = gcp_take(&reader->stream, destination, limit * row);
  if (got % row != 0) {
    gcp_die(GCP_DATA, "%s: raw samples of %" PRId64 " bytes required, the last one has %" PRId64,
            reader->stream.name, row, got % row);
  }
  return got / row;
}

int64_t gcp_read(Reader *reader, int64_t limit, void *destination, int64_t *found) {
  int64_t rows = 0;
  if (reader->format == GCP_RAW) {
    rows = read_raw(reader, limit, destination);
  } else if (reader->format == GCP_NPY) {
    rows = gcp_read_npy(reader, limit, destination, found);
  } else {
    while (rows < limit && gcp_read_line(reader, destination, rows, found)) {
      rows++;
    }
  }
  reader->row += rows;
  return rows;
}

/* One label a line, its number is its line from 0; blanks around it and empty lines do not count. */
void gcp_load_labels(const char *file, LabelSet *labels) {
  static Stream stream;
  char name[CELL_LIMIT + 1];
  size_t length = 0;
  int room = 0, more = 1;
  gcp_open_stream(&stream, file);
  if (gcp_starts_with(&stream, "\xEF\xBB\xBF")) {
    stream.used = 3;
  }
  while (more) {
    char c = '\n';
    more = gcp_take(&stream, &c, 1) == 1;
    if (more && c != '\n' && c != '\r') {
      if (length == CELL_LIMIT) {
        gcp_die(GCP_DATA, "%s: a label of more than %d characters", file, (int)CELL_LIMIT);
      }
      name[length] = c;
      length += length > 0 || (c != ' ' && c != '\t');
      continue;
    }
    while (length > 0 && (name[length - 1] == ' ' || name[length - 1] == '\t')) {
      length--;
    }
    if (length == 0) {
      continue;
    }
    if (labels->count == labels->classes) {
      gcp_die(GCP_DATA, "%s: %" PRId64 " labels required, one for each class, got more", file,
              labels->classes);
    }
    if (labels->count == room) {
      room = room == 0 ? 16 : room * 2;
      labels->names = realloc(labels->names, (size_t)room * sizeof *labels->names);
      if (labels->names == NULL) {
        gcp_die(GCP_INTERNAL, "out of memory");
      }
    }
    labels->names[labels->count] = gcp_allocate((int64_t)length + 1, 1);
    memcpy(labels->names[labels->count], name, length);
    labels->count++;
    length = 0;
  }
  if (labels->count == 0) {
    gcp_die(GCP_DATA, "%s: there are no labels in it", file);
  }
}
