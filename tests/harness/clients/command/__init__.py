"""Clients of a program of the user."""
