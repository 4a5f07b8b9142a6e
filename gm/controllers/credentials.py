"""S3 credentials of a Secret: as a pod's environment, and as the annotation that an edge gets."""

from __future__ import annotations

import base64
import binascii

import msgspec

from gm.api.core import Secret
from gm.api.meta import Json
from gm.errors import InvalidSpec

__all__ = ["CREDENTIAL_ANNOTATION", "S3Credentials", "credential_annotation", "s3_credentials"]

CREDENTIAL_ANNOTATION = "sedna.io/credential"

_ACCESS, _SECRET = "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"
_ENDPOINT, _USE_HTTPS = "s3-endpoint", "s3-usehttps"
# kubectl keeps the whole Secret in here, in clear text if it was written with stringData
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class S3Credentials(msgspec.Struct, frozen=True):
    """What a pod needs to read an S3 store; the keys are set only if they go in as plain text."""

    secret_name: str
    endpoint_url: str
    access_key: str | None = None
    secret_key: str | None = None

    def __repr__(self) -> str:
        return f"S3Credentials({self.secret_name!r})"  # keys must not reach a log by way of repr

    def env(self) -> list[Json]:
        """The environment variables of a container."""
        return [
            {"name": "S3_ENDPOINT_URL", "value": self.endpoint_url},
            self._variable(_ACCESS, self.access_key),
            self._variable(_SECRET, self.secret_key),
        ]

    def _variable(self, name: str, value: str | None) -> Json:
        if value is not None:
            return {"name": name, "value": value}
        reference = {"name": self.secret_name, "key": name}
        return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def s3_credentials(secret: Secret, *, inline: bool = False) -> S3Credentials:
    """The credentials that ``secret`` holds.

    With ``inline`` the keys are read too, else the pod gets them by ``secretKeyRef``.

    Raises: InvalidSpec (reason CredentialInvalid) that says what the Secret lacks; it never
    repeats what the Secret holds.
    """
    name = secret.metadata.name
    annotations = secret.metadata.annotations or {}
    endpoint = annotations.get(_ENDPOINT, "").strip()
    if not endpoint:
        raise _invalid(f"Secret {name} has no annotation {_ENDPOINT} (host:port of the S3 store)")
    missing = [key for key in (_ACCESS, _SECRET) if not (secret.data or {}).get(key)]
    if missing:
        raise _invalid(f"Secret {name} has no {' and no '.join(missing)} in its data")
    if "://" not in endpoint:
        scheme = "http" if annotations.get(_USE_HTTPS, "1").strip() == "0" else "https"
        endpoint = f"{scheme}://{endpoint}"
    if not inline:
        return S3Credentials(name, endpoint)
    data = _decoded(secret)
    return S3Credentials(name, endpoint, data[_ACCESS], data[_SECRET])


def credential_annotation(secret: Secret) -> str:
    """What annotation ``sedna.io/credential`` of the edge's copy holds: a JSON object.

    Raises: InvalidSpec (reason CredentialInvalid) for data that is no text.
    """
    annotations = {
        key: value
        for key, value in (secret.metadata.annotations or {}).items()
        if key != _LAST_APPLIED
    }
    merged = annotations | _decoded(secret)
    return msgspec.json.encode(merged, order="sorted").decode()


def _decoded(secret: Secret) -> dict[str, str]:
    try:
        return {
            key: base64.b64decode(value, validate=True).decode()
            for key, value in (secret.data or {}).items()
        }
    except (binascii.Error, UnicodeDecodeError):
        # `from None`: the error would carry the value
        raise _invalid(f"Secret {secret.metadata.name} holds data that is no UTF-8 text") from None


def _invalid(message: str) -> InvalidSpec:
    return InvalidSpec(message, reason="CredentialInvalid")
