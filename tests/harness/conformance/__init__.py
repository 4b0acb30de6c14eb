"""Clients of programs: the suite for their authors, and runs with broken ones."""
