/* What the program says about itself: --help and --info. */
#include "program.h"

#include <inttypes.h>

static const char *type_name(ElementType type) { return type == GCP_F32 ? "f32" : "f64"; }

/* Names come from outside: a control character, in ASCII or (C2 80 to C2 9F) beyond it, must not
 * reach a terminal. */
static int is_control(unsigned char before, unsigned char c, unsigned char after) {
  return c < 32 || c == 127 || (c == 0xC2 && after >= 0x80 && after < 0xA0) ||
         (before == 0xC2 && c >= 0x80 && c < 0xA0);
}

/* Writes the name with control characters as \xHH, unless `out` is NULL; its length so written. */
static size_t put_name(FILE *out, const char *name) {
  const unsigned char *c = (const unsigned char *)name;
  unsigned char before = 0;
  size_t length = 0;
  for (; *c != 0; before = *c, c++) {
    int escaped = is_control(before, c[0], c[1]);
    if (out != NULL && escaped) {
      fprintf(out, "\\x%02X", (unsigned)*c);
    } else if (out != NULL) {
      putc(*c, out);
    }
    length += escaped ? 4 : 1;
  }
  return length;
}

static int longest_name(void) {
  size_t longest = 0;
  int i;
  for (i = 0; i < gcp_model.input_count + gcp_model.output_count; i++) {
    const Port *port = i < gcp_model.input_count ? &gcp_model.inputs[i]
                                                 : &gcp_model.outputs[i - gcp_model.input_count];
    size_t length = put_name(NULL, port->name);
    longest = length > longest ? length : longest;
  }
  return longest > 60 ? 60 : (int)longest;
}

static void print_port(FILE *out, const char *role, const Port *port, int width) {
  size_t length;
  fprintf(out, "  %-7s ", role);
  length = put_name(out, port->name);
  fprintf(out, "%*s  %s  ", length < (size_t)width ? width - (int)length : 0, "",
          type_name(port->type));
  if (port->samples) {
    fprintf(out, "%" PRId64 " numbers a sample\n", port->columns);
  } else {
    fprintf(out, "one matrix of %" PRId64 " x %" PRId64 " for all samples\n", port->rows,
            port->columns);
  }
}

static void print_ports(FILE *out) {
  int width = longest_name(), i;
  for (i = 0; i < gcp_model.input_count; i++) {
    print_port(out, "input", &gcp_model.inputs[i], width);
  }
  for (i = 0; i < gcp_model.output_count; i++) {
    print_port(out, "output", &gcp_model.outputs[i], width);
  }
}

void gcp_print_info(FILE *out) {
  fprintf(out, "%s\n", gcp_model.name);
  print_ports(out);
  fprintf(out, "  block   %" PRId64 " samples at most\n", gcp_model.bound);
  fprintf(out, "  arena   %" PRId64 " bytes\n", gcp_model.arena_bytes());
  fprintf(out, "  isa     %s\n", gcp_model.isa);
  fprintf(out, "  graphc  %s\n", gcp_model.version);
  fprintf(out, "  hash    %s\n", gcp_model.hash);
}

static void print_input_help(FILE *out) {
  fputs("Input\n"
        "  FILE                     samples; - or no FILE: standard input. It is text (numbers\n"
        "                           separated by blanks or tabs, one sample a line) or .npy\n"
        "                           ('<f4' or '<f8', one row a sample), told by its content.\n"
        "                           With several inputs, FILE is for the one not named below.\n"
        "  --input NAME=FILE        the samples of one input; --NAME FILE does the same\n"
        "  --raw                    files hold bare numbers of the input's type, no header\n"
        "  --columns [NAME=]START[:DIM]\n"
        "                           the input is in columns START to START+DIM-1 of a file with\n"
        "                           more columns; columns count from 0\n",
        out);
}

static void print_output_help(FILE *out) {
  fputs("\nOutput\n"
        "  -o, --out FILE           where the outputs go, in place of standard output\n"
        "  --output NAME[=FILE]     this output only, to FILE or standard output; may be repeated.\n"
        "                           Without it all outputs that have samples are written side by\n"
        "                           side, their columns in the order of --info\n"
        "  --format text|npy|raw    default: npy for a FILE that ends in .npy, else text. Joined\n"
        "                           outputs of different types are written as f64\n"
        "  --argmax                 the column of the largest number of each output in place of\n"
        "                           the numbers (the class, for a classifier)\n"
        "  -q, --quiet              no outputs\n",
        out);
}

static void print_check_help(FILE *out) {
  fputs("\nChecks and times (on standard error)\n"
        "  --label COLUMN           this column of the first input's file holds the right class;\n"
        "                           prints how often the largest number of the first output is\n"
        "                           there. Without --columns the other columns are the input\n"
        "  --labels FILE            the classes' names, one a line, as they are in that column;\n"
        "                           without it the column holds numbers from 0\n"
        "  --time                   time of the computation alone, without reading and writing\n"
        "  --repeat R               compute every block R times, for --time: best and median of R\n"
        "  --block N                samples in one call, at most the network's block (default)\n"
        "  --threads N              threads that compute, if the network is large enough to share;\n"
        "                           outputs do not depend on it. Default: GRAPHC_NUM_THREADS, or\n"
        "                           one for each processor that the process may use\n"
        "\nOther\n"
        "  --info[=json]            inputs, outputs, types, instruction set\n"
        "  --version                the version of graphc that made this program\n"
        "  --help                   this text\n"
        "\nExit codes: 0 done, 2 wrong use, 3 wrong data or a file that cannot be read or written,\n"
        "4 the computation itself failed. A file given with -o or --output appears only if\n"
        "everything went well.\n",
        out);
}

void gcp_print_help(FILE *out) {
  fprintf(out,
          "usage: %s [OPTIONS] [FILE]\n\n"
          "Computes the network %s for every sample, in blocks of up to %" PRId64 ".\n\n",
          gcp_model.name, gcp_model.name, gcp_model.bound);
  print_ports(out);
  putc('\n', out);
  print_input_help(out);
  print_output_help(out);
  print_check_help(out);
}
