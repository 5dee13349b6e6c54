/* What the parts of a graphc executable share: the table of the network, options, readers, writers.
 *
 * The network itself is native code in an object file; `table.c`, which graphc generates for every
 * executable, describes it. Everything else is the same in each executable. POSIX and libc only. */
#ifndef GCP_PROGRAM_H
#define GCP_PROGRAM_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes, the same as those of the graphc command. */
enum { GCP_USAGE = 2, GCP_DATA = 3, GCP_INTERNAL = 4 };

typedef enum { GCP_F32, GCP_F64 } ElementType;

/* One array of the network. With `samples` it has `columns` numbers for every sample (rows is 1);
 * without, it is one matrix of rows x columns for the whole call. */
typedef struct {
  const char *name;
  ElementType type;
  int samples;
  int64_t rows, columns;
} Port;

typedef struct {
  const char *name, *version, *isa, *hash;
  int64_t bound; /* most samples of one call */
  int input_count, output_count;
  const Port *inputs, *outputs;
  int32_t (*call)(int64_t n, void *const *inputs, void *const *outputs, void *arena, void *pool);
  int64_t (*arena_bytes)(void);
  const char *(*status)(int32_t code);
  const char *(*info)(void);
  int (*processor_fits)(void);
  void *(*pool_create)(int32_t threads); /* NULL: one thread computes all */
  void (*pool_destroy)(void *pool);
} Model;

extern const Model gcp_model;

/* report.c: errors end the program, after the unfinished output files are removed. */
#if defined(__GNUC__)
#define GCP_PRINTF(text, values) __attribute__((format(printf, text, values), noreturn))
#else
#define GCP_PRINTF(text, values)
#endif
void gcp_die(int code, const char *format, ...) GCP_PRINTF(2, 3);
void gcp_remember_temporary(const char *path);
void gcp_forget_temporaries(void);
void *gcp_allocate(int64_t count, int64_t size);
void *gcp_allocate_aligned(int64_t count, int64_t size);
size_t gcp_element_size(ElementType type);

/* options.c */
typedef enum { GCP_AUTO, GCP_TEXT, GCP_NPY, GCP_RAW } Format;

typedef struct {
  const char **input_files;  /* one for each input; "-" is standard input */
  int64_t *first_columns;    /* one for each input; -1 where --columns is not given */
  const char *output_file;   /* -o; NULL: standard output */
  const char **output_files; /* --output, one for each output; NULL where not asked for */
  int outputs_chosen;
  Format format;
  int raw, argmax, quiet, time;
  int64_t repeat, block;
  int64_t threads; /* 0: one for each processor */
  int64_t label_column; /* -1: no labels */
  const char *labels_file;
} Options;

/* Reads the command line; --help, --version and --info are answered here and end the program. */
void gcp_parse_options(int count, char **arguments, Options *options);

/* describe.c */
void gcp_print_help(FILE *out);
void gcp_print_info(FILE *out);

/* reader.c, npy.c: samples from a file, some at a time. */
typedef struct Reader Reader;

typedef struct {
  int count; /* of names; 0: labels are numbers from 0 */
  char **names;
  int64_t classes;
} LabelSet;

/* `first` is the first column to take or -1, `label` the column of the label or -1. */
Reader *gcp_open_reader(const char *file, const Port *port, int raw, int64_t first, int64_t label,
                        const LabelSet *labels);
/* Reads up to `limit` rows; `found` gets a class for each row where a label column was named. */
int64_t gcp_read(Reader *reader, int64_t limit, void *destination, int64_t *found);
void gcp_load_labels(const char *file, LabelSet *labels);

/* writer.c */
typedef struct Writer Writer;
Writer *gcp_open_writer(const char *file, const int *outputs, int count, const Options *options);
void gcp_write(Writer *writer, void *const *values, int64_t rows);
void gcp_finish_writers(Writer **writers, int count);
int64_t gcp_largest(const Port *port, const void *values, int64_t row);

#endif
