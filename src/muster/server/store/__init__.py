"""The server's store: buckets and objects over S3 and OBS, kept as directories and files.

It knows nothing of accounts but the interface in `accounts.py`.
"""
