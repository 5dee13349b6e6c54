/* The inside of a reader: a byte stream, the columns to take, and the three kinds of file. */
#ifndef GCP_READER_H
#define GCP_READER_H

#include "program.h"

enum { CELL_LIMIT = 1200 }; /* a double written out in full has at most 1077 characters */

typedef struct {
  int fd;
  const char *name;
  int64_t size;     /* bytes of a regular file, -1 for pipes and terminals */
  int64_t position; /* bytes taken so far */
  size_t used, filled;
  int ended;
  unsigned char buffer[65536];
} Stream;

struct Reader {
  Stream stream;
  const Port *port;
  Format format;
  const LabelSet *labels;
  int64_t first, label; /* as in gcp_open_reader */
  int64_t width;        /* columns of the file, -1 until the first row says it */
  int64_t row;          /* rows read */
  /* text */
  int64_t line, column;
  char cell[CELL_LIMIT + 1];
  /* npy */
  ElementType file_type;
  int fortran;
  int64_t file_rows, data_start;
  unsigned char *strip; /* one column of a block, Fortran order */
  int64_t strip_rows;
};

/* stream.c */
void gcp_open_stream(Stream *stream, const char *file);
int gcp_fill(Stream *stream); /* 0 at the end */
int gcp_starts_with(Stream *stream, const char *text); /* only before anything is taken */
int64_t gcp_take(Stream *stream, void *destination, int64_t bytes); /* NULL: skip; bytes taken */
void gcp_spool(Stream *stream); /* the rest of a pipe becomes a temporary file */
void gcp_pread(Stream *stream, void *destination, int64_t bytes, int64_t offset);

/* number.c */
/* 1: a number, 0: not one. Decimal notation, inf and nan; no locale, no hexadecimal floats. */
int gcp_parse_number(const char *text, double *value);

/* reader.c */
int64_t gcp_feature_index(const Reader *reader, int64_t column);
int gcp_store(Reader *reader, void *destination, int64_t index, double value); /* 0: too large */
void gcp_check_width(Reader *reader, int64_t width);
/* The class of a label, or -1. */
int64_t gcp_class_of(const LabelSet *labels, const char *text);

/* npy.c */
void gcp_start_npy(Reader *reader);
int64_t gcp_read_npy(Reader *reader, int64_t limit, void *destination, int64_t *found);

/* text.c */
void gcp_start_text(Reader *reader);
int gcp_read_line(Reader *reader, void *destination, int64_t row, int64_t *found);

#endif
