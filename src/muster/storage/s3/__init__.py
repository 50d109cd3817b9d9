"""S3 stores: signed requests, listings, multipart uploads, ranged downloads."""
