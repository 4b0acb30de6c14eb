"""Docker: engine, images, nodes, network faults, cleaning up.

Containers, their network and their files go through testcontainers, toxics through
toxiproxy-python; `nodes` and `toxiproxy` are the two thin layers around them.

cache      The cache folder of this user: resolved jars, locks.
claims     Whose runs are in the engine: which ones a process still makes, and which
           ones were left.
data       The data directory of a node, copied out of its container without the
           broker's help.
commands   A program of this machine that runs for a bounded time, and ends well or is one
           clear error.
code_image  The image of programs of this code: nodes of the model, and what runs beside a
           node.
engine     The Docker engine: find it, start one where that is possible, remove what a
           run left in it.
firewall   Cut links between nodes: cuts become firewall rules inside a node's network
           namespace.
images     Images of nodes: one per Kafka version, always built here, on one base.
jars       Kafka's jars of one version, from Maven Central by the Ivy that PySpark ships.
nodes      The containers of one run: created, started, ended, frozen; each with a
           static address.
reaper     A small process that removes what a harness left that was killed.
sidecar    A program of this code in a container of its own, in the network of a node or
           of the engine's machine.
toxiproxy  Toxiproxy in front of the brokers' client listeners, so that the links of
           clients can be made bad.
"""
