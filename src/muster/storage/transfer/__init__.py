"""Copies of files and trees between stores."""
