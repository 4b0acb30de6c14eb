"""Docker: clusters in containers, engine, images, nodes, network faults, cleaning up.

Containers, their network and their files go through testcontainers; `nodes` is the thin layer around
it.

cluster    Brokers in containers of one Docker engine: what runs in them is a `Deployment`,
           all else is the same.
claims     Whose runs are in the engine: which ones a process still makes, and which
           ones were left.
data       The data directory of a node, copied out of its container without the
           broker's help.
code_image  The image of programs of this code: nodes of the model, and what runs beside a
           node.
deployment  What runs in the containers of a cluster, as one value: image, files,
           environment, controller, disks.
disks      Disks of bounded size for the logs of nodes: volumes of the engine, in memory
           (tmpfs).
ends       How a container ended, as the engine and its own log tell it.
engine     The Docker engine: find it, start one where that is possible, remove what a
           run left in it.
firewall   Cut links between nodes: cuts become firewall rules inside a node's network
           namespace.
images     Images of nodes: always built here, each on a base.
nodes      The containers of one run: created, started, ended, frozen; each with a
           static address.
reaper     A small process that removes what a harness left that was killed.
sidecar    A program of this code in a container of its own, in the network of a node or
           of the engine's machine.
"""
