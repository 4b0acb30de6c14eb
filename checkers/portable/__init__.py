"""Portable histories: small histories of others, or written by hand, as JSON.

cases   Files of portable histories: the cases that they hold, each whole or with the
        reason why it is not.
export  A sealed history as events of the portable format, for other checkers: as JSON, or
        as Jepsen's EDN.
format  The portable history format, read by people and by other checkers.
pairing  The events of a history, in real-time order, paired to ops: each invocation with its
        completion.
repeated  JSON objects that say a key twice: a decoder takes one of the two values and drops
        the other in silence, so such text has no one meaning.
tables  Portable histories as the tables of a sealed history.
"""
