"""The protocol of the store: requests of S3 and OBS, their signatures, bodies and answers."""
