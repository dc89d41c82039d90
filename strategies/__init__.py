"""When it is released: batching strategies as pure state machines, without clock, lock or I/O."""
