/* Trains a linear classifier from a mount, with nothing but the C library:
 *
 *     batchfs mount --daemon --shuffle --batch-size 32 --resize stretch --size 32x32 photos/train train
 *     batchfs mount --daemon --batch-size 32 --resize stretch --size 32x32 --classes train/classes.txt photos/val val
 *     cc -O2 -o softmax softmax.c -lm && ./softmax train val 5
 *
 * A batch is a file: it is mapped, read and unmapped. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MOST_CLASSES = 1000 };

typedef struct {
    int slots, values;    /* of images, and of numbers in each */
    const uint8_t *pixels; /* slots x values */
    int64_t labels[1024];
    uint8_t valid[1024];
} batch;

static void fail(const char *what)
{
    fprintf(stderr, "softmax: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* read_npy reads an array of the batch: the data of a .npy file follows a header whose length is in bytes 8 and 9. */
static void read_npy(const char *path, void *to, size_t bytes)
{
    uint8_t head[10];
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 1, 10, f) != 10 || fseek(f, 10 + head[8] + 256 * head[9], SEEK_SET) || fread(to, 1, bytes, f) != bytes)
        fail(path);
    fclose(f);
}

/* open_batch maps a batch; 0 if there is no such batch. */
static int open_batch(batch *b, const char *mount, int epoch, int i)
{
    char path[4096], shape[64] = {0};
    int n, h, w, c;
    snprintf(path, sizeof path, "%s/shard-0/epoch-%d/batch-%05d.nhwc", mount, epoch, i);
    const int fd = open(path, O_RDONLY);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || getxattr(path, "user.batchfs.shape", shape, sizeof shape - 1) < 0 || sscanf(shape, "%d,%d,%d,%d", &n, &h, &w, &c) != 4 || n > 1024)
        fail(path);
    b->slots = n;
    b->values = h * w * c;
    b->pixels = mmap(NULL, (size_t)n * b->values, PROT_READ, MAP_SHARED, fd, 0);
    close(fd); /* the mapping keeps the batch */
    if (b->pixels == MAP_FAILED)
        fail(path);
    snprintf(path, sizeof path, "%s/shard-0/epoch-%d/batch-%05d.labels.npy", mount, epoch, i);
    read_npy(path, b->labels, 8 * n);
    snprintf(path, sizeof path, "%s/shard-0/epoch-%d/batch-%05d.valid.npy", mount, epoch, i);
    read_npy(path, b->valid, n);
    return 1;
}

/* score computes the probabilities of the classes, and returns the likeliest. weights has values + 1 numbers a class. */
static int score(const float *weights, int classes, const uint8_t *x, int values, float *p)
{
    int best = 0;
    float sum = 0;
    for (int k = 0; k < classes; k++) {
        const float *w = weights + (size_t)k * (values + 1);
        p[k] = w[values];
        for (int j = 0; j < values; j++)
            p[k] += w[j] * (x[j] / 255.0f);
        if (p[k] > p[best])
            best = k;
    }
    const float most = p[best];
    for (int k = 0; k < classes; k++)
        sum += p[k] = expf(p[k] - most);
    for (int k = 0; k < classes; k++)
        p[k] /= sum;
    return best;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: softmax TRAIN VAL EPOCHS\n");
        return 2;
    }
    float p[MOST_CLASSES], *weights = NULL;
    char path[4096];
    int classes = 0, right = 0, total = 0;
    batch b;

    snprintf(path, sizeof path, "%s/classes.txt", argv[1]);
    FILE *f = fopen(path, "r");
    if (!f)
        fail(path);
    for (int c; (c = getc(f)) != EOF;)
        classes += c == '\n';
    fclose(f);
    if (classes < 1 || classes > MOST_CLASSES) {
        fprintf(stderr, "softmax: %d classes\n", classes);
        return 1;
    }

    for (int epoch = 0; epoch < atoi(argv[3]); epoch++) {
        for (int i = 0; open_batch(&b, argv[1], epoch, i); i++) {
            if (!weights && !(weights = calloc((size_t)classes * (b.values + 1), sizeof *weights)))
                fail("memory");
            for (int s = 0; s < b.slots; s++) {
                if (!b.valid[s])
                    continue;
                const uint8_t *x = b.pixels + (size_t)s * b.values;
                score(weights, classes, x, b.values, p);
                for (int k = 0; k < classes; k++) {
                    const float step = 0.003f * ((k == b.labels[s]) - p[k]);
                    float *w = weights + (size_t)k * (b.values + 1);
                    for (int j = 0; j < b.values; j++)
                        w[j] += step * (x[j] / 255.0f);
                    w[b.values] += step;
                }
            }
            munmap((void *)b.pixels, (size_t)b.slots * b.values);
        }
    }
    for (int i = 0; open_batch(&b, argv[2], 0, i); i++) {
        for (int s = 0; s < b.slots; s++) {
            total += b.valid[s];
            right += b.valid[s] && score(weights, classes, b.pixels + (size_t)s * b.values, b.values, p) == b.labels[s];
        }
        munmap((void *)b.pixels, (size_t)b.slots * b.values);
    }
    printf("accuracy %.4f\n", (double)right / total);
    return 0;
}
