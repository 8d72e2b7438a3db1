//! The functions that a rule may call, as a table of signatures: CEL's own and those that
//! Kubernetes 1.36 adds. A signature gives the receiver in brackets (`[list(A)](A) -> int`);
//! capital letters are type parameters.
//!
//! A rule that calls any other function does not compile, as on a cluster (`math.*` and
//! `string.reverse()` are CEL functions that Kubernetes does not enable). Numeric expressions have
//! CEL's own functions, `min` and `max`, and nothing of Kubernetes.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::functions::{
    conversion, format, lists, network, numbers, operators, optional, printf, quantity, regex, semver, sets, strings,
    times,
};
use super::types::{OpaqueType, Type};
use super::value::{Arguments, EvalResult};

/// The implementation of a function. It takes the evaluated arguments, with the receiver first.
pub(super) type Implementation = for<'a> fn(Arguments<'a, '_>) -> EvalResult<'a>;

/// A function with all its signatures.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) overloads: Vec<Overload>,
    pub(super) implementation: Implementation,
}

/// One signature of a function.
pub(super) struct Overload {
    pub(super) is_member: bool,
    pub(super) params: Vec<Type<'static>>,
    pub(super) result: Type<'static>,
    pub(super) type_params: usize,
}

/// The functions that an expression may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// Rules of a schema: CEL's functions and those of Kubernetes.
    Rules,
    /// Numeric expressions: CEL's functions, `min` and `max`.
    Numbers,
}

impl Library {
    /// Returns the function `name`. All receiver types of a name share one implementation.
    pub(super) fn find(self, name: &str) -> Option<&'static Function> {
        match self {
            Self::Rules => RULES.get(name),
            Self::Numbers => NUMBERS.get(name),
        }
    }
}

static RULES: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| functions_of(FUNCTION_TABLE));

static NUMBERS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let own = FUNCTION_TABLE.iter().filter(|(name, ..)| CEL_FUNCTIONS.contains(name)).chain(NUMBER_FUNCTIONS);
    functions_of(own)
});

fn functions_of<'t>(
    table: impl IntoIterator<Item = &'t (&'static str, &'static str, Implementation)>,
) -> HashMap<&'static str, Function> {
    let mut library: HashMap<&'static str, Function> = HashMap::new();
    for (name, signatures, implementation) in table {
        let overloads = signatures.split(';').map(|signature| parse_signature(signature, name)).collect();
        library.insert(name, Function { name, overloads, implementation: *implementation });
    }
    library
}

/// Names in [`FUNCTION_TABLE`] that belong to CEL itself. `cel.@mapInsert` is part of macros.
const CEL_FUNCTIONS: &[&str] = &[
    "_&&_",
    "_||_",
    "_?_:_",
    "!_",
    "-_",
    "_+_",
    "_-_",
    "_*_",
    "_/_",
    "_%_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "_==_",
    "_!=_",
    "@in",
    "_[_]",
    "@not_strictly_false",
    "size",
    "type",
    "dyn",
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "string",
    "timestamp",
    "uint",
    "contains",
    "endsWith",
    "startsWith",
    "matches",
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "cel.@mapInsert",
];

/// Functions that only numeric expressions have.
const NUMBER_FUNCTIONS: &[(&str, &str, Implementation)] =
    &[("max", NUMBER_PAIRS, numbers::max), ("min", NUMBER_PAIRS, numbers::min)];

const NUMBER_PAIRS: &str =
    "(int, int) -> int; (double, double) -> double; (int, double) -> double; (double, int) -> double";

const FUNCTION_TABLE: &[(&str, &str, Implementation)] = &[
    // These three operators do not always evaluate all operands, so the evaluator handles them
    // itself.
    ("_&&_", "(bool, bool) -> bool", operators::identity),
    ("_||_", "(bool, bool) -> bool", operators::identity),
    ("_?_:_", "(bool, A, A) -> A", operators::identity),
    ("!_", "(bool) -> bool", operators::not),
    ("-_", "(double) -> double; (int) -> int", operators::negate),
    (
        "_+_",
        "(bytes, bytes) -> bytes; (double, double) -> double; (duration, duration) -> duration; (duration, timestamp) -> timestamp; \
         (timestamp, duration) -> timestamp; (int, int) -> int; (list(A), list(A)) -> list(A); (string, string) -> string; (uint, uint) -> uint",
        operators::add,
    ),
    (
        "_-_",
        "(double, double) -> double; (duration, duration) -> duration; (int, int) -> int; (timestamp, duration) -> timestamp; \
         (timestamp, timestamp) -> duration; (uint, uint) -> uint",
        operators::subtract,
    ),
    ("_*_", "(double, double) -> double; (int, int) -> int; (uint, uint) -> uint", operators::multiply),
    ("_/_", "(double, double) -> double; (int, int) -> int; (uint, uint) -> uint", operators::divide),
    ("_%_", "(int, int) -> int; (uint, uint) -> uint", operators::modulo),
    ("_<_", COMPARISONS, operators::less),
    ("_<=_", COMPARISONS, operators::less_equals),
    ("_>_", COMPARISONS, operators::greater),
    ("_>=_", COMPARISONS, operators::greater_equals),
    ("_==_", "(A, A) -> bool", operators::equals),
    ("_!=_", "(A, A) -> bool", operators::not_equals),
    ("@in", "(A, list(A)) -> bool; (A, map(A, B)) -> bool", operators::is_in),
    (
        "_[_]",
        "(list(A), int) -> A; (map(A, B), A) -> B; (optional(list(A)), int) -> optional(A); (optional(map(A, B)), A) -> optional(B)",
        operators::index,
    ),
    (
        "_[?_]",
        "(list(A), int) -> optional(A); (optional(list(A)), int) -> optional(A); (map(A, B), A) -> optional(B); \
         (optional(map(A, B)), A) -> optional(B)",
        operators::optional_index,
    ),
    ("@not_strictly_false", "(bool) -> bool", operators::identity),
    (
        "size",
        "(bytes) -> int; [bytes]() -> int; (list(A)) -> int; [list(A)]() -> int; (map(A, B)) -> int; [map(A, B)]() -> int; \
         (string) -> int; [string]() -> int",
        operators::size,
    ),
    ("type", "(A) -> type(A)", conversion::type_of),
    ("dyn", "(A) -> dyn", operators::identity),
    ("bool", "(bool) -> bool; (string) -> bool", conversion::to_bool),
    ("bytes", "(bytes) -> bytes; (string) -> bytes", conversion::to_bytes),
    ("double", "(double) -> double; (int) -> double; (string) -> double; (uint) -> double", conversion::to_double),
    ("duration", "(duration) -> duration; (int) -> duration; (string) -> duration", conversion::to_duration),
    (
        "int",
        "(int) -> int; (double) -> int; (duration) -> int; (string) -> int; (timestamp) -> int; (uint) -> int",
        conversion::to_int,
    ),
    (
        "string",
        "(string) -> string; (bool) -> string; (bytes) -> string; (double) -> string; (duration) -> string; (int) -> string; \
         (timestamp) -> string; (uint) -> string; (ip) -> string; (cidr) -> string",
        conversion::to_string,
    ),
    ("timestamp", "(timestamp) -> timestamp; (int) -> timestamp; (string) -> timestamp", conversion::to_timestamp),
    ("uint", "(uint) -> uint; (double) -> uint; (int) -> uint; (string) -> uint", conversion::to_uint),
    ("contains", "[string](string) -> bool", strings::contains),
    ("endsWith", "[string](string) -> bool", strings::ends_with),
    ("startsWith", "[string](string) -> bool", strings::starts_with),
    ("matches", "(string, string) -> bool; [string](string) -> bool", regex::matches),
    ("getFullYear", TIME_PART, times::full_year),
    ("getMonth", TIME_PART, times::month),
    ("getDayOfYear", TIME_PART, times::day_of_year),
    ("getDayOfMonth", TIME_PART, times::day_of_month),
    ("getDate", TIME_PART, times::date),
    ("getDayOfWeek", TIME_PART, times::day_of_week),
    ("getHours", TIME_OR_DURATION_PART, times::hours),
    ("getMinutes", TIME_OR_DURATION_PART, times::minutes),
    ("getSeconds", TIME_OR_DURATION_PART, times::seconds),
    ("getMilliseconds", TIME_OR_DURATION_PART, times::milliseconds),
    ("charAt", "[string](int) -> string", strings::char_at),
    ("indexOf", "[string](string) -> int; [string](string, int) -> int; [list(A)](A) -> int", lists::index_of),
    ("lastIndexOf", "[string](string) -> int; [string](string, int) -> int; [list(A)](A) -> int", lists::last_index_of),
    ("lowerAscii", "[string]() -> string", strings::lower_ascii),
    ("upperAscii", "[string]() -> string", strings::upper_ascii),
    ("replace", "[string](string, string) -> string; [string](string, string, int) -> string", strings::replace),
    ("split", "[string](string) -> list(string); [string](string, int) -> list(string)", strings::split),
    ("substring", "[string](int) -> string; [string](int, int) -> string", strings::substring),
    ("trim", "[string]() -> string", strings::trim),
    ("format", "[string](list(dyn)) -> string", printf::format),
    ("strings.quote", "(string) -> string", strings::quote),
    ("join", "[list(string)]() -> string; [list(string)](string) -> string", strings::join),
    ("find", "[string](string) -> string", regex::find),
    ("findAll", "[string](string) -> list(string); [string](string, int) -> list(string)", regex::find_all),
    ("isSorted", SORTABLE_TO_BOOL, lists::is_sorted),
    (
        "sum",
        "[list(int)]() -> int; [list(uint)]() -> uint; [list(double)]() -> double; [list(duration)]() -> duration",
        lists::sum,
    ),
    ("max", SORTABLE_TO_ELEMENT, lists::max),
    ("min", SORTABLE_TO_ELEMENT, lists::min),
    ("slice", "[list(A)](int, int) -> list(A)", lists::slice),
    ("flatten", "[list(list(A))]() -> list(A); [list(dyn)](int) -> list(dyn)", lists::flatten),
    ("sort", SORTABLE_TO_LIST, lists::sort),
    ("@sortByAssociatedKeys", SORT_BY_KEYS, lists::sort_by_keys),
    ("lists.range", "(int) -> list(int)", lists::range),
    ("reverse", "[list(A)]() -> list(A)", lists::reverse),
    ("distinct", "[list(A)]() -> list(A)", lists::distinct),
    ("first", "[list(A)]() -> optional(A)", lists::first),
    ("last", "[list(A)]() -> optional(A)", lists::last),
    ("sets.contains", "(list(A), list(A)) -> bool", sets::contains),
    ("sets.equivalent", "(list(A), list(A)) -> bool", sets::equivalent),
    ("sets.intersects", "(list(A), list(A)) -> bool", sets::intersects),
    ("optional.of", "(A) -> optional(A)", optional::of),
    ("optional.ofNonZeroValue", "(A) -> optional(A)", optional::of_non_zero_value),
    ("optional.none", "() -> optional(A)", optional::none),
    ("optional.unwrap", "(list(optional(A))) -> list(A)", optional::unwrap),
    ("unwrapOpt", "[list(optional(A))]() -> list(A)", optional::unwrap),
    ("value", "[optional(A)]() -> A", optional::value),
    ("hasValue", "[optional(A)]() -> bool", optional::has_value),
    ("or", "[optional(A)](optional(A)) -> optional(A)", optional::or),
    ("orValue", "[optional(A)](A) -> A", optional::or_value),
    ("cel.@mapInsert", "(map(A, B), A, B) -> map(A, B); (map(A, B), map(A, B)) -> map(A, B)", lists::map_insert),
    ("quantity", "(string) -> quantity", quantity::parse),
    ("isQuantity", "(string) -> bool", quantity::is_quantity),
    ("sign", "(quantity) -> int", quantity::sign),
    ("asApproximateFloat", "[quantity]() -> double", quantity::as_approximate_float),
    ("asInteger", "[quantity]() -> int", quantity::as_integer),
    ("isInteger", "[quantity]() -> bool", quantity::is_integer),
    ("add", "[quantity](quantity) -> quantity; [quantity](int) -> quantity", quantity::add),
    ("sub", "[quantity](quantity) -> quantity; [quantity](int) -> quantity", quantity::sub),
    ("isGreaterThan", "[quantity](quantity) -> bool; [semver](semver) -> bool", quantity::is_greater_than),
    ("isLessThan", "[quantity](quantity) -> bool; [semver](semver) -> bool", quantity::is_less_than),
    ("compareTo", "[quantity](quantity) -> int; [semver](semver) -> int", quantity::compare_to),
    ("semver", "(string) -> semver; (string, bool) -> semver", semver::parse),
    ("isSemver", "(string) -> bool; (string, bool) -> bool", semver::is_semver),
    ("major", "[semver]() -> int", semver::major),
    ("minor", "[semver]() -> int", semver::minor),
    ("patch", "[semver]() -> int", semver::patch),
    ("url", "(string) -> url", network::url),
    ("isURL", "(string) -> bool", network::is_url),
    ("getScheme", "[url]() -> string", network::scheme),
    ("getHost", "[url]() -> string", network::host),
    ("getHostname", "[url]() -> string", network::hostname),
    ("getPort", "[url]() -> string", network::port),
    ("getEscapedPath", "[url]() -> string", network::escaped_path),
    ("getQuery", "[url]() -> map(string, list(string))", network::query),
    ("ip", "(string) -> ip; [cidr]() -> ip", network::ip),
    ("isIP", "(string) -> bool", network::is_ip),
    ("ip.isCanonical", "(string) -> bool", network::is_canonical),
    ("family", "[ip]() -> int", network::family),
    ("isUnspecified", "[ip]() -> bool", network::is_unspecified),
    ("isLoopback", "[ip]() -> bool", network::is_loopback),
    ("isLinkLocalMulticast", "[ip]() -> bool", network::is_link_local_multicast),
    ("isLinkLocalUnicast", "[ip]() -> bool", network::is_link_local_unicast),
    ("isGlobalUnicast", "[ip]() -> bool", network::is_global_unicast),
    ("cidr", "(string) -> cidr", network::cidr),
    ("isCIDR", "(string) -> bool", network::is_cidr),
    ("containsIP", "[cidr](string) -> bool; [cidr](ip) -> bool", network::contains_ip),
    ("containsCIDR", "[cidr](string) -> bool; [cidr](cidr) -> bool", network::contains_cidr),
    ("prefixLength", "[cidr]() -> int", network::prefix_length),
    ("masked", "[cidr]() -> cidr", network::masked),
    ("format.named", "(string) -> optional(format)", format::named),
    ("validate", "[format](string) -> optional(list(string))", format::validate),
    ("format.dns1123Label", "() -> format", format::dns1123_label),
    ("format.dns1123Subdomain", "() -> format", format::dns1123_subdomain),
    ("format.dns1035Label", "() -> format", format::dns1035_label),
    ("format.qualifiedName", "() -> format", format::qualified_name),
    ("format.dns1123LabelPrefix", "() -> format", format::dns1123_label_prefix),
    ("format.dns1123SubdomainPrefix", "() -> format", format::dns1123_subdomain_prefix),
    ("format.dns1035LabelPrefix", "() -> format", format::dns1035_label_prefix),
    ("format.labelValue", "() -> format", format::label_value),
    ("format.uri", "() -> format", format::uri),
    ("format.uuid", "() -> format", format::uuid),
    ("format.byte", "() -> format", format::byte),
    ("format.date", "() -> format", format::date),
    ("format.datetime", "() -> format", format::datetime),
];

const COMPARISONS: &str = "(bool, bool) -> bool; (int, int) -> bool; (int, double) -> bool; (int, uint) -> bool; (uint, uint) -> bool; \
                           (uint, double) -> bool; (uint, int) -> bool; (double, double) -> bool; (double, int) -> bool; \
                           (double, uint) -> bool; (string, string) -> bool; (bytes, bytes) -> bool; \
                           (timestamp, timestamp) -> bool; (duration, duration) -> bool";
const TIME_PART: &str = "[timestamp]() -> int; [timestamp](string) -> int";
const TIME_OR_DURATION_PART: &str = "[timestamp]() -> int; [timestamp](string) -> int; [duration]() -> int";
const SORTABLE_TO_BOOL: &str = "[list(int)]() -> bool; [list(uint)]() -> bool; [list(double)]() -> bool; [list(bool)]() -> bool; \
                                [list(duration)]() -> bool; [list(timestamp)]() -> bool; [list(string)]() -> bool; [list(bytes)]() -> bool";
const SORTABLE_TO_ELEMENT: &str = "[list(int)]() -> int; [list(uint)]() -> uint; [list(double)]() -> double; [list(bool)]() -> bool; \
                                   [list(duration)]() -> duration; [list(timestamp)]() -> timestamp; [list(string)]() -> string; \
                                   [list(bytes)]() -> bytes";
const SORTABLE_TO_LIST: &str = "[list(int)]() -> list(int); [list(uint)]() -> list(uint); [list(double)]() -> list(double); \
                                [list(bool)]() -> list(bool); [list(duration)]() -> list(duration); \
                                [list(timestamp)]() -> list(timestamp); [list(string)]() -> list(string); [list(bytes)]() -> list(bytes)";
const SORT_BY_KEYS: &str = "[list(A)](list(int)) -> list(A); [list(A)](list(uint)) -> list(A); [list(A)](list(double)) -> list(A); \
                            [list(A)](list(bool)) -> list(A); [list(A)](list(duration)) -> list(A); \
                            [list(A)](list(timestamp)) -> list(A); [list(A)](list(string)) -> list(A); [list(A)](list(bytes)) -> list(A)";

/// Parses `[receiver](params) -> result`. The table is constant, so an invalid signature fails
/// every test.
fn parse_signature(text: &str, name: &str) -> Overload {
    let invalid_signature = || -> ! { panic!("invalid signature {text:?} of {name}") };
    let mut reader = SignatureReader { rest: text.trim(), letters: Vec::new() };
    let mut params = Vec::new();
    let is_member = reader.skip_token("[");
    if is_member {
        params.push(reader.read_type().unwrap_or_else(|| invalid_signature()));
        if !reader.skip_token("]") {
            invalid_signature();
        }
    }
    if !reader.skip_token("(") {
        invalid_signature();
    }
    while !reader.skip_token(")") {
        params.push(reader.read_type().unwrap_or_else(|| invalid_signature()));
        reader.skip_token(",");
    }
    if !reader.skip_token("->") {
        invalid_signature();
    }
    let result = reader.read_type().unwrap_or_else(|| invalid_signature());
    Overload { is_member, params, result, type_params: reader.letters.len() }
}

struct SignatureReader<'t> {
    rest: &'t str,
    letters: Vec<char>,
}

impl SignatureReader<'_> {
    fn skip_token(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn read_type(&mut self) -> Option<Type<'static>> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        let inner = |reader: &mut Self| -> Option<Type<'static>> {
            reader.skip_token("(");
            let inner = reader.read_type();
            reader.skip_token(",");
            inner
        };
        Some(match word {
            "dyn" => Type::Dyn,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "quantity" => Type::Opaque(OpaqueType::Quantity),
            "url" => Type::Opaque(OpaqueType::Url),
            "ip" => Type::Opaque(OpaqueType::Ip),
            "cidr" => Type::Opaque(OpaqueType::Cidr),
            "semver" => Type::Opaque(OpaqueType::Semver),
            "format" => Type::Opaque(OpaqueType::Format),
            "list" | "optional" | "type" => {
                let element = inner(self)?;
                self.skip_token(")");
                match word {
                    "list" => Type::list(element),
                    "optional" => Type::optional(element),
                    _ => Type::Meta(std::sync::Arc::new(element)),
                }
            }
            "map" => {
                let key = inner(self)?;
                let value = self.read_type()?;
                self.skip_token(")");
                Type::map(key, value)
            }
            letter if letter.len() == 1 => {
                let letter = letter.chars().next()?;
                let at = self.letters.iter().position(|known| *known == letter).unwrap_or_else(|| {
                    self.letters.push(letter);
                    self.letters.len() - 1
                });
                Type::Param(at)
            }
            _ => return None,
        })
    }
}
