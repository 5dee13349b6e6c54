/* Numbers in text. */
#include "reader.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static int parse_word(const char *text, double *value) {
  int negative = *text == '-';
  if (*text == '+' || *text == '-') {
    text++;
  }
  if (strcasecmp(text, "inf") == 0 || strcasecmp(text, "infinity") == 0) {
    *value = negative ? -INFINITY : INFINITY;
    return 1;
  }
  if (strcasecmp(text, "nan") == 0) {
    *value = NAN;
    return 1;
  }
  return 0;
}

/* Checks the form [sign] digits [. digits] [e [sign] digits] and computes the value directly where
 * that is exact: a whole number below 2^53 and one multiplication or division by a power of ten
 * that is itself exact (W. D. Clinger, 1990). strtod does the rest; nothing calls setlocale, so it
 * reads a point in every environment. */
int gcp_parse_number(const char *text, double *value) {
  const char *p = text;
  uint64_t mantissa = 0;
  int digits = 0, significant = 0, scale = 0, exponent = 0, negative_exponent = 0;
  int negative = *p == '-', fraction = 0;
  if (*p == '+' || *p == '-') {
    p++;
  }
  for (; is_digit(*p) || (*p == '.' && !fraction); p++) {
    if (*p == '.') {
      fraction = 1;
      continue;
    }
    digits++;
    scale -= fraction;
    significant += significant > 0 || *p != '0';
    if (significant <= 18) {
      mantissa = mantissa * 10 + (uint64_t)(*p - '0');
    }
  }
  if (digits == 0) {
    return parse_word(text, value);
  }
  if (*p == 'e' || *p == 'E') {
    p++;
    negative_exponent = *p == '-';
    if (*p == '+' || *p == '-') {
      p++;
    }
    if (!is_digit(*p)) {
      return 0;
    }
    for (; is_digit(*p); p++) {
      exponent = exponent < 100000 ? exponent * 10 + (*p - '0') : exponent;
    }
  }
  if (*p != 0) {
    return 0;
  }
  scale += negative_exponent ? -exponent : exponent;
  if (significant <= 18 && mantissa < ((uint64_t)1 << 53) && scale >= -22 && scale <= 22) {
    double magnitude = (double)mantissa;
    magnitude = scale < 0 ? magnitude / POWERS[-scale] : magnitude * POWERS[scale];
    *value = negative ? -magnitude : magnitude;
    return 1;
  }
  *value = strtod(text, NULL);
  return 1;
}
