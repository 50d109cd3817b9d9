"""The server through which ranks use `moxing.file`, and its protocol."""
