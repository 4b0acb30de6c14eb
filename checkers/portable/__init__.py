"""Portable histories: small histories of others, or written by hand, as JSON.

format  The portable history format, read by people and by other checkers.
tables  Portable histories as the tables of a sealed history.
"""
