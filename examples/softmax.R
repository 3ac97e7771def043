# Trains a linear classifier from a mount, with nothing but R:
#
#     batchfs mount --daemon --shuffle --batch-size 32 --resize stretch --size 32x32 photos/train train
#     batchfs mount --daemon --batch-size 32 --resize stretch --size 32x32 --classes train/classes.txt photos/val val
#     Rscript softmax.R train val 5

# npy reads the data of a .npy file, which follows a header whose length is in bytes 9 and 10.
npy <- function(path, n, what, size) {
  f <- file(path, "rb")
  on.exit(close(f))
  head <- as.integer(readBin(f, "raw", 10))
  readBin(f, "raw", head[9] + 256 * head[10])
  readBin(f, what, n, size = size, signed = size > 2, endian = "little")
}

# batch is the i-th batch of an epoch: x has a row for each slot that does not repeat a sample.
batch <- function(mount, epoch, i) {
  path <- sprintf("%s/shard-0/epoch-%d/batch-%05d", mount, epoch, i)
  pixels <- readBin(paste0(path, ".nhwc"), "integer", file.size(paste0(path, ".nhwc")), size = 1, signed = FALSE)
  n <- (file.size(paste0(path, ".valid.npy")) - 128)
  valid <- npy(paste0(path, ".valid.npy"), n, "integer", 1) == 1
  x <- matrix(pixels / 255, nrow = n, byrow = TRUE)
  low <- npy(paste0(path, ".labels.npy"), 2 * n, "integer", 4)[c(TRUE, FALSE)] # R has no 64-bit integers
  list(x = cbind(x, 1)[valid, , drop = FALSE], y = low[valid])
}

batches <- function(mount, epoch) {
  text <- readLines(sprintf("%s/shard-0/epoch-%d/epoch.json", mount, epoch), warn = FALSE)
  as.integer(sub('.*"batches": *([0-9]+).*', "\\1", paste(text, collapse = "")))
}

softmax <- function(z) {
  z <- exp(z - apply(z, 1, max))
  z / rowSums(z)
}

args <- commandArgs(trailingOnly = TRUE)
if (length(args) != 3) stop("usage: Rscript softmax.R TRAIN VAL EPOCHS")
classes <- length(readLines(file.path(args[1], "classes.txt")))
weights <- NULL
for (epoch in seq_len(as.integer(args[3])) - 1) {
  for (i in seq_len(batches(args[1], epoch)) - 1) {
    b <- batch(args[1], epoch, i)
    if (is.null(weights)) weights <- matrix(0, ncol(b$x), classes)
    wanted <- diag(classes)[b$y + 1, , drop = FALSE]
    weights <- weights + 0.003 * t(b$x) %*% (wanted - softmax(b$x %*% weights))
  }
}
right <- total <- 0
for (i in seq_len(batches(args[2], 0)) - 1) {
  b <- batch(args[2], 0, i)
  right <- right + sum(max.col(b$x %*% weights) == b$y + 1)
  total <- total + length(b$y)
}
cat(sprintf("accuracy %.4f\n", right / total))
