"""Kafka's reference model as a cluster: the same brokers, eras and planted bugs in two kinds of time.

real     The system `model`: brokers of the reference model behind Kafka's own protocol, as processes or
         containers.
shared   What both kinds of modelled clusters have: settings, channels, disks, evidence.
virtual  The system `simulated`: the reference model in virtual time, in one process.
"""
