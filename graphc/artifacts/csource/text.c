/* Samples in text: one a line, numbers separated by blanks or tabs.
 *
 * Read cell by cell, so that the length of a line does not matter. A line ends in LF, CR LF or CR;
 * a byte order mark of UTF-8 is skipped; lines without cells are skipped. */
#include "reader.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static int peek(Stream *stream) {
  return gcp_fill(stream) ? (int)stream->buffer[stream->used] : -1;
}

static int is_line_end(int c) { return c == '\n' || c == '\r' || c == -1; }

void gcp_start_text(Reader *reader) {
  Stream *stream = &reader->stream;
  reader->line = 1;
  reader->column = 1;
  if (gcp_starts_with(stream, "\xEF\xBB\xBF")) {
    stream->used += 3;
  } else if (gcp_starts_with(stream, "\xFF\xFE") || gcp_starts_with(stream, "\xFE\xFF")) {
    gcp_die(GCP_DATA, "%s:1:1: text has to be UTF-8, this is UTF-16", stream->name);
  }
}

static void refuse_cell(const Reader *reader, int64_t column, const char *what) {
  gcp_die(GCP_DATA, "%s:%" PRId64 ":%" PRId64 ": `%.40s`%s %s", reader->stream.name, reader->line,
          column, reader->cell, strlen(reader->cell) > 40 ? "..." : "", what);
}

static void end_line(Reader *reader) {
  Stream *stream = &reader->stream;
  int c = peek(stream);
  if (c == -1) {
    return;
  }
  stream->used++;
  if (c == '\r' && peek(stream) == '\n') {
    stream->used++;
  }
  reader->line++;
  reader->column = 1;
}

/* Takes the cell at the stream's position; its text is kept only if `keep`. */
static void take_cell(Reader *reader, int keep) {
  Stream *stream = &reader->stream;
  int64_t start = reader->column;
  size_t length = 0;
  while (gcp_fill(stream)) {
    unsigned char c = stream->buffer[stream->used];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      break;
    }
    if (c == 0) {
      gcp_die(GCP_DATA, "%s:%" PRId64 ":%" PRId64 ": a zero byte: this is neither text nor .npy%s",
              stream->name, reader->line, reader->column,
              reader->label < 0 ? " (raw numbers need --raw)" : "");
    }
    if (keep) {
      if (length == CELL_LIMIT) {
        reader->cell[length] = 0;
        refuse_cell(reader, start, "is too long for a number or label");
      }
      reader->cell[length++] = (char)c;
    }
    stream->used++;
    reader->column++;
  }
  reader->cell[length] = 0;
}

static void use_cell(Reader *reader, void *destination, int64_t index, int64_t start) {
  double value;
  if (!gcp_parse_number(reader->cell, &value)) {
    refuse_cell(reader, start,
                strchr(reader->cell, ',') != NULL
                    ? "is not a number (columns are separated by blanks or tabs)"
                    : "is not a number");
  }
  if (isinf(value) && strpbrk(reader->cell, "0123456789") != NULL) {
    refuse_cell(reader, start, "is too large for a number");
  }
  if (!gcp_store(reader, destination, index, value)) {
    refuse_cell(reader, start, "is too large for the input's type f32");
  }
}

static void check_columns(Reader *reader, int64_t cells) {
  if (reader->width < 0) {
    int64_t least = reader->first + reader->port->columns;
    least = reader->label >= least ? reader->label + 1 : least;
    if (cells >= least) {
      reader->width = cells;
      return;
    }
    gcp_die(GCP_DATA, "%s:%" PRId64 ":%" PRId64 ": at least %" PRId64 " columns required, got %" PRId64,
            reader->stream.name, reader->line, reader->column, least, cells);
  }
  if (cells != reader->width) {
    gcp_die(GCP_DATA, "%s:%" PRId64 ":%" PRId64 ": %" PRId64 " columns required, got %" PRId64,
            reader->stream.name, reader->line, reader->column, reader->width, cells);
  }
}

int gcp_read_line(Reader *reader, void *destination, int64_t row, int64_t *found) {
  Stream *stream = &reader->stream;
  int64_t cells = 0;
  for (;;) {
    int c = peek(stream);
    int64_t start = reader->column;
    int64_t feature;
    if (c == ' ' || c == '\t') {
      stream->used++;
      reader->column++;
      continue;
    }
    if (is_line_end(c) && cells > 0) {
      break;
    }
    if (c == -1) {
      return 0;
    }
    if (is_line_end(c)) {
      end_line(reader);
      continue;
    }
    if (reader->width >= 0 && cells == reader->width) {
      gcp_die(GCP_DATA, "%s:%" PRId64 ":%" PRId64 ": %" PRId64 " columns required, got more",
              stream->name, reader->line, start, reader->width);
    }
    feature = gcp_feature_index(reader, cells);
    take_cell(reader, feature >= 0 || cells == reader->label);
    if (feature >= 0) {
      use_cell(reader, destination, row * reader->port->columns + feature, start);
    }
    if (cells == reader->label) {
      found[row] = gcp_class_of(reader->labels, reader->cell);
      if (found[row] < 0) {
        refuse_cell(reader, start, "is not a label of the network's classes (see --labels)");
      }
    }
    cells++;
  }
  check_columns(reader, cells);
  end_line(reader);
  return 1;
}
