/*
 * Opens the driver's library, which stays open, and makes NVML's functions jump there; returns
 * 0 if there is none. Must not be called from two threads at once.
 */
int batchfs_nvml_open(const char *path);
