/* The main program of a graphc executable: samples in, outputs out, block by block. */
#include "program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  Options options;
  Reader **readers;
  void **inputs, **outputs; /* one block of each */
  void *arena, *pool;
  Writer **writers;
  int writer_count;
  int64_t *labels; /* the right classes of a block */
  int64_t samples, errors;
  double *seconds; /* one sum for each pass of --repeat */
} Run;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *port_memory(const Port *port, int64_t block) {
  int64_t rows = port->samples ? block : port->rows;
  int64_t item = (int64_t)gcp_element_size(port->type);
  return gcp_allocate_aligned(rows, port->columns * item);
}

/* Without --output: all outputs with samples side by side; if there are none, all one by one. */
static void open_joined_writer(Run *run) {
  int *chosen = gcp_allocate(gcp_model.output_count, (int64_t)sizeof *chosen);
  int i, count = 0, any_samples = 0;
  for (i = 0; i < gcp_model.output_count; i++) {
    any_samples |= gcp_model.outputs[i].samples;
  }
  for (i = 0; i < gcp_model.output_count; i++) {
    if (gcp_model.outputs[i].samples == any_samples) {
      chosen[count++] = i;
    }
  }
  if (!any_samples && count > 1 && run->options.format == GCP_NPY) {
    gcp_die(GCP_USAGE, "several matrices do not fit one .npy file: give --output NAME=FILE");
  }
  run->writers[0] = gcp_open_writer(run->options.output_file, chosen, count, &run->options);
  run->writer_count = 1;
  free(chosen);
}

static void open_writers(Run *run) {
  int i;
  run->writers = gcp_allocate(gcp_model.output_count, (int64_t)sizeof *run->writers);
  if (run->options.quiet) {
    return;
  }
  if (run->options.outputs_chosen == 0) {
    open_joined_writer(run);
    return;
  }
  for (i = 0; i < gcp_model.output_count; i++) {
    if (run->options.output_files[i] != NULL) {
      run->writers[run->writer_count++] =
          gcp_open_writer(run->options.output_files[i], &i, 1, &run->options);
    }
  }
}

/* Whether something is written that is computed over all samples together. */
static int writes_whole(const Run *run) {
  int i, any_samples = 0;
  for (i = 0; i < gcp_model.output_count; i++) {
    if (run->options.output_files[i] != NULL && !gcp_model.outputs[i].samples) {
      return 1;
    }
    any_samples |= gcp_model.outputs[i].samples;
  }
  return !any_samples;
}

static void read_fixed_inputs(Run *run) {
  char *one_more;
  int i;
  for (i = 0; i < gcp_model.input_count; i++) {
    const Port *port = &gcp_model.inputs[i];
    if (port->samples) {
      continue;
    }
    one_more = gcp_allocate(port->columns, (int64_t)gcp_element_size(port->type));
    if (gcp_read(run->readers[i], port->rows, run->inputs[i], NULL) != port->rows ||
        gcp_read(run->readers[i], 1, one_more, NULL) != 0) {
      gcp_die(GCP_DATA, "%s: %" PRId64 " rows required for input `%s`", run->options.input_files[i],
              port->rows, port->name);
    }
    free(one_more);
  }
}

static void start(Run *run, LabelSet *labels) {
  const Options *options = &run->options;
  int64_t arena = gcp_model.arena_bytes();
  int i;
  run->readers = gcp_allocate(gcp_model.input_count, (int64_t)sizeof *run->readers);
  run->inputs = gcp_allocate(gcp_model.input_count, (int64_t)sizeof(void *));
  run->outputs = gcp_allocate(gcp_model.output_count, (int64_t)sizeof(void *));
  run->seconds = gcp_allocate(options->repeat, (int64_t)sizeof(double));
  run->labels = gcp_allocate(options->block, (int64_t)sizeof(int64_t));
  run->arena = gcp_allocate_aligned(arena, 1);
  if (gcp_model.pool_create != NULL && options->threads != 1) {
    run->pool = gcp_model.pool_create((int32_t)options->threads); /* without one: alone */
  }
  labels->classes = gcp_model.outputs[0].columns;
  if (options->labels_file != NULL) {
    gcp_load_labels(options->labels_file, labels);
  }
  for (i = 0; i < gcp_model.input_count; i++) {
    run->inputs[i] = port_memory(&gcp_model.inputs[i], options->block);
    run->readers[i] = gcp_open_reader(options->input_files[i], &gcp_model.inputs[i], options->raw,
                                      options->first_columns[i],
                                      i == 0 ? options->label_column : -1, labels);
  }
  for (i = 0; i < gcp_model.output_count; i++) {
    run->outputs[i] = port_memory(&gcp_model.outputs[i], options->block);
  }
  read_fixed_inputs(run);
  open_writers(run);
}

/* The next block of every input; they have to have the same number of samples. */
static int64_t read_block(Run *run) {
  int64_t samples = -1;
  int i, first = 0;
  for (i = 0; i < gcp_model.input_count; i++) {
    int64_t got;
    if (!gcp_model.inputs[i].samples) {
      continue;
    }
    got = gcp_read(run->readers[i], run->options.block, run->inputs[i], run->labels);
    if (samples >= 0 && got != samples) {
      int less = got < samples ? i : first;
      gcp_die(GCP_DATA, "the inputs need the same number of samples: `%s` ends after %" PRId64
                        ", `%s` has more",
              gcp_model.inputs[less].name, run->samples + (got < samples ? got : samples),
              gcp_model.inputs[less == i ? first : i].name);
    }
    if (samples < 0) {
      samples = got;
      first = i;
    }
  }
  return samples;
}

static void compute(Run *run, int64_t samples) {
  int64_t pass;
  for (pass = 0; pass < run->options.repeat; pass++) {
    double begin = now();
    int32_t code = gcp_model.call(samples, run->inputs, run->outputs, run->arena, run->pool);
    run->seconds[pass] += now() - begin;
    if (code != 0) {
      gcp_die(GCP_INTERNAL, "the computation failed with status %d: %s", (int)code,
              gcp_model.status(code));
    }
  }
}

static void use_block(Run *run, int64_t samples) {
  int64_t row;
  int i;
  compute(run, samples);
  for (i = 0; i < run->writer_count; i++) {
    gcp_write(run->writers[i], run->outputs, samples);
  }
  for (row = 0; run->options.label_column >= 0 && row < samples; row++) {
    run->errors +=
        gcp_largest(&gcp_model.outputs[0], run->outputs[0], row) != run->labels[row];
  }
  run->samples += samples;
}

static void run_all(Run *run) {
  int whole = writes_whole(run);
  int64_t samples = read_block(run);
  if (samples < 0) {
    use_block(run, 0); /* no input has samples: there is one call */
    return;
  }
  if (whole || samples > 0) {
    use_block(run, samples);
  }
  while (samples == run->options.block) {
    samples = read_block(run);
    if (samples > 0 && whole) {
      gcp_die(GCP_DATA, "an output over all samples together is computed in one call of at most "
                        "%" PRId64 " samples, got more",
              run->options.block);
    }
    if (samples > 0) {
      use_block(run, samples);
    }
  }
}

static int compare_seconds(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void print_duration(const char *what, double seconds, int64_t samples) {
  fprintf(stderr, "%s %.3f ms", what, seconds * 1e3);
  if (samples > 0) {
    fprintf(stderr, " (%.3f us a sample)", seconds * 1e6 / (double)samples);
  }
}

static void report(Run *run) {
  const Options *options = &run->options;
  if (options->label_column >= 0 && run->samples == 0) {
    fputs("accuracy: no samples\n", stderr);
  } else if (options->label_column >= 0) {
    fprintf(stderr, "accuracy %.2f%%: %" PRId64 " errors in %" PRId64 " samples\n",
            100.0 * (double)(run->samples - run->errors) / (double)run->samples, run->errors,
            run->samples);
  }
  if (options->time) {
    int64_t middle = options->repeat / 2;
    double median;
    qsort(run->seconds, (size_t)options->repeat, sizeof(double), compare_seconds);
    median = options->repeat % 2 == 1 ? run->seconds[middle]
                                      : 0.5 * (run->seconds[middle - 1] + run->seconds[middle]);
    fprintf(stderr, "%" PRId64 " samples, computed in ", run->samples);
    print_duration(options->repeat > 1 ? "best" : "", run->seconds[0], run->samples);
    if (options->repeat > 1) {
      print_duration(", median", median, run->samples);
      fprintf(stderr, ", %" PRId64 " passes", options->repeat);
    }
    putc('\n', stderr);
  }
}

int main(int count, char **arguments) {
  static Run run;
  static LabelSet labels;
  gcp_parse_options(count, arguments, &run.options);
  if (!gcp_model.processor_fits()) {
    gcp_die(GCP_INTERNAL, "the program is compiled for %s, which this processor does not have",
            gcp_model.isa);
  }
  start(&run, &labels);
  run_all(&run);
  if (gcp_model.pool_destroy != NULL) {
    gcp_model.pool_destroy(run.pool);
  }
  gcp_finish_writers(run.writers, run.writer_count);
  report(&run);
  return 0;
}
