"""A cluster for the tests of another program: a run beside them, whose faults begin and end when they say so.

cluster  The run as a test sees it: addresses, faults, the verdict.
main     The process of the run: `python -m harness.guided.main`.
words    What they say to each other.

The run is one like any other, with its own load on its own topics. It is judged by what its clients saw and
by what all brokers left on disk, of topics of the test, too. It ends with its parent, however that ends: it
heals, and removes its containers.
"""
