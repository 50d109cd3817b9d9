"""Signatures of requests with an access key: SDK-HMAC-SHA256."""

import hashlib
import hmac
import time
from typing import Dict
from urllib.parse import quote, unquote, urlsplit

ALGORITHM = "SDK-HMAC-SHA256"


def signed(
    method: str, url: str, query: Dict[str, str], headers: Dict[str, str], body: bytes, access_key: str, secret_key: str
) -> Dict[str, str]:
    """Returns the headers of a request with its date and its signature."""
    parts = urlsplit(url)
    headers = dict(headers, Host=parts.netloc)
    headers["X-Sdk-Date"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    names = sorted(name.lower() for name in headers)
    by_name = {name.lower(): value.strip() for name, value in headers.items()}
    path = "/".join(quote(unquote(part), safe="~") for part in parts.path.split("/"))
    request = [
        method,
        path if path.endswith("/") else path + "/",
        "&".join(f"{quote(name, safe='~')}={quote(query[name], safe='~')}" for name in sorted(query)),
        "".join(f"{name}:{by_name[name]}\n" for name in names),
        ";".join(names),
        hashlib.sha256(body).hexdigest(),
    ]
    digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
    text = "\n".join((ALGORITHM, headers["X-Sdk-Date"], digest))
    signature = hmac.new(secret_key.encode(), text.encode(), hashlib.sha256).hexdigest()
    headers["Authorization"] = f"{ALGORITHM} Access={access_key}, SignedHeaders={';'.join(names)}, Signature={signature}"
    return headers
