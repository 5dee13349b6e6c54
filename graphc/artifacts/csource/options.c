/* The command line. */
#include "program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
  int count, next;
  char **items;
} Arguments;

static int64_t whole_number(const char *option, const char *text, const char **rest, int64_t least,
                            int64_t most) {
  const char *p = text;
  int64_t value = 0;
  for (; *p >= '0' && *p <= '9'; p++) {
    value = value > most ? value : value * 10 + (*p - '0');
  }
  if (p == text || value < least || value > most || (*p != 0 && (rest == NULL || *p != ':'))) {
    gcp_die(GCP_USAGE, "%s: a whole number from %" PRId64 " to %" PRId64 " required, got `%s`",
            option, least, most, text);
  }
  if (rest != NULL) {
    *rest = p;
  }
  return value;
}

/* The port whose name is `text` up to an = or the end; what follows the = goes to *rest, or NULL. */
static int find_port(const Port *ports, int count, const char *text, const char **rest) {
  int i;
  for (i = 0; i < count; i++) {
    size_t length = strlen(ports[i].name);
    if (strncasecmp(ports[i].name, text, length) == 0 &&
        (text[length] == 0 || text[length] == '=')) {
      *rest = text[length] == '=' ? text + length + 1 : NULL;
      return i;
    }
  }
  return -1;
}

static void set_input(Options *options, int index, const char *file) {
  if (options->input_files[index] != NULL) {
    gcp_die(GCP_USAGE, "input `%s` is given twice", gcp_model.inputs[index].name);
  }
  options->input_files[index] = file;
}

static void option_input(Options *options, const char *value) {
  const char *file;
  int index = find_port(gcp_model.inputs, gcp_model.input_count, value, &file);
  if (index < 0) {
    gcp_die(GCP_USAGE, "--input: the network has no input `%.*s`", (int)strcspn(value, "="), value);
  }
  if (file == NULL || *file == 0) {
    gcp_die(GCP_USAGE, "--input: NAME=FILE required, got `%s`", value);
  }
  set_input(options, index, file);
}

static void option_output(Options *options, const char *value) {
  const char *file;
  int index = find_port(gcp_model.outputs, gcp_model.output_count, value, &file);
  if (index < 0) {
    gcp_die(GCP_USAGE, "--output: the network has no output `%.*s`", (int)strcspn(value, "="),
            value);
  }
  if (options->output_files[index] != NULL) {
    gcp_die(GCP_USAGE, "output `%s` is given twice", gcp_model.outputs[index].name);
  }
  options->output_files[index] = file == NULL || *file == 0 ? "-" : file;
  options->outputs_chosen++;
}

static void option_columns(Options *options, const char *value) {
  const char *text, *rest;
  int index = find_port(gcp_model.inputs, gcp_model.input_count, value, &text);
  int64_t columns;
  if (gcp_model.input_count == 0) {
    gcp_die(GCP_USAGE, "--columns: the network has no input");
  }
  if (index < 0 || text == NULL) {
    index = 0;
    text = value;
  }
  options->first_columns[index] = whole_number("--columns", text, &rest, 0, INT32_MAX);
  columns = gcp_model.inputs[index].columns;
  if (*rest == ':' && whole_number("--columns", rest + 1, NULL, 0, INT64_MAX / 16) != columns) {
    gcp_die(GCP_USAGE, "--columns: input `%s` has %" PRId64 " columns, got `%s`",
            gcp_model.inputs[index].name, columns, text);
  }
}

static void option_format(Options *options, const char *value) {
  if (strcmp(value, "text") == 0) {
    options->format = GCP_TEXT;
  } else if (strcmp(value, "npy") == 0) {
    options->format = GCP_NPY;
  } else if (strcmp(value, "raw") == 0) {
    options->format = GCP_RAW;
  } else {
    gcp_die(GCP_USAGE, "--format: text, npy or raw required, got `%s`", value);
  }
}

static int flag(Options *options, const char *name) {
  if (strcmp(name, "--raw") == 0) {
    options->raw = 1;
  } else if (strcmp(name, "--argmax") == 0) {
    options->argmax = 1;
  } else if (strcmp(name, "--quiet") == 0 || strcmp(name, "-q") == 0) {
    options->quiet = 1;
  } else if (strcmp(name, "--time") == 0) {
    options->time = 1;
  } else {
    return 0;
  }
  return 1;
}

static void stop_after(FILE *out) {
  if (fflush(out) != 0) {
    gcp_die(GCP_DATA, "<stdout>: cannot be written");
  }
  exit(0);
}

static void answer(const char *name) {
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    gcp_print_help(stdout);
  } else if (strcmp(name, "--version") == 0) {
    printf("%s (graphc %s)\n", gcp_model.name, gcp_model.version);
  } else if (strcmp(name, "--info") == 0) {
    gcp_print_info(stdout);
  } else if (strcmp(name, "--info=json") == 0) {
    puts(gcp_model.info());
  } else {
    return;
  }
  stop_after(stdout);
}

/* The value of option `name` if the argument is it, as --name VALUE or --name=VALUE; else NULL. */
static const char *value_of(Arguments *arguments, const char *name) {
  const char *argument = arguments->items[arguments->next];
  size_t length = strlen(name);
  if (strncmp(argument, name, length) != 0 || (argument[length] != 0 && argument[length] != '=')) {
    return NULL;
  }
  if (argument[length] == '=') {
    return argument + length + 1;
  }
  if (arguments->next + 1 >= arguments->count) {
    gcp_die(GCP_USAGE, "%s needs a value; see --help", name);
  }
  arguments->next++;
  return arguments->items[arguments->next];
}

/* --features FILE, for an input `features` that has not the name of an option. */
static int input_by_name(Options *options, Arguments *arguments) {
  const char *argument = arguments->items[arguments->next], *file;
  int index;
  if (strncmp(argument, "--", 2) != 0) {
    return 0;
  }
  index = find_port(gcp_model.inputs, gcp_model.input_count, argument + 2, &file);
  if (index < 0) {
    return 0;
  }
  if (file == NULL) {
    if (arguments->next + 1 >= arguments->count) {
      gcp_die(GCP_USAGE, "%s needs a file; see --help", argument);
    }
    arguments->next++;
    file = arguments->items[arguments->next];
  }
  set_input(options, index, file);
  return 1;
}

static int option_with_value(Options *options, Arguments *arguments) {
  const char *value;
  if ((value = value_of(arguments, "--input")) != NULL) {
    option_input(options, value);
  } else if ((value = value_of(arguments, "--output")) != NULL) {
    option_output(options, value);
  } else if ((value = value_of(arguments, "-o")) != NULL ||
             (value = value_of(arguments, "--out")) != NULL) {
    options->output_file = value;
  } else if ((value = value_of(arguments, "--columns")) != NULL) {
    option_columns(options, value);
  } else if ((value = value_of(arguments, "--format")) != NULL) {
    option_format(options, value);
  } else if ((value = value_of(arguments, "--label")) != NULL) {
    options->label_column = whole_number("--label", value, NULL, 0, INT32_MAX);
  } else if ((value = value_of(arguments, "--labels")) != NULL) {
    options->labels_file = value;
  } else if ((value = value_of(arguments, "--repeat")) != NULL) {
    options->repeat = whole_number("--repeat", value, NULL, 1, 1000000);
  } else if ((value = value_of(arguments, "--threads")) != NULL) {
    options->threads = whole_number("--threads", value, NULL, 1, 1024);
  } else if ((value = value_of(arguments, "--block")) != NULL) {
    options->block = whole_number("--block", value, NULL, 1, gcp_model.bound);
  } else {
    return 0;
  }
  return 1;
}

/* The file without an option goes to the one input that has none. */
static void assign_inputs(Options *options, const char *file) {
  int i, missing = 0, last = -1, from_stdin = 0;
  for (i = 0; i < gcp_model.input_count; i++) {
    if (options->input_files[i] == NULL) {
      missing++;
      last = i;
    }
  }
  if (missing > 1) {
    gcp_die(GCP_USAGE, "the network has %d inputs: give `%s` and the others with --input NAME=FILE",
            gcp_model.input_count, gcp_model.inputs[last].name);
  }
  if (missing == 0 && file != NULL) {
    gcp_die(GCP_USAGE, "every input has its file already, got also `%s`", file);
  }
  if (missing == 1) {
    options->input_files[last] = file != NULL ? file : "-";
  }
  for (i = 0; i < gcp_model.input_count; i++) {
    from_stdin += strcmp(options->input_files[i], "-") == 0;
  }
  if (from_stdin > 1) {
    gcp_die(GCP_USAGE, "only one input can come from standard input");
  }
}

static void check_outputs(const Options *options) {
  int i, j;
  if (options->output_file != NULL && options->outputs_chosen > 0) {
    gcp_die(GCP_USAGE, "-o is for all outputs together: give --output NAME=FILE instead");
  }
  for (i = 0; i < gcp_model.output_count; i++) {
    for (j = 0; j < i; j++) {
      if (options->output_files[i] != NULL && options->output_files[j] != NULL &&
          strcmp(options->output_files[i], options->output_files[j]) == 0) {
        gcp_die(GCP_USAGE, "outputs `%s` and `%s` cannot both go to %s", gcp_model.outputs[j].name,
                gcp_model.outputs[i].name,
                strcmp(options->output_files[i], "-") == 0 ? "standard output" : "one file");
      }
    }
  }
}

static void check_labels(const Options *options) {
  const Port *input = gcp_model.inputs, *output = gcp_model.outputs;
  int i;
  if (options->labels_file != NULL && options->label_column < 0) {
    gcp_die(GCP_USAGE, "--labels needs --label COLUMN");
  }
  if (options->label_column >= 0 && (gcp_model.input_count == 0 || !input->samples ||
                                     !output->samples || options->raw)) {
    gcp_die(GCP_USAGE, "--label needs text or .npy samples, and an output for every sample");
  }
  if (options->label_column >= 0 && options->first_columns[0] < 0 &&
      options->label_column > input->columns) {
    gcp_die(GCP_USAGE, "--label: column %" PRId64 " is not there beside the %" PRId64
                       " columns of `%s`; see --columns",
            options->label_column, input->columns, input->name);
  }
  for (i = 0; i < gcp_model.input_count; i++) {
    if (options->raw && options->first_columns[i] >= 0) {
      gcp_die(GCP_USAGE, "--columns needs text or .npy samples");
    }
  }
}

void gcp_parse_options(int count, char **items, Options *options) {
  Arguments arguments;
  const char *file = NULL, *threads = getenv("GRAPHC_NUM_THREADS");
  int i, names_only = 0;
  memset(options, 0, sizeof *options);
  options->input_files = gcp_allocate(gcp_model.input_count, (int64_t)sizeof(char *));
  options->first_columns = gcp_allocate(gcp_model.input_count, (int64_t)sizeof(int64_t));
  options->output_files = gcp_allocate(gcp_model.output_count, (int64_t)sizeof(char *));
  for (i = 0; i < gcp_model.input_count; i++) {
    options->first_columns[i] = -1;
  }
  options->label_column = -1;
  options->repeat = 1;
  options->block = gcp_model.bound;
  arguments.count = count;
  arguments.items = items;
  for (arguments.next = 1; arguments.next < count; arguments.next++) {
    const char *argument = items[arguments.next];
    if (!names_only && strcmp(argument, "--") == 0) {
      names_only = 1;
    } else if (names_only || argument[0] != '-' || argument[1] == 0) {
      if (file != NULL) {
        gcp_die(GCP_USAGE, "one FILE required, got `%s` and `%s`", file, argument);
      }
      file = argument;
    } else {
      answer(argument);
      if (!flag(options, argument) && !option_with_value(options, &arguments) &&
          !input_by_name(options, &arguments)) {
        gcp_die(GCP_USAGE, "no such option: `%s`; see --help", argument);
      }
    }
  }
  /* Only where it counts: a wrong value is nothing to --help or --threads. */
  if (options->threads == 0 && threads != NULL && *threads != 0) {
    options->threads = whole_number("GRAPHC_NUM_THREADS", threads, NULL, 1, 1024);
  }
  assign_inputs(options, file);
  check_outputs(options);
  check_labels(options);
}
