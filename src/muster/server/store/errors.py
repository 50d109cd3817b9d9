"""Errors of the store, each with the code that S3 clients know and its HTTP status."""

from __future__ import annotations

import errno

STATUS = {
    "AccessControlListNotSupported": 400,
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "BucketAlreadyExists": 409,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "EntityTooLarge": 400,
    "ExpiredToken": 400,
    "IncompleteBody": 400,
    "InsufficientStorage": 507,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidBucketName": 400,
    "InvalidChunkSizeError": 403,
    "InvalidDigest": 400,
    "InvalidObjectName": 400,
    "InvalidPart": 400,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "InvalidToken": 400,
    "InvalidURI": 400,
    "KeyConflict": 409,
    "KeyTooLongError": 400,
    "MalformedXML": 400,
    "MetadataTooLarge": 400,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchUpload": 404,
    "NoSuchVersion": 404,
    "NotImplemented": 501,
    "ObjectNotAppendable": 409,
    "PositionNotEqualToLength": 409,
    "PreconditionFailed": 412,
    "QuotaExceeded": 403,
    "RequestHeaderSectionTooLarge": 431,
    "RequestTimeTooSkewed": 403,
    "RequestTimeout": 408,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
    "TooManyBuckets": 400,
    "XAmzContentSHA256Mismatch": 400,
}
FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class StoreError(Exception):
    """A request that cannot be carried out."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]


def from_os(error: OSError) -> StoreError:
    """The StoreError for an error of the file system; what it says of paths stays here."""
    if error.errno in FULL:
        return StoreError("InsufficientStorage", "the disk of the store is full; delete objects, or ask its operator for space")
    if error.errno == errno.ENAMETOOLONG:
        return StoreError("KeyTooLongError", "the key is too long for the file system of the store; shorten it")
    return StoreError("InternalError", "the file system of the store failed; try again, or ask its operator")
