//! The credential scope of a signed request. Signatures are not checked.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::WireRequest;

/// Region and service that a request is signed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CredentialScope {
    pub(super) region: String,
    pub(super) service: String,
}

impl CredentialScope {
    /// Returns the scope of a request: that of the header `Authorization`, or that of a presigned
    /// URL. Returns `None` if the request has no credentials or they have another form.
    pub(super) fn of(request: &WireRequest) -> Option<Self> {
        let presigned = request.parameters.as_ref().ok().and_then(|own| own.text("X-Amz-Credential"));
        Self::parse(of_header(&request.headers).or(presigned)?)
    }

    /// Reads `access key/date/region/service/aws4_request`.
    fn parse(credential: &str) -> Option<Self> {
        let mut parts = credential.rsplit('/');
        let (terminator, service, region) = (parts.next()?, parts.next()?, parts.next()?);
        let (_date, access_key) = (parts.next()?, parts.next()?);
        let is_complete = terminator == "aws4_request" && !access_key.is_empty();
        is_complete.then(|| Self { region: region.to_owned(), service: service.to_owned() })
    }
}

fn of_header(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (_, rest) = value.split_once("Credential=")?;
    rest.split([',', ' ']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_is_read_from_the_credential() {
        let scope = CredentialScope::parse("test/20260101/us-west-2/ec2/aws4_request").unwrap();
        assert_eq!((scope.region.as_str(), scope.service.as_str()), ("us-west-2", "ec2"));
        for wrong in ["", "test", "us-west-2/ec2/aws4_request", "/20260101/us-west-2/ec2/aws4_request", "a/b/c/d/e"] {
            assert_eq!(CredentialScope::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_header_may_have_other_parts_around_the_credential() {
        let mut headers = HeaderMap::new();
        assert_eq!(of_header(&headers), None);
        let value = "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, SignedHeaders=host, Signature=0";
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        assert_eq!(of_header(&headers), Some("a/b/c/d/e"));
        headers.insert(AUTHORIZATION, "Bearer x".parse().unwrap());
        assert_eq!(of_header(&headers), None);
    }
}
