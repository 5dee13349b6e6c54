"""Readers and writers of data: the text formats of training sets, arrays for a compiled network."""
