/* Fine-tuning from C: epochs of minibatches of the library that `graphc compile --train` made.
 *
 *     train DATA EPOCHS STATE
 *
 * DATA is text, 64 pixels and a digit a line. Prints loss and error of each epoch, and writes what
 * was learnt to STATE: the bytes of the state, whose places tune.h names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tune.h"

enum { PIXELS = 64, CLASSES = 10, MOST = 2000, MINIBATCH = TUNE_BATCH_BOUND };

static float pixels[MOST][PIXELS], labels[MOST][CLASSES];

static int read_samples(const char *path)
{
    FILE *file = fopen(path, "r");
    int count = 0, digit;
    if (!file)
        return -1;
    for (; count < MOST; count++) {
        for (int i = 0; i < PIXELS; i++)
            if (fscanf(file, "%f", &pixels[count][i]) != 1)
                goto end;
        if (fscanf(file, "%d", &digit) != 1 || digit < 0 || digit >= CLASSES)
            goto end;
        labels[count][digit] = 1;
    }
end:
    fclose(file);
    return count;
}

int main(int argc, char **argv)
{
    int samples = argc == 4 ? read_samples(argv[1]) : -1;
    void *state = aligned_alloc(64, TUNE_STATE_BYTES);
    void *arena = aligned_alloc(64, (TUNE_ARENA_BYTES / 64 + 1) * 64);
    if (samples <= 0 || !state || !arena) {
        fprintf(stderr, "usage: train DATA EPOCHS STATE\n");
        return 2;
    }
    memcpy(state, tune_start(), TUNE_STATE_BYTES);
    int64_t steps = 0; /* who goes on later needs it, and the state */
    for (int epoch = 1; epoch <= atoi(argv[2]); epoch++) {
        double total = 0, wrong = 0;
        /* Minibatches are whole ones: the numbers of the header are for those. */
        for (int first = 0; first + MINIBATCH <= samples; first += MINIBATCH) {
            float loss, error;
            int32_t code = tune_run(MINIBATCH, labels[first], pixels[first],
                tune_num_learning_rate(steps), TUNE_NUM_BETA1, TUNE_NUM_BETA2, TUNE_NUM_EPSILON,
                TUNE_NUM_SHARE, tune_num_correction1(steps), tune_num_correction2(steps), &loss,
                &error, state, arena);
            if (code) {
                fprintf(stderr, "%s\n", tune_status(code));
                return 1;
            }
            steps++;
            total += loss;
            wrong += error;
        }
        samples -= samples % MINIBATCH;
        printf("epoch %d: loss %.6f, %.1f %% wrong\n", epoch, total / samples, 100 * wrong / samples);
    }
    FILE *file = fopen(argv[3], "wb");
    if (!file || fwrite(state, 1, TUNE_STATE_BYTES, file) != TUNE_STATE_BYTES || fclose(file))
        return 1;
    return 0;
}
