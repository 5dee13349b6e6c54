"""Native objects turned into what people use: C headers, shared libraries, executables."""
