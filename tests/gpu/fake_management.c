// NVIDIA's management library beside fake_driver.c: TensorFlow asks whether it can be loaded.
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
