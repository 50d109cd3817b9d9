"""The sampler: a process beside the ranks of a node that writes down what the machine, its devices and they themselves use."""
