//! Tokens of service accounts (`kubectl create token`). The API accepts a token until it expires or
//! its service account is deleted. It permits the same as the token in the kubeconfig, because RBAC
//! is not enforced.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::call::{Call, parse_stored};
use crate::api::field;
use crate::api::json::Parsed;
use crate::api::object;
use crate::api::respond::Reply;
use crate::api::schema::{self, definitions};
use crate::api::server::ServerState;
use crate::api::status::{ApiResult, GroupResource, StatusError};
use crate::api::storage::ObjectKey;
use crate::api::write::check_field_strictness;

/// Issuer of the tokens, and the audience of tokens for the API itself.
const API_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";
const DEFAULT_EXPIRATION_SECONDS: i64 = 3600;
const MIN_EXPIRATION_SECONDS: i64 = 600;
const MAX_EXPIRATION_SECONDS: i64 = 1 << 32;
/// The number of tokens that the API accepts at one time. The oldest is forgotten first.
const MAX_ISSUED_TOKENS: usize = 1000;

/// The tokens that the API accepts, in the order in which they were issued.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssuedTokens(VecDeque<IssuedToken>);

#[derive(Clone, Debug)]
struct IssuedToken {
    token: String,
    expires_at: Timestamp,
    service_account: ObjectKey,
    /// The uid of the service account. Another account of this name does not have the token.
    uid: String,
}

impl ServerState {
    /// Returns true if `token` belongs to a service account and has not expired.
    pub(crate) fn accepts_token(&self, token: &[u8]) -> bool {
        let now = self.clock.now();
        let issued = self.issued_tokens();
        let of_client = issued.0.iter().filter(|issued| is_same_secret(issued.token.as_bytes(), token));
        let mut valid = of_client.filter(|issued| issued.expires_at > now);
        let registry = self.registry();
        let Some(accounts) = registry.find("", "serviceaccounts") else { return false };
        valid.any(|issued| {
            let account = self.storage.get(accounts.table, &issued.service_account);
            let account = account.and_then(|stored| parse_stored(&stored).ok());
            account.is_some_and(|account| object::uid(&account) == issued.uid)
        })
    }
}

/// Returns true if both secrets are equal. All bytes are compared, so that the time reveals
/// nothing.
pub(crate) fn is_same_secret(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

/// Handles `POST` of the token of a service account.
pub(super) fn create_token(call: &Call<'_>) -> ApiResult<Reply> {
    let Parsed { value: mut request, duplicates } = call.read_body()?;
    let warnings = decode_request(call, &mut request, &duplicates)?;
    for (key, expected) in [("name", call.name()), ("namespace", call.namespace().unwrap_or_default())] {
        let requested = object::text(&request, &["metadata", key]);
        if !requested.is_empty() && requested != expected {
            let detail = format!("must match the service account {key} if specified");
            return Err(invalid(call.name(), field::invalid(format!("metadata.{key}"), requested, detail)));
        }
    }
    let stored = call.server.storage.get(call.resource.table, &call.key()).ok_or_else(|| call.not_found())?;
    let uid = object::uid(&parse_stored(&stored)?).to_owned();
    let requested_uid = object::uid(&request);
    if !requested_uid.is_empty() && requested_uid != uid {
        let reason = format!(
            "the UID in the token request ({requested_uid}) does not match the UID of the service account ({uid})"
        );
        return Err(StatusError::conflict(request_resource(), call.name(), &reason));
    }
    let seconds = expiration_seconds(&request)?;
    check_bound_object(call, &request)?;
    let now = call.now();
    let expires_at = now
        .checked_add(SignedDuration::from_secs(seconds))
        .map_err(|_| StatusError::internal("the token would expire after the year 9999"))?;
    let mut audiences = object::list(&request, &["spec", "audiences"]).to_vec();
    if audiences.is_empty() {
        audiences.push(API_AUDIENCE.into());
    }
    let token = new_token(&claims(call, &request, &uid, &audiences, now, expires_at))?;
    let for_api = audiences.iter().any(|audience| audience == API_AUDIENCE);
    if for_api && !call.dry_run()? {
        let service_account = call.key();
        let issued = IssuedToken { token: token.clone(), expires_at, service_account, uid: uid.clone() };
        let mut tokens = call.server.issued_tokens();
        tokens.0.retain(|issued| issued.expires_at > now);
        if tokens.0.len() >= MAX_ISSUED_TOKENS {
            tokens.0.pop_front();
        }
        tokens.0.push_back(issued);
    }
    let metadata = json!({
        "name": call.name(), "namespace": call.namespace(), "uid": uid,
        "creationTimestamp": object::rfc3339_seconds(now),
    });
    let fields = object::ensure_object(&mut request, &[]);
    fields.insert("apiVersion".into(), "authentication.k8s.io/v1".into());
    fields.insert("kind".into(), "TokenRequest".into());
    fields.insert("metadata".into(), metadata);
    let status = json!({"token": token, "expirationTimestamp": object::rfc3339_seconds(expires_at)});
    fields.insert("status".into(), status);
    let spec = object::ensure_object(&mut request, &["spec"]);
    spec.insert("audiences".into(), audiences.into());
    spec.insert("expirationSeconds".into(), seconds.into());
    spec.entry("boundObjectRef").or_insert(Value::Null);
    Ok(Reply::json(201, &request).with_warnings(warnings))
}

/// Decodes a token request and returns the warnings.
fn decode_request(call: &Call<'_>, request: &mut Value, duplicates: &[String]) -> ApiResult<Vec<String>> {
    let (version, kind) = (object::text(request, &["apiVersion"]), object::text(request, &["kind"]));
    if !matches!((version, kind), ("" | "authentication.k8s.io/v1", "" | "TokenRequest")) {
        return Err(StatusError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a TokenRequest: send kind TokenRequest of authentication.k8s.io/v1"
        )));
    }
    let validation = call.field_validation()?;
    schema::decode(&definitions().schema("io.k8s.api.authentication.v1.TokenRequest"), request)
        .and_then(|unknown| check_field_strictness(validation, &unknown, duplicates))
        .map_err(|problem| {
            let message = format!("TokenRequest in version \"v1\" cannot be handled as a TokenRequest: {problem}");
            StatusError::bad_request(message)
        })
}

fn expiration_seconds(request: &Value) -> ApiResult<i64> {
    let seconds = object::number(request, &["spec", "expirationSeconds"]).unwrap_or(DEFAULT_EXPIRATION_SECONDS);
    let detail = match seconds {
        ..MIN_EXPIRATION_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_EXPIRATION_SECONDS..=MAX_EXPIRATION_SECONDS => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    Err(invalid("", field::invalid("spec.expirationSeconds", seconds, detail)))
}

/// Checks that the object to which a token is bound exists.
fn check_bound_object(call: &Call<'_>, request: &Value) -> ApiResult<()> {
    let Some(reference) = object::at(request, &["spec", "boundObjectRef"]).filter(|value| value.is_object()) else {
        return Ok(());
    };
    let text = |key: &str| object::text(reference, &[key]);
    let (plural, namespace) = match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => ("pods", call.namespace()),
        ("v1", "Secret") => ("secrets", call.namespace()),
        ("v1", "Node") => ("nodes", None),
        (version, kind) => {
            // Go prints the version of the core group with a slash before it.
            let slash = if version.contains('/') { "" } else { "/" };
            let message = format!("cannot bind token to object of type {slash}{version}, Kind={kind}");
            return Err(StatusError::bad_request(message));
        }
    };
    let not_found = || StatusError::not_found(GroupResource { group: "", resource: plural }, text("name"));
    let resource = call.registry.find("", plural).ok_or_else(not_found)?;
    let key = ObjectKey::new(namespace, text("name"));
    let bound = parse_stored(&*call.server.storage.get(resource.table, &key).ok_or_else(not_found)?)?;
    if plural == "pods" && object::text(&bound, &["spec", "serviceAccountName"]) != call.name() {
        return Err(StatusError::bad_request(format!(
            "cannot bind token for serviceaccount \"{}\" to pod running with different serviceaccount name.",
            call.name()
        )));
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != object::uid(&bound) {
        let reason = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(StatusError::conflict(GroupResource { group: "", resource: text("kind") }, text("name"), &reason));
    }
    Ok(())
}

fn claims(
    call: &Call<'_>,
    request: &Value,
    uid: &str,
    audiences: &[Value],
    now: Timestamp,
    expires_at: Timestamp,
) -> Value {
    let (name, namespace) = (call.name(), call.namespace().unwrap_or_default());
    let mut account = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}});
    if let Some(reference) = object::at(request, &["spec", "boundObjectRef"]).filter(|value| value.is_object()) {
        let text = |key: &str| object::text(reference, &[key]);
        account[text("kind").to_lowercase()] = json!({"name": text("name"), "uid": text("uid")});
    }
    json!({
        "aud": audiences, "exp": expires_at.as_second(), "iat": now.as_second(), "nbf": now.as_second(),
        "iss": API_AUDIENCE, "sub": format!("system:serviceaccount:{namespace}:{name}"), "kubernetes.io": account,
    })
}

/// Returns a token with these claims in the form of a JSON Web Token. Random bytes take the place
/// of a signature: only this server checks the token, and it compares all of it. They do not come
/// from the seed, from which other users of the computer could compute them.
fn new_token(claims: &Value) -> ApiResult<String> {
    let mut random = [0u8; 32];
    let provider = rustls::crypto::ring::default_provider();
    provider
        .secure_random
        .fill(&mut random)
        .map_err(|_| StatusError::internal("the system provides no random numbers for a token"))?;
    let header = json!({"alg": "none", "typ": "JWT"});
    let part = |value: &Value| BASE64.encode(value.to_string());
    Ok(format!("{}.{}.{}", part(&header), part(claims), BASE64.encode(random)))
}

fn request_resource() -> GroupResource<'static> {
    GroupResource { group: "authentication.k8s.io", resource: "TokenRequest" }
}

fn invalid(name: &str, error: field::FieldError) -> StatusError {
    StatusError::invalid("authentication.k8s.io", "TokenRequest", name, &[error])
}
