"""Clients of a program of the user's (`--client COMMAND`), which speaks JSON lines (docs/client-protocol.md).

named     The program that the user named, and what a client has to be able to do.
protocol  The lines: commands to the program, and its answers.
session   A session over such a program.
settings  What these clients work with.
speaker   The running program: one command at a time, reports of records at any time.
trial     The trial before a run: the program learns its settings, and says what it cannot do.

The command comes from the person who starts Inquest, and never from a run folder. The program stays in the
process group of its worker, so it is paused and killed with it. A program that ends, stands still, or writes
what is not the protocol is lost: the op under way stays unknown, its worker ends, and the run's verdict names
the loss. What a run reads at its end, and topics that it makes, are librdkafka's.
"""
